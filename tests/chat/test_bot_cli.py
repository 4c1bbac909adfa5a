"""The bot's commands: what they print, what they leave on disk, and their exit codes."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from bot.adapters.doctor import Grade, Line, examine
from bot.adapters.keys import NodeKeys, bot_key
from bot.app import build_services
from bot.cli import register
from bot.errors import InvalidSettings
from bot.flows.person_tokens import user_of_token
from bot.ports import OutboxKind, OutboxState
from bot.settings import read_settings
from playbooks.evidence.bundle import verify
from playbooks.evidence.entries import IncidentOpened
from playbooks.evidence.signing import PublicKey, SigningKey
from playbooks.messages import NodeHello
from tests.support.bot_services import NODE

NOW = datetime(2026, 12, 1, 3, tzinfo=UTC)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("BASELINE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("BASELINE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("BASELINE_BROKER_URL", "redis://127.0.0.1:1/0")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> Result:
    app = typer.Typer()
    register(app)
    return CliRunner().invoke(app, list(words))


@pytest.fixture
def services() -> Iterator[Any]:
    services, store, pools = build_services(read_settings())
    yield services
    for pool in pools:
        pool.close()
    store.close()


def an_incident(services: Any) -> str:
    payload = IncidentOpened(
        title="x",
        node=None,
        playbook="generic-vllm",
        playbook_sha256=services.artifacts.put(services.definitions.playbook_bytes("generic-vllm")),
    )
    with services.store.write() as tx:
        return str(tx.open_incident(channel="C1", owner="U1", payload=payload, at=NOW, language="en").id)


def test_a_node_key_is_a_file_for_the_node_and_a_line_for_the_bot(home: Path) -> None:
    result = run("node-key", NODE)
    assert result.exit_code == 0
    name, _, text = result.stdout.strip().partition("=")
    path = home / f"{NODE}.key.json"
    content = json.loads(path.read_text())
    assert name == NODE
    assert SigningKey.from_text(content["private_key"]).public_text == text
    assert content["bot_public_key"] == bot_key(home / "data").public_text
    assert (content["schema"], content["node"]) == ("baseline-node-key/1", NODE)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert NodeKeys((NODE,), home / "data")[NODE] == PublicKey.from_text(text)
    assert content["private_key"] not in result.output


def test_a_key_file_is_never_overwritten(home: Path) -> None:
    run("node-key", NODE)
    before = (home / f"{NODE}.key.json").read_text()
    result = run("node-key", NODE)
    assert result.exit_code == 2
    assert "never overwritten" in result.output
    assert (home / f"{NODE}.key.json").read_text() == before


def test_a_node_name_must_fit_queue_and_file_names() -> None:
    assert run("node-key", "../evil").exit_code == 2


def test_a_token_is_shown_once_and_kept_as_a_digest(services: Any) -> None:
    result = run("token", "create", "U1", "--days", "7")
    text = result.stdout.strip()
    assert user_of_token(services, text) == "U1"
    assert run("token", "revoke", text).exit_code == 0
    assert user_of_token(services, text) is None
    assert run("token", "revoke", text).exit_code == 1


def test_a_thread_is_rebuilt_from_the_store(services: Any) -> None:
    incident = an_incident(services)
    result = run("repost", incident)
    assert f"{incident}: 2 messages queued" in result.stdout
    with services.store.read() as reading:
        rows = reading.outbox(states=[OutboxState.WAITING], kinds=[OutboxKind.PARENT, OutboxKind.EVIDENCE])
    assert [row.kind for row in rows][-2:] == [OutboxKind.PARENT, OutboxKind.EVIDENCE]


def test_an_exported_bundle_can_be_verified(services: Any, home: Path) -> None:
    incident = an_incident(services)
    result = run("export", incident, "-o", "case.zip")
    assert result.exit_code == 0
    verdict = verify((home / "case.zip").read_bytes(), key=services.signing_key.public)
    assert (verdict.incident, verdict.problems) == (incident, ())


@pytest.mark.parametrize("command", ["repost", "export"])
def test_an_unknown_incident_is_wrong_use(services: Any, command: str) -> None:
    del services  # the folder of a bot
    result = run(command, "INC-9999")
    assert result.exit_code == 2
    assert "no incident INC-9999" in result.output


@pytest.mark.parametrize(
    "words", [("repost", "INC-0001"), ("export", "INC-0001"), ("token", "create", "U1")], ids=" ".join
)
@pytest.mark.parametrize("server", [False, True], ids=["SQLite", "a database server"])
def test_a_folder_that_no_bot_has_used_is_named_and_left_alone(
    home: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], server: bool
) -> None:
    if server:
        monkeypatch.setenv("BASELINE_DATABASE_URL", "postgresql+psycopg://nobody@127.0.0.1:1/none")
    result = run(*words)
    assert result.exit_code == 2
    assert f"no bot has run on the data folder {home / 'data'}" in " ".join(result.output.split())
    assert not (home / "data").exists()


def test_a_store_that_does_not_answer_is_could_not_find_out(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bot_key(home / "data")
    monkeypatch.setenv("BASELINE_DATABASE_URL", "postgresql+psycopg://nobody@127.0.0.1:1/none")
    assert run("repost", "INC-0001").exit_code == 3


def test_settings_that_cannot_be_used_are_wrong_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASELINE_PORT", "none")
    result = run("repost", "INC-0001")
    assert result.exit_code == 2
    assert "BASELINE_PORT" in result.output


# doctor


def lines(now: datetime = NOW) -> dict[str, Line]:
    return {line.check: line for line in examine(read_settings(), now=now)}


def test_doctor_on_a_bare_machine_says_what_to_do_for_each_line() -> None:
    result = run("doctor", "--json")
    found = json.loads(result.stdout)["lines"]
    assert result.exit_code == 1
    assert {line["check"] for line in found} >= {
        "settings",
        "data folder",
        "bot key",
        "store",
        "broker",
        "people",
        "slack",
    }
    assert [line["check"] for line in found if line["grade"] in {"missing", "unreachable"} and not line["do"]] == []


def test_doctor_prints_lines_for_people() -> None:
    assert "unreachable broker: the broker does not answer" in run("doctor").stdout


def test_doctor_reads_settings_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASELINE_PORT", "none")
    result = run("doctor")
    assert result.exit_code == 1
    assert "settings: BASELINE_PORT" in result.stdout


@pytest.mark.parametrize(
    ("ago_s", "apart_s", "changes", "grade", "words"),
    [
        pytest.param(10, 0, {}, Grade.OK, "heard of 10 s ago", id="fine"),
        pytest.param(91, 0, {}, Grade.UNREACHABLE, "last heard of 91 s ago", id="silent"),
        pytest.param(10, 40, {}, Grade.NOTE, "clock 40 s apart", id="clock"),
        pytest.param(10, 0, {"catalogue": "other"}, Grade.NOTE, "other signatures", id="other signatures"),
    ],
)
def test_doctor_looks_at_each_node(
    services: Any,
    monkeypatch: pytest.MonkeyPatch,
    ago_s: int,
    apart_s: int,
    changes: dict[str, Any],
    grade: Grade,
    words: str,
) -> None:
    run("node-key", NODE)
    monkeypatch.setenv("BASELINE_NODES", NODE)
    hello = NodeHello(
        **{
            "node": NODE,
            "version": "0.1.0",
            "catalogue": services.definitions.signatures().digest,
            "policy_sha256": "p",
            "at": NOW - timedelta(seconds=apart_s),
            **changes,
        }
    )
    with services.store.write() as tx:
        tx.save_hello(hello, at=NOW)
    line = lines(NOW + timedelta(seconds=ago_s))[f"node {NODE}"]
    assert line.grade is grade
    assert words in line.found


def test_doctor_names_a_node_without_a_key_and_one_that_never_came(
    services: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASELINE_NODES", f"{NODE},gpu-b2={SigningKey.generate().public_text}")
    found = lines()
    assert found[f"node {NODE}"].grade is Grade.MISSING
    assert found["node gpu-b2"].found == "has never reported"


@pytest.mark.parametrize(
    ("responders", "approvers", "grade"),
    [
        pytest.param("", "", Grade.MISSING, id="nobody"),
        pytest.param("U1", "", Grade.MISSING, id="no approver"),
        pytest.param("U1", "U1", Grade.NOTE, id="one person alone"),
        pytest.param("U1", "U2", Grade.OK, id="two people"),
    ],
)
def test_doctor_wants_two_people(
    monkeypatch: pytest.MonkeyPatch, responders: str, approvers: str, grade: Grade
) -> None:
    monkeypatch.setenv("BASELINE_RESPONDERS", responders)
    monkeypatch.setenv("BASELINE_APPROVERS", approvers)
    assert lines()["people"].grade is grade


def test_doctor_notes_a_key_that_others_can_read(services: Any, home: Path) -> None:
    (home / "data/keys/bot.key").chmod(0o644)
    assert lines()["bot key"].grade is Grade.NOTE
    (home / "data/keys/bot.key").write_text("not a key")
    assert lines()["bot key"].grade is Grade.MISSING


# keys


def test_the_bots_key_is_made_once_and_read_afterwards(home: Path) -> None:
    made = bot_key(home / "data")
    assert bot_key(home / "data").public_text == made.public_text
    path = home / "data/keys/bot.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["bot.key"]


def test_a_broken_key_is_refused_and_not_replaced(home: Path) -> None:
    bot_key(home / "data")
    (home / "data/keys/bot.key").write_text("not a key")
    with pytest.raises(InvalidSettings, match=r"bot\.key"):
        bot_key(home / "data")


def test_a_nodes_key_in_the_settings_wins_and_a_wrong_one_is_refused(home: Path) -> None:
    given, filed = SigningKey.generate().public, SigningKey.generate().public
    (home / "data/nodes").mkdir(parents=True)
    (home / f"data/nodes/{NODE}.pub").write_text(filed.text)
    assert NodeKeys((f"{NODE}={given.text}",), home / "data")[NODE] == given
    assert dict(NodeKeys((NODE, "gpu-b2"), home / "data")) == {NODE: filed}
    with pytest.raises(InvalidSettings, match="BASELINE_NODES: gpu-a1"):
        NodeKeys((f"{NODE}=short",), home / "data")
    with pytest.raises(KeyError):
        NodeKeys((NODE,), home / "data")["../keys/bot"]
