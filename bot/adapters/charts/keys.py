"""Title and legend of a chart: each tone and shape beside what it stands for, wrapped to the sheet's width."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.adapters.charts.sheet import LINE, MARGIN, TEXT, TITLE, WIDTH, Sheet, fitted, ink_on, width
from playbooks.guiding.chart_forms import Shape, Tone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from playbooks.guiding.chart_forms import Key

_SWATCH, _SPACE, _BETWEEN = 34, 12, 36


def lay_title(sheet: Sheet, title: str) -> None:
    """Place the title."""
    sheet.write(title, MARGIN, sheet.height - 8, size=TITLE, room=WIDTH - 2 * MARGIN)
    sheet.height += LINE + 12


def lay_keys(sheet: Sheet, keys: Sequence[Key]) -> None:
    """Place the legend below what is there."""
    x = MARGIN
    for key in keys:
        label = fitted(key.label, WIDTH // 2)
        wide = _SWATCH + _SPACE + width(label)
        if x > MARGIN and x + wide > WIDTH - MARGIN:
            x = MARGIN
            sheet.height += LINE
        _swatch(sheet, key, x)
        sheet.write(label, x + _SWATCH + _SPACE, sheet.height)
        x += wide + _BETWEEN
    sheet.height += LINE + 16 if keys else 0


def _swatch(sheet: Sheet, key: Key, x: int) -> None:
    top = sheet.height + 2
    middle = (x + _SWATCH // 2, top + _SWATCH // 2)
    if key.shape is not None:
        sheet.mark(key.shape, *middle, 26 if key.shape is not Shape.LINE else _SWATCH)
        return
    tone = key.tone or Tone.OTHER
    sheet.fill((x, top, x + _SWATCH, top + _SWATCH), tone, striped=key.unended)
    if key.number:
        sheet.write(key.number, middle[0], top + (_SWATCH - TEXT) // 2 - 3, align="middle", colour=ink_on(tone))
