"""Draws charts as PNG. Bounded in size by what a chart holds; what cannot be drawn is told as an error of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.errors import ChartNotDrawn
from playbooks.guiding.chart_forms import Bars

if TYPE_CHECKING:
    from playbooks.guiding.chart_forms import Chart


class PillowCharts:
    """Implements `bot.ports.ChartPainter`; may be used from any thread."""

    def paint(self, chart: Chart) -> bytes:
        """Return the chart as PNG; the same chart gives the same bytes with the same version of Pillow.

        Raises:
            ChartNotDrawn: Pillow is not there or cannot draw it.
        """
        try:
            from bot.adapters.charts import bars, curve

            sheet = bars.laid_out(chart) if isinstance(chart, Bars) else curve.laid_out(chart)
            return sheet.png()
        except Exception as error:  # a picture is never worth a report: whatever Pillow raises is told in words
            raise ChartNotDrawn(f"{type(error).__name__}: {error}") from error
