"""The sender: what leaves the outbox reaches the thread once, in order, whatever Slack answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.adapters.slack_calls import SlackCalls, web_client
from bot.adapters.slack_files import SlackFiles
from bot.adapters.slack_pace import Pace
from bot.adapters.slack_sender import SlackSender
from bot.ports import OutboxKind, OutboxRow, OutboxState
from playbooks.evidence.entries import AnswerRecorded
from tests.support.bot_services import TestBot, make_bot, open_case
from tests.support.fake_slack import LOST, FakeSlack, fake_slack


class Rig:
    """A bot, its sender and a Slack; time moves when the test says so."""

    def __init__(self, bot: TestBot, slack: FakeSlack, *, slash: str = "/") -> None:
        self.bot, self.slack, self.seconds = bot, slack, 1000.0
        calls = SlackCalls(web_client("xoxb-test", f"{slack.url}api{slash}"), Pace(lambda: self.seconds))
        files = SlackFiles(calls, token="xoxb-test", hosts=frozenset({slack.url.split("/")[2]}))
        self.sender = SlackSender(bot.services, calls, files, monotonic=lambda: self.seconds)

    def send(self, *, rounds: int = 12, step_s: float = 5.0) -> None:
        for _round in range(rounds):
            self.sender.send_due()
            self.seconds += step_s
            self.bot.clock.forward(seconds=step_s)

    def answer(self, case: str, value: str) -> None:
        with self.bot.services.store.write() as tx:
            tx.append(case, AnswerRecorded(item="cluster-owner", value=value), actor="user:U1", at=self.bot.clock.now())

    def enqueue(self, kind: OutboxKind, payload: dict[str, object], case: str | None = None) -> None:
        with self.bot.services.store.write() as tx:
            tx.enqueue(kind, payload, incident=case, at=self.bot.clock.now())

    def rows(self, state: OutboxState) -> list[OutboxRow]:
        with self.bot.services.store.read() as reading:
            return reading.outbox(states=[state])

    def thread_of(self, case: str) -> str | None:
        with self.bot.services.store.read() as reading:
            incident = reading.incident(case)
            return incident.thread_ts if incident else None


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with fake_slack() as slack:
        bot = make_bot(tmp_path)
        yield Rig(bot, slack)
        bot.store.close()


def test_a_case_becomes_a_parent_and_numbered_replies_in_order(rig: Rig) -> None:
    case = open_case(rig.bot)
    rig.answer(case, "platform team")
    rig.answer(case, "team blue")
    rig.send()
    parent = rig.slack.messages[0]
    assert parent.thread_ts is None
    assert parent.text.startswith(f"{case} · K3 does not start")
    replies = rig.slack.thread(parent.ts)
    assert [text.partition(" ·")[0] for text in replies] == ["#2", "#3"]
    assert rig.thread_of(case) == parent.ts
    assert rig.rows(OutboxState.WAITING) == rig.rows(OutboxState.MARKED) == []


def test_the_dashboard_is_edited_and_evidence_is_not(rig: Rig) -> None:
    case = open_case(rig.bot)
    rig.send()
    edits = rig.slack.messages[0].edits
    rig.answer(case, "platform team")
    rig.send()
    assert rig.slack.messages[0].edits > edits
    assert all(message.edits == 0 for message in rig.slack.messages[1:])


def test_many_changes_at_once_edit_the_dashboard_once(rig: Rig) -> None:
    case = open_case(rig.bot)
    rig.send()
    edits = rig.slack.messages[0].edits
    for number in range(5):
        rig.answer(case, f"team {number}")
    rig.send(rounds=30)
    assert rig.slack.messages[0].edits - edits <= 2
    assert len(rig.slack.messages) == 6


def test_an_answer_lost_on_the_way_posts_nothing_twice(rig: Rig) -> None:
    case = open_case(rig.bot)
    rig.slack.script["chat.postMessage"] = [LOST]
    rig.send()
    parents = [message for message in rig.slack.messages if message.thread_ts is None]
    assert len(parents) == 1
    assert rig.thread_of(case) == parents[0].ts
    assert rig.slack.named("conversations.history")


def test_a_row_marked_before_a_crash_is_looked_up_then_sent(rig: Rig) -> None:
    open_case(rig.bot)
    with rig.bot.services.store.write() as tx:
        tx.update_outbox(rig.rows(OutboxState.WAITING)[0].id, state=OutboxState.MARKED, attempts=1)
    rig.send()
    assert len([message for message in rig.slack.messages if message.thread_ts is None]) == 1
    assert rig.slack.calls[0][0] == "conversations.history"


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param((429, {"Retry-After": "30"}, {"ok": False, "error": "ratelimited"}), id="429 with Retry-After"),
        pytest.param((500, {}, {"ok": False, "error": "internal_error"}), id="server error"),
        pytest.param("fatal_error", id="fatal_error"),
        pytest.param("token_revoked", id="token revoked, and given back"),
    ],
)
def test_a_passing_refusal_delays_and_loses_nothing(rig: Rig, refusal: object) -> None:
    open_case(rig.bot)
    rig.slack.script["chat.postMessage"] = [refusal]
    rig.sender.send_due()
    assert rig.slack.messages == []
    rig.send(rounds=30)
    assert len([message for message in rig.slack.messages if message.thread_ts is None]) == 1


def test_retry_after_is_honoured(rig: Rig) -> None:
    open_case(rig.bot)
    rig.slack.script["chat.postMessage"] = [(429, {"Retry-After": "40"}, {"ok": False, "error": "ratelimited"})]
    rig.send(rounds=7, step_s=5.0)
    assert len(rig.slack.named("chat.postMessage")) == 1
    rig.send(rounds=5, step_s=5.0)
    assert len(rig.slack.named("chat.postMessage")) > 1


def test_blocks_that_slack_refuses_go_once_as_plain_text(rig: Rig) -> None:
    open_case(rig.bot)
    rig.slack.script["chat.postMessage"] = ["invalid_blocks"]
    rig.send()
    assert rig.slack.messages[0].blocks == []
    assert "*" not in rig.slack.messages[0].text
    assert len(rig.slack.messages) == 1


def test_what_is_refused_for_good_is_passed_over(rig: Rig) -> None:
    case = open_case(rig.bot)
    rig.send()
    rig.slack.script["chat.postMessage"] = ["invalid_blocks", "no_text"]
    rig.answer(case, "first")
    rig.answer(case, "second")
    rig.send()
    assert len(rig.rows(OutboxState.UNDELIVERABLE)) == 1
    assert rig.slack.messages[-1].text.startswith("#3")


def test_a_bot_outside_the_channel_waits_and_tells_the_owner_once(rig: Rig) -> None:
    case = open_case(rig.bot)
    rig.slack.script["chat.postMessage"] = ["not_in_channel"]
    rig.sender.send_due()
    rig.sender.send_due()
    assert [message.channel for message in rig.slack.messages] == ["U0RESPONDER"]
    assert "/invite" in json_text(rig.slack.messages[0].blocks)
    rig.send(rounds=10)
    assert rig.thread_of(case) is not None
    assert [message.channel for message in rig.slack.messages].count("U0RESPONDER") == 1


def test_a_deleted_parent_moves_the_dashboard_into_the_thread(rig: Rig) -> None:
    case = open_case(rig.bot)
    rig.send()
    parent = rig.slack.messages.pop(0)
    rig.answer(case, "platform team")
    rig.send()
    moved = [m for m in rig.slack.messages if m.thread_ts == parent.ts and m.text.startswith(case)]
    assert len(moved) == 1


def test_notes_of_one_slot_edit_one_message(rig: Rig) -> None:
    case = open_case(rig.bot)
    for text in ("loading", "loading more", "ready"):
        rig.enqueue(OutboxKind.NOTE, {"text": text, "blocks": [], "slot": "progress:1"}, case)
    rig.send(rounds=20)
    texts = rig.slack.thread(rig.slack.messages[0].ts)
    assert texts.count("ready") == 1
    assert "loading" not in texts


def test_a_file_is_uploaded_and_shared_into_the_thread(rig: Rig) -> None:
    case = open_case(rig.bot)
    sha256 = rig.bot.artifacts.put(b"the log\n")
    rig.enqueue(OutboxKind.FILE, {"sha256": sha256, "name": "a.log", "title": "Attempt 1: log"}, case)
    rig.send()
    file = rig.slack.files["F0001"]
    assert file["data"] == b"the log\n"
    assert file["shares"]["public"]["C0ONCALL"] == [{"thread_ts": rig.slack.messages[0].ts}]


def test_a_pictures_alt_text_goes_to_slack_with_it(rig: Rig) -> None:
    case = open_case(rig.bot)
    sha256 = rig.bot.artifacts.put(b"\x89PNG")
    rig.enqueue(
        OutboxKind.FILE, {"sha256": sha256, "name": "chart.png", "title": "Stages", "alt": "1 failed: 42 s"}, case
    )
    rig.send()
    assert rig.slack.files["F0001"]["alt"] == "1 failed: 42 s"


def test_a_file_cut_between_upload_and_share_is_shared_once(rig: Rig) -> None:
    case = open_case(rig.bot)
    sha256 = rig.bot.artifacts.put(b"the log\n")
    rig.enqueue(OutboxKind.FILE, {"sha256": sha256, "name": "a.log"}, case)
    rig.slack.script["files.completeUploadExternal"] = [LOST]
    rig.send(rounds=20)
    assert len(rig.slack.files) == 1
    assert len(rig.slack.named("files.completeUploadExternal")) == 1


def test_a_file_that_slack_took_and_never_shows_is_said(rig: Rig) -> None:
    case = open_case(rig.bot)
    rig.slack.never_shares = True
    sha256 = rig.bot.artifacts.put(b"the log\n")
    rig.enqueue(OutboxKind.FILE, {"sha256": sha256, "name": "a.log", "title": "Attempt 1: log"}, case)
    rig.answer(case, "after it")
    rig.send(rounds=40)
    texts = rig.slack.thread(rig.slack.messages[0].ts)
    assert [text.partition(" ")[0] for text in texts] == ["#2", "Attempt"]
    assert "does not show it" in texts[1]
    assert len(rig.slack.named("files.completeUploadExternal")) == 1


def test_a_bot_removed_from_the_channel_waits_and_loses_nothing(rig: Rig) -> None:
    case = open_case(rig.bot)
    rig.send()
    rig.answer(case, "said meanwhile")
    rig.slack.script["chat.postMessage"] = ["not_in_channel", None, "not_in_channel"]
    rig.send(rounds=40)
    assert rig.slack.thread(rig.slack.messages[0].ts)[-1].startswith("#2")
    assert [m.channel for m in rig.slack.messages].count("U0RESPONDER") == 1


def test_an_archived_channel_is_passed_over(rig: Rig) -> None:
    case = open_case(rig.bot)
    rig.send()
    rig.slack.script["chat.postMessage"] = ["is_archived"]
    rig.answer(case, "x")
    rig.send()
    assert len(rig.rows(OutboxState.UNDELIVERABLE)) == 1


def test_a_file_whose_bytes_never_arrived_is_uploaded_anew(rig: Rig) -> None:
    case = open_case(rig.bot)
    sha256 = rig.bot.artifacts.put(b"the log\n")
    rig.enqueue(OutboxKind.FILE, {"sha256": sha256, "name": "a.log"}, case)
    rig.send(rounds=1)
    rig.slack.files["F0009"] = {"name": "a.log", "data": None, "shares": {}}
    waiting = next(row for row in rig.rows(OutboxState.WAITING) if row.kind is OutboxKind.FILE)
    with rig.bot.services.store.write() as tx:
        tx.update_outbox(waiting.id, state=OutboxState.MARKED, external_id="F0009", attempts=1)
    rig.send(rounds=20)
    shared = [name for name, file in rig.slack.files.items() if file["shares"]]
    assert len(shared) == 1
    assert shared != ["F0009"]


def test_an_api_url_without_a_slash_at_its_end_works(tmp_path: Path) -> None:
    with fake_slack() as slack:
        bot = make_bot(tmp_path)
        rig = Rig(bot, slack, slash="")
        open_case(bot)
        rig.send()
        assert len(slack.messages) == 1
        bot.store.close()


def json_text(blocks: object) -> str:
    import json

    return json.dumps(blocks)
