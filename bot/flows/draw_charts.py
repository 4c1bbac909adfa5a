"""Draw the charts of a report that was judged: kept by digest, shown in the thread with their figures as alt text.

A picture is never worth a report: one that cannot be drawn or kept is left out and said in the log of the bot; the record
holds its figures all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from bot.blocks.chart_texts import alt_text, chart_title
from bot.blocks.texts import Translate, translator
from bot.errors import ArtifactError, ChartNotDrawn
from bot.flows.judge_launch import read_launch
from bot.ports import ArtifactMeta, OutboxKind
from playbooks.evidence.entries import AttemptRecorded, CacheProbed, LadderClimbed
from playbooks.guiding import charts

if TYPE_CHECKING:
    from bot.flows.judged import Context, Judged
    from bot.flows.services import Services
    from playbooks.guiding.chart_forms import Chart
    from playbooks.messages import LaunchFacts

log = structlog.get_logger(__name__)


Samples = Sequence[tuple[str, Sequence[tuple[int, int]]]]
"""Names with their samples: (milliseconds since the start, bytes), oldest first."""


@dataclass(frozen=True, slots=True)
class ChartFile:
    """A chart that was drawn and kept."""

    sha256: str
    name: str
    size_bytes: int
    title: str
    alt: str

    @property
    def kind(self) -> OutboxKind:
        """The kind of outbox row that posts it."""
        return OutboxKind.FILE

    def payload(self) -> dict[str, Any]:
        """The outbox row's payload."""
        return {"sha256": self.sha256, "name": self.name, "title": self.title, "alt": self.alt}

    def meta(self, incident: str) -> ArtifactMeta:
        """Return how the store knows the file."""
        return ArtifactMeta(
            sha256=self.sha256,
            name=self.name,
            size_bytes=self.size_bytes,
            media_type="image/png",
            incident=incident,
            stored=True,
        )


def charts_of(services: Services, context: Context, judged: Judged) -> tuple[ChartFile, ...]:
    """Return the charts of what a report came to; none where nothing can be drawn."""
    found: list[ChartFile] = []
    for payload in judged.entries:
        if isinstance(payload, AttemptRecorded):
            earlier = [noted.payload for noted in context.case.attempts]
            gpus = gpus_of(read_launch(context.report))
            found += charts_of_attempt(services, payload, earlier=earlier, gpus=gpus, language=context.language)
        elif isinstance(payload, CacheProbed | LadderClimbed):
            chart = charts.cache_table(payload) if isinstance(payload, CacheProbed) else charts.ladder(payload)
            found += _drawn(services, chart, translator(context.language))
    return tuple(found)


def gpus_of(facts: LaunchFacts) -> list[tuple[str, Sequence[tuple[int, int]]]]:
    """Return the samples of each GPU; of an older worker those over all of them."""
    return list(facts.gpu_memory.items()) or [("all GPUs", facts.memory_samples)]


def charts_of_attempt(
    services: Services, attempt: AttemptRecorded, *, earlier: Sequence[AttemptRecorded], gpus: Samples, language: str
) -> tuple[ChartFile, ...]:
    """Return the stages of all attempts, and the memory of this one where it was sampled."""
    _ = translator(language)
    memory = charts.memory(attempt, gpus)
    remark = "" if memory is not None else _.plain("No memory samples.")
    stages = charts.timeline([*earlier, attempt])
    return (*_drawn(services, stages, _, remark=remark), *_drawn(services, memory, _))


def _drawn(services: Services, chart: Chart | None, _: Translate, *, remark: str = "") -> tuple[ChartFile, ...]:
    if chart is None or services.charts is None:
        return ()
    name = charts.name_of(chart.subject, chart.attempt)
    try:
        data = services.charts.paint(chart)
        sha256 = services.artifacts.put(data)
    except (ChartNotDrawn, ArtifactError) as error:
        log.warning("charts.not_drawn", name=name, error=str(error))
        return ()
    title = f"{chart_title(chart, _)} · sha256 {sha256[:12]}"
    return (ChartFile(sha256, name, len(data), title, alt_text(chart, _, remark=remark)),)
