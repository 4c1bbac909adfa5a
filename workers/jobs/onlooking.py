"""Looks on while somebody else's launch runs: the same analyser and the same stage limits as a launch of ours, told and not enforced.

Says stages, limits that passed and the first fatal line as they come, and the verdict when it falls - not when the engine's
own slow teardown ends. Stops nothing, asks nothing of the engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from playbooks.judging.first_failure import Analyser
from playbooks.messages import Limits, StageLimit
from playbooks.reading.watched import WatchedRun, first_line
from playbooks.vocabulary import ErrorClass, Stage
from workers.jobs.redacting import LiveCleaner
from workers.jobs.watching import DEFAULT_LIMITS, GRACE_MOST_S, GRACE_S, QUIET_S

if TYPE_CHECKING:
    from playbooks.judging.finding import Finding
    from playbooks.judging.signature_catalogue import Catalogue
    from workers.ports import Clock

_SHARDS = re.compile(r"(\d+)/(\d+)[^\n]{0,40}(?:shard|it/s)|shards[^\n]{0,80}?(\d+)/(\d+)", re.IGNORECASE)
_MINUTE_S = 60


class Onlooker:
    """Follows one launch by its log."""

    def __init__(
        self,
        catalogue: Catalogue,
        *,
        limits: Limits,
        clock: Clock,
        say: Callable[[str], None],
        verdict: Callable[[Finding], None],
    ) -> None:
        self._analyser = Analyser(catalogue)
        self._analyser.feed(first_line(WatchedRun()))  # the file will begin with such a line: its line numbers are told
        self._limits = {**DEFAULT_LIMITS, **limits.stages}
        self._clock = clock
        self._say = say
        self._verdict = verdict
        self._cleaner = LiveCleaner({})
        self._start = self._heard = self._since = clock.monotonic()
        self._stage = Stage.CONTAINER_INIT
        self._partial = b""
        self._shards = ""
        self._root_at: float | None = None
        self._told: Finding | None = None
        self._came_up = False
        self._passed: dict[tuple[Stage, str], str] = {}

    @property
    def limits(self) -> tuple[str, ...]:
        """Limits that passed, in words."""
        return tuple(self._passed.values())

    def feed(self, data: bytes) -> bool:
        """Take bytes of the log; True when the first fatal line was among them."""
        self._heard = self._clock.monotonic()
        before = self._root_at
        *whole, self._partial = (self._partial + data).split(b"\n")
        for line in whole:
            self._line(line)
        return before is None and self._root_at is not None

    def tick(self) -> None:
        """Look at the clock: has a limit passed, is the verdict due?"""
        now = self._clock.monotonic()
        if self._root_at is not None and self._told is None:
            quiet = now - self._root_at >= GRACE_S and now - self._heard >= QUIET_S
            if quiet or now - self._root_at >= GRACE_MOST_S:
                self._tell(self._analyser.finish())
        if self._root_at is None and not self._came_up:
            self._look_at_limits(now, self._limits.get(self._stage))

    def finish(self, run: WatchedRun) -> Finding:
        """End: the launch is over, or its log is. Tells the verdict unless the same was told already."""
        if self._partial:
            self._line(self._partial)
            self._partial = b""
        found = self._analyser.finish(exit_code=run.exit_code, oom_killed=run.oom_killed)
        if self._told is None or _gist(found) != _gist(self._told):
            self._tell(found)
        return found

    def _line(self, line: bytes) -> None:
        text = self._cleaner.line(line.decode("utf-8", "replace"))
        self._analyser.feed(text)
        if (shards := _SHARDS.search(text)) is not None:
            done, of = (part for part in shards.groups() if part is not None)
            self._shards = f"{done}/{of} shards"
        self._enter(self._analyser.current_stage)
        if self._analyser.came_up and not self._came_up:
            self._came_up = True
            self._say(f"the server says it came up, {self._after()}; that is its own word, no request was seen")
        root = self._analyser.live_root
        if root is not None and self._root_at is None:
            self._root_at = self._clock.monotonic()
            self._say(f"first fatal line, {self._after()}, in {_words(self._stage)}: {root[:400]}")

    def _enter(self, stage: Stage) -> None:
        if stage.position <= self._stage.position or stage in {Stage.ENDPOINT_READY, Stage.SERVING}:
            return
        took = self._clock.monotonic() - self._since
        note = f", {self._shards}" if self._stage is Stage.WEIGHT_LOADING and self._shards else ""
        self._say(f"{_words(stage)} began, {self._after()} ({_words(self._stage)} took {_time(took)}{note})")
        self._stage, self._since = stage, self._clock.monotonic()

    def _look_at_limits(self, now: float, limit: StageLimit | None) -> None:
        if limit is None:
            return
        silent, in_stage = now - max(self._heard, self._since), now - self._since
        if silent >= limit.silence_s:
            self._pass("silence", f"silent for {_time(limit.silence_s)}, its limit")
        if in_stage >= limit.total_s:
            self._pass("total", f"under way for {_time(limit.total_s)}, its limit")

    def _pass(self, kind: str, what: str) -> None:
        if (self._stage, kind) not in self._passed:
            self._passed[self._stage, kind] = text = f"{_words(self._stage)} is {what}"
            self._say(f"{text}; it is not stopped, for this launch is not ours")

    def _tell(self, found: Finding) -> None:
        self._told = found
        self._verdict(found)

    def _after(self) -> str:
        return f"{_time(self._clock.monotonic() - self._start)} after the start"


def _gist(found: Finding) -> tuple[Stage, ErrorClass, int | None]:
    return found.stage, found.error_class, found.root_line


def _words(stage: Stage) -> str:
    return stage.value.replace("_", " ")


def _time(seconds: float) -> str:
    if seconds < _MINUTE_S:
        return f"{seconds:.0f} s"
    return f"{seconds / _MINUTE_S:.0f} min"
