"""The stand-in's Web API refuses what Slack refuses, in Slack's words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.standin_bench import ANA, CHANNEL, OLGA, Bench, bench


@pytest.fixture
async def at(tmp_path: Path) -> AsyncIterator[Bench]:
    made = bench(tmp_path)
    yield made
    await made.close()


def section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


async def test_a_real_workspace_token_is_refused(at: Bench) -> None:
    # assembled, so that no scanner takes it for a leaked token
    answer = await at.api("auth.test", token="xoxb" + "-1234567890-abcdefghijkl")
    assert answer["ok"] is False
    assert answer["error"] == "invalid_auth"


async def test_auth_test_says_whose_token_it_is(at: Bench) -> None:
    answer = await at.api("auth.test")
    assert {name: answer[name] for name in ("ok", "team_id", "user_id", "bot_id")} == {
        "ok": True,
        "team_id": "T0SANDBOX",
        "user_id": "U00BASELINE",
        "bot_id": "B00BASELINE",
    }


@pytest.mark.parametrize(
    ("method", "args", "error"),
    [
        pytest.param("nonsense.method", {}, "unknown_method", id="a method that is not there"),
        pytest.param("chat.postMessage", {"channel": "C404", "text": "x"}, "channel_not_found", id="no such channel"),
        pytest.param("chat.postMessage", {"channel": "C02GENERAL", "text": "x"}, "not_in_channel", id="the app is not in the channel"),
        pytest.param("chat.postMessage", {"channel": CHANNEL}, "no_text", id="neither text nor blocks"),
        pytest.param("chat.postMessage", {"channel": CHANNEL, "text": "x", "blocks": "{"}, "invalid_blocks_format", id="blocks that are no JSON"),
        pytest.param("chat.postMessage", {"channel": CHANNEL, "text": "x", "thread_ts": "1.000001"}, "thread_not_found", id="no such thread"),
        pytest.param("chat.postMessage", {"channel": CHANNEL, "text": "x", "markdown_text": "y"}, "markdown_text_conflict", id="text and markdown_text"),
        pytest.param("chat.postMessage", {"channel": CHANNEL, "text": "x", "metadata": {"event_type": "a"}}, "invalid_metadata_schema", id="metadata without payload"),
        pytest.param(
            "chat.postMessage", {"channel": CHANNEL, "text": "x", "metadata": {"event_type": "a", "event_payload": {"b": "c" * 17000}}}, "metadata_too_large", id="metadata too large",
        ),
        pytest.param("chat.postMessage", {"channel": CHANNEL, "text": "x", "blocks": [section("y" * 3000)] * 4}, "msg_blocks_too_long", id="all block text together"),
        pytest.param("chat.update", {"channel": CHANNEL, "ts": "1.000001", "text": "x"}, "message_not_found", id="update of a message that is not there"),
        pytest.param("chat.postEphemeral", {"channel": CHANNEL, "user": "U404", "text": "x"}, "user_not_found", id="ephemeral to nobody"),
        pytest.param("chat.postEphemeral", {"channel": "D02ANA", "user": OLGA, "text": "x"}, "user_not_in_channel", id="ephemeral to somebody outside"),
        pytest.param("conversations.replies", {"channel": CHANNEL, "ts": "1.000001"}, "thread_not_found", id="replies of no thread"),
        pytest.param("conversations.history", {"channel": CHANNEL, "cursor": "?"}, "invalid_cursor", id="a cursor that is none"),
        pytest.param("users.info", {"user": "U404"}, "user_not_found", id="no such user"),
        pytest.param("usergroups.users.list", {"usergroup": "S404"}, "no_such_subteam", id="no such group"),
        pytest.param("reactions.add", {"channel": CHANNEL, "timestamp": "1.0", "name": "x y"}, "message_not_found", id="reaction to nothing"),
        pytest.param("files.info", {"file": "F404"}, "file_not_found", id="no such file"),
        pytest.param("apps.connections.open", {}, "not_allowed_token_type", id="a bot token where the app token is wanted"),
    ],
)  # fmt: skip
async def test_refusals(at: Bench, method: str, args: dict[str, Any], error: str) -> None:
    answer = await at.api(method, **args)
    assert (answer["ok"], answer["error"]) == (False, error)


async def test_an_edit_of_more_than_4000_characters_is_too_long(at: Bench) -> None:
    posted = await at.api("chat.postMessage", channel=CHANNEL, text="x")
    answer = await at.api("chat.update", channel=CHANNEL, ts=posted["ts"], text="y" * 4001)
    assert answer["error"] == "msg_too_long"


async def test_an_edit_with_text_alone_takes_the_blocks_away_and_shows_as_edited(at: Bench) -> None:
    posted = await at.api("chat.postMessage", channel=CHANNEL, text="x", blocks=[section("y")])
    answer = await at.api("chat.update", channel=CHANNEL, ts=posted["ts"], text="z")
    assert "blocks" not in answer["message"]
    assert "edited" in answer["message"]


async def test_an_edit_with_blocks_shows_no_edited_mark_and_keeps_metadata(at: Bench) -> None:
    metadata = {"event_type": "baseline", "event_payload": {"row": 1}}
    posted = await at.api("chat.postMessage", channel=CHANNEL, text="x", metadata=metadata)
    answer = await at.api("chat.update", channel=CHANNEL, ts=posted["ts"], blocks=[section("y")])
    assert "edited" not in answer["message"]
    assert answer["message"]["metadata"] == metadata
    assert answer["message"]["text"] == "x"


async def test_messages_of_others_cannot_be_edited(at: Bench) -> None:
    said = await at.page("say", user=OLGA, channel=CHANNEL, text="mine")
    answer = await at.api("chat.update", channel=CHANNEL, ts=said["data"]["ts"], text="theirs")
    assert answer["error"] == "cant_update_message"


async def test_a_reply_cannot_be_a_thread(at: Bench) -> None:
    parent = await at.api("chat.postMessage", channel=CHANNEL, text="parent")
    reply = await at.api("chat.postMessage", channel=CHANNEL, text="reply", thread_ts=parent["ts"])
    answer = await at.api("chat.postMessage", channel=CHANNEL, text="x", thread_ts=reply["ts"])
    assert answer["error"] == "cannot_reply_to_message"


async def test_text_over_40000_characters_is_cut_with_a_warning(at: Bench) -> None:
    answer = await at.api("chat.postMessage", channel=CHANNEL, text="x" * 40_001)
    assert len(answer["message"]["text"]) == 40_000
    assert answer["warning"] == "message_truncated"


async def test_an_archived_channel_takes_nothing(at: Bench) -> None:
    await at.page("channel", channel=CHANNEL, archived=True)
    assert (await at.api("chat.postMessage", channel=CHANNEL, text="x"))["error"] == "is_archived"


async def test_an_app_removed_from_the_channel_is_told_so(at: Bench) -> None:
    await at.page("channel", channel=CHANNEL, bot_member=False)
    assert (await at.api("chat.postMessage", channel=CHANNEL, text="x"))["error"] == "not_in_channel"


async def test_a_thread_is_read_back_with_metadata_only_when_asked(at: Bench) -> None:
    metadata = {"event_type": "baseline", "event_payload": {"row": 7}}
    parent = await at.api("chat.postMessage", channel=CHANNEL, text="parent")
    await at.api("chat.postMessage", channel=CHANNEL, text="reply", thread_ts=parent["ts"], metadata=metadata)
    plain = await at.api("conversations.replies", channel=CHANNEL, ts=parent["ts"])
    told = await at.api("conversations.replies", channel=CHANNEL, ts=parent["ts"], include_all_metadata=True)
    assert [one["text"] for one in plain["messages"]] == ["parent", "reply"]
    assert "metadata" not in plain["messages"][1]
    assert told["messages"][1]["metadata"] == metadata


async def test_a_thread_is_read_in_pages(at: Bench) -> None:
    parent = await at.api("chat.postMessage", channel=CHANNEL, text="0")
    for n in range(1, 5):
        await at.api("chat.postMessage", channel=CHANNEL, text=str(n), thread_ts=parent["ts"])
    first = await at.api("conversations.replies", channel=CHANNEL, ts=parent["ts"], limit=3)
    rest = await at.api(
        "conversations.replies",
        channel=CHANNEL,
        ts=parent["ts"],
        limit=3,
        cursor=first["response_metadata"]["next_cursor"],
    )
    assert [one["text"] for one in first["messages"] + rest["messages"]] == ["0", "1", "2", "3", "4"]
    assert (first["has_more"], rest["has_more"]) == (True, False)


async def test_a_deleted_parent_with_replies_stays_as_a_tombstone(at: Bench) -> None:
    parent = await at.api("chat.postMessage", channel=CHANNEL, text="parent")
    await at.api("chat.postMessage", channel=CHANNEL, text="reply", thread_ts=parent["ts"])
    await at.page("delete", user=OLGA, channel=CHANNEL, ts=parent["ts"])
    thread = await at.api("conversations.replies", channel=CHANNEL, ts=parent["ts"])
    assert thread["messages"][0]["subtype"] == "tombstone"
    assert (await at.api("chat.update", channel=CHANNEL, ts=parent["ts"], text="x"))["error"] == "message_not_found"


async def test_an_ephemeral_message_is_seen_by_one_person(at: Bench) -> None:
    answer = await at.api("chat.postEphemeral", channel=CHANNEL, user=OLGA, text="psst")
    assert answer["ok"]
    assert [one["text"] for one in (await at.state(OLGA))["ephemerals"]] == ["psst"]
    assert (await at.state(ANA))["ephemerals"] == []
    assert (await at.api("chat.update", channel=CHANNEL, ts=answer["message_ts"], text="x"))[
        "error"
    ] == "message_not_found"


async def test_an_ephemeral_message_in_a_thread_without_replies_is_shown_to_nobody(at: Bench) -> None:
    parent = await at.page("say", user=OLGA, channel=CHANNEL, text="hello")
    answer = await at.api("chat.postEphemeral", channel=CHANNEL, user=OLGA, text="psst", thread_ts=parent["data"]["ts"])
    assert answer["ok"]
    assert (await at.state(OLGA))["ephemerals"] == []


async def test_forms_and_json_are_both_read(at: Bench) -> None:
    answer = await at.http.post(
        "/api/chat.postMessage",
        data={"token": at.credentials.bot_token, "channel": CHANNEL, "text": "by form", "blocks": "[]"},
    )
    assert answer.json()["message"]["text"] == "by form"


async def test_a_missing_scope_is_named(at: Bench) -> None:
    await at.page("faults", missing_scope="chat:write")
    answer = await at.api("chat.postMessage", channel=CHANNEL, text="x")
    assert (answer["error"], answer["needed"]) == ("missing_scope", "chat:write")
    assert "chat:write" not in answer["provided"]


async def test_a_revoked_token_is_told_so(at: Bench) -> None:
    await at.page("faults", token_revoked=True)
    assert (await at.api("auth.test"))["error"] == "token_revoked"


async def test_a_lost_answer_leaves_the_post_done(at: Bench) -> None:
    await at.page("faults", lost_answer=True)
    answer = await at.call("chat.postMessage", channel=CHANNEL, text="done all the same")
    assert answer.status_code == 500
    assert [one["text"] for one in (await at.state())["messages"][CHANNEL]] == ["done all the same"]


async def test_rate_limited_calls_are_told_how_long_to_wait(at: Bench) -> None:
    await at.page("faults", rate_limited=True)
    answer = await at.call("auth.test")
    assert (answer.status_code, answer.json()["error"], answer.headers["retry-after"]) == (429, "ratelimited", "3")


async def test_a_channel_takes_one_post_a_second_after_a_burst(at: Bench) -> None:
    answers = [await at.call("chat.postMessage", channel=CHANNEL, text=str(n)) for n in range(9)]
    assert [one.status_code for one in answers] == [200] * 8 + [429]
    assert answers[-1].headers["retry-after"] == "1"
    at.now[0] += 1
    assert (await at.call("chat.postMessage", channel=CHANNEL, text="again")).status_code == 200


async def test_edits_are_limited_to_fifty_a_minute_for_all_messages_together(at: Bench) -> None:
    posted = [(await at.api("chat.postMessage", channel=CHANNEL, text=str(n)))["ts"] for n in range(2)]
    codes = [
        (await at.call("chat.update", channel=CHANNEL, ts=posted[n % 2], text=str(n))).status_code for n in range(51)
    ]
    assert codes == [200] * 50 + [429]


async def test_rate_limits_can_be_switched_off(at: Bench) -> None:
    await at.page("faults", rates=False)
    codes = [(await at.call("chat.postMessage", channel=CHANNEL, text=str(n))).status_code for n in range(12)]
    assert set(codes) == {200}


async def test_unknown_faults_are_refused(at: Bench) -> None:
    answer = await at.http.post("/page/faults", json={"nonsense": True})
    assert answer.status_code == 400
