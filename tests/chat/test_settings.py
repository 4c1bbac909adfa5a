"""Settings: read from the environment, refused in words that name the variable, never a secret."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from bot.errors import InvalidSettings
from bot.settings import Settings, read_settings


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [name for name in os.environ if name.startswith("BASELINE_")]:
        monkeypatch.delenv(name)


def test_without_any_variable_a_bot_without_slack_on_loopback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = read_settings()
    assert settings.store_url == f"sqlite:///{tmp_path}/baseline-data/baseline.db"
    assert settings.artifacts_place == f"{tmp_path}/baseline-data/artifacts"
    assert not settings.has_slack
    assert settings.on_loopback
    assert (settings.responders, settings.approvers, settings.nodes) == ((), (), ())


def test_lists_are_comma_separated_without_doubles_or_blanks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASELINE_RESPONDERS", " U1,U2,,U1 ")
    assert read_settings().responders == ("U1", "U2")


@pytest.mark.parametrize(
    ("given", "url"),
    [
        pytest.param("http://127.0.0.1:8899/api", "http://127.0.0.1:8899/api/", id="without a slash"),
        pytest.param("http://127.0.0.1:8899/api/", "http://127.0.0.1:8899/api/", id="with a slash"),
    ],
)
def test_slacks_address_may_end_with_a_slash_or_not(monkeypatch: pytest.MonkeyPatch, given: str, url: str) -> None:
    monkeypatch.setenv("BASELINE_SLACK_API_URL", given)
    settings = read_settings()
    assert settings.slack_api_url == url
    assert settings.slack_hosts == frozenset({"127.0.0.1:8899"})


def test_the_token_goes_to_slacks_own_hosts_by_default() -> None:
    assert Settings().slack_hosts == frozenset({"slack.com", "files.slack.com"})


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        pytest.param({"PORT": "70000"}, "BASELINE_PORT: ", id="no such port"),
        pytest.param({"SLACK_MODE": "smoke"}, "BASELINE_SLACK_MODE: ", id="no such mode"),
        pytest.param({"SLACK_API_URL": "slack.com"}, "BASELINE_SLACK_API_URL: expected a URL", id="no URL"),
        pytest.param({"NODES": "GPU A1"}, "BASELINE_NODES: expected node names of a-z", id="no node name"),
        pytest.param({"NODES": "../x=AA"}, "BASELINE_NODES: expected node names of a-z", id="a path as node name"),
        pytest.param(
            {"SLACK_BOT_TOKEN": "xoxb-secret"}, "needs BASELINE_SLACK_APP_TOKEN", id="socket mode without its token"
        ),
        pytest.param(
            {"SLACK_BOT_TOKEN": "xoxb-secret", "SLACK_MODE": "http"},
            "needs BASELINE_SLACK_SIGNING_SECRET",
            id="http mode without its secret",
        ),
    ],
)
def test_what_cannot_be_used_is_named_without_the_secret(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], message: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"BASELINE_{name}", value)
    with pytest.raises(InvalidSettings) as refused:
        read_settings()
    assert message in str(refused.value)
    assert "xoxb-secret" not in str(refused.value)


def test_secrets_do_not_show() -> None:
    settings = Settings(slack_bot_token=SecretStr("xoxb-secret"), slack_app_token=SecretStr("xapp-secret"))
    assert "secret" not in repr(settings).replace("SecretStr", "").replace("slack_signing_secret", "")


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("bot.example", False)],
)
def test_what_counts_as_this_machine_alone(host: str, loopback: bool) -> None:
    assert Settings(host=host).on_loopback is loopback
