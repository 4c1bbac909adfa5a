"""The container's side on a real Docker engine: an image with a Python, a running container, libraries that shadow the driver's."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker.models.containers import Container
from docker.types import Mount

import docker
from playbooks.judging.consistency import compare
from playbooks.messages import FingerprintParams
from playbooks.reading.fields import read, value_of
from playbooks.vocabulary import FieldStatus
from tests.support.node_builders import FakeHost
from workers.adapters.clocks import SystemClock
from workers.adapters.docker_engine import DockerEngine
from workers.adapters.docker_gateway import DockerGateway
from workers.adapters.inside_reader import LABEL_PROBE, ProbeInsideReader
from workers.adapters.nvml_reader import NoGpus
from workers.adapters.scene_reader import LiveSceneReader
from workers.jobs.fingerprint import read_fingerprint

pytestmark = pytest.mark.services

LIBCUDA = """
int cuInit(unsigned f) { return CODE; }
int cuDriverGetVersion(int *v) { *v = 13030; return 0; }
int cuDeviceGetCount(int *n) { *n = 8; return 0; }
"""


@pytest.fixture
def gateway(docker_host: str) -> DockerGateway:
    return DockerGateway(base_url=docker_host)


@pytest.fixture
def client(docker_host: str) -> Iterator[docker.DockerClient]:
    made = docker.DockerClient(base_url=docker_host)
    yield made
    for container in made.containers.list(all=True, filters={"label": "test=inside"}):
        container.remove(force=True)
    made.close()


def inside(gateway: DockerGateway, *, gpus: bool = False) -> ProbeInsideReader:
    return ProbeInsideReader(gateway, worker="test", has_gpus=lambda: gpus)


def run(client: docker.DockerClient, image: str, **options: object) -> Container:
    return client.containers.run(
        image, ["/bin/sleep", "120"], detach=True, network_mode="none", labels={"test": "inside"}, **options
    )


def compat(folder: Path, code: int) -> Path:
    """A compatibility library as an image has it, whose initialisation answers `code`."""
    source = folder / "libcuda.c"
    source.write_text(LIBCUDA.replace("CODE", str(code)), encoding="utf-8")
    home = folder / "compat"
    home.mkdir()
    subprocess.run(["gcc", "-shared", "-fPIC", "-nostdlib", "-o", str(home / "libcuda.so.1"), str(source)], check=True)
    return home


def test_an_image_is_looked_into_by_a_container_that_is_gone_afterwards(
    gateway: DockerGateway, client: docker.DockerClient, python_image: str
) -> None:
    facts = inside(gateway).in_image(python_image)
    assert value_of(facts, "python.version").startswith("3.")
    assert value_of(facts, "probe.static") == 0
    assert facts["cuda.init"].status is FieldStatus.ABSENT
    assert value_of(facts, "nvml.error") == 12
    assert value_of(facts, "image.env.CUDA_VERSION") == "13.0.1"
    assert value_of(facts, "image.require_cuda") == "cuda>=13.0"
    assert facts["vllm.metadata_version"].status is FieldStatus.ERROR
    assert client.containers.list(all=True, filters={"label": LABEL_PROBE}) == []


def test_a_running_container_is_looked_into_by_exec(
    gateway: DockerGateway, client: docker.DockerClient, python_image: str
) -> None:
    container = run(client, python_image, shm_size="70m", environment={"NCCL_DEBUG": "INFO", "HF_TOKEN": "hf_x"})
    facts = inside(gateway).in_container(container.name)
    assert value_of(facts, "python.executable") == "/usr/bin/python3"
    assert value_of(facts, "shm.total_bytes") == 70 << 20
    assert value_of(facts, "env.NCCL_DEBUG") == "INFO"
    assert "env.HF_TOKEN" not in facts
    assert value_of(facts, "image.tag_image_id") == value_of(facts, "container.image_id")
    assert [one.rule for one in compare({}, facts)] == []


def test_a_tag_that_moved_is_noticed(
    gateway: DockerGateway, client: docker.DockerClient, python_image: str, busybox_image: str
) -> None:
    client.images.get(python_image).tag("baseline-test/moving", "1")
    container = run(client, "baseline-test/moving:1")
    client.images.get(busybox_image).tag("baseline-test/moving", "1")
    facts = inside(gateway).in_container(container.name)
    assert [one.rule for one in compare({}, facts)] == ["moved-tag"]


@pytest.mark.parametrize(("code", "says"), [(803, "does not pair"), (804, "may not use it"), (0, "")])
def test_a_compatibility_library_in_front_of_the_drivers_is_named(
    gateway: DockerGateway, client: docker.DockerClient, python_image: str, tmp_path: Path, code: int, says: str
) -> None:
    target = "/usr/local/cuda-13.3/compat"
    container = run(
        client,
        python_image,
        mounts=[Mount(target, str(compat(tmp_path, code)), type="bind", read_only=True)],
        environment={"LD_LIBRARY_PATH": target},
    )
    facts = inside(gateway).in_container(container.name)
    assert value_of(facts, "cuda.init") == code
    assert value_of(facts, "cuda.compat_in_use") is True
    assert value_of(facts, "cuda.libcuda_path").startswith(target)
    assert value_of(facts, "cuda.compat_path") == target
    found = {one.rule: one for one in compare({"nvml.cuda": read("12.9", "NVML")}, facts)}
    assert says in found["compat-in-use"].text
    assert found["compat-in-use"].severity == ("finding" if code else "note")
    assert ("cuda-init" in found) == bool(code)


def test_a_runtime_that_cannot_give_gpus_is_reported_as_such_and_the_rest_is_read(
    gateway: DockerGateway, client: docker.DockerClient, python_image: str
) -> None:
    facts = inside(gateway, gpus=True).in_image(python_image)
    assert "could not select device driver" in value_of(facts, "container.error")
    assert value_of(facts, "python.version")
    [found] = [one for one in compare({}, facts) if one.rule == "gpu-runtime"]
    assert "could not select device driver" in found.text
    assert client.containers.list(all=True, filters={"label": LABEL_PROBE}) == []


def test_what_a_killed_probe_left_is_swept(
    gateway: DockerGateway, client: docker.DockerClient, python_image: str
) -> None:
    mine = client.containers.run(
        python_image, ["/bin/sleep", "60"], detach=True, network_mode="none", labels={LABEL_PROBE: "me"}
    )
    other = client.containers.run(
        python_image,
        ["/bin/sleep", "60"],
        detach=True,
        network_mode="none",
        labels={LABEL_PROBE: "another", "test": "inside"},
    )
    ended, failed = DockerEngine(gateway, worker="me").sweep(spare=frozenset())
    assert [mine.short_id in name for name in ended] == [True]
    assert failed == ()
    assert [one.id for one in client.containers.list(all=True, filters={"label": LABEL_PROBE})] == [other.id]


def test_a_daemon_that_stops_answering_in_the_middle_costs_its_own_fields(
    gateway: DockerGateway, docker_host: str, client: docker.DockerClient, python_image: str
) -> None:
    container = run(client, python_image)
    pid = int((Path(docker_host.removeprefix("unix://")).parent / "pid").read_text())
    stopped = threading.Timer(0.05, os.kill, (pid, signal.SIGSTOP))
    wakes = threading.Timer(4, os.kill, (pid, signal.SIGCONT))
    gone = DockerGateway(base_url=docker_host, timeout_s=1)
    stopped.start()
    wakes.start()
    try:
        time.sleep(0.1)
        facts = read_fingerprint(
            FingerprintParams(container=container.name),
            host=FakeHost({"os.kernel": read("6.1", "uname")}),
            gpus=NoGpus(),
            inside=inside(gone),
            clock=SystemClock(),
        )
    finally:
        wakes.join()
        stopped.join()
    assert value_of(facts.host, "os.kernel") == "6.1"
    assert facts.container["probe.static"].status is FieldStatus.ERROR
    assert "the Docker daemon does not answer" in facts.container["probe.static"].detail
    assert value_of(inside(gateway).in_container(container.name), "container.status") == "running", (
        "it goes on afterwards"
    )


def test_a_scene_is_saved_as_far_as_a_daemon_that_stops_in_the_middle_still_answers(
    docker_host: str, client: docker.DockerClient, python_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.adapters.scene_reader._LOG_SILENCE_S", 1)
    container = run(client, python_image)
    pid = int((Path(docker_host.removeprefix("unix://")).parent / "pid").read_text())
    reader = LiveSceneReader(DockerGateway(base_url=docker_host, timeout_s=1))
    real = reader._log

    def stops_then_reads(name: str, *, timestamps: bool) -> bytes:
        os.kill(pid, signal.SIGSTOP)
        return real(name, timestamps=timestamps)

    monkeypatch.setattr(reader, "_log", stops_then_reads)
    try:
        scenes, inspection = reader.container(container.name)
        host = reader.host()
    finally:
        os.kill(pid, signal.SIGCONT)
    found = {scene.role: scene for scene in (*scenes, *host)}
    assert inspection is not None
    assert found["inspect"].text
    assert found["uname"].text
    for role in ("log", "log-timed", "docker-info", "docker-ps"):
        assert found[role].text is None
        assert "the Docker daemon does not answer" in found[role].why
