"""The first line of a log that `baseline watch` wrote: what the log alone could not tell of the launch.

It stands in the file itself, so that one file carries everything, whoever drops it where. Line numbers count it.
"""

from __future__ import annotations

import json

from pydantic import BaseModel, ConfigDict, ValidationError

_MARK = "# baseline watch/1 "
_LONGEST = 64 * 1024


class WatchedRun(BaseModel):
    """What was seen beside the log; `None` = not known, as when the log came through a pipe."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    command: tuple[str, ...] = ()
    """Redacted; empty = the log came through a pipe or from a container."""
    container: str = ""
    exit_code: int | None = None
    """As a shell tells it: 128 + number for a signal."""
    oom_killed: bool | None = None
    where: str = ""
    """Name of the machine."""
    started_at: str = ""
    ended_at: str = ""
    limits: tuple[str, ...] = ()
    """Limits of stages that passed, in words; nothing was stopped for them."""
    dropped_bytes: int = 0
    redactions: int = 0


def first_line(run: WatchedRun) -> bytes:
    """Return the line, with its end."""
    text = json.dumps(run.model_dump(mode="json"), ensure_ascii=True, separators=(",", ":"))
    return f"{_MARK}{text}\n".encode()


def read_first_line(line: bytes | str) -> WatchedRun | None:
    """Read the first line of a log; None when it is not such a line."""
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    if not text.startswith(_MARK) or len(text) > _LONGEST:
        return None
    try:
        return WatchedRun.model_validate_json(text[len(_MARK) :].strip())
    except ValidationError:
        return None
