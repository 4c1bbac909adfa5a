"""A line that holds no sign is passed over: the answer is the one that reading every line closely gives."""

from __future__ import annotations

import pytest

from playbooks.catalog import load_catalogue
from playbooks.judging import first_failure
from playbooks.judging.first_failure import Analyser, analyse_text
from playbooks.judging.matching import Matcher
from playbooks.judging.skimming import Phase
from tests.support.labels import labels

LABELS = labels("real-vllm", "public")
STATS = b"(APIServer pid=7) INFO 12-01 03:00:00 [loggers.py:257] Engine 000: Avg prompt throughput: 4.1 tokens/s, Running: 3 reqs\n"
ANSWERED = b'(APIServer pid=7) INFO:     10.0.0.1:5000 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'


def test_every_labelled_log_is_judged_alike_when_its_head_is_read_closely_and_when_all_of_it_is(monkeypatch) -> None:
    def told(found):
        # the kind of input and the names of processes are told by the head, which this test cuts short
        return (
            found.stage,
            found.error_class,
            found.root_line,
            found.root_text,
            found.stack,
            found.reached,
            found.warnings,
        )

    skimmed = 0
    monkeypatch.setattr(first_failure, "_READ_WHOLE", 20)
    quick = [analyse_text(label.data, load_catalogue()) for label in LABELS]
    for label in LABELS:
        analyser = Analyser(load_catalogue())
        for line in label.data.split(b"\n"):
            analyser.feed(line)
            skimmed += analyser._skims
    monkeypatch.setattr(first_failure, "_READ_WHOLE", 10**9)
    for label, found in zip(LABELS, quick, strict=True):
        assert told(found) == told(analyse_text(label.data, load_catalogue())), label.path.name
    assert skimmed > 500, "expected the short head to be left behind in many logs"


@pytest.mark.parametrize("noise", [STATS, ANSWERED])
def test_a_failure_after_a_million_bytes_of_service_is_found_on_its_line(noise: bytes) -> None:
    started = next(label for label in LABELS if label.path.name == "ok-minimal-r1.log").data
    head = started.partition(b"Application startup complete.")[0] + b"Application startup complete.\n"
    served = noise * (1_000_000 // len(noise))
    end = b"(EngineCore pid=9) ERROR 12-01 03:09:00 [core.py:900] EngineCore encountered a fatal error.\n"
    end += b"(EngineCore pid=9) ERROR 12-01 03:09:00 [core.py:900] Traceback (most recent call last):\n"
    end += b'(EngineCore pid=9) ERROR 12-01 03:09:00 [core.py:900]   File "/v/worker.py", line 1, in f\n'
    end += b"(EngineCore pid=9) ERROR 12-01 03:09:00 [core.py:900] torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
    found = analyse_text(head + served + end, load_catalogue())
    assert found.error_class == "gpu_kernel_fault"
    assert found.root_line == (head + served + end).count(b"\n")
    assert found.stage == "serving"


def test_a_stack_without_its_head_is_read_after_a_long_service() -> None:
    started = next(label for label in LABELS if label.path.name == "ok-minimal-r1.log").data
    head = started.partition(b"Application startup complete.")[0] + b"Application startup complete.\n"
    stack = b'  File "/v/x.py", line 1, in f\n    work()\n'
    data = head + STATS * 1000 + stack + b"RuntimeError: something odd\n"
    found = analyse_text(data, load_catalogue())
    assert found.root_line == data.count(b"\n")
    assert [frame.rpartition(":")[2] for frame in found.stack] == ["f"]


def test_whatever_a_signature_matches_is_never_passed_over() -> None:
    skimmer = Matcher.of(load_catalogue()).skimmer
    catalogue = load_catalogue()
    for pattern in (*catalogue.signatures, *catalogue.derived):
        for sample in pattern.samples:
            for line in sample.splitlines():
                if pattern.pattern.search(line):
                    assert skimmer.may_tell(line, Phase.SERVING), (pattern.id, line)
                    assert skimmer.may_tell(line.encode() + b"\r\n", Phase.STARTING), (pattern.id, line)


@pytest.mark.parametrize(
    "line",
    [
        b"[rank3]:[E1201 03:00:00.123456 ProcessGroupNCCL.cpp:632] something new",
        b"E1201 03:00:00.123456   77 server.cc:1] something new",
        b'{"level": "info", "message": "anything in a record", "ts": 1}',
        b"load\rre-load\rdone",
        b"WA\x1b[0mRNING 12-01 03:00:00 [x.py:1] odd",
        b"2026-12-01T03:00:00Z W1201 03:00:00.1 1 x.go:1] warning: low",
        b"thread 'main' panicked at src/main.rs:1",
    ],
)
def test_what_may_hide_a_sign_is_read(line: bytes) -> None:
    assert Matcher.of(load_catalogue()).skimmer.may_tell(line, Phase.SERVING)


def test_a_line_of_service_is_passed_over() -> None:
    skimmer = Matcher.of(load_catalogue()).skimmer
    assert not skimmer.may_tell(ANSWERED, Phase.SERVING)
    assert not skimmer.may_tell(STATS, Phase.SERVING)
