"""The async edge to the flows: in time, in words, and nothing half done."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from bot.adapters.deadline import GuardedStore
from bot.adapters.flow_pool import Breaker, FlowPool
from bot.errors import StoreBusy, StoreUnavailable, UnknownIncident
from playbooks.evidence.entries import AnswerRecorded
from tests.support.bot_services import START, kinds, make_bot, open_case


class SetMonotonic:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


async def test_a_flow_runs_in_another_thread_and_its_value_comes_back() -> None:
    pool = FlowPool()
    assert await pool(threading.get_ident) != threading.get_ident()
    assert await pool(max, 1, 2) == 2
    pool.close()


async def test_an_error_of_the_flow_reaches_the_caller() -> None:
    def flow() -> None:
        raise UnknownIncident("no incident INC-9999")

    pool = FlowPool()
    with pytest.raises(UnknownIncident, match="INC-9999"):
        await pool(flow)
    pool.close()


async def test_a_store_that_does_not_answer_is_refused_in_time() -> None:
    end = threading.Event()
    pool = FlowPool(limit_s=0.05)
    with pytest.raises(StoreUnavailable, match="did not answer in time; nothing was recorded"):
        await pool(end.wait)
    end.set()
    pool.close()


async def test_a_flow_that_was_given_up_does_not_commit_afterwards(tmp_path: Path) -> None:
    bot = make_bot(tmp_path)
    incident = open_case(bot)
    store = GuardedStore(bot.store)
    go_on, ended = threading.Event(), threading.Event()

    def flow() -> None:
        try:
            with store.write() as tx:
                tx.append(incident, AnswerRecorded(item="x", value="y"), actor="user:U1", at=START)
                go_on.wait()
        finally:
            ended.set()

    pool = FlowPool(limit_s=0.05)
    with pytest.raises(StoreUnavailable):
        await pool(flow)
    go_on.set()
    assert await asyncio.to_thread(ended.wait, 10)
    assert kinds(bot, incident) == ["incident:opened"]
    pool.close()


async def test_a_commit_that_has_begun_is_waited_for() -> None:
    pool = FlowPool(limit_s=0.05)
    end = threading.Event()

    def flow() -> str:
        from bot.adapters.deadline import CURRENT

        call = CURRENT.get()
        assert call is not None
        call.begin_commit()
        end.wait()
        return "recorded"

    waiting = asyncio.ensure_future(pool(flow))
    await asyncio.sleep(0.1)
    end.set()
    assert await waiting == "recorded"
    pool.close()


async def test_too_many_waiting_calls_are_refused_at_once() -> None:
    end = threading.Event()
    pool = FlowPool(threads=1, most_waiting=0, limit_s=5)
    first = asyncio.ensure_future(pool(end.wait))
    await asyncio.sleep(0)
    with pytest.raises(StoreBusy, match="too many requests"):
        await pool(end.wait)
    end.set()
    await first
    pool.close()


async def test_after_failures_in_a_row_calls_are_refused_at_once_until_a_probe_comes_through() -> None:
    clock = SetMonotonic()
    pool = FlowPool(breaker=Breaker(clock=clock))
    calls: list[str] = []

    def down() -> None:
        calls.append("down")
        raise StoreUnavailable("connection refused")

    for _ in range(8):
        with pytest.raises(StoreUnavailable):
            await pool(down)
    assert calls == ["down"] * 5
    clock.at = 1.5
    with pytest.raises(StoreUnavailable, match="connection refused"):
        await pool(down)
    with pytest.raises(StoreUnavailable, match="has not answered lately"):
        await pool(calls.append, "refused")
    clock.at = 3.0

    def refused() -> None:
        calls.append("probe")
        raise UnknownIncident("no incident INC-9999")

    with pytest.raises(UnknownIncident):
        await pool(refused)
    await pool(calls.append, "closed again")
    assert calls[5:] == ["down", "probe", "closed again"]
    pool.close()


async def test_each_call_is_counted_by_flow_and_outcome() -> None:
    told: list[tuple[str, str]] = []
    pool = FlowPool(observe=lambda flow, _seconds, outcome: told.append((flow, outcome)))

    def status() -> None:
        return None

    def busy() -> None:
        raise StoreBusy("locked")

    def down() -> None:
        raise StoreUnavailable("down")

    def wrong() -> None:
        raise UnknownIncident("none")

    await pool(status)
    for flow in (busy, down, wrong):
        with pytest.raises((StoreBusy, StoreUnavailable, UnknownIncident)):
            await pool(flow)
    assert told == [("status", "ok"), ("busy", "busy"), ("down", "unavailable"), ("wrong", "error")]
    pool.close()
