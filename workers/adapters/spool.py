"""Evidence on the node until the bot has it: redacted, then hashed, bounded, named by digest.

Of a log that is larger than the bound the head, the surroundings of the findings and the tail are kept; the gap is said in
the text and counted in the reference. Whole lines are kept, so that what is shown was really printed.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from playbooks.evidence.redaction import LineRedactor
from playbooks.messages import ArtifactRef
from workers.adapters.file_holes import punch_hole
from workers.jobs.redacting import without_secrets
from workers.journal import Journal

HEAD_BYTES = 16 << 20
TAIL_BYTES = 16 << 20
AROUND_BYTES = 2 << 20
_CHUNK_LINES = 2000
_BLOCK_BYTES = 512
"""What `st_blocks` counts in, whatever the file system."""
_TRIM_TAILS = 4
"""A held engine's log takes at most the head and so many tails of disk; two tails stay when it is trimmed."""


class FileSpool:
    """A folder of files by digest, listed in the journal."""

    def __init__(
        self, folder: Path, journal: Journal, *, head_bytes: int = HEAD_BYTES, tail_bytes: int = TAIL_BYTES
    ) -> None:
        self._folder = folder
        self._journal = journal
        self._head = head_bytes
        self._tail = tail_bytes
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def save_text(
        self, job_id: str, name: str, text: bytes, *, media_type: str = "text/plain", secrets: Mapping[str, str] = {}
    ) -> ArtifactRef:
        """Keep a text."""
        return self._save(job_id, name, iter([text]), media_type=media_type, dropped=0, secrets=secrets)

    def save_log(
        self, job_id: str, name: str, path: Path, *, around: tuple[int, ...] = (), secrets: Mapping[str, str] = {}
    ) -> ArtifactRef:
        """Keep a log file, bounded. around: line numbers (from 1, by LF) whose surroundings must stay."""
        size = path.stat().st_size if path.exists() else 0
        if size <= self._head + self._tail:
            return self._save(job_id, name, _chunks(path), media_type="text/plain", dropped=0, secrets=secrets)
        spans = self._spans(path, size, around)
        dropped = size - sum(end - start for start, end in spans)
        return self._save(job_id, name, _pieces(path, spans), media_type="text/plain", dropped=dropped, secrets=secrets)

    def trim(self, log: Path) -> int:
        """Give back the disk of the middle of a growing log: what `save_log` would leave out anyway; returns the bytes.

        The engine goes on writing to the same file and notices nothing: no offset moves. A file system without holes keeps all.
        """
        try:
            with log.open("rb+") as file:
                stat = os.fstat(file.fileno())
                used = stat.st_blocks * _BLOCK_BYTES
                if used <= self._head + _TRIM_TAILS * self._tail:
                    return 0
                after_head = _line_start(log, self._head)  # the head is kept up to the end of its last line
                if not punch_hole(file.fileno(), after_head, stat.st_size - 2 * self._tail):
                    return 0
                return max(0, used - os.fstat(file.fileno()).st_blocks * _BLOCK_BYTES)
        except OSError:
            return 0

    def path(self, sha256: str) -> Path:
        """Return where a file lies."""
        return self._folder / sha256

    def forget(self, sha256: str) -> None:
        """Drop a file that the bot has stored."""
        self.path(sha256).unlink(missing_ok=True)

    def _save(
        self,
        job_id: str,
        name: str,
        chunks: Iterator[bytes],
        *,
        media_type: str,
        dropped: int,
        secrets: Mapping[str, str],
    ) -> ArtifactRef:
        digest, redactor = hashlib.sha256(), LineRedactor()
        size = redactions = 0
        handle, partial = tempfile.mkstemp(dir=self._folder, prefix="partial-")
        with os.fdopen(handle, "wb") as out:
            for chunk in chunks:
                text, filled = without_secrets(chunk.decode("utf-8", errors="surrogateescape"), secrets)
                redacted = redactor.lines(text)
                redactions += redacted.count + filled
                data = redacted.text.encode("utf-8", errors="surrogateescape")
                digest.update(data)
                size += out.write(data)
            out.flush()
            os.fsync(out.fileno())
        ref = ArtifactRef(
            sha256=digest.hexdigest(),
            name=name,
            size_bytes=size,
            media_type=media_type,
            redactions=redactions,
            dropped_bytes=dropped,
        )
        Path(partial).replace(self.path(ref.sha256))
        self._journal.add_artifact(job_id, ref)
        return ref

    def _spans(self, path: Path, size: int, around: tuple[int, ...]) -> list[tuple[int, int]]:
        half = AROUND_BYTES // 2
        wanted = [(0, self._head), (size - self._tail, size)]
        wanted += [(max(0, at - half), min(size, at + half)) for at in _offsets(path, around)]
        merged: list[tuple[int, int]] = []
        for start, end in sorted(wanted):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return [(_line_start(path, start), _line_start(path, end) if end < size else size) for start, end in merged]


def _chunks(path: Path) -> Iterator[bytes]:
    if not path.exists():
        return
    with path.open("rb") as log:
        yield from _by_lines(log, None)


def _by_lines(log: BinaryIO, limit: int | None) -> Iterator[bytes]:
    lines: list[bytes] = []
    left = limit
    while left is None or left > 0:
        line = log.readline() if left is None else log.readline(left)
        if not line:
            break
        lines.append(line)
        left = None if left is None else left - len(line)
        if len(lines) >= _CHUNK_LINES:
            yield b"".join(lines)
            lines = []
    yield b"".join(lines)


def _pieces(path: Path, spans: list[tuple[int, int]]) -> Iterator[bytes]:
    with path.open("rb") as log:
        before = 0
        for start, end in spans:
            if start > before:
                yield f"[baseline: {start - before} bytes left out here]\n".encode()
            log.seek(start)
            yield from _by_lines(log, end - start)
            before = end


def _offsets(path: Path, lines: tuple[int, ...]) -> Iterator[int]:
    wanted = set(lines)
    if not wanted:
        return
    offset = 0
    with path.open("rb") as log:
        for number, line in enumerate(log, start=1):
            if number in wanted:
                yield offset
            offset += len(line)
            if number >= max(wanted):
                return


def _line_start(path: Path, offset: int) -> int:
    """Return the start of the line after the one that `offset` cuts; 0 stays 0."""
    if offset == 0:
        return 0
    with path.open("rb") as log:
        log.seek(offset - 1)
        log.readline()
        return log.tell()
