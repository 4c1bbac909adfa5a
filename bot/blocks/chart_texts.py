"""What is said beside a chart: its title, and an alt text that carries the figures which matter."""

from __future__ import annotations

from bot.blocks.texts import Translate, cut
from playbooks.guiding.chart_forms import Bars, Chart, Row, Subject

MOST_ALT_CHARS = 1000
"""More Slack does not take for a file."""


def chart_title(chart: Chart, _: Translate) -> str:
    """Return the title, as plain text."""
    match chart.subject:
        case Subject.STAGES:
            return _.plain("Stages of the attempts, up to attempt {n}", n=chart.attempt)
        case Subject.MEMORY:
            return _.plain("GPU memory of attempt {n}", n=chart.attempt)
        case Subject.CACHE:
            return _.plain("Prefix cache of attempt {n}", n=chart.attempt)
        case Subject.LADDER:
            return _.plain("Pressure ladder of attempt {n}", n=chart.attempt)


def alt_text(chart: Chart, _: Translate, *, remark: str = "") -> str:
    """Return title and figures: of many rows the last ones, which are the newest attempts and the rung that ended it."""
    lead = f"{chart_title(chart, _)}. {remark}".rstrip()
    room = MOST_ALT_CHARS - len(lead) - 4
    said = [_row(row, chart.head) for row in chart.rows] if isinstance(chart, Bars) else _lines(chart)
    kept: list[str] = []
    for text in reversed(said):
        room -= len(text) + 2
        if room < 0:
            kept.append("…")
            break
        kept.append(text)
    return cut(f"{lead} {'; '.join(reversed(kept))}", MOST_ALT_CHARS)


def _row(row: Row, head: tuple[str, ...]) -> str:
    if len(row.figures) == 1:
        return f"{row.label}: {row.figures[0]}"
    return f"{row.label}: {', '.join(f'{name} {figure}' for name, figure in zip(head, row.figures, strict=False))}"


def _lines(chart: Chart) -> list[str]:
    return [] if isinstance(chart, Bars) else [line.label for line in chart.lines]
