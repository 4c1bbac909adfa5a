"""The sandbox's parts one by one: owned processes, the broker, this machine as a node, the sample logs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import psutil
import pytest

from bot.errors import SandboxError
from bot.sandbox import broker
from bot.sandbox.keeping import free_port, load_kept, take_lock
from bot.sandbox.owned import Owned
from bot.sandbox.samples import Samples
from bot.sandbox.supervisor import Options, run
from bot.sandbox.this_machine import NODE, find_engine, make_key, tiny_command, write_policy
from playbooks.reading import launch_command
from workers.policy import load_policy
from workers.settings import read_key

STAYS = (sys.executable, "-c", "import time; time.sleep(600)")
STUBBORN = (
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)",
)


@pytest.fixture
def owned(tmp_path: Path) -> Iterator[Owned]:
    made = Owned("part", run_dir=tmp_path / "run", log_dir=tmp_path / "logs")
    yield made
    made.end(within_s=0.1)


def test_what_an_earlier_sandbox_left_running_is_ended(owned: Owned, tmp_path: Path) -> None:
    owned.start(STAYS, {}, tether=False)
    pid = json.loads((tmp_path / "run/part.json").read_text())["pid"]
    later = Owned("part", run_dir=tmp_path / "run", log_dir=tmp_path / "logs")
    assert later.end_leftover(within_s=5) is True
    assert owned.is_running is False
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    assert later.end_leftover(within_s=5) is False


def test_a_process_number_given_to_somebody_else_is_left_alone(owned: Owned, tmp_path: Path) -> None:
    owned.start(STAYS, {}, tether=False)
    record = tmp_path / "run/part.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"started": 1.0}))
    assert Owned("part", run_dir=tmp_path / "run", log_dir=tmp_path / "logs").end_leftover(within_s=5) is False
    assert owned.is_running


def test_a_process_that_does_not_listen_is_killed(owned: Owned) -> None:
    owned.start(STUBBORN, {}, tether=False)
    while not owned.last_words():
        assert owned.is_running
    owned.end(within_s=0.1)
    assert owned.is_running is False


def test_the_embedded_broker_wants_its_password(tmp_path: Path) -> None:
    port = free_port()
    conf = broker.write_conf(tmp_path / "broker", port=port, password="right")
    assert conf.stat().st_mode & 0o077 == 0
    server = Owned("broker", run_dir=tmp_path / "run", log_dir=tmp_path / "logs")
    server.start((str(broker.find_server()), str(conf)), {})
    try:
        while not broker.answers(port=port, password="right"):
            assert server.is_running, server.last_words()
        assert broker.answers(port=port, password="wrong") is False
    finally:
        server.end(within_s=5)
    assert broker.answers(port=port, password="right") is False


@pytest.mark.parametrize("name", ["valkey-server", "redis-server"])
def test_a_server_on_the_path_is_the_fall_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    program = tmp_path / name
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(broker, "_packaged", lambda: None)
    assert broker.find_server() == program


def test_without_any_server_the_message_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(broker, "_packaged", lambda: None)
    with pytest.raises(SandboxError, match="apt-get install redis-server"):
        broker.find_server()


def test_secrets_and_ports_stay_from_start_to_start(tmp_path: Path) -> None:
    first = load_kept(tmp_path)
    assert load_kept(tmp_path) == first
    assert (tmp_path / "secrets.json").stat().st_mode & 0o077 == 0
    assert first.bot_token.startswith("xoxb-sandbox-")


def test_one_sandbox_per_folder(tmp_path: Path) -> None:
    with take_lock(tmp_path, "http://127.0.0.1:1"), pytest.raises(SandboxError, match=r"http://127\.0\.0\.1:1"):
        take_lock(tmp_path, "http://127.0.0.1:2")


def test_this_machines_key_is_made_once_and_is_one_the_worker_reads(tmp_path: Path) -> None:
    path = make_key(tmp_path)
    assert make_key(tmp_path) == path
    assert (
        read_key(path, node=NODE).signing.public.to_text() == (tmp_path / "nodes" / f"{NODE}.pub").read_text().strip()
    )


def test_the_policy_opens_the_labs_engine_and_models_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    lab = tmp_path / 'a "lab"'
    (lab / "venv/bin").mkdir(parents=True)
    (lab / "models").mkdir()
    for name in ("vllm", "python"):
        (lab / "venv/bin" / name).touch()
    policy, _ = load_policy(write_policy(tmp_path, lab=lab, engine=find_engine(lab)))
    assert policy is not None
    assert policy.engines == ("process",)
    assert [rule.vllm for rule in policy.interpreters] == [lab / "venv/bin/vllm"]
    assert policy.model_dirs == (lab / "models", tmp_path / "models")
    assert policy.images == ()


def test_without_an_engine_the_policy_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    lab = tmp_path / "no-lab"
    policy, _ = load_policy(write_policy(tmp_path, lab=lab, engine=find_engine(lab)))
    assert policy is not None
    assert (policy.engines, policy.interpreters) == ((), ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [pytest.param(None, "No such file", id="not there"), pytest.param("rules: no", "a TOML file", id="no TOML")],
)
def test_a_policy_that_cannot_be_read_ends_the_start(tmp_path: Path, text: str | None, expected: str) -> None:
    policy = tmp_path / "policy.toml"
    if text is not None:
        policy.write_text(text)
    options = Options(host="127.0.0.1", port=free_port(), data=tmp_path / "data", policy=policy)
    with pytest.raises(SandboxError, match=expected) as refused:
        run(options, say=print, started=lambda: None)
    assert str(policy) in str(refused.value)
    assert not (tmp_path / "data").exists()


def test_each_sample_is_there_and_says_what_it_is() -> None:
    samples = Samples()
    for one in samples.listing():
        sample = samples.get(one["id"])
        assert sample is not None
        assert sample.read()
        assert one["title"]
        assert one["what"]


def test_the_command_that_is_offered_is_one_that_the_policy_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    lab = tmp_path / "lab"
    assert tiny_command(lab) is None
    (lab / "venv" / "bin").mkdir(parents=True)
    for name in ("python", "vllm"):
        (lab / "venv" / "bin" / name).touch(mode=0o755)
    (lab / "models" / "tiny-llama").mkdir(parents=True)
    command = tiny_command(lab)
    assert command is not None
    policy, _ = load_policy(write_policy(tmp_path, lab=lab, engine=find_engine(lab)))
    read = launch_command.read(command)
    assert policy is not None
    assert Path(read.argv[2]).parent in policy.model_dirs
    assert all(any(fnmatch(name, allowed) for allowed in policy.env) for name in read.env)
