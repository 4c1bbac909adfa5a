"""Messages: words to the bot, pasted logs, dropped files; the rest is other people's talk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.errors import Repeated
from bot.flows.forms import attempt_form
from bot.flows.receive_message import Incoming, pasted_log, receive_message, unescaped
from bot.ports import OutboxKind
from tests.support.bot_services import TestBot, kinds, make_bot, open_case, payloads
from tests.support.people import CHANNEL, FAILING_LOG, outbox, responder, said, viewer

LOG = FAILING_LOG.decode()
FILE = {
    "id": "F1",
    "name": "engine.log",
    "size": 10,
    "url_private_download": "https://files.slack.com/x",
    "extra": "no",
}
THREAD = "1796092860.000100"


@pytest.fixture
def bot(tmp_path: Path) -> Iterator[TestBot]:
    made = make_bot(tmp_path)
    yield made
    made.store.close()


def case_with_thread(bot: TestBot) -> str:
    case = open_case(bot, node=None)
    with bot.services.store.write() as tx:
        tx.set_thread(case, THREAD)
    return case


def send(bot: TestBot, text: str = "", *, ts: str = "1.1", who: Any = responder, **changes: Any) -> bool:
    incoming = Incoming(**{"ts": ts, "text": text, **changes})
    return receive_message(bot.services, who(f"message:{CHANNEL}:{ts}"), incoming)


def replies(bot: TestBot) -> list[str]:
    return [said(payload) for payload in outbox(bot, OutboxKind.DIRECT)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("help", "Drop or paste a log", id="help"),
        pytest.param("", "Drop or paste a log", id="nothing"),
        pytest.param("what is this?", "Drop or paste a log", id="anything else"),
        pytest.param("status", "No open case", id="status"),
        pytest.param("nodes", "gpu-a1", id="nodes"),
    ],
)
def test_a_mention_is_answered_without_a_case(bot: TestBot, text: str, expected: str) -> None:
    assert send(bot, text, mentioned=True, who=viewer)
    assert expected in replies(bot)[0]


@pytest.mark.parametrize(
    ("text", "in_thread", "expected"),
    [
        pytest.param("banana", False, "I do not know `banana`", id="an unknown word"),
        pytest.param("banana", True, "I do not know `banana`", id="an unknown word in a case"),
        pytest.param("close it", False, "`close` is about one case", id="a case's word outside of one"),
    ],
)
def test_what_is_not_understood_is_named_before_the_help(
    bot: TestBot, text: str, in_thread: bool, expected: str
) -> None:
    case_with_thread(bot)
    send(bot, text, mentioned=True, **({"thread_ts": THREAD} if in_thread else {}))
    assert expected in replies(bot)[0]
    assert "Drop or paste a log" in replies(bot)[0]


def test_asking_for_help_is_no_unknown_word(bot: TestBot) -> None:
    send(bot, "help", mentioned=True)
    send(bot, "", ts="1.2", mentioned=True)
    assert not any("do not know" in answer for answer in replies(bot))


def test_run_says_of_a_recorded_baseline_what_its_form_says(bot: TestBot) -> None:
    case = open_case(bot)
    with bot.services.store.write() as tx:
        tx.set_thread(case, THREAD)
    send(bot, LOG, thread_ts=THREAD)
    send(bot, "run", ts="1.2", mentioned=True, thread_ts=THREAD)
    assert "No minimal command is frozen yet" in replies(bot)[-1]
    assert "No minimal command is frozen yet" in str(attempt_form(bot.services, responder(), case))


def test_closing_without_a_reason_is_answered_with_how(bot: TestBot) -> None:
    case = case_with_thread(bot)
    send(bot, "close", mentioned=True, thread_ts=THREAD)
    assert "`close REASON`" in replies(bot)[0]
    assert f"close|{case}:" in replies(bot)[0]


@pytest.mark.parametrize("word", ["status", "next", "run", "score", "Status?"])
def test_a_word_in_the_thread_is_about_its_case(bot: TestBot, word: str) -> None:
    case = case_with_thread(bot)
    send(bot, word, mentioned=True, thread_ts=THREAD)
    assert outbox(bot, OutboxKind.DIRECT)[0]["thread_ts"] == THREAD
    assert (
        case in replies(bot)[0]
        or "Next:" in replies(bot)[0]
        or "No score yet" in replies(bot)[0]
        or "no node" in replies(bot)[0]
    )


def test_decide_and_close_in_the_thread_are_recorded(bot: TestBot) -> None:
    case = case_with_thread(bot)
    send(bot, "decide", ts="1.1", mentioned=True, thread_ts=THREAD)
    send(bot, "close it was the disk", ts="1.2", mentioned=True, thread_ts=THREAD)
    assert kinds(bot, case)[-2:] == ["decision:proposed", "incident:closed"]
    assert payloads(bot, case, "incident:closed")[0]["reason"] == "it was the disk"


def test_a_refused_word_is_answered_where_it_was_said(bot: TestBot) -> None:
    case = case_with_thread(bot)
    send(bot, "close because", mentioned=True, thread_ts=THREAD, who=viewer)
    assert kinds(bot, case) == ["incident:opened"]
    assert "Not done" in replies(bot)[0]


def test_a_log_pasted_to_the_bot_is_answered_without_a_case(bot: TestBot) -> None:
    assert send(bot, LOG, direct=True, who=viewer)
    assert "open_from_log" in replies(bot)[0]


def test_a_log_pasted_into_a_thread_is_a_recorded_attempt(bot: TestBot) -> None:
    case = case_with_thread(bot)
    send(bot, LOG, thread_ts=THREAD)
    assert payloads(bot, case, "attempt:recorded")[0]["origin"] == "recorded"


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"text": LOG}, id="a log in a channel, said to nobody"),
        pytest.param({"text": "we restarted it, still failing", "thread_ts": THREAD}, id="talk in the thread"),
        pytest.param({"text": "lunch?"}, id="talk in the channel"),
        pytest.param({"files": ({"id": "F1", "name": "holiday.png"},)}, id="a picture in the channel"),
        pytest.param({"files": ({"id": "F1", "name": "site.tar.gz"},)}, id="an archive in the channel"),
    ],
)
def test_other_peoples_talk_is_left_alone(bot: TestBot, changes: dict[str, Any]) -> None:
    case = case_with_thread(bot)
    before = len(outbox(bot))
    assert not send(bot, **changes)
    assert kinds(bot, case) == ["incident:opened"]
    assert len(outbox(bot)) == before


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"direct": True}, id="in a direct message"),
        pytest.param({"mentioned": True}, id="with a mention"),
        pytest.param({"thread_ts": THREAD}, id="in a case's thread"),
        pytest.param({}, id="in the channel, named like a log"),
    ],
)
def test_a_dropped_file_is_remembered_before_it_is_read(bot: TestBot, changes: dict[str, Any]) -> None:
    case_with_thread(bot)
    assert send(bot, files=(FILE,), **changes)
    kept = outbox(bot, OutboxKind.FETCH)[0]
    assert kept["file"]["url_private_download"] == FILE["url_private_download"]
    assert "extra" not in kept["file"]


def test_one_message_delivered_three_times_is_taken_once(bot: TestBot) -> None:
    case_with_thread(bot)
    send(bot, files=(FILE,), direct=True)
    for _again in range(2):
        with pytest.raises(Repeated):
            send(bot, files=(FILE,), direct=True)
    assert len(outbox(bot, OutboxKind.FETCH)) == 1


@pytest.mark.parametrize(
    ("text", "at_once", "found"),
    [
        pytest.param("```\nonly one line\n```", False, True, id="fenced"),
        pytest.param(LOG, False, True, id="several lines with errors"),
        pytest.param("one\ntwo\nthree", False, False, id="several lines of talk"),
        pytest.param(
            "RuntimeError: CUDA driver version is insufficient for CUDA runtime version",
            True,
            True,
            id="one telling line",
        ),
        pytest.param(
            "RuntimeError: CUDA driver version is insufficient for CUDA runtime version",
            False,
            False,
            id="the same, said to nobody",
        ),
        pytest.param("status", True, False, id="a word"),
    ],
)
def test_what_counts_as_a_pasted_log(text: str, at_once: bool, found: bool) -> None:
    assert (pasted_log(text, at_once=at_once) is not None) is found


def test_slacks_own_markup_is_taken_out_of_a_pasted_log() -> None:
    text = "a &lt;b&gt; &amp; <http://host:8000/v1|host:8000/v1> <https://x.example/y>"
    assert unescaped(text) == "a <b> & host:8000/v1 https://x.example/y"


def test_features_to_probe_are_named_and_a_wrong_name_is_refused_with_them(bot: TestBot) -> None:
    case_with_thread(bot)
    assert send(bot, "probe", mentioned=True, thread_ts=THREAD, ts="1.1")
    assert "structured_output" in replies(bot)[0]
    assert "probe|" in replies(bot)[0], "expected buttons"
    assert send(bot, "probe telepathy", mentioned=True, thread_ts=THREAD, ts="1.2")
    assert "no such feature" in replies(bot)[1]
    assert send(bot, "probe tool call", mentioned=True, thread_ts=THREAD, ts="1.3")
    assert "no such feature" not in replies(bot)[2]
