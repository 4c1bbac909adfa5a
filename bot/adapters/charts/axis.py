"""The numbers along an axis: round ones, few enough for their texts, in the unit that reads best."""

from __future__ import annotations

from dataclasses import dataclass

from playbooks.guiding.chart_forms import Unit


@dataclass(frozen=True, slots=True)
class Ticks:
    """Places on the axis with their numbers, and the unit these are in."""

    places: tuple[tuple[int, str], ...]
    unit: str


_TIMES = ((1, "ms", 3000), (1000, "s", 180_000), (60_000, "min", 3 * 3_600_000), (3_600_000, "h", 1 << 62))


def ticks(longest: int, unit: Unit, *, most: int = 5) -> Ticks:
    """Return round numbers from 0 up to `longest`."""
    if unit is Unit.TOKENS:
        return Ticks(_round(longest, 1, most), "tokens")
    size, name = next((size, name) for size, name, up_to in _TIMES if longest <= up_to)
    return Ticks(_round(longest, size, most), name)


def gibibytes(highest: int) -> tuple[tuple[int, str], ...]:
    """Return round numbers of GiB from 0 up to `highest` bytes."""
    return _round(highest, 1 << 30, 5)


def _round(longest: int, size: int, most: int) -> tuple[tuple[int, str], ...]:
    step = next(
        factor * 10**power / 1000
        for power in range(24)
        for factor in (1, 2, 5)
        if factor * 10**power / 1000 * size * most >= longest and (size > 1 or factor * 10**power >= 1000)
    )
    count = int(longest / size / step + 1e-9)
    return tuple((round(number * step * size), f"{number * step:,.10g}") for number in range(count + 1))
