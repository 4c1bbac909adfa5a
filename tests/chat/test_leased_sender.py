"""Of several bots one sends; a nudge wakes it, an error makes it pause, an end gives the right back."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from bot.adapters.leased_sender import LEASE_S, RENEW_S, LeasedSender
from bot.errors import SlackError, StoreUnavailable
from tests.support.bot_services import TestBot, make_bot


class CountingSender:
    """Implements `bot.adapters.leased_sender.Sender`; raises what it is given first."""

    def __init__(self, *errors: Exception, wait_s: float = 30.0) -> None:
        self.rounds = 0
        self.again = threading.Semaphore(0)
        self._errors = list(errors)
        self._wait_s = wait_s

    def send_due(self) -> float:
        self.rounds += 1
        self.again.release()
        if self._errors:
            raise self._errors.pop()
        return self._wait_s


@pytest.fixture
def bot(tmp_path: Path) -> TestBot:
    return make_bot(tmp_path)


def test_of_two_bots_one_sends_until_it_ends_or_is_silent_for_too_long(bot: TestBot) -> None:
    mine, theirs = CountingSender(), CountingSender()
    first = LeasedSender(bot.services, mine, name="slack", holder="this bot")
    second = LeasedSender(bot.services, theirs, name="slack", holder="another bot")
    first.round()
    second.round()
    assert (mine.rounds, theirs.rounds) == (1, 0)
    bot.clock.forward(seconds=LEASE_S + 1)
    second.round()
    assert theirs.rounds == 1
    second.stop()
    first.round()
    assert mine.rounds == 2


def test_a_bot_that_was_killed_and_started_again_goes_on_at_once(bot: TestBot) -> None:
    before, after = CountingSender(), CountingSender()
    LeasedSender(bot.services, before, name="slack", holder="this bot").round()
    LeasedSender(bot.services, after, name="slack", holder="this bot").round()
    assert after.rounds == 1


def test_a_right_that_was_renewed_lately_costs_the_store_nothing(bot: TestBot, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    ask = bot.services.store.sender_lease
    monkeypatch.setattr(
        bot.services.store, "sender_lease", lambda *args, **named: asked.append(args) or ask(*args, **named)
    )
    sender = CountingSender()
    leased = LeasedSender(bot.services, sender, name="slack", holder="this bot")
    for _ in range(10):
        leased.round()
    assert (sender.rounds, len(asked)) == (10, 1)
    bot.clock.forward(seconds=RENEW_S)
    leased.round()
    assert len(asked) == 2


def test_messages_and_files_have_a_right_each(bot: TestBot) -> None:
    sender = CountingSender()
    for name in ("slack", "slack-files"):
        LeasedSender(bot.services, sender, name=name, holder=name).round()
    assert sender.rounds == 2


def test_a_nudge_wakes_the_thread(bot: TestBot) -> None:
    sender = CountingSender()
    leased = LeasedSender(bot.services, sender, name="slack", holder="this bot")
    leased.start()
    assert sender.again.acquire(timeout=10)
    leased.nudge()
    assert sender.again.acquire(timeout=10)
    leased.stop()


@pytest.mark.parametrize("error", [StoreUnavailable("down"), SlackError("lost", error="no_answer")])
def test_an_error_ends_a_round_and_not_the_thread(bot: TestBot, error: Exception) -> None:
    sender = CountingSender(error)
    leased = LeasedSender(bot.services, sender, name="slack", holder="this bot")
    leased.start()
    assert sender.again.acquire(timeout=10)
    leased.nudge()
    assert sender.again.acquire(timeout=10)
    leased.stop()
