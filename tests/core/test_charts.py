"""What the charts show of the record: rows, curves, and what is left out of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbooks.guiding import charts
from playbooks.guiding.chart_forms import MOST_LINES, MOST_POINTS, MOST_ROWS, Shape, Subject, Tone, thinned
from playbooks.vocabulary import Outcome
from tests.support.charts import GIB, a_ladder, a_probe, an_attempt, samples, some_attempts


def test_each_attempt_is_a_row_with_its_stages_and_how_it_ended() -> None:
    chart = charts.timeline(some_attempts())
    assert chart is not None
    assert [row.label for row in chart.rows] == [
        "1 failed", "2 failed", "3 failed", "4 limit", "5 not observed", "6 ready",
    ]  # fmt: skip
    second = chart.rows[1]
    assert [(s.start, s.end, s.number, s.unended) for s in second.segments] == [
        (0, 4000, "1", False),
        (4000, 13_000, "2", False),
        (13_000, 263_000, "3", True),
    ]
    assert second.figures == ("weight_loading, kv_cache_no_memory, 4.4 min",)
    assert [mark.shape for mark in second.marks] == [Shape.CROSS]
    assert [row.marks[-1].shape for row in chart.rows[3:]] == [Shape.SQUARE, Shape.RING, Shape.DISC]


def test_the_limit_that_ended_an_attempt_stands_in_its_row() -> None:
    chart = charts.timeline(some_attempts())
    assert chart is not None
    row = chart.rows[3]
    assert row.figures == ("engine_init, total 600 s, 14.3 min",)
    assert [(mark.at, mark.shape) for mark in row.marks] == [(853_000, Shape.LINE), (860_000, Shape.SQUARE)]
    assert "stage limit" in {key.label for key in chart.keys}


def test_a_word_and_a_shape_tell_each_outcome_without_colour() -> None:
    chart = charts.timeline(some_attempts())
    assert chart is not None
    told = {(key.label, key.shape) for key in chart.keys if key.shape is not None}
    assert told >= {
        ("ready", Shape.DISC),
        ("failed", Shape.CROSS),
        ("limit", Shape.SQUARE),
        ("not observed", Shape.RING),
    }
    assert all(key.number for key in chart.keys if key.tone not in {None, Tone.OTHER})


def test_attempts_that_no_node_watched_give_no_timeline() -> None:
    assert charts.timeline([]) is None
    assert charts.timeline([an_attempt(1), an_attempt(2)]) is None


def test_an_unknown_stage_and_times_that_run_backwards_are_drawn_as_such() -> None:
    spans = [{"stage": "warm_up", "started_ms": 900, "ended_ms": 100}, {"stage": "engine_init", "started_ms": None}]
    chart = charts.timeline([an_attempt(1, stages=spans)])
    assert chart is not None
    assert [(s.start, s.end, s.tone, s.number) for s in chart.rows[0].segments] == [(900, 900, Tone.OTHER, "?")]
    assert chart.longest == 900


def test_stages_without_any_time_have_an_axis_all_the_same() -> None:
    chart = charts.timeline([an_attempt(1, (0, 0, 0))])
    assert chart is not None
    assert chart.longest == 1
    assert chart.rows[0].figures[0].endswith("no times")


def test_two_hundred_attempts_are_all_there_and_the_older_ones_small() -> None:
    chart = charts.timeline([an_attempt(number, (10, 10)) for number in range(1, 201)])
    assert chart is not None
    assert (len(chart.rows), chart.small, chart.left_out) == (200, 188, 0)
    chart = charts.timeline([an_attempt(number, (10, 10)) for number in range(1, 1001)])
    assert chart is not None
    assert (len(chart.rows), chart.left_out) == (MOST_ROWS, 1000 - MOST_ROWS)


def test_memory_is_a_line_for_each_gpu_with_the_stages_begins() -> None:
    attempt = an_attempt(2, (4000, 9000, 250_000))
    chart = charts.memory(attempt, [("GPU 0", samples(60)), ("GPU 1", samples(60, gib=71.25)), ("GPU 2", ())])
    assert chart is not None
    assert [line.label for line in chart.lines] == ["GPU 0 max 70.0 GiB", "GPU 1 max 71.2 GiB"]
    assert [(b.at, b.number) for b in chart.boundaries] == [(0, "1"), (4000, "2"), (13_000, "3")]
    assert chart.highest == int(71.25 * GIB)


@pytest.mark.parametrize("points", [(), ((0, 5),)], ids=["no sample", "one sample"])
def test_memory_without_two_samples_is_no_curve(points: tuple[tuple[int, int], ...]) -> None:
    assert charts.memory(an_attempt(1, (10,)), [("GPU 0", points)]) is None


def test_three_hours_of_sixteen_gpus_are_thinned_and_keep_every_peak() -> None:
    flat = [(at * 1000, 50 * GIB) for at in range(10_800)]
    flat[7001] = (7_001_000, 79 * GIB)
    flat[8003] = (8_003_000, GIB)
    chart = charts.memory(an_attempt(1, (10,)), [(f"GPU {number}", flat) for number in range(20)])
    assert chart is not None
    assert (len(chart.lines), chart.left_out) == (MOST_LINES, 20 - MOST_LINES)
    for line in chart.lines:
        assert len(line.points) <= MOST_POINTS
        assert (7_001_000, 79 * GIB) in line.points
        assert (8_003_000, GIB) in line.points


@given(st.lists(st.integers(0, 1 << 40), max_size=400), st.integers(4, 60))
def test_thinning_keeps_order_ends_lowest_and_highest(used: list[int], most: int) -> None:
    points = list(enumerate(used))
    kept = thinned(points, most)
    assert list(kept) == sorted(set(kept))
    assert len(kept) <= max(most, 4)
    if points:
        assert (kept[0], kept[-1]) == (points[0], points[-1])
        assert {min(used), max(used)} <= {value for _, value in kept}


def test_a_cache_probe_shows_what_was_expected_and_what_came() -> None:
    chart = charts.cache_table(a_probe())
    assert chart is not None
    assert chart.rows[1].figures == ("4,100", "4,096", "4,096", "4,096", "81 ms")
    assert [segment.tone for segment in chart.rows[1].segments] == [Tone.OTHER, Tone.THIRD, Tone.FRAME]
    assert [row.label for row in chart.rows if row.strong] == ["1 A4", "2 A4"]
    assert charts.cache_table(a_probe(rows=[])) is None


def test_a_ladder_names_the_rung_that_ended_it() -> None:
    chart = charts.ladder(a_ladder())
    assert chart is not None
    assert chart.rows[-1].label == "concurrency 16 failed"
    assert chart.rows[-1].figures == ("0/32", "-", "-", "-")
    assert [mark.shape for mark in chart.rows[-1].marks] == [Shape.CROSS]
    assert not any(row.marks for row in chart.rows[:-1])
    assert charts.ladder(a_ladder(rows=[], failed=None)) is None


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
NAMES = (
    "round",
    "name",
    "tokens",
    "expected",
    "cached",
    "counted",
    "ttft_ms",
    "question",
    "latency_ms",
    "tokens_s",
    "of",
)


@given(st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, ANY)), max_size=4))
def test_rows_of_any_form_are_drawn_or_left_out(rows: list[dict[str, Any]]) -> None:
    assert (charts.cache_table(a_probe(rows=rows)) is None) == (not rows)
    assert (charts.ladder(a_ladder(rows=rows, failed=0)) is None) == (not rows)


@given(
    st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(("stage", "started_ms", "ended_ms"), ANY)), max_size=4)
)
def test_stages_of_any_form_are_drawn_or_left_out(stages: list[dict[str, Any]]) -> None:
    attempt = an_attempt(1, stages=stages, limit={"stage": 3, "limit_s": "x"}, outcome=Outcome.STOPPED_BY_LIMIT)
    assert (charts.timeline([attempt]) is None) == (not stages)


@pytest.mark.parametrize(
    ("milliseconds", "told"),
    [(0, "0 ms"), (999, "999 ms"), (4200, "4.2 s"), (95_000, "95 s"), (750_000, "12.5 min"), (11_160_000, "3.1 h")],
)
def test_times_read_in_the_unit_that_fits(milliseconds: int, told: str) -> None:
    assert charts.shown_time(milliseconds) == told


def test_a_charts_file_is_known_by_its_name() -> None:
    assert charts.told_of(charts.name_of(Subject.STAGES, 12)) == "stages, attempt 12"
    assert charts.told_of("engine.log") is None
