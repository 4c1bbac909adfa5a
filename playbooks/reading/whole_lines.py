"""A stream of bytes cut behind line feeds, many lines at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

LONGEST_BYTES = 1 << 20
"""A line that has no end within so many bytes loses what follows, up to its end; it stays one line."""


def whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Cut chunks of any size into blocks of whole lines, each ended by LF but for the last of the stream."""
    rest = b""
    for given in chunks:
        chunk = given
        if len(rest) >= LONGEST_BYTES:
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
