"""Rows of bars over one axis: name and figures in a line of text, the bar below them, where a phone has room for both."""

from __future__ import annotations

from dataclasses import dataclass

from bot.adapters.charts.axis import ticks
from bot.adapters.charts.keys import lay_keys, lay_title
from bot.adapters.charts.sheet import ALERT, DIM, GRID, INK, LINE, MARGIN, TEXT, WIDTH, Sheet, ink_on, width
from playbooks.guiding.chart_forms import Bars, Row, Shape

BAR, SMALL_BAR, GAP = 34, 9, 18
_LEFT, _RIGHT = MARGIN, WIDTH - MARGIN - 36
"""The last pixels stay free for a mark behind the longest bar."""
_COLUMN = 30


@dataclass(frozen=True, slots=True)
class _Scale:
    longest: int

    def x(self, value: int) -> int:
        return _LEFT + round(min(value, self.longest) * (_RIGHT - _LEFT) / self.longest)


def laid_out(chart: Bars) -> Sheet:
    """Place a chart of rows on a sheet."""
    sheet = Sheet()
    lay_title(sheet, chart.title)
    lay_keys(sheet, chart.keys)
    scale = _Scale(chart.longest)
    if chart.left_out:
        sheet.write(f"{chart.left_out} more not drawn", _LEFT, sheet.height, colour=DIM)
        sheet.height += LINE
    columns = _columns(chart)
    first = sheet.height
    grid = len(sheet.areas)
    if chart.small:
        _small(sheet, chart.rows[: chart.small], scale)
    if chart.head:
        _figures(sheet, chart.head, columns, DIM)
        sheet.height += LINE
    for row in chart.rows[chart.small :]:
        _row(sheet, row, scale, columns)
    _axis(sheet, chart, scale, first=first, grid=grid)
    return sheet


def _columns(chart: Bars) -> tuple[int, ...]:
    """Return the columns' widths: as their widest text, all together at most three quarters of the sheet."""
    lines = [chart.head, *(row.figures for row in chart.rows[chart.small :])]
    count = max(len(line) for line in lines)
    wide = [max(width(line[at]) for line in lines if at < len(line)) for at in range(count)]
    room = (WIDTH - 2 * MARGIN) * 3 // 4 - _COLUMN * (count - 1)
    return tuple(wide if sum(wide) <= room else (min(one, room // count) for one in wide))


def _figures(sheet: Sheet, figures: tuple[str, ...], columns: tuple[int, ...], colour: str) -> int:
    """Place figures in their columns; returns where the first of them begins."""
    right = first = WIDTH - MARGIN
    for figure, room in zip(reversed(figures), reversed(columns[: len(figures)]), strict=True):
        box = sheet.write(figure, right, sheet.height, align="right", colour=colour, room=room)
        sheet.clear(box)
        first, right = box[0], right - room - _COLUMN
    return first


def _row(sheet: Sheet, row: Row, scale: _Scale, columns: tuple[int, ...]) -> None:
    top = sheet.height
    first = _figures(sheet, row.figures, columns, INK)
    room = first - _LEFT - 24
    sheet.clear(sheet.write(row.label, _LEFT, top, colour=ALERT if row.strong else INK, room=room))
    _bar(sheet, row, scale, top + LINE, BAR)
    sheet.height = top + LINE + BAR + GAP


def _small(sheet: Sheet, rows: tuple[Row, ...], scale: _Scale) -> None:
    """Place rows without text, named by the first and the last of them."""
    ends = rows[0].label.split()[0], rows[-1].label.split()[0]
    sheet.write(f"{ends[0]}-{ends[1]} (small)" if len(rows) > 1 else ends[0], _LEFT, sheet.height, colour=DIM)
    sheet.height += LINE
    for row in rows:
        _bar(sheet, row, scale, sheet.height, SMALL_BAR)
        sheet.height += SMALL_BAR + 3
    sheet.height += GAP


def _bar(sheet: Sheet, row: Row, scale: _Scale, top: int, high: int) -> None:
    for segment in row.segments:
        left, right = scale.x(segment.start), scale.x(segment.end)
        sheet.fill((left, top, right, top + high), segment.tone, striped=segment.unended)
        if segment.number and high == BAR and right - left > width(segment.number) + 12:
            middle = (left + right) // 2
            half = width(segment.number) // 2 + 5
            if segment.unended:
                sheet.fill((middle - half, top, middle + half, top + high), segment.tone)
            sheet.write(segment.number, middle, top - 1, align="middle", colour=ink_on(segment.tone))
    for mark in row.marks:
        across = mark.shape is Shape.LINE
        size = high + 8 if across else max(10, high - 8)
        # what tells an end stands behind the bar, so that it hides nothing of it
        sheet.mark(mark.shape, scale.x(mark.at) + (0 if across else size // 2 + 6), top + high // 2, size)


def _axis(sheet: Sheet, chart: Bars, scale: _Scale, *, first: int, grid: int) -> None:
    found = ticks(chart.longest, chart.unit)
    bottom = sheet.height
    unit = sheet.write(found.unit, WIDTH - MARGIN, bottom + 8, align="right", colour=DIM)
    free = _LEFT
    for place, number in found.places:
        x = scale.x(place)
        half = width(number) // 2
        at = max(x, _LEFT + half)
        if at - half < free or at + half + 16 > unit[0]:
            continue
        sheet.write(number, at, bottom + 8, align="middle", colour=DIM)
        free = at + half + 20
    for place, _number in reversed(found.places):
        x = scale.x(place)
        sheet.rule((x, bottom - 4, x + 2, bottom + 6), DIM)
    sheet.rule((_LEFT, bottom, _RIGHT, bottom + 2), DIM)
    # the grid lies below everything that was placed since
    lines = [(scale.x(place), first) for place, _number in found.places]
    for x, top in lines:
        sheet.rule((x, top, x + 2, bottom), GRID)
    placed = sheet.areas[-len(lines) :] if lines else []
    del sheet.areas[len(sheet.areas) - len(placed) :]
    sheet.areas[grid:grid] = placed
    sheet.height = bottom + 8 + TEXT + MARGIN // 2 + 8
