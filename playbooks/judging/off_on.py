"""A feature off against on (R9.2): the same baseline with one change - start, memory, and what their logs do not share.

Compared are two launches that both became ready. Differences of a few percent in start and memory are between any two launches
of one baseline too; they are shown, never judged.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict

from playbooks.judging import normalise
from playbooks.reading.transcript import read_line

MOST_LINES = 4_000
"""Lines of a launch that are compared: it is ready long before."""
_MOST_SHOWN = 4
_LONGEST = 160
_READY = "Application startup complete"


class Launched(BaseModel):
    """One side: its attempt, time to ready in ms, most GPU memory in use in bytes; None = not known."""

    model_config = ConfigDict(frozen=True)
    attempt: int
    ready_ms: int | None = None
    memory_bytes: int | None = None


class OffOn(BaseModel):
    """The comparison. only_off, only_on: normalised lines that one launch alone printed before it was ready, and how many."""

    model_config = ConfigDict(frozen=True)
    off: Launched
    on: Launched
    only_off: tuple[str, ...] = ()
    only_on: tuple[str, ...] = ()
    count_off: int = 0
    count_on: int = 0
    logs_read: bool = False


def compare(off: Launched, on: Launched, log_off: Iterable[bytes] | None, log_on: Iterable[bytes] | None) -> OffOn:
    """Compare two launches; a log that is not there leaves the lines out."""
    if log_off is None or log_on is None:
        return OffOn(off=off, on=on)
    before, after = _until_ready(log_off), _until_ready(log_on)
    only_off = [line for line in before if line not in after]
    only_on = [line for line in after if line not in before]
    return OffOn(
        off=off,
        on=on,
        only_off=tuple(only_off[:_MOST_SHOWN]),
        only_on=tuple(only_on[:_MOST_SHOWN]),
        count_off=len(only_off),
        count_on=len(only_on),
        logs_read=True,
    )


def _until_ready(lines: Iterable[bytes]) -> dict[str, None]:
    """Return the normalised lines up to readiness, each once, in order."""
    found: dict[str, None] = {}
    for no, raw in enumerate(lines, 1):
        if no > MOST_LINES:
            break
        text = read_line(no, raw).text
        shown = normalise.line(text)[:_LONGEST]
        if shown:
            found.setdefault(shown)
        if _READY in text:
            break
    return found
