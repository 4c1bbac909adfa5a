"""A sheet of fixed width on which texts and areas are placed before anything is drawn.

Wide enough that text is as high as that of a message when a phone shows the picture 360 px wide; a light ground of its own
with a border, so that it reads the same in a dark and in a light theme. Places are kept, so that a test can ask what
overlaps. Text is ASCII: the font that Pillow brings knows Latin letters alone.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from PIL import Image, ImageDraw, ImageFont

from playbooks.guiding.chart_forms import Shape, Tone

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH, MARGIN = 1080, 36
TEXT, TITLE = 33, 39
"""Heights in px; shown 360 px wide they are 11 and 13 px, as the small print and the text of a message."""
LINE = 44
GROUND, BORDER, INK, DIM, ALERT, GRID = "#ffffff", "#c4c9d1", "#1d1c1d", "#5a616b", "#b3261e", "#e3e6ea"
COLOURS = {
    Tone.FIRST: "#0072b2",
    Tone.SECOND: "#56b4e9",
    Tone.THIRD: "#009e73",
    Tone.FOURTH: "#e69f00",
    Tone.FIFTH: "#cc79a7",
    Tone.OTHER: "#b8bec7",
}
"""Okabe and Ito's colours, told apart with every kind of colour vision; numbers inside the bars tell them without colour."""
_DARK = {Tone.FIRST, Tone.THIRD}
_FINER = 4
"""Marks and curves are drawn this much larger and reduced: Pillow draws lines without smooth edges."""

Align = Literal["left", "right", "middle"]
Box = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Text:
    """A text and the box its letters fill."""

    text: str
    at: tuple[int, int]
    box: Box
    colour: str
    size: int


@dataclass(frozen=True, slots=True)
class Area:
    """A filled or framed box; striped: not seen to end."""

    box: Box
    colour: str
    framed: bool = False
    striped: bool = False


@dataclass(frozen=True, slots=True)
class Stroke:
    """A line through points, drawn smooth."""

    points: tuple[tuple[float, float], ...]
    colour: str
    thick: int


@dataclass(frozen=True, slots=True)
class Placed:
    """A mark with its middle."""

    shape: Shape
    at: tuple[int, int]
    size: int


@dataclass(slots=True)
class Sheet:
    """What is placed so far; `height` grows with it."""

    height: int = MARGIN
    texts: list[Text] = field(default_factory=list)
    areas: list[Area] = field(default_factory=list)
    strokes: list[Stroke] = field(default_factory=list)
    marks: list[Placed] = field(default_factory=list)

    def write(
        self,
        text: str,
        x: int,
        y: int,
        *,
        align: Align = "left",
        colour: str = INK,
        size: int = TEXT,
        room: int = WIDTH,
    ) -> Box:
        """Place a text with its line's top at `y`, cut to `room`; returns the box its letters fill."""
        shown = fitted(text, room, size)
        left, top, right, bottom = _extents(shown, size)
        at = x if align == "left" else x - right if align == "right" else x - (left + right) // 2
        box = (at + left, y + top, at + right, y + bottom)
        if shown:
            self.texts.append(Text(shown, (at, y), box, colour, size))
        return box

    def fill(self, box: Box, tone: Tone, *, striped: bool = False) -> None:
        """Place an area; one without width is still seen."""
        left, top, right, bottom = box
        right = max(right, left + 3)
        if tone is Tone.FRAME:
            self.areas.append(Area((left, top, right, bottom), INK, framed=True))
        else:
            self.areas.append(Area((left, top, right, bottom), COLOURS[tone], striped=striped))

    def rule(self, box: Box, colour: str = GRID) -> None:
        """Place a plain area, such as a line of the grid."""
        self.areas.append(Area(box, colour))

    def clear(self, box: Box) -> None:
        """Keep the grid away from a text."""
        left, top, right, bottom = box
        if right > left:
            self.areas.append(Area((left - 6, top, right + 6, bottom), GROUND))

    def mark(self, shape: Shape, x: int, y: int, size: int = 30) -> None:
        """Place a mark around its middle."""
        self.marks.append(Placed(shape, (x, y), size))

    def png(self) -> bytes:
        """Draw everything; the same sheet gives the same bytes, which hold no time and no name of a program."""
        picture = Image.new("RGB", (WIDTH, self.height), GROUND)
        draw = ImageDraw.Draw(picture)
        draw.rectangle((0, 0, WIDTH - 1, self.height - 1), outline=BORDER, width=2)
        for area in self.areas:
            _area(draw, area)
        for stroke in self.strokes:
            _smooth(picture, stroke.points, stroke)
        for mark in self.marks:
            _mark(picture, mark)
        for text in self.texts:
            draw.text(text.at, text.text, fill=text.colour, font=font(text.size))
        out = io.BytesIO()
        picture.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
        return out.getvalue()


def ink_on(tone: Tone) -> str:
    """Return the colour of text on a tone."""
    return "#ffffff" if tone in _DARK else INK


@lru_cache(maxsize=4)
def font(size: int) -> ImageFont.FreeTypeFont:
    """Return the font that comes with Pillow; laid out by Pillow alone, so that no library of the system changes it."""
    made = ImageFont.load_default(size)
    if not isinstance(made, ImageFont.FreeTypeFont):
        raise TypeError("expected Pillow with FreeType, found one without")
    made.layout_engine = ImageFont.Layout.BASIC
    return made


def fitted(text: str, room: int, size: int = TEXT) -> str:
    """Return the text in printable ASCII, cut with dots when it is wider than `room`."""
    plain = "".join(sign if " " <= sign <= "~" else "?" for sign in text)
    if width(plain, size) <= room:
        return plain
    low, high = 0, min(len(plain), room)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if width(f"{plain[:middle]}...", size) <= room else (low, middle - 1)
    return f"{plain[:low].rstrip()}..."


def width(text: str, size: int = TEXT) -> int:
    """Return how wide a text is, in px."""
    return _extents(text[:WIDTH], size)[2]


def _extents(text: str, size: int) -> Box:
    left, top, right, bottom = font(size).getbbox(text)
    return int(left), int(top), round(right), round(bottom)


def _area(draw: ImageDraw.ImageDraw, area: Area) -> None:
    left, top, right, bottom = area.box
    if area.framed:
        draw.rectangle((left, top, right - 1, bottom - 1), outline=area.colour, width=4)
        return
    draw.rectangle((left, top, right - 1, bottom - 1), fill=area.colour)
    if area.striped:
        # upright strips: a slanted line has no smooth edge, and a bar may be three pixels wide
        for x in range(left + 8, right - 3, 16):
            draw.rectangle((x, top, x + 4, bottom - 1), fill=GROUND)


def _smooth(picture: Image.Image, points: Sequence[tuple[float, float]], stroke: Stroke) -> None:
    """Draw a line in pieces, each on a finer mask of its own: memory stays small however long the line is."""
    for begin in range(0, max(1, len(points) - 1), 200):
        piece = points[begin : begin + 201]
        left, top = (int(min(axis)) - stroke.thick for axis in zip(*piece, strict=True))
        right, bottom = (int(max(axis)) + stroke.thick + 1 for axis in zip(*piece, strict=True))
        mask = Image.new("L", ((right - left) * _FINER, (bottom - top) * _FINER), 0)
        moved = [((x - left) * _FINER, (y - top) * _FINER) for x, y in piece]
        ImageDraw.Draw(mask).line(moved, fill=255, width=stroke.thick * _FINER, joint="curve")
        picture.paste(stroke.colour, (left, top), mask.resize((right - left, bottom - top), Image.Resampling.BOX))


def _mark(picture: Image.Image, mark: Placed) -> None:
    half = mark.size // 2 + 6
    place = (mark.at[0] - half, mark.at[1] - half)
    for colour, mask in zip((GROUND, _mark_colour(mark.shape)), _masks(mark.shape, mark.size), strict=True):
        picture.paste(colour, place, mask)


def _mark_colour(shape: Shape) -> str:
    return ALERT if shape in {Shape.CROSS, Shape.SQUARE} else INK


@lru_cache(maxsize=32)
def _masks(shape: Shape, size: int) -> tuple[Image.Image, Image.Image]:
    """Return a mark's masks: a rim that sets it off from what lies below, and the mark."""
    side, half = size + 12, size // 2 + 6
    drawn = []
    for more, thick in ((4, 13), (0, 7)):
        mask = Image.new("L", (side * _FINER, side * _FINER), 0)
        _shape(ImageDraw.Draw(mask), shape, size + more, half, thick=thick)
        drawn.append(mask.resize((side, side), Image.Resampling.BOX))
    return drawn[0], drawn[1]


def _shape(draw: ImageDraw.ImageDraw, shape: Shape, size: int, half: int, *, thick: int) -> None:
    low, high = (half - size / 2) * _FINER, (half + size / 2) * _FINER
    wide = thick * _FINER
    match shape:
        case Shape.CROSS:
            draw.line((low, low, high, high), fill=255, width=wide)
            draw.line((low, high, high, low), fill=255, width=wide)
        case Shape.SQUARE:
            draw.rectangle((low, low, high, high), fill=255)
        case Shape.DISC:
            draw.ellipse((low, low, high, high), fill=255)
        case Shape.RING:
            draw.ellipse((low, low, high, high), outline=255, width=wide)
        case Shape.LINE:
            middle = half * _FINER
            draw.line((middle, low, middle, high), fill=255, width=wide)
