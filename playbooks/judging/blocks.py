"""Tracebacks as they are printed, one process at a time, chained exceptions kept apart, interleaved processes untangled."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from playbooks.reading.transcript import Line

TRACEBACK = "Traceback (most recent call last):"
_CHAINS = ("The above exception was the direct cause", "During handling of the above exception")
_MOST_MESSAGE_LINES = 40
_MOST_FRAMES = 200
_MOST_STRAYS = 8
_GOES_ON_WITHIN = 500
"""Lines of others between two lines of one traceback."""
_LOOKS_EVERY = 64
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?:\[[^\]]*\]|\([A-Za-z_][\w.]*\))?(?::(?:\s|$)|\s*$)")
"""The last line of a traceback: an exception's name, alone or before a colon."""
_FRAME = re.compile(r'\s*File "[^"]+", line \d+, in \S')
"""A line of a stack; without a head before it, the head was cut off the paste."""
_NAMED = re.compile(r"[\w.]*(?:Error|Exception|Interrupt|Exit)\b")


@dataclass(slots=True)
class Raised:
    """One exception of a block: where its last line stands, its stack (as printed) and its message lines."""

    no: int
    text: str
    frames: list[str]
    messages: list[tuple[int, str]] = field(default_factory=list)


@dataclass(slots=True)
class Block:
    """One traceback with its chain, oldest exception first."""

    start: int
    process: str
    logged: bool
    file: str
    raised: list[Raised] = field(default_factory=list)
    frames: list[str] = field(default_factory=list)
    state: str = "frames"
    strays: int = 0
    hidden: bool = False
    """Belongs to a benign line before it."""
    flat: bool = False
    """The line before was a frame whose indentation a collector took away: code follows."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a line did: `frame` swallowed, `raised` ended an exception, `message` went on with it, None = an ordinary line."""

    kind: str | None
    block: Block | None = None


ORDINARY = Step(None)


class Blocks:
    """Follows the open traceback of each process."""

    def __init__(self) -> None:
        self._open: dict[str, Block] = {}
        self._last: dict[str, int] = {}

    def feed(self, line: Line) -> Step:
        """Place one line; an ordinary line closes what it cannot belong to."""
        key = line.process if line.logged or line.process else ""
        block = self._open.get(key)
        text = line.text
        if self._open:
            self._forget(line.no)
            if block is not None or TRACEBACK in text:
                self._last[key] = line.no
        if TRACEBACK in text:
            return self._begin(key, block, line)
        if block is None:
            return self._begin(key, None, line, frame=text) if _FRAME.match(text) else ORDINARY
        if line.logged != block.logged and block.state != "chained" and (line.logged or block.logged):
            if line.logged:
                del self._open[key]
            return ORDINARY
        match block.state:
            case "frames":
                return self._in_frames(block, line)
            case "message":
                return self._in_message(key, block, line)
            case _:
                if not text.strip() or any(chain in text for chain in _CHAINS):
                    block.state = "chained" if text.strip() else block.state
                    return Step("frame", block)
                del self._open[key]
                return ORDINARY

    @property
    def any_open(self) -> bool:
        """Whether a traceback may still go on."""
        return bool(self._open)

    def _forget(self, no: int) -> None:
        """Close what its process did not go on with for a long time, as when it died of it."""
        if no % _LOOKS_EVERY:
            return
        for key in [key for key in self._open if no - self._last.get(key, no) > _GOES_ON_WITHIN]:
            del self._open[key]

    def _begin(self, key: str, block: Block | None, line: Line, *, frame: str = "") -> Step:
        if block is not None and block.state == "chained":
            block.state = "frames"
            block.frames = []
            return Step("frame", block)
        block = Block(start=line.no, process=line.process, logged=line.logged, file=line.file)
        if frame:
            block.frames.append(frame.strip())
            block.flat = frame.startswith("File ")
            self._last[key] = line.no
        self._open[key] = block
        return Step("frame", block)

    @staticmethod
    def _in_frames(block: Block, line: Line) -> Step:
        text = line.text
        flat = text.startswith('File "')
        code = block.flat and not _NAMED.match(text)
        block.flat = flat
        if not text.strip() or flat or code or text.startswith((" ", "\t", "^", "~", "[Previous line")):
            if "File " in text and len(block.frames) < _MOST_FRAMES:
                block.frames.append(text.strip())
            return Step("frame", block)
        if not _EXCEPTION.match(text):
            block.strays += 1  # another writer's line, in between
            if block.strays > _MOST_STRAYS:
                block.state = "done"
            return ORDINARY
        block.raised.append(Raised(line.no, text, block.frames))
        block.state = "message"
        return Step("raised", block)

    def _in_message(self, key: str, block: Block, line: Line) -> Step:
        text = line.text
        if any(chain in text for chain in _CHAINS):
            block.state = "chained"
            return Step("frame", block)
        if not text.strip():
            block.state = "gap" if not block.logged else "message"
            return Step("frame", block)
        same = line.level in {"", "ERROR"} and line.file == block.file if block.logged else not line.logged
        messages = block.raised[-1].messages
        if (
            not same
            or len(messages) >= _MOST_MESSAGE_LINES
            or (not block.logged and line.level in {"INFO", "DEBUG", "WARNING"})
        ):
            del self._open[key]
            return ORDINARY
        messages.append((line.no, text))
        return Step("message", block)
