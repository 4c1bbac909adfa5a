"""The worker's commands as a person types them, and the settings and keys they read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from playbooks.evidence.signing import SigningKey
from tests.support.fake_bot import FakeBot
from workers import errors
from workers.cli import register
from workers.errors import InvalidNodeSettings, WorkerError
from workers.policy import load_policy
from workers.settings import NodeSettings, read_key, read_settings


@pytest.fixture
def app() -> typer.Typer:
    made = typer.Typer()
    register(made)
    return made


def test_a_fingerprint_of_a_recorded_root(app: typer.Typer, tmp_path: Path) -> None:
    version = tmp_path / "proc/driver/nvidia/version"
    version.parent.mkdir(parents=True)
    version.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  575.57.08  Mon\n", encoding="utf-8")
    shown = CliRunner().invoke(app, ["fingerprint", "--root", str(tmp_path)])
    assert "Driver loaded       575.57.08" in shown.output
    found = CliRunner().invoke(app, ["fingerprint", "--json", "--root", str(tmp_path)])
    content = json.loads(found.output)
    assert content["host"]["driver.loaded"]["value"] == "575.57.08"
    assert content["disagreements"] == [] or found.exit_code == 1


def test_two_places_to_look_into_are_refused(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["fingerprint", "--python", "/a", "--image", "b"])
    assert result.exit_code == 3
    assert "expected one of container, image, python" in result.output


def test_a_policy_is_written_once_and_reads_back(app: typer.Typer, tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    words = ["worker", "--init-policy", str(path), "--allow-vllm", "/v/bin/vllm", "--allow-models", "/models"]
    assert CliRunner().invoke(app, words).exit_code == 0
    policy, _ = load_policy(path)
    assert policy is not None
    assert policy.interpreters[0].python == Path("/v/bin/python")
    again = CliRunner().invoke(app, words)
    assert again.exit_code == 2
    assert "there already" in again.output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["worker"], "expected --node NAME"),
        (["worker", "--node", "gpu-a1"], "expected BASELINE_NODE_KEY"),
    ],
)
def test_a_worker_that_cannot_start_says_what_is_missing(
    app: typer.Typer, monkeypatch: pytest.MonkeyPatch, words: list[str], says: str
) -> None:
    monkeypatch.delenv("BASELINE_NODE_KEY", raising=False)
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert says in result.output


def test_the_key_file_says_who_the_node_is(tmp_path: Path) -> None:
    bot = FakeBot()
    path = tmp_path / "key.json"
    path.write_text(bot.key_file, encoding="utf-8")
    key = read_key(path, node="gpu-a1")
    assert key.key_id == "node:gpu-a1"
    assert key.bot == bot.bot_key.public


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "expected {"),
        ("{}", "expected {"),
        ("[]", "expected {"),
        ('{"node": "gpu-a1", "private_key": "x", "bot_public_key": "y"}', "expected {"),
    ],
)
def test_a_file_that_is_no_key_is_named_without_its_content(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "key.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidNodeSettings) as found:
        read_key(path, node="gpu-a1")
    assert str(path) in str(found.value)
    assert says in str(found.value)


def test_the_key_of_another_node_or_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    path.write_text(FakeBot(node="gpu-b2").key_file, encoding="utf-8")
    with pytest.raises(InvalidNodeSettings, match="found the key of gpu-b2"):
        read_key(path, node="gpu-a1")
    content = json.loads(FakeBot().key_file) | {"schema": "baseline-node-key/9"}
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InvalidNodeSettings, match="expected schema"):
        read_key(path, node="gpu-a1")
    with pytest.raises(InvalidNodeSettings, match="No such file"):
        read_key(tmp_path / "none", node="gpu-a1")


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BASELINE_BOT_URL", "http://bot:8080")
    monkeypatch.setenv("BASELINE_DATA_DIR", str(tmp_path))
    settings = read_settings()
    assert settings.bot_url == "http://bot:8080"
    assert settings.home("gpu-a1") == tmp_path / "worker" / "gpu-a1"
    assert all(field.description for field in NodeSettings.model_fields.values())


def test_no_secret_shows_in_settings_or_keys() -> None:
    key = FakeBot(node_signing=SigningKey.generate()).key
    assert key.signing.to_text() not in repr(key)
    assert "secret" not in repr(NodeSettings(broker_url="redis://:secret@h/0"))  # type: ignore[arg-type]


def test_the_drawn_tree_of_errors_is_the_real_one() -> None:
    drawn = {line.split("── ")[1].split()[0] for line in (errors.__doc__ or "").splitlines() if "── " in line}
    real = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, WorkerError) and value is not WorkerError
    }
    assert drawn == real
