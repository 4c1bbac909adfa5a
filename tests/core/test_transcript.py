"""Lines as runtimes and collectors wrap them, tracebacks between other writers' lines, and what an input is."""

from __future__ import annotations

import json

import pytest

from playbooks.judging.blocks import Blocks
from playbooks.judging.input_kinds import KindDetector
from playbooks.reading.engine_facts import EngineReader
from playbooks.reading.transcript import LONGEST, read_line

LOGGED = "(EngineCore pid=9) ERROR 11-30 22:44:43 [core.py:953] boom"
WRAPPED = {
    "vllm's own": (LOGGED, ("boom", "EngineCore", "ERROR", "core.py", True)),
    "before 0.31, raw": ("(Worker_TP1 pid=9) boom", ("boom", "Worker_TP1", "", "", False)),
    "old, without process": ("ERROR 02-20 09:11:14 engine.py:389] boom", ("boom", "", "ERROR", "engine.py", True)),
    "debug with a path": ("DEBUG 02-20 09:11:14 [v1/engine/core.py:1] boom", ("boom", "", "DEBUG", "v1/engine/core.py", True)),
    "Ray": ("(RayWorkerWrapper pid=1978, ip=10.0.0.2) boom", ("boom", "RayWorkerWrapper", "", "", False)),
    "rank of torch": ("[rank3]:[E404 09:16:31.131 ProcessGroupNCCL.cpp:2093] boom", ("boom", "rank3", "ERROR", "", True)),
    "rank after the level": ("[E404 09:16:31.131 x.cpp:1] [Rank 3] boom", ("boom", "rank3", "ERROR", "", True)),
    "C++ warning of a month with one digit": ("[W404 08:10:30.512 socket.cpp:767] boom", ("boom", "", "WARNING", "", True)),
    "C++ note": ("[I1130 08:10:30.512 socket.cpp:767] boom", ("boom", "", "INFO", "", True)),
    "uvicorn": ("INFO:     boom", ("boom", "", "INFO", "", False)),
    "Rust": ("(RustFrontend pid=7) 2026-02-02T08:02:03.114Z ERROR vllm_server: boom", ("boom", "RustFrontend", "ERROR", "", True)),
    "kubectl": (f"[pod/vllm-0/vllm] {LOGGED}", ("boom", "EngineCore", "ERROR", "core.py", True)),
    "container runtime": (f"2026-11-30T22:44:43.1+00:00 stderr F {LOGGED}", ("boom", "EngineCore", "ERROR", "core.py", True)),
    "time stamps": (f"2026-11-30T22:44:43.118Z {LOGGED}", ("boom", "EngineCore", "ERROR", "core.py", True)),
    "compose": (f"vllm-1  | {LOGGED}", ("boom", "EngineCore", "ERROR", "core.py", True)),
    "journald": (f"Nov 30 22:44:43 gpu-17 vllm[4711]: {LOGGED}", ("boom", "EngineCore", "ERROR", "core.py", True)),
    "journald with an ISO time": (f"2026-11-30T22:44:43+0000 gpu-17 vllm[4711]: {LOGGED}", ("boom", "EngineCore", "ERROR", "core.py", True)),
    "colours": ("\x1b[31m" + LOGGED + "\x1b[0m", ("boom", "EngineCore", "ERROR", "core.py", True)),
    "colours written out": ("^[[31mboom^[[0m", ("boom", "", "", "", False)),
    "NULs": ("bo\x00om", ("boom", "", "", "", False)),
    "a progress bar": ("Loading:   0%\rLoading:  50%\rLoading: 100%", ("Loading: 100%", "", "", "", False)),
    "nothing but returns": ("\r\r", ("", "", "", "", False)),
    "NCCL's own progress": ("gpu-1:9:9 [0] NCCL INFO Using network Socket", ("gpu-1:9:9 [0] NCCL INFO Using network Socket", "", "INFO", "", False)),
    "docker json-file": (json.dumps({"log": LOGGED + "\n", "stream": "stderr", "time": "2026"}), ("boom", "EngineCore", "ERROR", "core.py", True)),
    "a JSON record": (json.dumps({"level": "critical", "message": "boom", "process": "EngineCore"}), ("boom", "EngineCore", "ERROR", "", False)),
    "a JSON record with its traceback": (
        json.dumps({"levelname": "ERROR", "msg": "boom\n", "exc_info": "Traceback\nE: x"}), ("boom\nTraceback\nE: x", "", "ERROR", "", False)
    ),
    "JSON that is no record": ('{"error": {"message": "x"}}', ('{"error": {"message": "x"}}', "", "", "", False)),
    "JSON with a message only": ('{"message": "x"}', ('{"message": "x"}', "", "", "", False)),
    "JSON without time or level": ('{"message": "x", "a": 1}', ('{"message": "x", "a": 1}', "", "", "", False)),
    "JSON cut off": ('{"message": "x', ('{"message": "x', "", "", "", False)),
    "nesting without end": ('{"a":' * 3000, ('{"a":' * 3000, "", "", "", False)),
}  # fmt: skip


@pytest.mark.parametrize(("raw", "expected"), WRAPPED.values(), ids=WRAPPED)
def test_a_line_is_unwrapped(raw: str, expected: tuple[str, str, str, str, bool]) -> None:
    for given in (raw, raw.encode(), raw + "\n", raw + "\r\n"):
        line = read_line(7, given)
        assert (line.text, line.process, line.level, line.file, line.logged) == expected
        assert line.no == 7


def test_a_line_is_looked_at_up_to_a_bound_and_any_byte_is_fine() -> None:
    assert len(read_line(1, b"x" * (LONGEST + 5)).text) == LONGEST
    assert read_line(1, b"a\xff\xfeb").text == "a��b"


def steps(*lines: str) -> list[str | None]:
    blocks = Blocks()
    return [blocks.feed(read_line(no, line)).kind for no, line in enumerate(lines, start=1)]


TB = "Traceback (most recent call last):"
P, Q = "(EngineCore pid=9) ERROR 11-30 22:44:43 [core.py:1] ", "(Worker pid=8) ERROR 11-30 22:44:43 [w.py:1] "


def test_a_bare_traceback_ends_with_its_exception_and_its_further_words() -> None:
    assert steps(TB, '  File "a.py", line 1, in f', "    g()", "ValueError: x", "more words", "", "ready") == [
        "frame", "frame", "frame", "raised", "message", "frame", None,
    ]  # fmt: skip


def test_two_processes_that_interleave_are_kept_apart() -> None:
    assert steps(P + TB, Q + TB, P + '  File "a.py", line 1, in f', Q + '  File "b.py", line 1, in g', Q + "KeyError: 1", P + "ValueError: 2") == [
        "frame", "frame", "frame", "frame", "raised", "raised",
    ]  # fmt: skip


def test_a_chain_is_one_block_with_the_oldest_first() -> None:
    blocks = Blocks()
    lines = [
        TB, '  File "a.py", line 1, in f', "OSError: inner", "", "The above exception was the direct cause of the following exception:", "",
        TB, '  File "b.py", line 1, in g', "RuntimeError: outer",
    ]  # fmt: skip
    last = [blocks.feed(read_line(no, line)) for no, line in enumerate(lines, start=1)][-1]
    assert last.block is not None
    assert [raised.text for raised in last.block.raised] == ["OSError: inner", "RuntimeError: outer"]
    assert last.block.start == 1


def test_a_logger_of_the_same_process_closes_a_block_that_it_did_not_print() -> None:
    assert steps(TB, '  File "a.py", line 1, in f', "INFO 11-30 22:44:43 [a.py:1] go on", "ValueError: x") == [
        "frame", "frame", None, None,
    ]  # fmt: skip


def test_another_record_of_the_process_ends_the_words_of_an_exception() -> None:
    assert steps(P + TB, P + "ValueError: x", "(EngineCore pid=9) INFO 11-30 22:44:44 [other.py:1] next") == [
        "frame", "raised", None,
    ]  # fmt: skip


def test_a_promise_of_a_chain_that_nothing_follows_is_over_at_the_next_words() -> None:
    assert (
        steps(
            TB, "ValueError: x", "", "During handling of the above exception, another exception occurred:", "", "ready"
        )[-1]
        is None
    )


KINDS = {
    "an engine log": (["(APIServer pid=1) INFO 11-30 22:44:43 [api_utils.py:286] non-default args: {}", "vllm"], "vllm_log"),
    "docker": (["docker: Error response from daemon: no such image"], "docker_run_stderr"),
    "kubectl": (["Events:", "  Warning  Failed  12s  kubelet  Error: ErrImagePull"], "kubectl_describe"),
    "a kernel log": (["[  12.000001] NVRM: Xid (PCI:0000:01:00): 79"], "dmesg"),
    "inspect": (['  "HostConfig": {', '  "ShmSize": 1'], "docker_inspect_json"),
    "an answer": (["HTTP/1.1 400 Bad Request"], "http_response"),
    "counters": (["# HELP vllm:x y", "vllm:x 1"], "metrics"),
    "smi": (["| NVIDIA-SMI 580.65 |"], "nvidia_smi"),
    "another engine": (["[2026-04-04 08:00:05 TP0] Init torch distributed begin."], "sglang_log"),
    "a session of several": (["$ docker inspect x", '"HostConfig": {', "$ nvidia-smi", "NVIDIA-SMI 580"], "shell_session"),
    "a session with one of them": (["$ date", "$ nvidia-smi", "NVIDIA-SMI 580"], "nvidia_smi"),
    "a session with none of them": (["$ date"], "shell_session"),
    "an engine log with a kernel log": (["vLLM API server version 1", "EngineCore", "NVRM: Xid"], "vllm_log+dmesg"),
    "one word of the engine": (["vllm: error: x"], "vllm_log"),
    "anything else": (["hello", ""], ""),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "kind"), KINDS.values(), ids=KINDS)
def test_an_input_is_known_by_its_content(lines: list[str], kind: str) -> None:
    detector = KindDetector()
    for no, line in enumerate(lines, start=1):
        detector.feed(no, line)
    assert detector.kind == kind


def test_a_document_is_kept_from_its_first_sign_and_within_bounds() -> None:
    detector = KindDetector()
    for no in range(1, 1200):
        detector.feed(no, '"OOMKilled": true' + " " * 1000)
    assert detector.document()[0][0] == 1
    assert sum(len(text) for _, text in detector.document()) < 1_100_000


ENGINES = {
    "version and python front end": ([("vLLM API server version 0.10.2", "APIServer")], ("0.10.2", "python", ("APIServer",))),
    "engine's own word": ([("Initializing a V1 LLM engine (v0.32.0) with config", "EngineCore")], ("0.32.0", None, ("EngineCore",))),
    "logo": ([("▄▄  version 0.32.0", "")], ("0.32.0", None, ())),
    "Rust front end": ([("x", "RustFrontend"), ("vllm.entrypoints", "")], (None, "rust", ("RustFrontend",))),
    "no number": ([("vLLM is fine", "")], (None, None, ())),
    "first number counts": ([("vLLM version 0.9.1", ""), ("vLLM version 0.9.2", "")], ("0.9.1", None, ())),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "expected"), ENGINES.values(), ids=ENGINES)
def test_the_engine_is_known_by_its_own_words(lines, expected) -> None:
    reader = EngineReader()
    for text, process in lines:
        reader.feed(text, process)
    assert (reader.version, reader.frontend, reader.processes) == expected


def test_names_of_processes_are_bounded() -> None:
    reader = EngineReader()
    for number in range(200):
        reader.feed("x", f"Worker_TP{number}")
    assert len(reader.processes) == 64
