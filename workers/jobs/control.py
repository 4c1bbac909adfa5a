"""The thread between a running job and the bot: heartbeats up, a cancel down, progress coalesced.

An unreachable bot never ends a job: its limits do. A cancel comes from a heartbeat's answer, from a `stop` job on this node,
or from the worker's own end.
"""

from __future__ import annotations

import threading
from typing import Self

import structlog

from playbooks.messages import GroupWord, Heartbeat, JobRequest, Progress
from playbooks.vocabulary import Stage
from workers.errors import BotError, JobCancelled
from workers.jobs.deps import Deps

HEARTBEAT_S = 2.0
"""A cancel must take effect within 5 s: this, the next look of the job, and the stop itself fit in."""
PROGRESS_S = 1.0
_LOOK_S = 0.25

log = structlog.get_logger()


class LiveControl:
    """Control of one job; a context manager that beats while the job runs."""

    def __init__(self, request: JobRequest, deps: Deps, *, fence: int | None) -> None:
        self._request = request
        self._deps = deps
        self._fence = fence
        self._ended = threading.Event()
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._cancelled_by: str | None = None
        self._group = GroupWord()
        self._looked = 0.0
        self._seq = 0
        self._stage: Stage | None = None
        self._note = ""
        self._root: str | None = None
        self._dirty = False
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._wake.set()

    def check(self) -> None:
        """Raise JobCancelled when the job was called off."""
        now = self._deps.clock.monotonic()
        if self._cancelled_by is None and now - self._looked >= _LOOK_S:
            self._looked = now
            self._cancelled_by = self._deps.journal.stop_wanted(self._request.job_id)
        if self._cancelled_by is not None:
            raise JobCancelled(f"called off by {self._cancelled_by}")

    def progress(self, stage: Stage | None, note: str, *, root_text: str | None = None) -> None:
        """Note how far the job is; a root line is sent at once, the rest at most once a second."""
        with self._lock:
            self._stage, self._note = stage or self._stage, note
            self._root = root_text or self._root
            self._dirty = True
        if root_text is not None:
            self._wake.set()

    @property
    def group(self) -> GroupWord:
        """What the last answered heartbeat said of the other ranks."""
        return self._group

    def _run(self) -> None:
        next_beat = 0.0
        while not self._ended.is_set():
            now = self._deps.clock.monotonic()
            self._send_progress()
            if now >= next_beat:
                self._beat()
                next_beat = now + HEARTBEAT_S
            self._wake.wait(PROGRESS_S)
            self._wake.clear()

    def _send_progress(self) -> None:
        with self._lock:
            if not self._dirty:
                return
            self._dirty = False
            self._seq += 1
            message = Progress(
                job_id=self._request.job_id,
                node=self._deps.node,
                seq=self._seq,
                stage=self._stage,
                note=self._note,
                root_text=self._root,
                at=self._deps.clock.now(),
            )
        try:
            self._deps.bot.progress(message)
        except BotError as error:
            log.info("progress not delivered", job=self._request.job_id, why=str(error))

    def _beat(self) -> None:
        beat = Heartbeat(
            job_id=self._request.job_id,
            node=self._deps.node,
            fence=self._fence,
            stage=self._stage,
            note=self._note,
            at=self._deps.clock.now(),
        )
        try:
            reply = self._deps.bot.heartbeat(beat)
        except BotError as error:
            log.info("heartbeat not answered", job=self._request.job_id, why=str(error))
            return
        if reply.group is not None:
            self._group = reply.group
        if reply.cancel:
            self._cancelled_by = reply.cancelled_by or "the bot"
