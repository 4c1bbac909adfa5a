"""Lines over time, with the stages' boundaries above them and each line's name and figures below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.adapters.charts.axis import gibibytes, ticks
from bot.adapters.charts.keys import lay_keys, lay_title
from bot.adapters.charts.sheet import DIM, GRID, INK, LINE, MARGIN, TEXT, WIDTH, Sheet, Stroke, width
from playbooks.guiding.chart_forms import Unit

if TYPE_CHECKING:
    from collections.abc import Callable

    from playbooks.guiding.chart_forms import Boundary, Curve

_HIGH = 520
_LEFT, _RIGHT = MARGIN + 90, WIDTH - MARGIN - 10
_INKS = ("#0072b2", "#d55e00", "#009e73", "#a3548a", "#e69f00", "#56b4e9", "#6b6b00", "#1d1c1d")
_THICK, _NAME = 4, 60


def laid_out(chart: Curve) -> Sheet:
    """Place a chart of lines on a sheet."""
    sheet = Sheet()
    lay_title(sheet, chart.title)
    lay_keys(sheet, chart.keys)
    longest, top = chart.longest, sheet.height + LINE
    grid = gibibytes(chart.highest)
    highest = max(chart.highest, grid[-1][0])
    bottom = top + _HIGH

    def x(at: int) -> int:
        return _LEFT + round(at * (_RIGHT - _LEFT) / longest)

    def y(used: int) -> float:
        return bottom - used * _HIGH / highest

    sheet.write("GiB", MARGIN, sheet.height - 2, colour=DIM)
    for used, told in grid:
        level = round(y(used))
        sheet.rule((_LEFT, level, _RIGHT, level + 2))
        sheet.write(told, _LEFT - 14, level - TEXT // 2 - 3, align="right", colour=DIM)
    _boundaries(sheet, [(x(boundary.at), boundary) for boundary in chart.boundaries], sheet.height, bottom)
    for number, line in enumerate(chart.lines):
        points = tuple((float(x(at)), y(used)) for at, used in line.points)
        sheet.strokes.append(Stroke(points, _INKS[number % len(_INKS)], _THICK))
    sheet.rule((_LEFT, bottom, _RIGHT, bottom + 2), DIM)
    sheet.height = bottom + 8
    _time(sheet, chart, x)
    _names(sheet, chart)
    return sheet


def _boundaries(sheet: Sheet, places: list[tuple[int, Boundary]], top: int, bottom: int) -> None:
    """Place a line at each stage's begin; stages that begin too close for two numbers share one text."""
    groups: list[tuple[int, list[str]]] = []
    for at, boundary in places:
        sheet.rule((at, top + LINE - 6, at + 2, bottom), GRID if at == _LEFT else DIM)
        if groups and at - groups[-1][0] < width("0-0") + 16:
            groups[-1][1].append(boundary.number)
        else:
            groups.append((at, [boundary.number]))
    for at, numbers in groups:
        text = numbers[0] if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
        left = min(at + 2, _RIGHT - width(text))
        sheet.write(text, max(left, MARGIN + width("GiB") + 16), top - 4, colour=INK)


def _time(sheet: Sheet, chart: Curve, x: Callable[[int], int]) -> None:
    found = ticks(chart.longest, Unit.MILLISECONDS)
    unit = sheet.write(found.unit, WIDTH - MARGIN, sheet.height, align="right", colour=DIM)
    free = 0
    for place, number in found.places:
        at, half = x(place), width(number) // 2
        sheet.rule((at, sheet.height - 8, at + 2, sheet.height), DIM)
        if at - half > free and at + half + 16 < unit[0]:
            sheet.write(number, at, sheet.height, align="middle", colour=DIM)
            free = at + half + 20
    sheet.height += LINE + 8


def _names(sheet: Sheet, chart: Curve) -> None:
    """Place the lines' names behind a piece of each: in two columns, in one where a name is too long for that."""
    half = (WIDTH - 2 * MARGIN) // 2
    columns = 2 if all(width(line.label) <= half - _NAME for line in chart.lines) else 1
    for number, line in enumerate(chart.lines):
        left, top = MARGIN + number % columns * half, sheet.height + number // columns * LINE
        middle = float(top + TEXT // 2 + 2)
        sheet.strokes.append(Stroke(((float(left), middle), (float(left + 34), middle)), _INKS[number % len(_INKS)], 8))
        sheet.write(line.label, left + 48, top, room=2 * half // columns - _NAME)
    sheet.height += -(-len(chart.lines) // columns) * LINE
    if chart.left_out:
        sheet.write(f"{chart.left_out} more not drawn", MARGIN, sheet.height, colour=DIM)
        sheet.height += LINE
    sheet.height += MARGIN // 2
