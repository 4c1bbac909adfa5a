"""`baseline watch`: a launch that others start, looked on from its first line to its end; what was seen becomes one file."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from playbooks.judging.finding import Finding
from playbooks.messages import Limits
from playbooks.reading.watched import WatchedRun
from workers.adapters.bounded_log import BoundedLog
from workers.adapters.watched_file import WatchedFile, write_watched
from workers.jobs.onlooking import Onlooker

if TYPE_CHECKING:
    from playbooks.judging.signature_catalogue import Catalogue
    from workers.adapters.watched_sources import Source
    from workers.ports import Clock

_TICK_S = 0.2


@dataclass(frozen=True, slots=True)
class Watched:
    """The end of a watch."""

    finding: Finding
    exit_code: int | None
    file: WatchedFile


def look_on(
    source: Source,
    *,
    catalogue: Catalogue,
    limits: Limits,
    clock: Clock,
    out: Path,
    say: Callable[[str], None],
    verdict: Callable[[Finding], None],
    command: tuple[str, ...] = (),
    container: str = "",
    pass_on: bool = True,
) -> Watched:
    """Look on until the source ends; its bytes go on to standard output as they come.

    out: the file that is written at the end.

    Raises:
        OSError: the file cannot be written; the launch has run to its end all the same.
    """
    started = clock.now()
    onlooker = Onlooker(catalogue, limits=limits, clock=clock, say=say, verdict=verdict)
    with tempfile.TemporaryDirectory(prefix="baseline-watch-") as folder:
        log = BoundedLog(Path(folder) / "log")
        through = _Through() if pass_on else None
        while (data := source.read(_TICK_S)) is not None:
            if data:
                if through is not None:
                    through.write(data)
                log.write(data)
                if onlooker.feed(data):
                    log.pin()
            onlooker.tick()
        exit_code, oom_killed = source.ending()
        log.close()
        run = WatchedRun(
            command=command,
            container=container,
            exit_code=exit_code,
            oom_killed=oom_killed,
            where=platform.node(),
            started_at=_stamp(started),
            ended_at=_stamp(clock.now()),
            limits=onlooker.limits,
            dropped_bytes=log.dropped_bytes,
        )
        found = onlooker.finish(run)
        return Watched(found, exit_code, write_watched(out, run, log.chunks()))


def default_name(now: datetime) -> str:
    """Return the name of the file where none was given."""
    return f"baseline-watch-{now.astimezone(UTC):%Y%m%dT%H%M%SZ}.log"


def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Through:
    """Standard output, as long as somebody reads it."""

    def __init__(self) -> None:
        self._open = True

    def write(self, data: bytes) -> None:
        """Pass bytes on."""
        if not self._open:
            return
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except (BrokenPipeError, ValueError):
            self._open = False
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
