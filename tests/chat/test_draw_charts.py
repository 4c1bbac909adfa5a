"""Charts of a report: kept and recorded by digest, posted with their figures in words, and never in a report's way."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest

from bot.adapters.charts import PillowCharts
from bot.blocks.chart_texts import MOST_ALT_CHARS, alt_text
from bot.blocks.texts import LANGUAGES, translator
from bot.errors import ArtifactsUnavailable, ChartNotDrawn
from bot.flows.bundle_material import build, collect
from bot.flows.record_report import record_report
from bot.ports import OutboxKind, OutboxState
from playbooks.evidence import bundle
from playbooks.evidence.canonical import sha256_hex
from playbooks.guiding import charts
from playbooks.guiding.chart_forms import Chart
from playbooks.judging.ladder_facts import Climbed, Ended, LadderFacts, Question, Rung, RungTry
from playbooks.messages import CacheProbeParams, LadderParams, StageSpan
from playbooks.vocabulary import ErrorClass, JobKind, Outcome, Stage
from tests.chat import test_groups as nodes
from tests.chat.test_reports import claimed, failed, report_of, run_attempt
from tests.core.test_prefix_cache import HIT, facts, shots
from tests.support.bot_services import TestBot, make_bot, open_case, payloads
from tests.support.charts import a_ladder, a_probe, an_attempt, samples

SPANS = (
    StageSpan(stage=Stage.CONTAINER_INIT, started_ms=0, ended_ms=4000),
    StageSpan(stage=Stage.DEVICE_RECOGNITION, started_ms=4000),
)


class NoCharts:
    """Implements `bot.ports.ChartPainter`: nothing can be drawn."""

    def paint(self, chart: Chart) -> bytes:
        raise ChartNotDrawn("ModuleNotFoundError: No module named 'PIL'")


@pytest.fixture
def bot(tmp_path: Path) -> TestBot:
    return make_bot(tmp_path, charts=PillowCharts())


def mine(bot: TestBot) -> str:
    return bot.services.definitions.signatures().digest


def files(bot: TestBot) -> list[dict[str, Any]]:
    with bot.store.read() as reading:
        return [row.payload for row in reading.outbox(states=[OutboxState.WAITING], kinds=[OutboxKind.FILE])]


def pictures(bot: TestBot) -> list[dict[str, Any]]:
    return [payload for payload in files(bot) if str(payload["name"]).endswith(".png")]


def test_an_attempts_timeline_is_recorded_by_digest_and_posted_with_alt_text(bot: TestBot) -> None:
    incident = open_case(bot)
    run_attempt(bot, incident, 1, failed(mine(bot), stages=SPANS), mine(bot))
    (chart,) = pictures(bot)
    assert chart["name"] == "chart-stages-1.png"
    assert chart["title"].startswith("Stages of the attempts, up to attempt 1 · sha256 ")
    assert chart["alt"].startswith("Stages of the attempts, up to attempt 1. No memory samples. 1 failed: ")
    assert chart["alt"].endswith("11 s")
    data = bot.artifacts.get(chart["sha256"])
    assert (sha256_hex(data), data[:4]) == (chart["sha256"], b"\x89PNG")
    with bot.store.read() as reading:
        entry = next(one for one in reading.entries(incident) if one.kind == "attempt:recorded")
        meta = reading.artifact(chart["sha256"])
    assert chart["sha256"] in entry.artifacts
    assert meta is not None
    assert (meta.media_type, meta.stored, meta.size_bytes) == ("image/png", True, len(data))


def test_the_timeline_holds_the_earlier_attempts_too(bot: TestBot) -> None:
    incident = open_case(bot)
    for number in (1, 2):
        run_attempt(bot, incident, number, failed(mine(bot), stages=SPANS), mine(bot))
    assert [chart["name"] for chart in pictures(bot)] == ["chart-stages-1.png", "chart-stages-2.png"]
    assert "1 failed: " in pictures(bot)[1]["alt"]
    assert "2 failed: " in pictures(bot)[1]["alt"]


def test_memory_is_drawn_where_it_was_sampled(bot: TestBot) -> None:
    launch = failed(mine(bot), stages=SPANS, memory_samples=samples(40))
    run_attempt(bot, open_case(bot), 1, launch, mine(bot))
    timeline, memory = pictures(bot)
    assert "No memory samples" not in timeline["alt"]
    assert memory["name"] == "chart-memory-1.png"
    assert memory["alt"] == "GPU memory of attempt 1. all GPUs max 70.0 GiB"


def test_each_gpu_has_a_line_where_the_worker_tells_them_apart(bot: TestBot) -> None:
    by_gpu = {f"GPU {number}": samples(40, gib=60 + number) for number in range(2)}
    launch = failed(mine(bot), stages=SPANS, memory_samples=samples(40, gib=121), gpu_memory=by_gpu)
    run_attempt(bot, open_case(bot), 1, launch, mine(bot))
    assert pictures(bot)[1]["alt"] == "GPU memory of attempt 1. GPU 0 max 60.0 GiB; GPU 1 max 61.0 GiB"


def test_an_attempt_without_stages_has_no_picture(bot: TestBot) -> None:
    run_attempt(bot, open_case(bot), 1, failed(mine(bot)), mine(bot))
    assert pictures(bot) == []


def test_a_probe_and_a_ladder_have_theirs(bot: TestBot) -> None:
    incident = open_case(bot)
    params = CacheProbeParams(target_attempt=1).model_dump(mode="json")
    probe = facts(shots(HIT), shots(HIT, number=2, start=9000))
    record_report(bot.services, report_of(bot, claimed(bot, incident, JobKind.CACHE_PROBE, params=params), probe))
    params = LadderParams(target_attempt=1).model_dump(mode="json")
    rung = Rung(question=Question.INPUT, input_tokens=512, output_tokens=16, concurrency=1, requests=2)
    climbed = Climbed(rung=rung, tries=(RungTry(runs=(), duration_ms=9, alive=False),))
    ladder_facts = LadderFacts(target="attempt 1", planned=7, rungs=(climbed,), ended=Ended.DIED)
    record_report(bot.services, report_of(bot, claimed(bot, incident, JobKind.LADDER, params=params), ladder_facts))
    cache, ladder = pictures(bot)
    assert cache["name"] == "chart-cache-1.png"
    assert "2 A4: tokens 370, expected 256, hits 256, cached 256, TTFT -" in cache["alt"]
    assert ladder["name"] == "chart-ladder-1.png"
    assert "input 512 failed: done 0/0, TTFT -, latency -, tok/s -" in ladder["alt"]


def test_a_launch_over_two_nodes_has_one_timeline_and_a_line_of_memory_for_each(tmp_path: Path) -> None:
    bot = nodes.two_nodes(tmp_path, charts=PillowCharts())
    jobs = nodes.launch(bot)
    for job in jobs:
        nodes.claim(bot, job)
    for job in jobs:
        seen = nodes.facts(bot, Outcome.FAILED, ErrorClass.KV_CACHE_NO_MEMORY, stages=SPANS, memory_samples=samples(30))
        assert nodes.report(bot, job, seen).recorded
    assert [chart["name"] for chart in pictures(bot)] == ["chart-stages-1.png", "chart-memory-1.png"]
    assert pictures(bot)[1]["alt"].endswith("gpu-a1 all GPUs max 70.0 GiB; gpu-a2 all GPUs max 70.0 GiB")
    with bot.store.read() as reading:
        entry = next(one for one in reading.entries(jobs[0].incident) if one.kind == "attempt:recorded")
    assert {chart["sha256"] for chart in pictures(bot)} <= {*entry.artifacts}


def test_a_report_sent_again_draws_nothing_again(bot: TestBot) -> None:
    job = claimed(bot, open_case(bot))
    report = report_of(bot, job, failed(mine(bot), stages=SPANS), catalogue=mine(bot))
    for _ in range(2):
        assert record_report(bot.services, report).recorded
    assert len(pictures(bot)) == 1


@pytest.mark.parametrize("painter", [None, NoCharts()], ids=["no painter", "pillow missing"])
def test_without_a_picture_the_report_is_recorded_all_the_same(tmp_path: Path, painter: NoCharts | None) -> None:
    bot = make_bot(tmp_path, charts=painter)
    incident = open_case(bot)
    run_attempt(bot, incident, 1, failed(mine(bot), stages=SPANS), mine(bot))
    assert len(payloads(bot, incident, "attempt:recorded")) == 1
    assert files(bot) == []


def test_a_picture_that_cannot_be_kept_is_left_out(bot: TestBot, monkeypatch: pytest.MonkeyPatch) -> None:
    put = bot.artifacts.put

    def only_reports(data: bytes) -> str:
        if data.startswith(b"\x89PNG"):
            raise ArtifactsUnavailable("the artifact store does not answer or is full: no space left")
        return put(data)

    monkeypatch.setattr(bot.artifacts, "put", only_reports)
    incident = open_case(bot)
    run_attempt(bot, incident, 1, failed(mine(bot), stages=SPANS), mine(bot))
    assert len(payloads(bot, incident, "attempt:recorded")) == 1
    assert files(bot) == []


def test_the_bundle_holds_the_pictures_and_its_first_page_shows_them(bot: TestBot) -> None:
    incident = open_case(bot)
    for number in (1, 2):
        launch = failed(mine(bot), stages=SPANS, memory_samples=samples(30))
        run_attempt(bot, incident, number, launch, mine(bot))
    with bot.store.read() as reading:
        entries, metas = collect(reading, incident)
        case = reading.incident(incident).case
    data = build(bot.services, case, entries, metas, now=bot.clock.now())
    assert bundle.verify(data, key=bot.services.signing_key.public).holds
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        page, names = archive.read("README.md").decode(), archive.namelist()
    shown = [line for line in page.splitlines() if line.startswith("![")]
    assert [line[2:].partition(" (")[0] for line in shown] == [
        "memory, attempt 1",
        "stages, attempt 2",
        "memory, attempt 2",
    ]
    assert all(line.rpartition("(")[2].rstrip(")") in names for line in shown)


@pytest.mark.parametrize("language", LANGUAGES)
def test_alt_texts_carry_the_figures_within_slacks_limit(language: str) -> None:
    _ = translator(language)
    many = charts.timeline([an_attempt(number, (4000, 90_000 * number)) for number in range(1, 201)])
    for chart in (many, charts.cache_table(a_probe()), charts.ladder(a_ladder())):
        assert chart is not None
        assert len(alt_text(chart, _)) <= MOST_ALT_CHARS
    assert many is not None
    assert "200 failed: weight_loading, kv_cache_no_memory" in alt_text(many, _)
    assert "…" in alt_text(many, _)


def test_an_alt_text_of_one_endless_name_is_cut() -> None:
    chart = charts.timeline([an_attempt(1, (5,), Outcome.FAILED, finding={"stage": "x" * 3000, "error_class": "y"})])
    assert chart is not None
    assert len(alt_text(chart, translator("en"))) <= MOST_ALT_CHARS
