"""A log on disk that does not grow without end: its head, the surroundings of what was pinned, and its tail.

For engines that live for days. What was left out is counted and said where it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

HEAD_BYTES = 16 << 20
SEGMENT_BYTES = 4 << 20
_TAIL_SEGMENTS = 4
_MOST_PINS = 4
_CHUNK = 1 << 20


class BoundedLog:
    """Segments of one log in a folder of its own; segment 0 is the head."""

    def __init__(self, folder: Path, *, head_bytes: int = HEAD_BYTES, segment_bytes: int = SEGMENT_BYTES) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder
        self._most = (head_bytes, segment_bytes)
        self._number = 0
        self._size = 0
        self._kept: dict[int, int] = {0: 0}
        self._pinned: set[int] = {0}
        self._pins = 0
        self._total = 0
        self._out = self._path(0).open("wb", buffering=0)

    @property
    def dropped_bytes(self) -> int:
        """Bytes that are no longer there."""
        return self._total - sum(self._kept.values())

    def write(self, data: bytes) -> None:
        """Append; a segment ends behind the line that fills it."""
        while data:
            most = self._most[min(self._number, 1)]
            room = most - self._size
            cut = len(data) if len(data) < room else data.find(b"\n", max(0, room - 1)) + 1 or len(data)
            self._out.write(data[:cut])
            self._size += cut
            self._total += cut
            self._kept[self._number] += cut
            if cut >= room and (data[cut - 1 : cut] == b"\n" or self._size > 2 * most):
                self._next()
            data = data[cut:]

    def pin(self) -> None:
        """Keep the surroundings of what was written last."""
        if self._pins < _MOST_PINS:
            self._pins += 1
            self._pinned |= {self._number - 1, self._number, self._number + 1}

    def chunks(self) -> Iterator[bytes]:
        """Yield what is kept, oldest first, with a line where something was left out."""
        expected = 0
        gap = self.dropped_bytes
        for number in sorted(self._kept):
            if number != expected:
                yield f"[baseline: left out here; {gap} bytes of this log are not kept]\n".encode()
            expected = number + 1
            with self._path(number).open("rb") as part:
                while chunk := part.read(_CHUNK):
                    yield chunk

    def close(self) -> None:
        """Close the file that is written to; what is kept stays."""
        self._out.close()

    def remove(self) -> None:
        """Remove everything."""
        self.close()
        for number in self._kept:
            self._path(number).unlink(missing_ok=True)
        self._folder.rmdir()

    def _path(self, number: int) -> Path:
        return self._folder / f"segment-{number:06d}"

    def _next(self) -> None:
        self._out.close()
        self._number += 1
        self._size = 0
        self._kept[self._number] = 0
        self._out = self._path(self._number).open("wb", buffering=0)
        for number in [n for n in self._kept if n <= self._number - _TAIL_SEGMENTS and n not in self._pinned]:
            del self._kept[number]
            self._path(number).unlink()
