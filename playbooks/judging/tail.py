"""The last lines of a launch: what is compared where no cause was printed. A block is cut into lines only when they are asked for."""

from __future__ import annotations

from collections import deque


class Tail:
    """Keeps the last lines of what was read since it was cleared, up to where it was closed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: deque[str | bytes] = deque(maxlen=most)
        self._open = True
        self._block = b""
        self._start = self._stop = 0
        self._reached = 0

    def add(self, line: str | bytes) -> None:
        """Take one line."""
        if self._open:
            self._kept.append(line)

    def enter(self, block: bytes) -> None:
        """Begin a block of lines."""
        self._block, self._start, self._stop, self._reached = block, 0, 0, 0

    def reach(self, place: int) -> None:
        """Take the lines of the block up to a place where one begins."""
        self._reached = place
        if self._open:
            self._stop = place

    def leave(self) -> None:
        """End the block: only its last lines are kept."""
        kept = self.lines()
        self.enter(b"")
        self._kept = deque(kept, maxlen=self._most)

    def close(self) -> None:
        """Take no more until the next launch: what teardown prints is not compared."""
        self._open = False

    def clear(self) -> None:
        """Begin anew behind the line that was taken last."""
        self._kept.clear()
        self._open = True
        self._start = self._stop = self._reached

    def lines(self) -> tuple[str | bytes, ...]:
        """Return the lines, oldest first."""
        if self._start == self._stop:
            return tuple(self._kept)
        begin = self._stop
        for _ in range(self._most):
            begin = self._block.rfind(b"\n", self._start, begin - 1) + 1
            if begin <= self._start:
                begin = self._start
                break
        last = self._block[begin : self._stop].removesuffix(b"\n").split(b"\n")
        return tuple(deque((*self._kept, *last), maxlen=self._most))
