"""What people do reaches the app as Slack sends it: signed, in three seconds or not at all, events again when unanswered."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import Response

from bot.sandbox.standin.table import load_table
from tests.support.block_kit import actions, button, section
from tests.support.standin_bench import ANA, CHANNEL, HOST, OLGA, OTTO, Bench, accepts, bench

Json = dict[str, Any]


@pytest.fixture
async def at(tmp_path: Path) -> AsyncIterator[Bench]:
    table = load_table()
    made = bench(
        tmp_path, table=replace(table, limits=table.limits | {"event_retry_after_s": [0, 0, 0], "answer_within_s": 0.2})
    )
    yield made
    await made.close()


async def posted(at: Bench, *blocks: Json, **more: Any) -> Json:
    answer = await at.api("chat.postMessage", channel=CHANNEL, text="x", blocks=list(blocks), **more)
    assert answer["ok"], answer
    await at.settle()
    at.app.got.clear()
    return answer["message"]


async def test_requests_are_signed(at: Bench) -> None:
    await at.page("say", user=OLGA, channel=CHANNEL, text="/baseline status")
    headers, body = at.app.headers[0], at.app.raw[0]
    base = b"v0:" + headers["x-slack-request-timestamp"].encode() + b":" + body
    expected = hmac.new(at.credentials.signing_secret.encode(), base, hashlib.sha256).hexdigest()
    assert headers["x-slack-signature"] == f"v0={expected}"


async def test_a_slash_command_carries_its_fields_and_its_answer_is_for_one_person(at: Bench) -> None:
    at.app.answer = accepts("Nothing is open.")
    await at.page("say", user=OLGA, channel=CHANNEL, text="/baseline status all")
    sent = at.app.got[0]
    assert {name: sent[name] for name in ("command", "text", "user_id", "channel_id", "channel_name", "team_id")} == {
        "command": "/baseline", "text": "status all", "user_id": OLGA, "channel_id": CHANNEL, "channel_name": "gpu-incidents",
        "team_id": "T0SANDBOX",
    }  # fmt: skip
    assert "thread_ts" not in sent
    assert [one["text"] for one in (await at.state(OLGA))["ephemerals"]] == ["Nothing is open."]
    assert (await at.state(OTTO))["ephemerals"] == []


async def test_an_answer_may_be_for_the_channel(at: Bench) -> None:
    at.app.answer = accepts({"response_type": "in_channel", "text": "Hello all"})
    await at.page("say", user=OLGA, channel=CHANNEL, text="/baseline help")
    assert [one["text"] for one in (await at.state(OTTO))["messages"][CHANNEL]] == ["Hello all"]


async def test_an_answer_that_slack_would_refuse_is_shown_as_refused(at: Bench) -> None:
    at.app.answer = accepts({"text": "x", "blocks": [section("")]})
    await at.page("say", user=OLGA, channel=CHANNEL, text="/baseline help")
    assert "invalid_blocks" in (await at.state(OLGA))["ephemerals"][-1]["text"]


async def test_a_slash_command_does_not_run_in_a_thread(at: Bench) -> None:
    parent = await posted(at, section())
    done = await at.page("say", user=OLGA, channel=CHANNEL, text="/baseline status", thread_ts=parent["ts"])
    assert done["error"] == "command_in_thread"
    assert at.app.got == []
    assert (await at.state(OLGA))["ephemerals"][-1]["text"] == "/baseline is not supported in threads. Sorry!"


async def test_an_unknown_command_goes_nowhere(at: Bench) -> None:
    done = await at.page("say", user=OLGA, channel=CHANNEL, text="/bassline status")
    assert done["error"] == "invalid_command"
    assert at.app.got == []


@pytest.mark.parametrize(("status", "words"), [(500, "dispatch_failed"), (404, "dispatch_failed")])
async def test_a_failing_app_is_named_to_the_person(at: Bench, status: int, words: str) -> None:
    at.app.answer = lambda _payload: Response(status_code=status)
    done = await at.page("say", user=OLGA, channel=CHANNEL, text="/baseline status")
    assert done["error"] == words
    assert (await at.state(OLGA))["ephemerals"][-1]["text"] == f'/baseline failed with the error "{words}"'


async def test_a_slow_app_is_a_timeout(at: Bench, tmp_path: Path) -> None:
    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.Event().wait()

    at.standin.delivery._http.__dict__["client"] = httpx.AsyncClient(transport=httpx.ASGITransport(slow))
    done = await at.page("say", user=OLGA, channel=CHANNEL, text="/baseline status")
    assert done["error"] == "operation_timeout"


async def test_a_press_carries_action_message_and_place(at: Bench) -> None:
    message = await posted(at, actions(button(1, value="INC-1:approve")) | {"block_id": "b"})
    done = await at.page(
        "press", user=ANA, where={"channel": CHANNEL, "ts": message["ts"]}, block_id="b", action_id="a1"
    )
    sent = at.app.got[0]
    assert done["ok"]
    assert sent["type"] == "block_actions"
    assert sent["actions"][0] | {"action_ts": ""} == {
        "type": "button", "action_id": "a1", "block_id": "b", "text": {"type": "plain_text", "text": "Go"},
        "value": "INC-1:approve", "action_ts": "",
    }  # fmt: skip
    assert sent["container"] == {
        "type": "message",
        "message_ts": message["ts"],
        "channel_id": CHANNEL,
        "is_ephemeral": False,
    }
    assert sent["message"]["ts"] == message["ts"]
    assert (sent["user"]["id"], sent["user"]["team_id"]) == (ANA, "T0SANDBOX")


async def test_a_choice_carries_the_chosen_option(at: Bench) -> None:
    option = {"text": {"type": "plain_text", "text": "One"}, "value": "1"}
    message = await posted(
        at, actions({"type": "overflow", "action_id": "more", "options": [option]}) | {"block_id": "b"}
    )
    where = {"channel": CHANNEL, "ts": message["ts"]}
    await at.page("press", user=OLGA, where=where, block_id="b", action_id="more", value="1")
    assert at.app.got[0]["actions"][0]["selected_option"] == option
    wrong = await at.page("press", user=OLGA, where=where, block_id="b", action_id="more", value="2")
    assert not wrong["ok"]


async def test_a_button_for_some_is_not_pressed_by_others(at: Bench) -> None:
    message = await posted(at, actions(button(1, visible_to_user_ids=[ANA])) | {"block_id": "b"})
    where = {"channel": CHANNEL, "ts": message["ts"]}
    assert not (await at.page("press", user=OTTO, where=where, block_id="b", action_id="a1"))["ok"]


async def test_a_press_in_an_ephemeral_message_carries_no_message(at: Bench) -> None:
    answer = await at.api(
        "chat.postEphemeral", channel=CHANNEL, user=OLGA, text="x", blocks=[actions(button(1)) | {"block_id": "b"}]
    )
    where = {"channel": CHANNEL, "ts": answer["message_ts"]}
    await at.page("press", user=OLGA, where=where, block_id="b", action_id="a1")
    assert at.app.got[0]["container"]["is_ephemeral"] is True
    assert "message" not in at.app.got[0]


async def test_a_response_url_replaces_the_ephemeral_message_and_works_five_times(at: Bench) -> None:
    answer = await at.api(
        "chat.postEphemeral", channel=CHANNEL, user=OLGA, text="x", blocks=[actions(button(1)) | {"block_id": "b"}]
    )
    where = {"channel": CHANNEL, "ts": answer["message_ts"]}
    await at.page("press", user=OLGA, where=where, block_id="b", action_id="a1")
    url = at.app.got[0]["response_url"].removeprefix(HOST)
    codes = [(await at.http.post(url, json={"replace_original": True, "text": f"n{n}"})).status_code for n in range(6)]
    assert codes == [200] * 5 + [404]
    assert [one["text"] for one in (await at.state(OLGA))["ephemerals"]] == ["n4"]


async def test_a_mention_comes_twice_with_one_ts(at: Bench) -> None:
    await at.page("say", user=OLGA, channel=CHANNEL, text="@Baseline status <b> & @ana")
    await at.settle()
    mention, message = at.app.events("app_mention")[0], at.app.events("message")[0]
    assert mention["text"] == "<@U00BASELINE> status &lt;b&gt; &amp; <@U02ANA>"
    assert mention["ts"] == message["ts"]
    assert (message["channel_type"], message["user"]) == ("channel", OLGA)
    assert len({one["event_id"] for one in at.app.got}) == 2


async def test_a_direct_message_is_told_as_one(at: Bench) -> None:
    await at.page("say", user=OLGA, channel="D01OLGA", text="a log")
    await at.settle()
    assert [one["channel_type"] for one in at.app.events("message")] == ["im"]
    assert at.app.events("app_mention") == []


async def test_channels_without_the_app_tell_nothing(at: Bench) -> None:
    await at.page("say", user=OLGA, channel="C02GENERAL", text="@Baseline hello")
    await at.settle()
    assert at.app.got == []


async def test_the_apps_own_posts_and_edits_are_told_too(at: Bench) -> None:
    message = await posted(at, section())
    await at.api("chat.update", channel=CHANNEL, ts=message["ts"], text="y")
    await at.settle()
    assert [one["subtype"] for one in at.app.events("message")] == ["message_changed"]


async def test_an_unanswered_event_is_sent_again_with_number_and_reason(at: Bench) -> None:
    at.app.answer = lambda _payload: Response(status_code=503)
    await at.page("say", user=OLGA, channel=CHANNEL, text="hello")
    await at.settle()
    assert [one.get("x-slack-retry-num") for one in at.app.headers] == [None, "1", "2", "3"]
    assert at.app.headers[1]["x-slack-retry-reason"] == "http_error"
    assert len({one["event_id"] for one in at.app.got}) == 1


async def test_retries_can_be_declined(at: Bench) -> None:
    at.app.answer = lambda _payload: Response(status_code=503, headers={"X-Slack-No-Retry": "1"})
    await at.page("say", user=OLGA, channel=CHANNEL, text="hello")
    await at.settle()
    assert len(at.app.got) == 1


async def test_duplicate_events_come_three_times(at: Bench) -> None:
    await at.page("faults", duplicate_events=True)
    await at.page("say", user=OLGA, channel=CHANNEL, text="hello")
    await at.settle()
    assert len(at.app.got) == 3


async def test_a_message_shortcut_carries_the_message(at: Bench) -> None:
    message = await posted(at, section())
    await at.page("shortcut", user=OLGA, channel=CHANNEL, ts=message["ts"], callback_id="analyse_log")
    sent = at.app.got[0]
    assert (sent["type"], sent["callback_id"], sent["message_ts"]) == ("message_action", "analyse_log", message["ts"])


async def test_what_is_done_before_the_app_is_up_is_delivered_when_it_is(tmp_path: Path) -> None:
    made = bench(tmp_path, hold=True)
    await made.page("say", user=OLGA, channel=CHANNEL, text="hello")
    command = asyncio.create_task(made.page("say", user=OLGA, channel=CHANNEL, text="/baseline status"))
    await asyncio.sleep(0)
    assert made.app.got == []
    made.now[0] += 30
    made.standin.delivery.open()
    assert (await command)["ok"]
    await made.settle()
    assert len(made.app.events("message")) == 1
    await made.close()
