"""Watches one launch: log lines, process state, the ready probe and the limits, until one of them ends the attempt.

What the lines mean is said by the analyser of `playbooks`; here stands only when to stop looking.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from playbooks.judging.first_failure import Analyser
from playbooks.messages import LimitHit, Limits, RequestRun, StageLimit, StageSpan
from playbooks.vocabulary import Outcome, Stage
from workers.jobs.readiness import NoProbe, ReadyProbe
from workers.jobs.redacting import LiveCleaner
from workers.ports import Clock, Control, EngineState, RunningEngine

DEFAULT_LIMITS: dict[Stage, StageLimit] = {
    Stage.CONTAINER_INIT: StageLimit(silence_s=300, total_s=900),
    Stage.DEVICE_RECOGNITION: StageLimit(silence_s=180, total_s=600),
    Stage.WEIGHT_LOADING: StageLimit(silence_s=1200, total_s=7200),
    Stage.ENGINE_INIT: StageLimit(silence_s=1800, total_s=3600),
    Stage.ENDPOINT_READY: StageLimit(silence_s=900, total_s=1800),
}
"""For stages that the request's playbook does not limit: JIT and graph capture may be silent for many minutes."""
GRACE_S = 2.0
"""Time for a traceback to finish after its first fatal line; the engine's own teardown takes longer and says nothing new."""
QUIET_S = 0.4
GRACE_MOST_S = 6.0
PROBE_FAILED_S = 5.0
"""After a failed first request the engine often dies of the same cause within seconds, and its log says which."""
PEER_GRACE_S = 1.0
"""A rank whose peer ended may be printing why it did itself."""
_TICK_S = 0.05
_SHARDS = re.compile(rb"(\d+)/(\d+)[^\n]{0,40}(?:shard|it/s)|shards[^\n]{0,80}?(\d+)/(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a watch ended. `state` None = the engine still ran."""

    outcome: Outcome
    state: EngineState | None
    spans: tuple[StageSpan, ...]
    ready_ms: int | None
    probe: RequestRun | None
    limit: LimitHit | None
    failed_at: datetime | None = None
    """When the first fatal line was read, else when the end was seen; None when ready."""
    ended_for: str = ""
    """Why it was ended though nothing failed here: another rank ended."""


class Watch:
    """One attempt, from its start to ready, failure, or a limit. A follower is ready when the head is, by the bot's word."""

    def __init__(
        self,
        engine: RunningEngine,
        analyser: Analyser,
        probe: ReadyProbe | NoProbe,
        *,
        limits: Limits,
        total_s: int,
        clock: Clock,
        control: Control,
        cleaner: LiveCleaner,
    ) -> None:
        self._engine = engine
        self._analyser = analyser
        self._probe = probe
        self._limits = {**DEFAULT_LIMITS, **limits.stages}
        self._total_s = total_s
        self._clock = clock
        self._control = control
        self._cleaner = cleaner
        self._start = clock.monotonic()
        self._stage = Stage.CONTAINER_INIT
        self._stage_since = self._start
        self._heard = self._start
        self._spans: list[StageSpan] = []
        self._partial = b""
        self._last = ""
        self._shards = ""
        self.lines = 0
        self._root_at: float | None = None
        self._probe_failed_at: float | None = None
        self._peer_ended_at: float | None = None
        self._failed_at: datetime | None = None

    def run(self) -> Ending:
        """Watch until the attempt is over.

        Raises:
            JobCancelled: the job was called off; the engine still runs.
        """
        self._probe.start()
        try:
            self._tell()
            while True:
                self._control.check()
                heard = self._listen()
                state = self._engine.state()
                if not state.running:
                    self.drain()
                    return self._ending(Outcome.FAILED, state=state)
                if ending := self._judge():
                    return ending
                if not heard:
                    self._clock.sleep(_TICK_S)
        finally:
            self._probe.close()

    def _judge(self) -> Ending | None:
        now = self._clock.monotonic()
        if (ending := self._by_the_group(now)) is not None:
            return ending
        answer = self._probe.answer
        if answer is not None and answer.run.complete:
            self._enter(Stage.ENDPOINT_READY)
            self._listen()
            return self._ending(Outcome.READY)
        if answer is not None and self._probe_failed_at is None:
            self._probe_failed_at = now
            self._control.progress(
                self._stage, f"the fixed request failed: {answer.run.error or answer.run.http_status}"
            )
        if self._root_at is not None and (
            (now - self._root_at >= GRACE_S and now - self._heard >= QUIET_S) or now - self._root_at >= GRACE_MOST_S
        ):
            return self._ending(Outcome.FAILED)
        if self._probe_failed_at is not None and now - self._probe_failed_at >= PROBE_FAILED_S:
            return self._ending(Outcome.FAILED)
        if (hit := self._limit_hit(now)) is not None:
            return self._ending(Outcome.STOPPED_BY_LIMIT, limit=hit)
        return None

    def _by_the_group(self, now: float) -> Ending | None:
        """End with the other ranks: ready with the head, or over when one of them is, unless a failure shows here."""
        word = self._control.group
        if word.ended and self._root_at is None:
            self._peer_ended_at = self._peer_ended_at or now
            if now - self._peer_ended_at >= PEER_GRACE_S:
                return self._ending(Outcome.NOT_OBSERVED, ended_for=word.ended)
        elif word.ready and isinstance(self._probe, NoProbe):
            self._enter(Stage.ENDPOINT_READY)
            self._listen()
            return self._ending(Outcome.READY)
        return None

    def _listen(self) -> bool:
        data = self._engine.read()
        if not data:
            return False
        self._heard = self._clock.monotonic()
        self._note_shards(data)
        *whole, self._partial = (self._partial + data).split(b"\n")
        for line in whole:
            self._feed(line)
        return True

    def drain(self) -> None:
        """Feed what is still unread, the last unfinished line too."""
        while self._listen():
            pass
        if self._partial:
            self._feed(self._partial)
            self._partial = b""

    def _feed(self, line: bytes) -> None:
        text = self._cleaner.line(line.decode("utf-8", errors="replace"))
        self.lines += 1
        if text.strip():
            self._last = text.strip()
        self._analyser.feed(text)
        self._enter(self._analyser.current_stage)
        root = self._analyser.live_root
        if root is not None and self._root_at is None:
            self._root_at, self._failed_at = self._clock.monotonic(), self._clock.now()
            self._control.progress(self._stage, "first fatal line seen", root_text=root)

    def _enter(self, stage: Stage) -> None:
        stage = Stage.ENDPOINT_READY if stage is Stage.SERVING else stage
        if stage.position <= self._stage.position:
            return
        self._close_span()
        self._stage, self._stage_since = stage, self._clock.monotonic()
        self._tell()

    def _close_span(self) -> None:
        self._spans.append(
            StageSpan(
                stage=self._stage,
                started_ms=self._ms(self._stage_since),
                ended_ms=self._ms(self._clock.monotonic()),
                note=self._shards if self._stage is Stage.WEIGHT_LOADING else "",
            )
        )

    def _note_shards(self, data: bytes) -> None:
        found = list(_SHARDS.finditer(data))
        if found:
            done, of = (part.decode() for part in found[-1].groups() if part is not None)
            self._shards = f"{done}/{of} shards"
            self._tell(self._shards)

    def _tell(self, note: str = "") -> None:
        self._control.progress(self._stage, note)

    def _limit_hit(self, now: float) -> LimitHit | None:
        limit = self._limits.get(self._stage, DEFAULT_LIMITS[Stage.ENDPOINT_READY])
        if now - self._start >= self._total_s:
            kind, seconds = "job", self._total_s
        elif now - self._stage_since >= limit.total_s:
            kind, seconds = "total", limit.total_s
        elif now - max(self._heard, self._stage_since) >= limit.silence_s and not self._probe.healthy:
            kind, seconds = "silence", limit.silence_s
        else:
            return None
        observed = f"last line: {self._last[:300]}\n{self._cleaner.text(self._engine.snapshot())}"
        return LimitHit.model_validate({"stage": self._stage, "kind": kind, "limit_s": seconds, "observed": observed})

    def _ending(
        self,
        outcome: Outcome,
        *,
        state: EngineState | None = None,
        limit: LimitHit | None = None,
        ended_for: str = "",
    ) -> Ending:
        ready = outcome is Outcome.READY
        if ready:
            self._close_span()
        else:
            self._spans.append(StageSpan(stage=self._stage, started_ms=self._ms(self._stage_since)))
        answer = self._probe.answer
        return Ending(
            outcome=outcome,
            state=state,
            spans=tuple(self._spans),
            ready_ms=self._ms(self._clock.monotonic()) if ready else None,
            probe=answer.run if answer is not None else None,
            limit=limit,
            failed_at=None if ready else self._failed_at or self._clock.now(),
            ended_for=ended_for,
        )

    def _ms(self, at: float) -> int:
        return round((at - self._start) * 1000)
