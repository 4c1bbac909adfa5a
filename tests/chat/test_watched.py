"""A launch that `baseline watch` looked on: recorded in its case once, by the node's key or by dropping its file."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bot.blocks.evidence import evidence
from bot.blocks.texts import translator
from bot.flows.close_incident import close_incident
from bot.flows.record_log import record_log
from bot.flows.showing import recorded_of
from playbooks.messages import WatchedOffer, WatchedReply
from playbooks.reading.watched import WatchedRun, first_line
from tests.support.bot_http import Http, serving
from tests.support.bot_services import NODE, TestBot, kinds, make_bot, open_case, payloads
from tests.support.people import FAILING_LOG, another_run, approver, outbox, responder, said

RUN = WatchedRun(
    command=("vllm", "serve", "/models/none", "--enable-prefix-caching"),
    exit_code=1,
    where="gpu-a1",
    limits=("weight loading is silent for 10 min, its limit",),
    dropped_bytes=5,
)


@pytest.fixture
def bot(tmp_path: Path) -> TestBot:
    return make_bot(tmp_path)


@pytest.fixture
async def http(bot: TestBot, tmp_path: Path) -> AsyncIterator[Http]:
    async with serving(bot, tmp_path) as served:
        yield served


async def send(http: Http, address: str, data: bytes, **changes: Any) -> Any:
    offer = WatchedOffer(
        **{
            "incident": address,
            "node": NODE,
            "sha256": hashlib.sha256(data).hexdigest(),
            "size_bytes": len(data),
            "name": "baseline-watch-20261201T024103Z.log",
            "at": http.bot.clock.now(),
            **changes,
        }
    )
    return await http.client.put(f"/watched/{address}", content=data, headers=http.header(offer))


def file_of(log: bytes = FAILING_LOG, run: WatchedRun = RUN) -> bytes:
    return first_line(run) + log


async def test_a_launch_that_was_looked_on_is_a_recorded_attempt_of_the_command_that_ran(
    http: Http, bot: TestBot
) -> None:
    case = open_case(bot)
    reply = http.read(await send(http, case, file_of()), WatchedReply)
    [attempt] = payloads(bot, case, "attempt:recorded")
    assert (attempt["origin"], attempt["outcome"], attempt["exit_code"]) == ("recorded", "failed", 1)
    assert attempt["watched"]["command"] == list(RUN.command)
    [frozen] = payloads(bot, case, "baseline:frozen")
    assert "--enable-prefix-caching" in frozen["baseline"]["argv"]
    assert frozen["derived_from"] == "the command that was seen to run"
    assert reply.detail == f"recorded as entry {reply.seq}"
    with bot.store.read() as reading:
        [entry] = [one for one in reading.entries(case) if one.seq == reply.seq]
    assert entry.actor == f"node:{NODE}"


async def test_two_of_them_get_a_score(http: Http, bot: TestBot) -> None:
    case = open_case(bot)
    for number in (1, 2):
        http.read(await send(http, case, file_of(another_run(number))), WatchedReply)
    assert [score["score"] for score in payloads(bot, case, "score:given")] == [2]


async def test_the_same_file_sent_again_is_recorded_once_and_names_its_entry(http: Http, bot: TestBot) -> None:
    case = open_case(bot)
    first = http.read(await send(http, case, file_of()), WatchedReply)
    again = http.read(await send(http, case, file_of()), WatchedReply)
    assert again.seq == first.seq
    assert again.detail == "recorded before"
    assert kinds(bot, case).count("attempt:recorded") == 1


def test_the_dropped_file_tells_the_same(bot: TestBot) -> None:
    case = open_case(bot)
    record_log(bot.services, responder("event:1"), case, name="w.log", chunks=[file_of()[:40], file_of()[40:]])
    [attempt] = payloads(bot, case, "attempt:recorded")
    assert attempt["exit_code"] == 1
    assert attempt["watched"]["where"] == "gpu-a1"


def test_the_thread_says_who_looked_on_what_ran_and_which_limits_passed(bot: TestBot) -> None:
    case = open_case(bot)
    seq = record_log(bot.services, responder("event:1"), case, name="w.log", chunks=[file_of()])
    assert outbox(bot)
    with bot.services.store.read() as reading:
        recorded = recorded_of(bot.services, reading, case, seq)
    assert recorded is not None
    shown = said(evidence(recorded, translator("en")))
    assert "`baseline watch` looked on at gpu-a1" in shown
    assert "--enable-prefix-caching" in shown
    assert "weight loading is silent for 10 min" in shown
    assert "5 bytes" in shown


@pytest.mark.parametrize(
    ("changes", "status", "error"),
    [
        pytest.param({"sha256": "0" * 64}, 409, "digest_mismatch", id="other bytes"),
        pytest.param({"size_bytes": 3}, 400, "malformed", id="another size"),
        pytest.param({"size_bytes": 2**40}, 413, "too_large", id="too large"),
        pytest.param({"incident": "INC-0099"}, 400, "malformed", id="another case than the address"),
        pytest.param({"node": "gpu-b2"}, 403, "not_that_node", id="for another node"),
    ],
)
async def test_what_is_not_taken_is_refused_in_words_and_leaves_nothing(
    http: Http, bot: TestBot, changes: dict[str, Any], status: int, error: str
) -> None:
    case = open_case(bot)
    response = await send(http, case, file_of(), **changes)
    assert (response.status_code, response.json()["error"]) == (status, error)
    assert "attempt:recorded" not in kinds(bot, case)


async def test_cases_that_are_unknown_closed_or_another_nodes_take_nothing(http: Http, bot: TestBot) -> None:
    assert (await send(http, "INC-0099", file_of())).json()["error"] == "unknown_incident"
    other = open_case(bot, node="gpu-b2")
    assert (await send(http, other, file_of())).json()["error"] == "not_that_node"
    closed = open_case(bot)
    close_incident(bot.services, approver("press:1"), closed, reason="done")
    response = await send(http, closed, file_of())
    assert (response.status_code, response.json()["error"]) == (409, "refused")
    assert "is closed" in response.json()["detail"]
    unbound = open_case(bot, node=None)
    http.read(await send(http, unbound, file_of()), WatchedReply)
