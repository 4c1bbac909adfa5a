"""What a chart shows, before anybody draws it: rows of bars, or curves over time. Labels are identifiers and units only.

A drawer needs nothing but these values, and everything that is left out is left out here: a chart has a bounded number of
rows, lines and points, however long the case is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

MOST_ROWS = 240
"""Rows of a chart; older ones are counted in `Bars.left_out`."""
MOST_LINES = 16
"""Lines of a curve: the GPUs of the largest node in use."""
MOST_POINTS = 1200
"""Points of a line: more than a picture has columns."""


class Subject(StrEnum):
    """What a chart is about; the four that a case has."""

    STAGES = "stages"
    MEMORY = "memory"
    CACHE = "cache"
    LADDER = "ladder"


class Tone(StrEnum):
    """How an area is filled; a drawer gives each a colour and, where it must be told without, a pattern or number."""

    FIRST = "1"
    SECOND = "2"
    THIRD = "3"
    FOURTH = "4"
    FIFTH = "5"
    OTHER = "other"
    FRAME = "frame"
    """An outline: what was expected, around what came."""


class Shape(StrEnum):
    """A mark, told by its form."""

    CROSS = "cross"
    SQUARE = "square"
    DISC = "disc"
    RING = "ring"
    LINE = "line"
    """Across the whole row: a limit."""


class Unit(StrEnum):
    """What an axis counts. Times are whole milliseconds and shown in ms, s, min or h, whichever reads best."""

    MILLISECONDS = "ms"
    TOKENS = "tokens"


@dataclass(frozen=True, slots=True)
class Segment:
    """An area of a row from `start` to `end`, in the axis' unit. number: shown inside; unended: not seen to end."""

    start: int
    end: int
    tone: Tone
    number: str = ""
    unended: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark at a place of the axis."""

    at: int
    shape: Shape


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its name left, its figures right in columns, its bar below. strong: one that failed or came too short."""

    label: str
    figures: tuple[str, ...] = ()
    segments: tuple[Segment, ...] = ()
    marks: tuple[Mark, ...] = ()
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Key:
    """What a tone or shape stands for."""

    label: str
    tone: Tone | None = None
    shape: Shape | None = None
    number: str = ""
    unended: bool = False


@dataclass(frozen=True, slots=True)
class Bars:
    """Rows over one axis. small: how many of the first rows are drawn without text, because there are many."""

    subject: Subject
    attempt: int
    """The attempt it is about, or the newest one."""
    title: str
    unit: Unit
    rows: tuple[Row, ...]
    keys: tuple[Key, ...] = ()
    head: tuple[str, ...] = ()
    """Names of the columns of figures."""
    small: int = 0
    left_out: int = 0
    """Older rows that are not shown."""

    @property
    def longest(self) -> int:
        """The end of the axis; 1 when nothing took any time."""
        ends = [segment.end for row in self.rows for segment in row.segments]
        return max([*ends, *(mark.at for row in self.rows for mark in row.marks), 1])


@dataclass(frozen=True, slots=True)
class Line:
    """A line of (milliseconds since the start, bytes), oldest first, and how it is named with its figures."""

    label: str
    points: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Boundary:
    """The begin of a stage within a curve, in milliseconds since the start."""

    at: int
    number: str


@dataclass(frozen=True, slots=True)
class Curve:
    """Lines over time, with the stages' boundaries."""

    subject: Subject
    attempt: int
    title: str
    lines: tuple[Line, ...]
    boundaries: tuple[Boundary, ...] = ()
    keys: tuple[Key, ...] = ()
    left_out: int = 0
    """Lines that are not shown."""

    @property
    def longest(self) -> int:
        """The end of the time axis in milliseconds."""
        return max([*(at for line in self.lines for at, _ in line.points), *(b.at for b in self.boundaries), 1])

    @property
    def highest(self) -> int:
        """The most that any line reaches, in bytes."""
        return max([*(used for line in self.lines for _, used in line.points), 1])


Chart = Bars | Curve


def thinned(points: Sequence[tuple[int, int]], most: int = MOST_POINTS) -> tuple[tuple[int, int], ...]:
    """Return at most `most` points that keep the lowest and the highest of each stretch, and the first and the last."""
    if len(points) <= most:
        return tuple(points)
    stretches = max(1, (most - 2) // 2)
    inner = points[1:-1]
    kept = [points[0]]
    for number in range(stretches):
        stretch = inner[number * len(inner) // stretches : (number + 1) * len(inner) // stretches]
        kept += _extremes(stretch)
    return (*kept, points[-1])


def _extremes(stretch: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    if not stretch:
        return
    places = range(len(stretch))
    low = min(places, key=lambda place: stretch[place][1])
    high = max(places, key=lambda place: stretch[place][1])
    yield stretch[min(low, high)]
    if low != high:
        yield stretch[max(low, high)]
