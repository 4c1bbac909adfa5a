"""The one file that `baseline watch` leaves: what was seen beside the log in its first line, then the log, redacted."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from playbooks.evidence.redaction import redact_argv, redact_stream
from playbooks.reading.watched import WatchedRun, first_line
from playbooks.reading.whole_lines import whole_lines

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class WatchedFile:
    """A written file; sha256 of its bytes."""

    path: Path
    sha256: str
    size_bytes: int
    run: WatchedRun


def write_watched(path: Path, run: WatchedRun, log: Iterable[bytes]) -> WatchedFile:
    """Write the file, readable by its owner.

    Raises:
        OSError: it cannot be written.
    """
    with tempfile.TemporaryFile() as body:
        count = 0
        for block, redacted in redact_stream(whole_lines(log, lossless=True)):
            body.write(block)
            count += redacted
        command, hidden = redact_argv(run.command)
        told = run.model_copy(update={"command": command, "redactions": count + hidden})
        body.seek(0)
        return _write(path, told, body)


def _write(path: Path, run: WatchedRun, body: IO[bytes]) -> WatchedFile:
    digest = hashlib.sha256()
    size = 0
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        part = first_line(run)
        while part:
            digest.update(part)
            size += out.write(part)
            part = body.read(_CHUNK)
    return WatchedFile(path, digest.hexdigest(), size, run)
