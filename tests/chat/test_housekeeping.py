"""What only the delivery needed is deleted after its time; the record and what is still to be sent never are."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from bot.adapters.artifact_store import FsspecArtifacts
from bot.adapters.housekeeping import DELIVERIES_KEPT, EVERY, SENT_KEPT, Housekeeping
from bot.ports import OutboxState
from tests.support.bot_services import TestBot, make_bot, open_case


@pytest.fixture
def bot(tmp_path: Path) -> TestBot:
    return make_bot(tmp_path)


def is_new(bot: TestBot, *, at: datetime) -> bool:
    with bot.store.write() as tx:
        return tx.first_time("event:1", at=at)


def queued(bot: TestBot) -> list[int]:
    with bot.store.read() as reading:
        return [row.id for row in reading.outbox(states=tuple(OutboxState), limit=100)]


def pass_time(bot: TestBot, span: timedelta) -> None:
    bot.clock.at += span


def test_a_repetition_within_days_is_still_known_and_forgotten_later(bot: TestBot) -> None:
    housekeeping = Housekeeping(bot.services)
    began = bot.clock.now()
    assert is_new(bot, at=began)
    pass_time(bot, DELIVERIES_KEPT - timedelta(minutes=1))
    housekeeping.send_due()
    assert not is_new(bot, at=began)
    pass_time(bot, EVERY)
    housekeeping.send_due()
    assert is_new(bot, at=began)


def test_what_was_sent_goes_and_what_was_not_sent_and_the_record_stay(bot: TestBot) -> None:
    incident = open_case(bot)
    open_case(bot)
    sent, *waiting = queued(bot)
    with bot.store.read() as reading:
        record = list(reading.entries(incident))
    with bot.store.write() as tx:
        tx.update_outbox(sent, state=OutboxState.DONE)
    pass_time(bot, SENT_KEPT + timedelta(seconds=1))
    Housekeeping(bot.services).send_due()
    assert len(waiting) == 1
    assert queued(bot) == waiting
    with bot.store.read() as reading:
        assert list(reading.entries(incident)) == record


def test_a_round_is_made_once_an_hour(bot: TestBot) -> None:
    housekeeping = Housekeeping(bot.services)
    assert housekeeping.send_due() == EVERY.total_seconds()
    pass_time(bot, timedelta(minutes=20))
    assert housekeeping.send_due() == 40 * 60


def test_a_draft_of_a_killed_process_goes_and_stored_files_stay(bot: TestBot, tmp_path: Path) -> None:
    artifacts = FsspecArtifacts(str(tmp_path / "files"))
    kept = artifacts.put(b"kept")
    drafts = tmp_path / "files" / "drafts"
    (drafts / "old").write_bytes(b"half")
    (drafts / "new").write_bytes(b"being written")
    now = bot.clock.now()
    os.utime(drafts / "old", (now.timestamp() - 2 * 86_400,) * 2)
    os.utime(drafts / "new", (now.timestamp() - 60,) * 2)
    Housekeeping(replace(bot.services, artifacts=artifacts)).send_due()
    assert sorted(path.name for path in drafts.iterdir()) == ["new"]
    assert artifacts.get(kept) == b"kept"
