"""`POST /slack/events` under hostile and broken input: 401 or 400 in words, never 500; good requests reach Bolt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest
from slack_bolt.adapter.fastapi.async_handler import AsyncSlackRequestHandler
from slack_bolt.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_sdk.signature import SignatureVerifier

from bot.api.guard import RequestGuard
from bot.api.metrics import Metrics
from bot.api.slack import why_malformed
from bot.api.state import Limits, SlackEntry
from tests.support.bot_http import Http, serving
from tests.support.bot_services import TestBot, make_bot

SECRET = "shhh"
FORM = "application/x-www-form-urlencoded"
COMMAND = b"command=%2Fbaseline&text=status&team_id=T1&user_id=U1&channel_id=C1&trigger_id=1.2"


@pytest.fixture
def seen() -> list[str]:
    return []


@pytest.fixture
def bot(tmp_path: Path) -> TestBot:
    import datetime  # noqa: ICN001 - see beside

    bot = make_bot(tmp_path)
    bot.clock.at = datetime.datetime.now(datetime.UTC)  # Bolt reads the machine's clock
    return bot


@pytest.fixture
async def http(bot: TestBot, tmp_path: Path, seen: list[str]) -> AsyncIterator[Http]:
    async def authorize(**_: Any) -> AuthorizeResult:
        return AuthorizeResult(enterprise_id=None, team_id="T1", bot_token="xoxb-1", bot_id="B1", bot_user_id="U0")

    app = AsyncApp(signing_secret=SECRET, authorize=authorize)

    @app.command("/baseline")
    async def command(ack: Any) -> None:
        seen.append("command")
        await ack("taken")

    entry = SlackEntry(handle=AsyncSlackRequestHandler(app).handle, signing_secret=SECRET)
    async with serving(bot, tmp_path, slack=entry) as served:
        yield served


def signed(bot: TestBot, body: bytes, *, content_type: str = FORM, off_s: int = 0) -> dict[str, str]:
    stamp = str(int(bot.clock.now().timestamp()) + off_s)
    signature = SignatureVerifier(SECRET).generate_signature(timestamp=stamp, body=body.decode())
    assert signature is not None
    return {"x-slack-request-timestamp": stamp, "x-slack-signature": signature, "content-type": content_type}


async def test_a_signed_command_reaches_its_listener(http: Http, bot: TestBot, seen: list[str]) -> None:
    response = await http.client.post("/slack/events", content=COMMAND, headers=signed(bot, COMMAND))
    assert (response.status_code, response.text, seen) == (200, "taken", ["command"])


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="no headers"),
        pytest.param({"x-slack-request-timestamp": "abc"}, id="a timestamp of letters"),
        pytest.param({"x-slack-request-timestamp": "²".encode()}, id="a superscript digit"),
        pytest.param({"x-slack-request-timestamp": "9" * 5000}, id="five thousand digits"),
        pytest.param({"x-slack-request-timestamp": "+1764556860"}, id="a plus sign"),
        pytest.param({"x-slack-request-timestamp": "1_000"}, id="an underscore"),
        pytest.param({"x-slack-signature": "v0=é".encode()}, id="a signature that is not ASCII"),
        pytest.param({"x-slack-signature": "v0=" + "0" * 64}, id="a wrong signature"),
    ],
)
async def test_what_slack_did_not_sign_is_401(
    http: Http, bot: TestBot, seen: list[str], headers: dict[str, Any]
) -> None:
    sent = {**signed(bot, COMMAND), **headers} if headers else {}
    response = await http.client.post("/slack/events", content=COMMAND, headers=sent)
    assert (response.status_code, response.json()["error"], seen) == (401, "bad_signature", [])


@pytest.mark.parametrize("off_s", [-301, 301])
async def test_an_old_or_early_signature_is_401(http: Http, bot: TestBot, off_s: int) -> None:
    response = await http.client.post("/slack/events", content=COMMAND, headers=signed(bot, COMMAND, off_s=off_s))
    assert response.status_code == 401


async def test_a_body_that_is_not_utf_8_is_401(http: Http, bot: TestBot) -> None:
    response = await http.client.post("/slack/events", content=b"\xff\xfe", headers=signed(bot, b""))
    assert response.status_code == 401


def payload(content: Any) -> bytes:
    return b"payload=" + quote_plus(content if isinstance(content, str) else json.dumps(content)).encode()


USER = {"id": "U1"}


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        pytest.param(FORM, b"", id="nothing"),
        pytest.param(FORM, payload("[]"), id="payload is a list"),
        pytest.param(FORM, payload("null"), id="payload is null"),
        pytest.param(FORM, payload(""), id="payload is empty"),
        pytest.param(FORM, payload("[" * 50_000), id="deep nesting"),
        pytest.param(FORM, payload({"type": "block_actions", "user": USER, "actions": []}), id="no actions"),
        pytest.param(FORM, payload({"type": "block_actions", "user": USER, "actions": [None]}), id="a null action"),
        pytest.param(FORM, payload({"type": "block_actions", "actions": [{}]}), id="nobody's action"),
        pytest.param(FORM, payload({"type": "view_submission", "user": USER}), id="no view"),
        pytest.param(
            FORM, payload({"type": "view_submission", "user": USER, "view": {"callback_id": "x"}}), id="no state"
        ),
        pytest.param("application/json", b"[]", id="JSON list"),
        pytest.param("application/json", b"{", id="half JSON"),
        pytest.param("application/json", b'{"type":"event_callback","event":[]}', id="event is a list"),
        pytest.param("application/json", b'{"type":"event_callback","event":null}', id="event is null"),
    ],
)
async def test_a_signed_body_of_no_form_is_400(http: Http, bot: TestBot, content_type: str, body: bytes) -> None:
    response = await http.client.post(
        "/slack/events", content=body, headers=signed(bot, body, content_type=content_type)
    )
    assert (response.status_code, response.json()["error"]) == (400, "malformed")


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        pytest.param("application/json; charset=utf-8", b'{"type":"url_verification","challenge":"c"}', id="challenge"),
        pytest.param("application/json", b'{"type":"event_callback","event":{"type":"app_mention"}}', id="event"),
        pytest.param(
            FORM, payload({"type": "block_actions", "user": USER, "actions": [{"action_id": "a"}]}), id="press"
        ),
        pytest.param(
            FORM,
            payload({"type": "view_submission", "user": USER, "view": {"callback_id": "c", "state": {"values": {}}}}),
            id="modal",
        ),
        pytest.param(FORM, payload({"type": "shortcut", "user": USER}), id="shortcut"),
        pytest.param(FORM, b"ssl_check=1", id="certificate check"),
    ],
)
def test_what_slack_sends_is_let_through(content_type: str, body: bytes) -> None:
    assert why_malformed(content_type, body) is None


async def test_a_body_over_one_mebibyte_is_413(http: Http, bot: TestBot) -> None:
    body = b"command=%2Fbaseline&text=" + b"a" * 1024 * 1024
    response = await http.client.post("/slack/events", content=body, headers=signed(bot, body))
    assert (response.status_code, response.json()["error"]) == (413, "too_large")


async def test_in_socket_mode_nobody_listens_here(bot: TestBot, tmp_path: Path) -> None:
    async with serving(bot, tmp_path) as http:
        response = await http.client.post("/slack/events", content=COMMAND)
    assert response.status_code == 404


async def test_a_body_that_does_not_come_is_408() -> None:
    """The server alone would go on reading a body that arrives a byte a second."""

    async def never(*_: Any) -> Any:
        await asyncio.Event().wait()

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    guard = RequestGuard(never, limits=Limits(slack_s=0.01), metrics=Metrics())
    await guard({"type": "http", "path": "/slack/events", "method": "POST", "headers": []}, never, send)
    assert sent[0]["status"] == 408
    assert json.loads(sent[1]["body"])["error"] == "too_slow"
