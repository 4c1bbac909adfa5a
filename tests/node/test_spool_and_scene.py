"""Evidence on the node: bounded, redacted, named by digest; the scene with what is missing and why."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest
from docker.errors import DockerException

from playbooks.messages import CollectFacts
from playbooks.vocabulary import JobKind, JobOutcome
from tests.support.node_builders import FakeScenes, TestNode, job
from workers.adapters import docker_gateway, scene_reader
from workers.adapters import spool as spool_module
from workers.adapters.docker_gateway import DockerGateway
from workers.adapters.scene_reader import LiveSceneReader
from workers.adapters.spool import FileSpool
from workers.errors import EngineUnavailable
from workers.journal import Journal
from workers.ports import Scene


@pytest.fixture
def spool(tmp_path: Path) -> FileSpool:
    return FileSpool(tmp_path / "spool", Journal(tmp_path / "journal.db"), head_bytes=1000, tail_bytes=1000)


@pytest.fixture
def spool_small(tmp_path: Path) -> FileSpool:
    return FileSpool(tmp_path / "small", Journal(tmp_path / "small.db"), head_bytes=64 << 10, tail_bytes=64 << 10)


def test_a_small_log_is_kept_whole(spool: FileSpool, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"one\r\x00two\n\xff\xfe last")
    ref = spool.save_log("job-1", "a.log", tmp_path / "a.log")
    data = spool.path(ref.sha256).read_bytes()
    assert data == b"one\r\x00two\n\xff\xfe last"
    assert (ref.dropped_bytes, ref.size_bytes, ref.sha256) == (0, len(data), hashlib.sha256(data).hexdigest())


def test_a_large_log_keeps_head_finding_and_tail(
    spool: FileSpool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "AROUND_BYTES", 200)
    lines = [f"line {number:06d}" for number in range(1, 2001)]
    (tmp_path / "a.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    ref = spool.save_log("job-1", "a.log", tmp_path / "a.log", around=(1000,))
    kept = spool.path(ref.sha256).read_text(encoding="utf-8").splitlines()
    assert kept[0] == lines[0]
    assert kept[-1] == lines[-1]
    assert lines[999] in kept
    gaps = [line for line in kept if line.startswith("[baseline: ")]
    assert len(gaps) == 2
    assert sum(int(gap.split()[1]) for gap in gaps) == ref.dropped_bytes
    assert all(line in lines for line in kept if line not in gaps)


def test_a_growing_log_gives_its_middle_back_and_is_saved_as_if_it_had_not(
    spool_small: FileSpool, tmp_path: Path
) -> None:
    log = tmp_path / "engine.log"
    text = b"".join(b"line %07d\n" % number for number in range(300_000))
    with log.open("ab", buffering=0) as engine:
        engine.write(text)
        untrimmed = spool_small.save_log("job-1", "engine.log", log)
        given_back = spool_small.trim(log)
        assert given_back > len(text) // 2
        assert spool_small.trim(log) == 0
        engine.write(b"")
        assert log.stat().st_size == len(text)
        trimmed = spool_small.save_log("job-1", "engine.log", log)
        assert trimmed.sha256 == untrimmed.sha256
        assert trimmed.dropped_bytes == untrimmed.dropped_bytes > 0
        engine.write(b"printed later\n")
    assert log.read_bytes().endswith(b"line 0299999\nprinted later\n")


def test_a_small_growing_log_is_left_alone(spool_small: FileSpool, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_bytes(b"a line\n")
    assert spool_small.trim(log) == 0
    assert spool_small.trim(tmp_path / "none.log") == 0
    assert log.read_bytes() == b"a line\n"


def test_a_log_that_is_not_there_is_an_empty_one(spool: FileSpool, tmp_path: Path) -> None:
    assert spool.save_log("job-1", "a.log", tmp_path / "none").size_bytes == 0


def test_values_that_the_node_filled_in_are_replaced_by_their_references(spool: FileSpool, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("started with plainword and 1\n", encoding="utf-8")
    ref = spool.save_log("job-1", "a.log", tmp_path / "a.log", secrets={"KEY": "plainword", "SHORT": "1"})
    assert spool.path(ref.sha256).read_text(encoding="utf-8") == "started with ${node:KEY} and 1\n"
    assert ref.redactions == 1


def test_a_file_that_the_bot_has_is_dropped(spool: FileSpool) -> None:
    ref = spool.save_text("job-1", "x", b"x")
    spool.forget(ref.sha256)
    spool.forget(ref.sha256)
    assert not spool.path(ref.sha256).exists()


INSPECTION = {"Id": "abc", "Config": {"Cmd": ["--model", "/m"], "Image": "vllm/vllm-openai:v1"}, "State": {}}


def test_the_scene_is_saved_with_what_is_missing_and_why(node: TestNode) -> None:
    log = b'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: token=hf_abcdefghijklmnopqrstuvwx\n'
    scenes = [Scene("log", log, name="container.log"), Scene("image-inspect", None, why="image is gone", name="i")]
    object.__setattr__(node.deps, "scenes", FakeScenes((scenes, INSPECTION)))
    node.deliver(job(JobKind.COLLECT, params={"container": "k3"}))
    report = node.bot.report_of("job-1")
    assert report is not None
    assert report.outcome is JobOutcome.DONE, report.error
    facts = CollectFacts.model_validate(report.facts)
    assert facts.saved.keys() == {"log", "uname", "container-facts"}
    assert facts.missing == {"image-inspect": "image is gone", "nvidia-smi": "no such command"}
    assert facts.redactions == 1
    assert facts.finding is not None
    assert set(facts.saved.values()) == node.bot.files.keys()
    assert all(b"hf_abc" not in data for data in node.bot.files.values())


def test_the_host_alone_can_be_collected(node: TestNode) -> None:
    node.deliver(job(JobKind.COLLECT))
    report = node.bot.report_of("job-1")
    assert report is not None
    facts = CollectFacts.model_validate(report.facts)
    assert facts.saved.keys() == {"uname"}
    assert facts.finding is None


def test_a_node_without_a_container_engine_says_so_for_each_thing() -> None:
    reader = LiveSceneReader(None)
    roles = {scene.role: scene for scene in reader.host()}
    assert roles["uname"].text
    assert roles["clock"].text
    assert roles["docker-info"].why == "expected a container engine, found none on this node"
    scenes, inspection = reader.container("k3")
    assert inspection is None
    assert {scene.role for scene in scenes if scene.text is None} == {"inspect", "image-inspect", "log", "log-timed"}


@pytest.fixture
def bare_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH, on a machine without a Docker socket."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(docker_gateway, "SOCKET", tmp_path / "docker.sock")
    return tmp_path


def why_not(reader: LiveSceneReader) -> dict[str, str]:
    return {scene.role: scene.why for scene in reader.host() if scene.text is None}


def test_what_is_not_on_the_node_is_said_in_words(bare_path: Path) -> None:
    why = why_not(LiveSceneReader(DockerGateway()))
    assert why["docker-info"] == why["docker-ps"] == "no Docker here"
    assert why["nvidia-smi"] == why["nvidia-smi-q"] == "no nvidia-smi here"


def test_a_daemon_that_refuses_is_quoted_without_pythons_notation() -> None:
    def refused() -> None:
        try:
            raise PermissionError(13, "Permission denied")
        except PermissionError as error:
            raise DockerException(
                f"Error while fetching server API version: ('Connection aborted.', {error!r})"
            ) from error

    with pytest.raises(EngineUnavailable) as told, docker_gateway.mapped():
        refused()
    assert str(told.value) == "the Docker daemon does not answer: permission denied"


def test_a_command_that_hangs_costs_its_own_file_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(*argv: str, timeout_s: float) -> str:
        raise subprocess.TimeoutExpired(argv, timeout_s)

    monkeypatch.setattr(scene_reader, "output", hangs)
    reader = LiveSceneReader(None)
    assert why_not(reader)["nvidia-smi"] == "nvidia-smi did not answer within 20 s"
    assert {scene.role for scene in reader.host() if scene.text} >= {"uname", "clock"}


def test_of_a_long_container_log_head_and_tail_are_kept_at_lines_and_the_gap_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scene_reader, "_HEAD_BYTES", 1000)
    monkeypatch.setattr(scene_reader, "_TAIL_BYTES", 1000)
    lines = [b"line %05d\n" % no for no in range(1000)]
    kept = scene_reader._head_and_tail(iter(lines))
    assert kept.startswith(lines[0])
    assert kept.endswith(lines[-1])
    [gap] = [line for line in kept.splitlines() if line.startswith(b"[baseline")]
    left = sum(len(line) for line in lines if line in kept)
    assert int(gap.split()[1]) == sum(map(len, lines)) - left
    assert len(kept) < 2200
    short = b"".join(lines[:150])
    assert scene_reader._head_and_tail([short[:700], short[700:]]) == short
