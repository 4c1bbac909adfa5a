"""The worker's main process: two Celery processes, one per queue, as children, and the duties beside them.

Children that end are started again; the end of this process ends them too, whatever ended it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field

import structlog

from playbooks.messages import queue_of
from playbooks.vocabulary import JobKind
from workers.adapters import process_table
from workers.jobs.deps import Deps
from workers.jobs.duties import Duties

_WARM_S = 12.0
"""Time for running jobs to stop their engine and store their report."""
_RESTART_S = 1.0
_LOOK_S = 0.5

log = structlog.get_logger()


@dataclass(slots=True)
class _Child:
    queue: str
    process: subprocess.Popen[bytes] | None = None
    not_before: float = field(default=0.0)


class Supervisor:
    """Runs a node's worker until it is told to end.

    parent: end when this process ends; None = nobody's child.
    """

    def __init__(self, deps: Deps, *, parent: int | None = None, stop_held: bool = False) -> None:
        self._deps = deps
        self._parent = process_table.identity(parent) if parent is not None else None
        self._stop_held = stop_held
        self._ended = threading.Event()
        self._children = [
            _Child(queue_of(deps.node, JobKind.LAUNCH)),
            _Child(queue_of(deps.node, JobKind.STOP)),
        ]

    def run(self) -> None:
        """Run; returns after everything of the worker has ended. Call it in the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        duties = Duties(self._deps)
        duties.start()
        log.info("worker started", node=self._deps.node, queues=[child.queue for child in self._children])
        try:
            while not self._ended.wait(_LOOK_S):
                for child in self._children:
                    self._look_after(child)
                if self._parent is not None and not process_table.is_alive(self._parent):
                    log.info("parent has ended", parent=self._parent)
                    break
        finally:
            self._end_children()
            duties.close(stop_held=self._stop_held)
            log.info("worker ended", node=self._deps.node)

    def _on_signal(self, number: int, _frame: object) -> None:
        log.info("asked to end", signal=signal.Signals(number).name)
        self._ended.set()

    def _look_after(self, child: _Child) -> None:
        now = time.monotonic()
        if child.process is not None and child.process.poll() is not None:
            log.warning("queue process ended, starting again", queue=child.queue, code=child.process.returncode)
            child.process, child.not_before = None, now + _RESTART_S
        if child.process is None and now >= child.not_before:
            child.process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", "workers", self._deps.node, child.queue, str(os.getpid())],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def _end_children(self) -> None:
        for row in self._deps.journal.running():
            self._deps.journal.want_stop(row.request.job_id, by="the worker's own end")
        alive = [child.process for child in self._children if child.process is not None]
        for process in alive:
            process.terminate()
        deadline = time.monotonic() + _WARM_S
        for process in alive:
            try:
                process.wait(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                log.warning("queue process did not end in time, killed", pid=process.pid)
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
