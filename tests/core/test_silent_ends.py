"""What is said where no line names a failure, how several launches in one input are told apart, and what two runs have in common."""

from __future__ import annotations

import json

import pytest

from playbooks.catalog import load_catalogue
from playbooks.judging import normalise
from playbooks.judging.cache_evidence import CacheEvidence
from playbooks.judging.finding import Finding
from playbooks.judging.first_failure import Analyser, analyse_text
from playbooks.vocabulary import DecisionKind, ErrorClass, Stage

CATALOGUE = load_catalogue()
BEGUN = "(APIServer pid=1) INFO 04-04 08:00:00 [api_utils.py:286] non-default args: {'model_tag': '/m'}\n"
LOADING = BEGUN + "(EngineCore pid=5) INFO 04-04 08:01:00 [gpu_model_runner.py:4124] Starting to load model /m...\n"
READY = LOADING + "(APIServer pid=1) INFO:     Application startup complete.\n"
SERVED = READY + '(APIServer pid=1) INFO:     10.2.0.4:51 - "POST /v1/completions HTTP/1.1" 200 OK\n'
STOPPED = SERVED + "INFO:     Shutting down\nINFO:     Finished server process [1]\n"
ENDS = {
    "cut off while loading": (LOADING, None, None, "unknown", Stage.WEIGHT_LOADING),
    "killed by signal 9": (LOADING, 137, None, "engine_process_killed", Stage.WEIGHT_LOADING),
    "killed by signal 9, as Python says it": (LOADING, -9, None, "engine_process_killed", Stage.WEIGHT_LOADING),
    "killed for memory": (LOADING, 137, True, "container_oom_killed", Stage.WEIGHT_LOADING),
    "segmentation fault": (LOADING, 139, None, "process_crashed_native", Stage.WEIGHT_LOADING),
    "abort": (LOADING, -6, None, "process_crashed_native", Stage.WEIGHT_LOADING),
    "failed without a word": (LOADING, 1, None, "unknown", Stage.WEIGHT_LOADING),
    "ready": (READY, None, None, "none", Stage.NONE),
    "ready and ended by us": (SERVED, 143, None, "none", Stage.NONE),
    "ready and killed for memory": (SERVED, 137, True, "container_oom_killed", Stage.SERVING),
    "ready and ended with an error code": (SERVED, 3, None, "unknown", Stage.SERVING),
    "stopped": (STOPPED, 0, None, "none", Stage.NONE),
    "stopped, exit code unknown": (STOPPED, None, None, "none", Stage.NONE),
    "nothing at all": ("", None, None, "unknown", Stage.CONTAINER_INIT),
    "words of something else": ("hello\n", None, None, "unknown", Stage.CONTAINER_INIT),
    "a snapshot without a fault": ("$ nvidia-smi -L\nGPU 0: NVIDIA H200 (UUID: GPU-1)\n", None, None, "none", Stage.NONE),
}  # fmt: skip


@pytest.mark.parametrize(("text", "code", "oom", "klass", "stage"), ENDS.values(), ids=ENDS)
def test_an_end_without_words(text: str, code: int | None, oom: bool | None, klass: str, stage: Stage) -> None:
    found = analyse_text(text, CATALOGUE, exit_code=code, oom_killed=oom)
    assert (found.error_class, found.stage, found.root_line) == (klass, stage, None)


def test_the_exit_state_may_come_at_the_end() -> None:
    analyser = Analyser(CATALOGUE)
    for line in LOADING.splitlines():
        analyser.feed(line)
    assert analyser.current_stage is Stage.WEIGHT_LOADING
    assert analyser.reached is Stage.DEVICE_RECOGNITION
    assert analyser.live_root is None
    assert analyser.finish().error_class is ErrorClass.UNKNOWN
    assert analyser.finish(exit_code=137, oom_killed=True).error_class is ErrorClass.CONTAINER_OOM_KILLED


def inspected(**host: object) -> Finding:
    state = {"Status": "exited", "ExitCode": host.pop("code", 1), "OOMKilled": host.pop("oom", False)}
    document = [
        {
            "State": state,
            "Args": ["serve", "/m", "--tensor-parallel-size", "8"],
            "HostConfig": {"IpcMode": "private", "ShmSize": 67108864} | host,
        }
    ]
    return analyse_text(json.dumps(document, indent=4) + "\n", CATALOGUE)


def test_a_container_inspected_after_a_kill_for_memory() -> None:
    assert inspected(oom=True, code=137).error_class is ErrorClass.CONTAINER_OOM_KILLED


def test_a_container_inspected_with_several_ranks_and_a_small_private_shm() -> None:
    found = inspected()
    assert (found.error_class, found.confidence) == (ErrorClass.SHM_EXHAUSTED, "unsure")
    assert found.root_text == '"ShmSize": 67108864'


@pytest.mark.parametrize(
    "host", [{"ShmSize": 17179869184}, {"IpcMode": "host"}, {"code": 0}], ids=["large shm", "host's shm", "ended well"]
)
def test_a_container_inspected_without_a_sign_of_a_cause(host: dict[str, object]) -> None:
    assert inspected(**host).error_class in {ErrorClass.NONE, ErrorClass.UNKNOWN}


DRIVER = 'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].\n'
FAILED = (
    LOADING
    + 'Traceback (most recent call last):\n  File "x.py", line 1, in load_model\ntorch.OutOfMemoryError: CUDA out of memory.\n'
)
LAUNCHES = {
    "a stop, then a refused container": (STOPPED + DRIVER, "gpu_runtime_missing", 7),
    "a failure, then a start that goes well": (FAILED + SERVED, "oom_weight_load", 5),
    "a failure, then another one": (FAILED + BEGUN + DRIVER, "oom_weight_load", 5),
    "a stop, then a failure": (STOPPED + FAILED, "oom_weight_load", 11),
    "a stop, then a stop": (STOPPED + STOPPED, "none", None),
    "a stop and its noise": (STOPPED + "Traceback (most recent call last):\n  File \"x.py\", line 1, in f\nKeyError: '/psm_1'\n", "none", None),
    "a worker killed, then another failure": (
        LOADING + "(EngineCore pid=5) ERROR 04-04 08:01:00 [m.py:1] Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down executor.\n"
        + FAILED, "worker_process_killed", 3,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "klass", "line"), LAUNCHES.values(), ids=LAUNCHES)
def test_the_first_launch_that_failed_is_judged(text: str, klass: str, line: int | None) -> None:
    found = analyse_text(text, CATALOGUE)
    assert (found.error_class, found.root_line) == (klass, line)


def test_ranks_that_say_the_same_are_one_finding() -> None:
    text = LOADING + "".join(
        f"(Worker_TP{rank} pid={90 + rank}) ERROR 04-04 08:01:0{rank} [m.py:1] {line}\n"
        for line in ("Traceback (most recent call last):", '  File "x.py", line 1, in load_model', "torch.OutOfMemoryError: CUDA out of memory. GPU {rank}")
        for rank in range(4)
    )  # fmt: skip
    found = analyse_text(text, CATALOGUE)
    assert found.ranks == ("Worker_TP0", "Worker_TP1", "Worker_TP2", "Worker_TP3")
    assert found.symptoms == ()
    assert found.stack == ("x.py:load_model",)


def test_a_driver_below_the_boundary_outranks_memory_printed_before_it() -> None:
    found = analyse_text(FAILED + "RuntimeError: The NVIDIA driver on your system is too old (found version 12080).\n", CATALOGUE)  # fmt: skip
    assert (found.error_class, found.root_line) == (ErrorClass.DRIVER_BELOW_BOUNDARY, 6)


def test_the_live_root_is_the_first_fatal_line() -> None:
    analyser = Analyser(CATALOGUE)
    for line in FAILED.splitlines():
        analyser.feed(line)
    analyser.feed("RuntimeError: later")
    assert analyser.live_root == "torch.OutOfMemoryError: CUDA out of memory."


def test_candidates_are_bounded_and_the_first_is_kept() -> None:
    found = analyse_text(FAILED + "CUDA error: an illegal memory access was encountered\n" * 2000, CATALOGUE)
    assert (found.error_class, found.root_line, found.lines) == (ErrorClass.OOM_WEIGHT_LOAD, 5, 2005)


CACHE = {
    "shorter than a unit": (["block size to 1536 tokens", "Using max model len 1024", 'vllm:prefix_cache_queries_total{a="1"} 10', "vllm:prefix_cache_hits_total 0"], True, False),
    "prompts shorter than a unit": (["Setting attention block size to 1536 tokens", "prompt_tokens=90", "vllm:prefix_cache_queries 1e3", "vllm:prefix_cache_hits 0.0"], True, False),
    "prompts long enough": (["Setting attention block size to 1536 tokens", '"prompt_tokens": 9000', "vllm:prefix_cache_queries 9000", "vllm:prefix_cache_hits 0.0"], False, False),
    "a hit": (["Setting attention block size to 1536 tokens", "prompt_tokens=90", "vllm:prefix_cache_queries 90", "vllm:prefix_cache_hits 5"], False, False),
    "nothing asked": (["Setting attention block size to 1536 tokens", "prompt_tokens=90", "vllm:prefix_cache_hits 0"], False, False),
    "answers tell reuse": (['"cached_tokens": 4608', "vllm:gpu_prefix_cache_queries 90", "vllm:gpu_prefix_cache_hits 0"], False, True),
    "other lines": (["hello"], False, False),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "below", "unreliable"), CACHE.values(), ids=CACHE)
def test_cache_evidence(lines: list[str], below: bool, unreliable: bool) -> None:
    evidence = CacheEvidence()
    for no, line in enumerate(lines, start=1):
        evidence.feed(
            no, line.replace("block size to", "Setting attention block size to") if line.startswith("block") else line
        )
    assert (evidence.below_unit, evidence.counter_unreliable) == (below, unreliable)


SAME = {
    "pids and ports": ("pid=12 port 8000 at tcp://10.0.0.1:29500", "pid=991 port 8142 at tcp://10.9.9.9:1"),
    "addresses": ("object at 0x7f3a", "object at 0x9b00ff"),
    "times": ("2026-11-30T22:44:43.118Z x", "2026-12-01 01:02:03 x"),
    "sizes": ("Tried to allocate 1.31 GiB", "Tried to allocate 20.00 MiB"),
    "core sets": ("Failed core proc(s): {}", "Failed core proc(s): {'EngineCore': 1}"),
    "names of segments": ("vllm_dist_a1b2", "vllm_dist_ffff"),
    "temporary paths": ("/dev/shm/psm_ab12", "/dev/shm/x/y"),  # noqa: S108 - a text
    "ids": ("id 123e4567-e89b-42d3-a456-426614174000", "id 00000000-e89b-42d3-a456-426614174999"),
    "white space": ("a   b", "a b"),
}  # fmt: skip


@pytest.mark.parametrize(("one", "two"), SAME.values(), ids=SAME)
def test_what_differs_between_runs_is_taken_out(one: str, two: str) -> None:
    assert normalise.line(one) == normalise.line(two)


def test_what_tells_failures_apart_stays() -> None:
    assert normalise.line("ValueError: no weights") != normalise.line("ValueError: no tokenizer")


FRAMES = {
    "a package's file": ('  File "/a/site-packages/vllm/v1/core.py", line 9, in run', "vllm/v1/core.py:run"),
    "another layout": ('  File "/b/dist-packages/vllm/v1/core.py", line 11, in run', "vllm/v1/core.py:run"),
    "a script": ('  File "/opt/x/start.py", line 3, in main', "start.py:main"),
    "a Cython module": ('  File "uvloop/loop.pyx", line 1518, in uvloop.loop.Loop.run_until_complete', "loop.pyx:uvloop.loop.Loop.run_until_complete"),
    "a mere wrapper": ('  File "/a/x.py", line 3, in decorate_context', None),
    "no frame": ("    x = 1", None),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), FRAMES.values(), ids=FRAMES)
def test_a_frame_is_its_module_and_function(text: str, expected: str | None) -> None:
    assert normalise.frame(text) == expected


def test_a_digest_keeps_order_and_drops_doubles() -> None:
    assert normalise.digest(["a", "a", "b"]) == normalise.digest(["a", "b", "", "b"])
    assert normalise.digest(["a", "b"]) != normalise.digest(["b", "a"])


def test_the_finding_says_what_to_do_and_what_to_look_at() -> None:
    found = analyse_text(FAILED, CATALOGUE)
    assert (found.decision, found.confidence, found.signature) == (DecisionKind.FIX_CAPACITY, "certain", "gpu-oom")
    assert found.why
    assert found.next_check
