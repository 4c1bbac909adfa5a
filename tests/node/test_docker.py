"""Containers of a real Docker engine: what a launch, a look at a dead container and a sweep find there."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from playbooks.judging.baseline import Baseline, ContainerOptions, ImageRef, Mount
from playbooks.messages import LaunchFacts
from playbooks.reading.fields import spec_of, value_of
from playbooks.vocabulary import FieldStatus, JobKind, JobOutcome, Outcome, Stage
from tests.support.fake_bot import FakeBot
from tests.support.node_builders import job, make_node, policy
from workers.adapters.docker_engine import DockerEngine
from workers.adapters.docker_facts import container_facts, docker_facts
from workers.adapters.docker_gateway import DockerGateway
from workers.adapters.inside_reader import ProbeInsideReader
from workers.adapters.scene_reader import LiveSceneReader
from workers.errors import EngineUnavailable, StartFailed
from workers.policy.file import ImageRule
from workers.ports import EngineRef, LaunchSpec, RunningEngine

pytestmark = pytest.mark.services


@pytest.fixture
def gateway(docker_host: str, busybox_image: str) -> DockerGateway:
    assert busybox_image
    return DockerGateway(base_url=docker_host)


@pytest.fixture
def engine(gateway: DockerGateway) -> Iterator[DockerEngine]:
    made = DockerEngine(gateway, worker="test")
    yield made
    made.sweep(spare=frozenset())


@pytest.fixture
def spec(tmp_path: Path, busybox_image: str) -> Callable[..., LaunchSpec]:
    def make(script: str = "true", **changes: object) -> LaunchSpec:
        made = LaunchSpec(
            job_id="job-1",
            incident="INC-0001",
            attempt=1,
            argv=("sh", "-c", script),
            env={"WORD": "two"},
            port=21999,
            folder=tmp_path / "job-1",
            image=ImageRef(reference=busybox_image),
            container=ContainerOptions(network_mode="none"),
        )
        return replace(made, **changes)  # type: ignore[arg-type]

    return make


Spec = Callable[..., LaunchSpec]


def ended(running: RunningEngine) -> tuple[bytes, int | None]:
    data = b""
    deadline = time.monotonic() + 20
    while running.state().running and time.monotonic() < deadline:
        data += running.read()
        time.sleep(0.05)
    return data + running.read(), running.state().exit_code


def start(engine: DockerEngine, spec: LaunchSpec) -> RunningEngine:
    refs: list[EngineRef] = []
    running = engine.start(spec, refs.append)
    assert [ref.id for ref in refs] == [running.ref.id]
    return running


def test_lines_of_both_streams_exit_code_and_a_clean_end(engine: DockerEngine, spec: Spec) -> None:
    running = start(engine, spec("echo one; echo $WORD >&2; sleep 0.3; exit 3"))
    data, code = ended(running)
    assert sorted(data.split()) == [b"one", b"two"]
    assert code == 3
    assert Path(running.ref.log).read_bytes() == data
    assert running.stop(grace_s=1) == ()
    assert engine.find(running.ref) is None
    assert running.ref.what.startswith("container ")


def test_a_container_that_swallows_its_end_is_gone_after_a_stop(engine: DockerEngine, spec: Spec) -> None:
    running = start(engine, spec("trap '' TERM; while true; do sleep 1; done"))
    assert engine.find(running.ref) is not None
    assert "sleep" in running.snapshot() or running.snapshot()
    assert running.stop(grace_s=1) == ()
    assert engine.find(running.ref) is None


def test_out_of_memory_is_told_by_the_runtime(engine: DockerEngine, spec: Spec) -> None:
    options = ContainerOptions(network_mode="none", memory_limit_bytes=16 << 20)
    running = start(engine, spec("x=a; while true; do x=$x$x; done", container=options))
    _, code = ended(running)
    assert code == 137
    assert running.state().oom_killed is True


def test_on_the_hosts_network_the_listener_of_another_process_is_not_the_engines(
    engine: DockerEngine, spec: Spec
) -> None:
    host = ContainerOptions(network_mode="host")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        running = start(engine, spec("sleep 60", container=host))
        assert running.answers_on(other.getsockname()[1]) is False
    running.stop(grace_s=1)


def test_mounts_are_read_only(engine: DockerEngine, spec: Spec, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    mount = Mount(source=str(tmp_path / "m"), target="/m")
    data, code = ended(start(engine, spec("touch /m/x", mounts=(mount,))))
    assert code != 0
    assert b"Read-only file system" in data


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"image": ImageRef(reference="nope:1")}, "is not on this node", id="no image"),
        pytest.param({"image": None}, "expected an image", id="no image in the baseline"),
        pytest.param({"argv": ("/nope",)}, "no such file or directory", id="missing command"),
        pytest.param({"use_gpus": True}, "could not select device driver", id="no GPU runtime"),
    ],
)
def test_what_fails_before_the_first_line_is_the_runtimes_text(
    engine: DockerEngine, spec: Spec, changes: dict[str, object], says: str
) -> None:
    with pytest.raises(StartFailed, match=says):
        engine.start(spec(**changes), lambda _: None)
    assert engine.sweep(spare=frozenset()) == ((), ())


def test_a_tag_that_moved_is_refused(engine: DockerEngine, spec: Spec, busybox_image: str) -> None:
    moved = ImageRef(reference=busybox_image, image_id="sha256:" + "0" * 64)
    with pytest.raises(StartFailed, match="the tag has moved"):
        engine.start(spec(image=moved), lambda _: None)
    other = ImageRef(reference=busybox_image, digest="sha256:" + "0" * 64)
    with pytest.raises(StartFailed, match="expected digest"):
        engine.start(spec(image=other), lambda _: None)


def test_a_sweep_spares_jobs_and_other_workers(engine: DockerEngine, gateway: DockerGateway, spec: Spec) -> None:
    mine = start(engine, spec("sleep 60"))
    spared = start(engine, spec("sleep 60", job_id="job-2"))
    other = DockerEngine(gateway, worker="other")
    assert other.sweep(spare=frozenset()) == ((), ())
    gone, failed = engine.sweep(spare=frozenset({"job-2"}))
    assert (len(gone), failed) == (1, ())
    assert engine.find(mine.ref) is None
    assert engine.find(spared.ref) is not None
    assert engine.clear(spared.ref) == ()


def test_daemon_image_and_container_are_fields_with_listed_names(
    engine: DockerEngine, gateway: DockerGateway, spec: Spec, busybox_image: str
) -> None:
    facts = docker_facts(gateway)
    assert value_of(facts, "docker.version")
    assert "runc" in value_of(facts, "docker.runtimes")
    inside = ProbeInsideReader(gateway, worker="test")
    image = inside.image_facts(busybox_image)
    assert value_of(image, "image.id").startswith("sha256:")
    assert image["image.digest"].status is FieldStatus.ABSENT
    running = start(engine, spec("sleep 60"))
    looked = inside.in_container(running.ref.id)
    assert value_of(looked, "container.status") == "running"
    assert value_of(looked, "container.network_mode") == "none"
    assert value_of(looked, "container.image_id") == value_of(image, "image.id")
    assert "no such file" in looked["probe.static"].detail or "not found" in looked["probe.static"].detail
    everything = facts | image | looked
    assert [name for name in everything if spec_of(name) is None] == []


def test_the_scene_of_a_dead_container(engine: DockerEngine, gateway: DockerGateway, spec: Spec) -> None:
    running = start(engine, spec("echo last words; exit 7"))
    ended(running)
    scenes, inspection = LiveSceneReader(gateway).container(running.ref.id)
    saved = {scene.role: scene.text for scene in scenes}
    assert saved["log"] == b"last words\n"
    assert (saved["log-timed"] or b"").endswith(b" last words\n")
    assert json.loads(saved["inspect"] or b"{}")["State"]["ExitCode"] == 7
    assert json.loads(saved["image-inspect"] or b"{}")["Id"].startswith("sha256:")
    assert inspection is not None
    facts = container_facts(inspection)
    assert value_of(facts, "container.exit_code") == 7
    assert value_of(facts, "container.oom_killed") is False
    host = {scene.role: scene for scene in LiveSceneReader(gateway).host()}
    assert host["docker-info"].text
    assert host["docker-ps"].text


def test_a_container_that_is_not_there_is_missing_with_the_daemons_word(gateway: DockerGateway) -> None:
    scenes, inspection = LiveSceneReader(gateway).container("nope")
    assert inspection is None
    assert "No such container" in next(scene.why for scene in scenes if scene.role == "inspect")


def test_a_dead_daemon_costs_its_own_fields(tmp_path: Path, spec: Spec) -> None:
    dead = DockerGateway(base_url=f"unix://{tmp_path}/none.sock")
    assert "does not answer" in docker_facts(dead)["docker.version"].detail
    with pytest.raises(EngineUnavailable):
        DockerEngine(dead, worker="test").start(spec(), lambda _: None)


NO_MODEL = [
    "Traceback (most recent call last):",
    '  File "/x/serve.py", line 1, in main',
    "    run()",
    "ValueError: Invalid repository ID or local directory specified: '/models/none'",
]


@pytest.fixture
def launched(
    gateway: DockerGateway, busybox_image: str, tmp_path: Path, bot: FakeBot
) -> Iterator[Callable[..., LaunchFacts]]:
    node = make_node(tmp_path, bot)
    (tmp_path / "models" / "run.sh").write_text(
        "\n".join([*(f"echo {line!r}" for line in NO_MODEL), "exit 1"]), "utf-8"
    )
    entrypoint = ("sh", "/m/run.sh")
    rules = policy(
        tmp_path,
        engines=("docker",),
        images=(ImageRule(reference=busybox_image, entrypoints=(entrypoint,)),),
    )
    engine = DockerEngine(gateway, worker=node.deps.journal.instance)
    object.__setattr__(node.deps, "policy", rules)
    object.__setattr__(node.deps, "engines", {"docker": engine})

    def launch(**options: object) -> LaunchFacts:
        what = Baseline(
            engine="docker",
            image=ImageRef(reference=busybox_image),
            argv=(str(tmp_path / "models" / "tiny"),),
            mounts=(Mount(source=str(tmp_path / "models"), target="/m"),),
            container=ContainerOptions.model_validate({"network_mode": "none", **options}),
        )
        node.deliver(job(JobKind.LAUNCH, attempt=1, baseline=what))
        report = bot.report_of("job-1")
        assert report is not None
        assert report.outcome is JobOutcome.DONE, report.error
        return LaunchFacts.model_validate(report.facts)

    yield launch
    assert engine.sweep(spare=frozenset()) == ((), ())
    node.deps.bot.close()


def test_a_whole_launch_in_a_container(launched: Callable[..., LaunchFacts], bot: FakeBot) -> None:
    facts = launched(entrypoint=("sh", "/m/run.sh"))
    assert facts.outcome is Outcome.FAILED
    assert facts.exit_code == 1
    assert facts.oom_killed is False
    assert facts.finding is not None
    assert facts.finding.root_text == NO_MODEL[-1]
    assert bot.files[str(facts.log_sha256)].decode().splitlines() == NO_MODEL
    assert facts.left_behind == ()


def test_a_container_that_cannot_start_is_a_failure_of_the_first_stage(launched: Callable[..., LaunchFacts]) -> None:
    facts = launched()
    assert facts.outcome is Outcome.FAILED
    assert facts.log_sha256 is None
    assert "OCI runtime create failed" in (facts.state_error or "")
    assert facts.finding is not None
    assert facts.finding.stage is Stage.CONTAINER_INIT
