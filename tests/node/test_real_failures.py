"""Failures of a real vLLM, through the adapters process and docker: stage, class and root line, and how soon they are told.

The default run has one failure per stage and adapter; `./dev test-engine --all` has the whole table.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import docker
from playbooks.judging.stability import Observed, score
from playbooks.messages import LaunchFacts, Limits
from playbooks.vocabulary import JobKind, JobOutcome, Outcome
from tests.support import lab_model
from tests.support.fake_bot import serving
from tests.support.node_builders import TestNode, job
from tests.support.real_engine import (
    LAB,
    PYTHON,
    SHORT,
    TINY,
    LineClock,
    TimedBot,
    docker_node,
    end_clock,
    kill_part,
    process_node,
    real_baseline,
    skeleton_image,
)
from workers.adapters import process_table
from workers.jobs.duties import Duties
from workers.jobs.holding import keep
from workers.jobs.running import Delivered
from workers.journal import EngineLife

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]
ALL = bool(os.environ.get("BASELINE_TEST_ALL"))


@dataclass(frozen=True)
class Failure:
    """A way to fail. model: makes the model folder. kill: (line that must have come, process that is killed then)."""

    stage: str
    error_class: str
    root: str
    argv: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    model: Callable[[Path], Path] = lambda _models: TINY
    kill: tuple[str, str] | None = None
    memory_bytes: int | None = None
    taken_port: bool = False
    adapters: tuple[str, ...] = ("process", "docker")
    always: bool = False


def truncated(models: Path) -> Path:
    made = shutil.copytree(TINY, models / "truncated", dirs_exist_ok=True)
    shard = sorted(made.glob("*.safetensors"))[-1]
    shard.write_bytes(shard.read_bytes()[:1000])
    return made


def long_context(models: Path) -> Path:
    made = shutil.copytree(TINY, models / "long", dirs_exist_ok=True)
    config = made / "config.json"
    config.write_text(config.read_text().replace("32768", "8388608"))
    return made


def hybrid(models: Path) -> Path:
    """A model that loads and whose first request no kernel can answer."""
    made = models / "hybrid"
    subprocess.run([PYTHON, lab_model.__file__, made, "qwen3-next"], check=True, capture_output=True)
    return made


FAILURES = {
    "unknown flag": Failure(
        "container_init", "launch_args_invalid", "unrecognized arguments", argv=("--enable-kda-cache",), always=True
    ),
    "unknown parser": Failure(
        "container_init",
        "parser_unknown",
        "invalid tool call parser",
        argv=("--enable-auto-tool-choice", "--tool-call-parser", "kimi_k9"),
    ),
    "more ranks than CPUs": Failure(
        "device_recognition",
        "device_count_mismatch",
        "Not enough allowed NUMA nodes",
        argv=("--tensor-parallel-size", "4"),
        env=(("VLLM_CPU_OMP_THREADS_BIND", "auto"),),
        always=True,
    ),
    "model path that is not there": Failure(
        "weight_loading", "model_path_not_found", "Repo id must be in the form", model=lambda m: m / "none", always=True
    ),
    "truncated shard": Failure("weight_loading", "weight_files_bad", "SafetensorError", model=truncated),
    "worker killed while it loads": Failure(
        "weight_loading",
        "worker_process_killed",
        "WorkerProc initialization failed",
        kill=("Starting to load model", "VLLM::Worker"),
    ),
    "engine killed while it starts": Failure(
        "device_recognition",
        "engine_process_killed",
        "Engine core initialization failed",
        kill=("Initializing a V1 LLM engine", "VLLM::EngineCore"),
    ),
    "KV cache smaller than one request": Failure(
        "engine_init",
        "kv_cache_below_max_len",
        "To serve at least one request",
        argv=("--max-model-len", "8388608", "--max-num-batched-tokens", "4096"),
        model=long_context,
    ),
    "KV space that is not there": Failure(
        "engine_init",
        "kv_cache_no_memory",
        "kv cache allocation",
        env=(("VLLM_CPU_KVCACHE_SPACE", "400"),),
        always=True,
    ),
    "memory limit of the container": Failure(
        "engine_init", "container_oom_killed", "", memory_bytes=1 << 30, adapters=("docker",)
    ),
    "port in use": Failure(
        "endpoint_ready", "port_unavailable", "Address already in use", taken_port=True, always=True
    ),
    "first request kills the engine": Failure(
        "endpoint_ready",
        "attention_backend_unsuitable",
        "Unexpected head dim size",
        argv=("--load-format", "dummy", "--enable-prefix-caching"),
        model=hybrid,
    ),
}
STAGES_ALSO = {"memory limit of the container": {"device_recognition", "weight_loading", "container_init"}}
"""Where a limit on memory strikes moves with the page cache; the stage then is the observed one."""


@dataclass
class Place:
    """A node with the real engine behind one adapter."""

    kind: str
    node: TestNode
    bot: TimedBot
    folder: Path
    docker_host: str | None


@pytest.fixture(scope="session")
def engine_image(docker_host: str) -> str:
    return skeleton_image(docker_host)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    kind: str = request.param
    (tmp_path / "models").mkdir()
    with serving(TimedBot()) as bot:
        assert isinstance(bot, TimedBot)
        host = None
        if kind == "docker":
            host = request.getfixturevalue("docker_host")
            request.getfixturevalue("engine_image")
            node = docker_node(tmp_path, bot, host)
        else:
            node = process_node(tmp_path, bot)
        yield Place(kind, node, bot, tmp_path, host)
        for engine in node.deps.engines.values():
            engine.sweep(spare=frozenset())
        node.deps.bot.close()


def attempt(place: Place, failure: Failure, *, number: int = 1, hold_s: int = 0) -> LaunchFacts:
    """Launch once; prints how soon the root line and the verdict were told (bar: 1 s each; a test asserts no time)."""
    with taken(failure.taken_port) as port:
        model = failure.model(place.folder / "models")
        argv = (str(model), *SHORT, *failure.argv, *(("--port", str(port)) if port else ()))
        asked = job(
            JobKind.LAUNCH,
            job_id=f"real-{os.getpid()}-{number}",
            attempt=number,
            baseline=real_baseline(
                place.kind, place.folder, argv, env=dict(failure.env), memory_bytes=failure.memory_bytes
            ),
            params={"hold_s": hold_s},
            limits=Limits(total_s=240),
        )
        begun = time.time()
        kill = failure.kill

        def on_line(line: str) -> None:
            if kill is not None and kill[0] in line:
                threading.Thread(target=until_killed, args=(kill[1], begun)).start()

        place.bot.heard.clear()
        lines = LineClock(lambda: log_of(place, asked.job_id), on_line, as_json=place.kind == "docker")
        ends: list[float] = []
        end = end_clock(lambda: pid_of(place, asked.job_id), ends)
        try:
            assert place.node.deliver(asked) is Delivered.RAN
        finally:
            end.join(timeout=1 if hold_s else 5)
            lines.close()
    report = place.bot.report_of(asked.job_id)
    assert report is not None
    assert report.outcome is JobOutcome.DONE, report.error
    facts = LaunchFacts.model_validate(report.facts)
    if facts.outcome is not Outcome.READY:
        told_when(place, facts, lines, ends)
    return facts


def told_when(place: Place, facts: LaunchFacts, lines: LineClock, ends: list[float]) -> None:
    root, verdict = place.bot.first("root"), place.bot.first("report")
    root_text = next((text for _, what, text in place.bot.heard if what == "root"), "")
    printed = lines.when(root_text.strip()[:120])
    assert verdict is not None
    assert ends, "the engine's end was not seen"
    named = None if root is None or printed is None else root - printed
    print(
        f"\n{place.kind}: root line named {'-' if named is None else f'{named:.2f} s'} after it was printed, "
        f"verdict {verdict - ends[0]:.2f} s after the end"
    )
    assert root is None or root <= verdict


@contextlib.contextmanager
def taken(wanted: bool) -> Iterator[int | None]:
    if not wanted:
        yield None
        return
    with socket.socket() as holder:
        for port in range(28000, 28999):
            with contextlib.suppress(OSError):
                holder.bind(("127.0.0.1", port))
                break
        holder.listen()
        yield int(holder.getsockname()[1])


def until_killed(title: str, since: float) -> None:
    deadline = time.monotonic() + 10
    while not kill_part(title, since) and time.monotonic() < deadline:
        time.sleep(0.05)


def ref_of_job(place: Place, job_id: str) -> str | None:
    rows = [*place.node.deps.journal.engines(EngineLife.RUNNING), *place.node.deps.journal.engines(EngineLife.HELD)]
    return next((str(row.ref["id"]) for row in rows if row.job_id == job_id), None)


def log_of(place: Place, job_id: str) -> Path | None:
    if place.docker_host is None:
        path = place.folder / "engines" / job_id / "engine.log"
        return path if path.exists() else None
    ref = ref_of_job(place, job_id)
    if ref is None:
        return None
    with contextlib.closing(docker.DockerClient(base_url=place.docker_host)) as client:
        root = Path(client.info()["DockerRootDir"])
    path = root / "containers" / ref / f"{ref}-json.log"
    return path if path.exists() else None


def pid_of(place: Place, job_id: str) -> int | None:
    ref = ref_of_job(place, job_id)
    if ref is None:
        return None
    if place.docker_host is None:
        return int(ref.split(":")[1])
    with contextlib.closing(docker.DockerClient(base_url=place.docker_host)) as client:
        return int(client.containers.get(ref).attrs["State"]["Pid"]) or None


CHOSEN = [
    pytest.param(kind, name, id=f"{name}, {kind}")
    for name, failure in FAILURES.items()
    for kind in failure.adapters
    if ALL or failure.always
]


@pytest.mark.parametrize(("place", "name"), CHOSEN, indirect=["place"])
def test_a_real_failure_has_its_stage_class_and_root_line(place: Place, name: str) -> None:
    failure = FAILURES[name]
    facts = attempt(place, failure)
    finding = facts.finding
    assert facts.outcome is Outcome.FAILED
    assert finding is not None
    print(f"{name}: {finding.stage.value} / {finding.error_class.value} / {(finding.root_text or '')[:100]}")
    assert finding.error_class.value == failure.error_class
    assert finding.stage.value in {failure.stage, *STAGES_ALSO.get(name, ())}
    assert failure.root in (finding.root_text or "")
    assert facts.left_behind == ()
    assert engines_left(place) == []


def engines_left(place: Place) -> list[process_table.Process]:
    """Return processes of engines that this node started; others on the machine may run their own."""
    worker = place.node.deps.journal.instance

    def is_ours(pid: int) -> bool:
        if place.kind == "process":
            return process_table.environment(pid).get("BASELINE_WORKER") == worker
        with contextlib.suppress(OSError):
            return "docker" in Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
        return False

    return [
        row for row in process_table.processes() if "VLLM::" in process_table.command_line(row.pid) and is_ours(row.pid)
    ]


def observed(facts: LaunchFacts) -> Observed:
    assert facts.resolved is not None
    assert facts.finding is not None
    return Observed(facts.resolved.digest, facts.outcome, facts.finding)


@pytest.mark.parametrize("place", ["process", *(["docker"] if ALL else [])], indirect=True)
def test_two_attempts_that_fail_alike_score_2_and_a_failure_that_moved_scores_0(place: Place) -> None:
    alike = [observed(attempt(place, FAILURES["model path that is not there"], number=n)) for n in (1, 2)]
    assert score(*alike).score == 2
    if ALL:
        moved = [
            observed(attempt(place, FAILURES[name], number=n))
            for n, name in ((3, "worker killed while it loads"), (4, "engine killed while it starts"))
        ]
        assert score(*moved).score == 0


@pytest.mark.parametrize("place", ["process", *(["docker"] if ALL else [])], indirect=True)
def test_a_ready_engine_that_dies_while_it_is_held_is_told(place: Place) -> None:
    begun = time.time()
    facts = attempt(place, Failure("none", "none", ""), hold_s=120)
    assert facts.outcome is Outcome.READY
    assert facts.held is not None
    restarted = place.node.restarted() if place.kind == "process" else place.node
    duties = Duties(restarted.deps)
    duties.start()
    try:
        assert kill_part("VLLM::EngineCore", begun)
        killed = time.monotonic()
        while not any(hello.lost for hello in place.bot.hellos) and time.monotonic() < killed + 30:
            time.sleep(0.02)
        took = time.monotonic() - killed
        print(f"\n{place.kind}: the death of a held engine was told {took:.1f} s after the kill")
        assert any(hello.lost for hello in place.bot.hellos)
    finally:
        duties.close(stop_held=True)
        restarted.deps.bot.close()
    assert not keep(restarted.deps)
    assert engines_left(place) == []
    assert LAB.exists()
