"""The surfaces: signed requests of Slack through the real app. Stored, then answered; refused in words; never twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.errors import StoreUnavailable
from bot.ports import OutboxKind
from playbooks.evidence.entries import DecisionProposed
from playbooks.vocabulary import DecisionKind
from tests.support.bot_services import (
    APPROVER,
    NODE,
    RESPONDER,
    TestBot,
    kinds,
    make_bot,
    open_case,
    payloads,
    say_hello,
)
from tests.support.fake_slack import fake_slack
from tests.support.people import CHANNEL, COMMAND, FAILING_LOG, VIEWER, outbox, record, said
from tests.support.slack_requests import Door, door


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Door]:
    with fake_slack() as slack:
        bot = make_bot(tmp_path)
        yield door(bot, slack)
        bot.store.close()


def without_store(bot: TestBot) -> None:
    async def refuse(*_args: Any, **_kwargs: Any) -> None:
        raise StoreUnavailable("the incident store has not answered lately")

    object.__setattr__(bot.services, "run", refuse)


def shown(response: Any) -> str:
    return str(response.body)


class TestCommand:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            pytest.param("help", "Drop or paste a log", id="help"),
            pytest.param("", "Drop or paste a log", id="nothing"),
            pytest.param("banana split", "I do not know `banana split`", id="an unknown word"),
            pytest.param("status", "No open case here", id="status"),
            pytest.param("nodes", NODE, id="nodes"),
            pytest.param("analyze RuntimeError: Error 35 happened", "open_from_log", id="analyze with text"),
        ],
    )
    async def test_is_answered_in_the_ack(self, at: Door, text: str, expected: str) -> None:
        response = await at.command(text, user=VIEWER)
        assert response.status == 200
        assert expected in shown(response)
        assert json.loads(response.body)["response_type"] == "ephemeral"

    async def test_open_opens_the_form_in_the_channel_it_was_typed_in(self, at: Door) -> None:
        response = await at.command("open K3 fails")
        assert response.status == 200
        assert response.body == ""
        view = at.views()[0]
        assert view["callback_id"] == "open_incident"
        assert view["private_metadata"].startswith(CHANNEL)

    async def test_open_is_refused_to_a_viewer_with_who_could(self, at: Door) -> None:
        response = await at.command("open", user=VIEWER)
        assert RESPONDER in shown(response)
        assert at.views() == []

    async def test_an_expired_trigger_is_said(self, at: Door) -> None:
        at.slack.script["views.open"] = ["expired_trigger_id"]
        assert "please press again" in shown(await at.command("open"))

    async def test_a_store_that_does_not_answer_is_said(self, at: Door) -> None:
        without_store(at.bot)
        assert "Not recorded, please press again" in shown(await at.command("status"))

    async def test_people_of_other_organisations_are_refused(self, at: Door) -> None:
        response = await at.command("status", team_id="T0OTHER")
        assert "Only members of this workspace" in shown(response)


class TestForms:
    async def test_the_opening_form_opens_a_case_once(self, at: Door) -> None:
        for _delivery in range(3):
            response = await at.submit(
                "open_incident", f"{CHANNEL}:", {"title": "K3 does not start", "command": COMMAND}
            )
            assert response.status == 200
        with at.bot.services.store.read() as reading:
            found = reading.incidents()
        assert [incident.channel for incident in found] == [CHANNEL]
        assert found[0].case.opened.payload.command == COMMAND

    async def test_a_refusal_is_shown_in_the_form(self, at: Door) -> None:
        response = await at.submit("open_incident", f"{CHANNEL}:", {"title": "x"}, user=VIEWER)
        body = json.loads(response.body)
        assert body["response_action"] == "update"
        assert "Only a responder" in said(body["view"])

    async def test_an_answer_is_recorded(self, at: Door) -> None:
        case = open_case(at.bot)
        await at.submit("answer", f"{case}:cluster-owner", {"value": "platform", "note": "by phone"})
        assert payloads(at.bot, case, "answer:recorded")[0]["note"] == "by phone"

    async def test_a_pasted_log_is_answered_in_the_form(self, at: Door) -> None:
        response = await at.submit("analyse", f"{CHANNEL}:analyse", {"log": FAILING_LOG.decode()}, user=VIEWER)
        assert json.loads(response.body)["response_action"] == "update"

    async def test_a_case_opened_from_a_log_has_it_as_its_first_attempt(self, at: Door) -> None:
        await at.event(
            {
                "type": "message",
                "channel_type": "im",
                "channel": "D1",
                "user": RESPONDER,
                "ts": "1.1",
                "text": FAILING_LOG.decode(),
            }
        )
        log = next(block for block in outbox(at.bot, OutboxKind.DIRECT)[0]["blocks"] if block["type"] == "actions")
        await at.press("open_from_log", log["elements"][0]["value"])
        view = at.views()[0]
        await at.submit("open_incident", view["private_metadata"], {"title": "from a log", "channel": CHANNEL})
        with at.bot.services.store.read() as reading:
            assert [incident.channel for incident in reading.incidents()] == [CHANNEL]
        assert kinds(at.bot, "INC-0001").count("attempt:recorded") == 1


class TestButtons:
    def proposed(self, at: Door) -> str:
        case = open_case(at.bot)
        payload = DecisionProposed(kind=DecisionKind.ISOLATE, rule="D-01", headline="isolate now", reasons=["x"])
        record(at.bot, case, payload, actor=f"user:{RESPONDER}")
        return case

    async def test_approve_is_stored_then_acked_and_told_to_the_presser(self, at: Door) -> None:
        case = self.proposed(at)
        response = await at.press(f"approve|{case}:2", f"{case}:2", user=APPROVER)
        assert response.status == 200
        assert "decision:approved" in kinds(at.bot, case)
        assert at.slack.responses[0]["response_type"] == "ephemeral"
        assert "Approved as #3" in said(at.slack.responses[0])

    async def test_one_press_delivered_three_times_approves_once(self, at: Door) -> None:
        case = self.proposed(at)
        for _delivery in range(3):
            await at.press(f"approve|{case}:2", f"{case}:2", user=APPROVER, at="9.9")
        assert kinds(at.bot, case).count("decision:approved") == 1

    async def test_a_refusal_is_seen_by_the_presser_only(self, at: Door) -> None:
        case = self.proposed(at)
        await at.press(f"approve|{case}:2", f"{case}:2")
        assert "decision:approved" not in kinds(at.bot, case)
        assert "Only an approver" in said(at.slack.responses[0])

    async def test_outsiders_are_refused(self, at: Door) -> None:
        case = self.proposed(at)
        await at.press(f"approve|{case}:2", f"{case}:2", user=APPROVER, team="T0OTHER")
        assert "decision:approved" not in kinds(at.bot, case)
        assert "Only members" in said(at.slack.responses[0])

    async def test_a_store_that_does_not_answer_is_said_and_acked(self, at: Door) -> None:
        case = self.proposed(at)
        without_store(at.bot)
        response = await at.press(f"approve|{case}:2", f"{case}:2", user=APPROVER)
        assert response.status == 200
        assert "Not recorded, please press again" in said(at.slack.responses[0])

    @pytest.mark.parametrize(
        ("verb", "step", "callback"),
        [
            pytest.param("answer", "cluster-owner", "answer", id="answer"),
            pytest.param("job", "launch", "attempt", id="run"),
            pytest.param("review", "", "judge", id="review"),
            pytest.param("close", "", "close", id="close"),
        ],
    )
    async def test_a_form_opens_for(self, at: Door, verb: str, step: str, callback: str) -> None:
        case = self.proposed(at)
        await at.press(f"{verb}|{case}:{step}", f"{case}:{step}")
        assert at.views()[0]["callback_id"] == callback

    async def test_the_menu_carries_its_step(self, at: Door) -> None:
        case = self.proposed(at)
        await at.press("more", selected_option={"value": f"{case}:status"})
        assert case in said(at.slack.responses[0])

    async def test_a_job_is_asked_of_the_node(self, at: Door) -> None:
        say_hello(at.bot)
        case = open_case(at.bot)
        await at.press(f"job|{case}:fingerprint", f"{case}:fingerprint")
        assert payloads(at.bot, case, "job:requested")[0]["job_kind"] == "fingerprint"

    async def test_a_node_that_cannot_be_asked_is_named(self, at: Door) -> None:
        case = open_case(at.bot)
        await at.press(f"job|{case}:fingerprint", f"{case}:fingerprint")
        assert "has never reported" in said(at.slack.responses[0])

    async def test_an_action_of_an_unknown_case_is_answered(self, at: Door) -> None:
        await at.press("export|INC-0999:", "INC-0999:")
        assert "no such case" in said(at.slack.responses[0])


MENTION = {"type": "app_mention", "channel": CHANNEL, "user": VIEWER, "ts": "5.5", "text": "<@U0BOT> help"}


class TestEvents:
    async def test_a_mention_is_answered_in_its_thread(self, at: Door) -> None:
        assert (await at.event(MENTION)).status == 200
        assert outbox(at.bot, OutboxKind.DIRECT)[0]["thread_ts"] == "5.5"

    async def test_a_mention_arrives_twice_and_is_answered_once(self, at: Door) -> None:
        await at.event(MENTION, event_id="Ev1")
        await at.event({**MENTION, "type": "message", "channel_type": "channel"}, event_id="Ev2")
        await at.event(MENTION, event_id="Ev1", retry=1)
        assert len(outbox(at.bot, OutboxKind.DIRECT)) == 1

    async def test_an_event_that_could_not_be_stored_is_sent_again_by_slack(self, at: Door) -> None:
        run = at.bot.services.run
        without_store(at.bot)
        assert (await at.event(MENTION)).status == 503
        object.__setattr__(at.bot.services, "run", run)
        assert (await at.event(MENTION, retry=1)).status == 200
        assert len(outbox(at.bot, OutboxKind.DIRECT)) == 1

    @pytest.mark.parametrize(
        "event",
        [
            pytest.param({"bot_id": "B0BOT"}, id="its own message"),
            pytest.param({"subtype": "message_changed"}, id="an edit"),
            pytest.param({"subtype": "message_deleted"}, id="a deletion"),
            pytest.param({"user": None}, id="nobody"),
        ],
    )
    async def test_what_no_person_wrote_is_left_alone(self, at: Door, event: dict[str, Any]) -> None:
        assert (await at.event({**MENTION, "type": "message", **event})).status == 200
        assert outbox(at.bot) == []

    async def test_outsiders_are_not_answered(self, at: Door) -> None:
        await at.event(MENTION, team="T0OTHER")
        assert outbox(at.bot) == []

    async def test_a_dropped_file_is_kept_for_the_reader(self, at: Door) -> None:
        file = {"id": "F1", "name": "a.log", "url_private_download": "https://files.slack.com/a"}
        await at.event(
            {
                "type": "message",
                "subtype": "file_share",
                "channel": "D1",
                "channel_type": "im",
                "user": VIEWER,
                "ts": "6.6",
                "files": [file],
            }
        )
        assert outbox(at.bot, OutboxKind.FETCH)[0]["file"]["id"] == "F1"

    async def test_the_home_tab_shows_nodes(self, at: Door) -> None:
        await at.event({"type": "app_home_opened", "user": RESPONDER, "tab": "home", "channel": "D1"})
        assert NODE in said(at.slack.named("views.publish")[0])


class TestShortcuts:
    def payload(self, callback: str, message: dict[str, Any], at: Door) -> dict[str, Any]:
        return {
            "type": "message_action",
            "callback_id": callback,
            "user": {"id": RESPONDER, "team_id": "T0HOME"},
            "team": {"id": "T0HOME"},
            "channel": {"id": CHANNEL},
            "message": {"ts": "7.7", **message},
            "message_ts": "7.7",
            "trigger_id": "t7",
            "response_url": f"{at.slack.url}respond",
        }

    async def test_a_case_is_opened_from_a_message(self, at: Door) -> None:
        await at.interact(self.payload("open_from_message", {"text": "K3 does not start since 02:10"}, at))
        assert "since 02:10" in said(at.views()[0])

    async def test_a_log_in_a_message_is_answered_under_it(self, at: Door) -> None:
        await at.interact(self.payload("analyse_message", {"text": FAILING_LOG.decode()}, at))
        assert outbox(at.bot, OutboxKind.DIRECT)[0]["thread_ts"] == "7.7"

    async def test_a_file_of_a_message_is_kept_for_the_reader(self, at: Door) -> None:
        await at.interact(self.payload("analyse_message", {"files": [{"id": "F1", "name": "a.log"}]}, at))
        assert outbox(at.bot, OutboxKind.FETCH)[0]["ts"] == "7.7"


async def test_an_unsigned_request_is_refused(at: Door) -> None:
    response = await at.send("command=%2Fbaseline", "application/x-www-form-urlencoded", {"x-slack-signature": "v0=no"})
    assert response.status == 401


async def test_answers_do_not_wait_for_a_slack_that_is_down_once_it_is_known(at: Door) -> None:
    await at.command("help")
    again = door(at.bot, at.slack)
    at.slack.script["auth.test"] = ["internal_error"] * 5
    assert "Drop or paste" in shown(await again.command("help"))
