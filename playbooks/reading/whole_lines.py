"""A stream of bytes cut behind line feeds, many lines at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

LONGEST_BYTES = 1 << 20
"""A line that has no end within so many bytes loses what follows, up to its end; it stays one line."""


def whole_lines(chunks: Iterable[bytes], *, lossless: bool = False) -> Iterator[bytes]:
    """Cut chunks of any size into blocks of whole lines, each ended by LF but for the last of the stream.

    lossless: nothing is dropped, and a line without an end within `LONGEST_BYTES` comes in several blocks.
    """
    rest = b""
    for given in chunks:
        chunk = given
        if len(rest) >= LONGEST_BYTES and lossless:
            yield rest
            rest = b""
        elif len(rest) >= LONGEST_BYTES:
            end = chunk.find(b"\n")
            if end < 0:
                continue
            chunk = chunk[end:]
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield rest + chunk[:cut]
            rest = chunk[cut:]
        else:
            rest += chunk
    if rest:
        yield rest


def lines_between(chunks: Iterable[bytes], first: int, last: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of these numbers, from 1, without their ends; no more of the stream is read than that."""
    no = 0
    for block in whole_lines(chunks):
        count = block.count(b"\n") + (not block.endswith(b"\n"))
        if no + count >= first:
            lines = block.removesuffix(b"\n").split(b"\n")
            for at in range(max(first, no + 1), min(last, no + count) + 1):
                yield at, lines[at - no - 1].removesuffix(b"\r")
        no += count
        if no >= last:
            return
