"""One field read with care: whatever goes wrong becomes the status of that field and costs no other."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playbooks.messages import FieldValue
from playbooks.reading.fields import read as present
from playbooks.vocabulary import FieldStatus

_LONGEST_DETAIL = 300
_LONGEST_TEXT = 16 << 20
"""Bytes of a file that counts as small: the socket table of a busy node fits."""
_PIECE = 64 << 10
"""Files below /proc/sys refuse to be asked for much more at once."""
LIMIT_S = 3.0
"""Longer than every command that is run here may take."""


def attempt(source: str, call: Callable[[], Any], *, unit: str | None = None) -> FieldValue:
    """Return what `call` returns as a field; None is `absent`, an error of the system its own status.

    A call that hangs, as on a dead network mount or a pipe nobody writes to, costs its own time and this field alone.
    """
    try:
        return present(_within(LIMIT_S, call), source, unit=unit)
    except (FileNotFoundError, NotADirectoryError) as error:
        return failed(FieldStatus.ABSENT, source, error, unit=unit)
    except PermissionError as error:
        return failed(FieldStatus.REFUSED, source, error, unit=unit)
    except (TimeoutError, subprocess.TimeoutExpired) as error:
        return failed(FieldStatus.TIMEOUT, source, error, unit=unit)
    except (OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
        return failed(FieldStatus.ERROR, source, error, unit=unit)


def _within(limit_s: float, call: Callable[[], Any]) -> Any:
    """Run a call beside this thread; one that the kernel holds is left behind, for nothing can end it.

    Raises:
        TimeoutError: it did not come back in time.
    """
    box: list[Any] = []

    def run() -> None:
        try:
            box.append((True, call()))
        except BaseException as error:  # noqa: BLE001 - handed to the thread that asked
            box.append((False, error))

    thread = threading.Thread(target=run, name="field", daemon=True)
    thread.start()
    thread.join(limit_s)
    if not box:
        raise TimeoutError(f"no answer within {limit_s:g} s")
    fine, value = box[0]
    if fine:
        return value
    raise value


def failed(status: FieldStatus, source: str, why: object, *, unit: str | None = None) -> FieldValue:
    """Return a field that could not be read, and why."""
    return FieldValue(status=status, source=source, detail=str(why)[:_LONGEST_DETAIL], unit=unit)


def text(path: Path) -> str:
    """Return a small text file without its last line break.

    Raises:
        OSError: it cannot be read, or has no end.
    """
    raw = bytearray()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            raw += piece
            if len(raw) > _LONGEST_TEXT:
                raise OSError(f"expected at most {_LONGEST_TEXT >> 20} MiB, found more")
    return raw.decode("utf-8", "replace").replace("\r\n", "\n").rstrip("\n\0")


def output(*argv: str, timeout_s: float) -> str:
    """Return what a command printed.

    Raises:
        FileNotFoundError: there is no such command.
        TimeoutExpired: it did not end in time.
        OSError: it failed; the message is its own.
    """
    plain = {**os.environ, "LC_ALL": "C"}  # words that are read are English
    done = subprocess.run(  # noqa: S603 - fixed commands
        argv, capture_output=True, text=True, timeout=timeout_s, check=False, errors="replace", env=plain
    )
    if done.returncode != 0:
        raise OSError(f"{argv[0]} ended with {done.returncode}: {(done.stderr or done.stdout).strip()[:200]}")
    return done.stdout.strip()
