"""Whatever is fed: a verdict, never an exception, and work that grows with the length only."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from playbooks.catalog import load_catalogue
from playbooks.judging.first_failure import Analyser, analyse_text
from playbooks.vocabulary import ErrorClass
from tests.support.examples import MORE_EXAMPLES
from tests.support.families import cases

CATALOGUE = load_catalogue()
BOUNDED = settings(
    max_examples=150 * MORE_EXAMPLES,
    derandomize=MORE_EXAMPLES == 1,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
LOGS = [case.text.encode() for case in cases()]
PIECES = sorted({
    *(line for log in LOGS for line in log.split(b"\n")[:40]),
    b"Traceback (most recent call last):", b"The above exception was the direct cause of the following exception:", b"",
    b"\x00", b"\r", b"\xff\xfe", b'{"log": "', b'{"message": "a\\nTraceback (most recent call last):\\n", "level": "ERROR"}', b"(", b"[pod/a/b] ",
    b"    ^^^^", b'  File "x.py", line 1, in load_model', b"ValueError:", b"vllm:prefix_cache_hits_total 1e400", b"vllm:prefix_cache_queries nan",
    b'"HostConfig": {', b'"IpcMode": "private"', b'"ShmSize": ' + b"1" * 5000, b"--tensor-parallel-size " + b"8" * 5000, b'"ExitCode": 1',
    b"vllm:prefix_cache_queries_total .", b"prompt_tokens=" + b"9" * 5000, b"(EngineCore pid=" + b"1" * 300 + b") x",
})  # fmt: skip


def sound(data: bytes) -> None:
    found = analyse_text(data, CATALOGUE)
    assert found.lines == data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    assert found.root_line is None or 1 <= found.root_line <= found.lines
    if found.error_class is ErrorClass.NONE:
        assert found.root_line is None
    json.dumps(found.model_dump(mode="json")).encode()


@BOUNDED
@given(st.binary(max_size=2000))
def test_any_bytes(data: bytes) -> None:
    sound(data)


@BOUNDED
@given(st.text(max_size=1000))
def test_any_text(text: str) -> None:
    analyse_text(text, CATALOGUE)


@BOUNDED
@given(st.lists(st.sampled_from(PIECES), max_size=60))
def test_lines_of_logs_in_any_order(lines: list[bytes]) -> None:
    sound(b"\n".join(lines))


@BOUNDED
@given(st.sampled_from(LOGS), st.data())
def test_logs_with_bytes_cut_out_doubled_or_replaced(log: bytes, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(log)))
        end = min(len(log), start + data.draw(st.integers(0, 400)))
        log = (
            log[:start]
            + data.draw(st.one_of(st.just(b""), st.just(log[start:end] * 2), st.binary(max_size=20)))
            + log[end:]
        )
    sound(log)


@BOUNDED
@given(st.lists(st.sampled_from(PIECES), max_size=20), st.sampled_from([None, 0, 1, 137, 139, -9, 255]), st.booleans())
def test_an_answer_can_be_asked_for_after_each_line(lines: list[bytes], code: int | None, oom: bool) -> None:
    analyser = Analyser(CATALOGUE, exit_code=code, oom_killed=oom)
    for line in lines:
        analyser.feed(line)
        assert analyser.finish().lines >= 1
    assert analyser.finish() == analyser.finish()


LONG = {
    "one line of 10 MB": b"x" * 10_000_000,
    "one line of 10 MB of brackets": b"[(" * 5_000_000,
    "one line of spaces": b" " * 10_000_000 + b"x",
    "one line of numbers": b"1.2 " * 2_500_000,
    "one line of error words": b"Error: CUDA error: NCCL WARN Call to ibv_ failed " * 200_000,
    "one line of returns": b"50%|##  |\r" * 1_000_000,
    "one line of carets": b"^[[0m" * 2_000_000,
    "one line of prefixes": b"(EngineCore pid=1) " * 500_000,
    "nested JSON": b'{"log":' * 1_000_000,
    "NULs": b"\x00" * 10_000_000,
    "broken UTF-8": b"\xc3\x28\xff" * 3_000_000,
    "many short lines": b"x\n" * 100_000,
    "many tracebacks": b'Traceback (most recent call last):\n  File "x.py", line 1, in f\nValueError: x\n' * 5_000,
    "a traceback without end": b"Traceback (most recent call last):\n" + b'  File "x.py", line 1, in f\n' * 30_000,
    "many processes": b"".join(b"(Worker_TP%d pid=1) Traceback (most recent call last):\n" % no for no in range(10_000)),
    "a JSON record of many lines": json.dumps({"level": "ERROR", "message": "E: x\n" * 3000}).encode(),
}  # fmt: skip


@pytest.mark.timeout(60)
@pytest.mark.parametrize("data", LONG.values(), ids=LONG)
def test_a_long_input_is_judged_within_its_bounds(data: bytes) -> None:
    found = analyse_text(data, CATALOGUE)
    assert found.lines == max(1, data.count(b"\n"))
    assert len(found.root_text or "") <= 20_000


@pytest.mark.parametrize(
    "printed",
    [
        pytest.param(b"{'/models/m'}", id="a set"),
        pytest.param(b"{{'a': 1}}", id="a set of what cannot be in one"),
        pytest.param(b"{[]: 1}", id="a key that cannot be one"),
        pytest.param(b"{'a': " + b"[" * 500 + b"]" * 500 + b"}", id="deep"),
        pytest.param(b"{'a': 1", id="cut"),
        pytest.param(b"{'a': f(1)}", id="a call"),
    ],
)
def test_arguments_that_are_no_dictionary_are_not_taken_for_one(printed: bytes) -> None:
    line = b"(APIServer pid=1) INFO 04-04 08:00:00 [api_utils.py:286] non-default args: %s\n" % printed
    sound(line)
    assert analyse_text(line, CATALOGUE).engine.arguments is None or printed.endswith(b"]}")
