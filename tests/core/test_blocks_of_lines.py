"""Lines handed on in blocks are judged as the same lines one by one, however the stream was cut."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from playbooks.catalog import load_catalogue
from playbooks.judging import first_failure
from playbooks.judging.first_failure import Analyser, analyse_blocks, analyse_text
from playbooks.judging.matching import Matcher
from playbooks.judging.skimming import Phase
from playbooks.reading.whole_lines import LONGEST_BYTES, lines_between, whole_lines
from tests.support.labels import labels

LABELS = labels("real-vllm", "public")
LOGS = [label.data if label.data.endswith(b"\n") else label.data + b"\n" for label in LABELS]
ODD = [
    b"",
    b"\r",
    b"\rload\rdone",
    b'{"level": "info", "message": "x", "ts": 1}',
    b"E1201 03:00:00.1 x.cc:1] low",
    b"\x00",
    b"\xff",
]


def _line_by_line(data: bytes):
    analyser = Analyser(load_catalogue())
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    for line in lines:
        analyser.feed(line + b"\n")
    return analyser.finish()


@pytest.fixture
def short_head(monkeypatch) -> None:
    monkeypatch.setattr(first_failure, "_READ_WHOLE", 20)


@pytest.mark.usefixtures("short_head")
def test_every_labelled_log_is_judged_alike_in_blocks_and_line_by_line() -> None:
    for label, log in zip(LABELS, LOGS, strict=True):
        assert analyse_text(log, load_catalogue()) == _line_by_line(log), label.path.name


@pytest.mark.usefixtures("short_head")
@pytest.mark.parametrize("size", [700, 5_000, 70_000])
def test_launches_one_after_another_are_judged_alike_in_blocks_of_any_size(size: int) -> None:
    healthy = [log for label, log in zip(LABELS, LOGS, strict=True) if label.row["error_class"] == "none"]
    assert len(healthy) > 5
    for label, log in zip(LABELS[::7], LOGS[::7], strict=True):
        data = b"".join(healthy[:4]) + log + b"".join(healthy[2:4]) + LOGS[0]
        blocks = whole_lines(data[at : at + size] for at in range(0, len(data), size))
        assert analyse_blocks(blocks, load_catalogue()) == _line_by_line(data), label.path.name


@example(
    [
        b"[W1130 22:46:08.1 utils.cpp:68] Warning: NUMA binding",
        b"(APIServer pid=1) INFO 11-30 22:52:21 [launcher.py:195] Route: /docs",
    ],
    1,
    b"\n",
)
@given(
    st.lists(st.sampled_from([line for log in LOGS[::5] for line in log.split(b"\n")] + ODD), max_size=120),
    st.integers(min_value=1, max_value=3000),
    st.sampled_from([b"\n", b"\r\n"]),
)
def test_lines_in_any_order_are_judged_alike_in_blocks(lines: list[bytes], size: int, end: bytes) -> None:
    data = LOGS[0] + end.join(lines)
    blocks = whole_lines(data[at : at + size] for at in range(0, len(data), size))
    first_failure_head = first_failure._READ_WHOLE
    first_failure._READ_WHOLE = 5
    try:
        assert analyse_blocks(blocks, load_catalogue()) == _line_by_line(data)
    finally:
        first_failure._READ_WHOLE = first_failure_head


@given(
    st.lists(st.sampled_from([line for log in LOGS[::9] for line in log.split(b"\n")] + ODD), max_size=60),
    st.sampled_from(list(Phase)),
)
def test_a_block_shows_exactly_the_lines_that_may_tell(lines: list[bytes], phase: Phase) -> None:
    skimmer = Matcher.of(load_catalogue()).skimmer
    block = b"".join(line + b"\n" for line in lines)
    sighted, at, seen = skimmer.sighted(block), 0, []
    while (at := sighted.next_line(at, phase)) < len(block):
        stop = block.index(b"\n", at) + 1
        seen.append(block[at:stop])
        at = stop
    assert seen == [line + b"\n" for line in lines if skimmer.may_tell(line, phase)]


@given(st.binary(max_size=400), st.integers(min_value=1, max_value=50))
def test_a_stream_loses_nothing_when_it_is_cut_at_line_feeds(data: bytes, size: int) -> None:
    blocks = list(whole_lines(data[at : at + size] for at in range(0, len(data), size)))
    assert b"".join(blocks) == data
    assert all(block.endswith(b"\n") for block in blocks[:-1])


def test_a_line_without_an_end_is_cut_and_stays_one_line() -> None:
    chunk = b"x" * (LONGEST_BYTES // 2)
    blocks = list(whole_lines([b"before\n", *[chunk] * 40, b"y\nafter\n", b"end"]))
    assert sum(block.count(b"\n") for block in blocks) == 3
    assert b"".join(blocks).endswith(b"\nafter\nend")
    assert max(map(len, blocks)) < 3 * LONGEST_BYTES


def test_lines_are_shown_by_their_numbers_and_no_more_is_read_than_that() -> None:
    read = []

    def chunks():
        for at in range(100):
            read.append(at)
            yield b"".join(b"line %d\r\n" % (at * 10 + no) for no in range(1, 11))

    assert list(lines_between(chunks(), 19, 22)) == [(no, b"line %d" % no) for no in range(19, 23)]
    assert len(read) <= 3
    assert list(lines_between([b"a\nb"], 1, 9)) == [(1, b"a"), (2, b"b")]


def test_nothing_of_a_long_line_is_lost_where_it_is_kept() -> None:
    chunk = b"x" * (LONGEST_BYTES // 2)
    given = [b"before\n", *[chunk] * 7, b"y\nafter\n", b"end"]
    blocks = list(whole_lines(given, lossless=True))
    assert b"".join(blocks) == b"".join(given)
    assert max(map(len, blocks)) < 3 * LONGEST_BYTES
