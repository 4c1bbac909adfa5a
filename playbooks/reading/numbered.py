"""Line numbers before each line, as `cat -n`, `grep -n` and pagers print them: told by counting on with the lines, then taken off."""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = re.compile(rb"[ \t]{0,8}(\d{1,7})(?:\t| {1,2}|: ?| ?\| ?)")


class Numbering:
    """Whether the lines of one text are numbered; the first line says from where on."""

    def __init__(self) -> None:
        self._ahead: int | None = None

    def without(self, no: int, line: str | bytes) -> str | bytes:
        """Take the number off a line that carries the one that is its turn; the first line keeps its own."""
        if no > 1 and self._ahead is None:
            return line
        raw = line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line
        found = _NUMBER.match(raw)
        if found is None:
            return line
        if no == 1:
            self._ahead = int(found[1]) - no
        elif int(found[1]) - no == self._ahead:
            return raw[found.end() :]
        return line
