"""What nodes say while they work: one edited line in the thread, and what they hold no more."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.errors import Replayed
from bot.flows.claim_job import claim_job
from bot.flows.node_hello import node_hello
from bot.flows.record_progress import record_progress
from bot.flows.request_job import Wish, request_job
from bot.ports import Job, OutboxKind, OutboxState
from playbooks.evidence.entries import AttemptRecorded
from playbooks.messages import Claim, EngineEnd, HeldEngine, NodeHello, Progress
from playbooks.vocabulary import JobKind, Outcome, Stage
from tests.support.bot_services import (
    NODE,
    RESPONDER,
    TestBot,
    a_baseline,
    a_finding,
    kinds,
    make_bot,
    open_case,
    payloads,
    say_hello,
)


@pytest.fixture
def bot(tmp_path: Path) -> TestBot:
    return make_bot(tmp_path)


@pytest.fixture
def job(bot: TestBot) -> Job:
    say_hello(bot)
    wish = Wish(
        incident=open_case(bot),
        kind=JobKind.LAUNCH,
        node=NODE,
        requested_by=f"user:{RESPONDER}",
        attempt=1,
        baseline=a_baseline(),
    )
    job = request_job(bot.services, wish)
    claim_job(bot.services, Claim(job_id=job.id, node=NODE, at=bot.clock.now()))
    return job


def say(bot: TestBot, job: Job, seq: int, **changes: Any) -> Any:
    return record_progress(
        bot.services, Progress(**{"job_id": job.id, "node": NODE, "seq": seq, "at": bot.clock.now(), **changes})
    )


def notes(bot: TestBot, *, sent: bool = False) -> list[str]:
    """Return the texts of the lines that wait to be sent; `sent` marks them so."""
    with bot.store.write() as tx:
        rows = tx.outbox(states=[OutboxState.WAITING], kinds=[OutboxKind.NOTE])
        for row in rows if sent else ():
            tx.update_outbox(row.id, state=OutboxState.DONE)
    assert len({row.payload["slot"] for row in rows}) <= 1
    return [row.payload["text"] for row in rows]


def test_progress_is_one_line_edited_in_place(bot: TestBot, job: Job) -> None:
    say(bot, job, 1, stage=Stage.CONTAINER_INIT)
    assert notes(bot, sent=True) == ["launch attempt 1 on gpu-a1 now: container initialisation"]
    bot.clock.forward(seconds=3)
    say(bot, job, 2, stage=Stage.WEIGHT_LOADING, note="shard 1 of 8")
    assert notes(bot) == ["launch attempt 1 on gpu-a1 now: weight loading"]


def test_within_three_seconds_nothing_more_is_shown(bot: TestBot, job: Job) -> None:
    say(bot, job, 1, stage=Stage.CONTAINER_INIT)
    notes(bot, sent=True)
    bot.clock.forward(seconds=2)
    say(bot, job, 2, stage=Stage.WEIGHT_LOADING)
    assert notes(bot) == []
    with bot.store.read() as reading:
        shown = reading.job(job.id)
    assert shown is not None
    assert shown.stage == "weight_loading"


def test_the_first_fatal_line_is_named_at_once_and_stays(bot: TestBot, job: Job) -> None:
    say(bot, job, 1, stage=Stage.WEIGHT_LOADING)
    notes(bot, sent=True)
    say(bot, job, 2, root_text="OSError: <!channel> no such model")
    assert notes(bot, sent=True) == [
        "launch attempt 1 on gpu-a1 First fatal line: `OSError: &lt;!channel&gt; no such model`"
    ]
    bot.clock.forward(seconds=5)
    say(bot, job, 3, note="stopping")
    assert "no such model" in notes(bot)[0]


def test_what_waits_to_be_sent_is_replaced_by_the_newest(bot: TestBot, job: Job) -> None:
    for seq in range(5):
        say(bot, job, seq, stage=Stage.WEIGHT_LOADING, note=f"shard {seq}")
        bot.clock.forward(seconds=4)
    assert len(notes(bot)) == 1


def test_an_older_message_changes_nothing(bot: TestBot, job: Job) -> None:
    say(bot, job, 7, stage=Stage.WEIGHT_LOADING)
    bot.clock.forward(seconds=4)
    say(bot, job, 6, stage=Stage.CONTAINER_INIT)
    with bot.store.read() as reading:
        shown = reading.job(job.id)
    assert shown is not None
    assert shown.stage == "weight_loading"


def test_progress_after_the_end_is_dropped_and_told_to_stop(bot: TestBot, job: Job) -> None:
    with bot.store.write() as tx:
        tx.update_job(job.id, state="ended", outcome="done")
    assert say(bot, job, 1, stage=Stage.SERVING).cancel
    assert notes(bot) == []


# hellos and held engines


def hold(bot: TestBot, *, minutes: int = 10) -> tuple[str, HeldEngine]:
    """Record a ready attempt whose engine is held, and return it as the node tells it."""
    incident = open_case(bot)
    until = bot.clock.now() + timedelta(minutes=minutes)
    attempt = AttemptRecorded(
        attempt=1,
        baseline_digest=a_baseline().digest,
        origin="observed",
        outcome=Outcome.READY,
        finding=a_finding("c").model_dump(mode="json"),
        node=NODE,
        held_until=until.isoformat(),
    )
    with bot.store.write() as tx:
        tx.append(incident, attempt, actor=f"node:{NODE}", at=bot.clock.now())
    held = HeldEngine(
        job_id="JOB-0001",
        incident=incident,
        attempt=1,
        engine="process",
        what="process 4711",
        endpoint="http://127.0.0.1:8000",
        since=bot.clock.now(),
        until=until,
    )
    return incident, held


def hello(bot: TestBot, **changes: Any) -> Any:
    return node_hello(
        bot.services,
        NodeHello(
            **{"node": NODE, "version": "1", "catalogue": "c", "policy_sha256": "p", "at": bot.clock.now(), **changes}
        ),
    )


def test_an_engine_found_dead_is_recorded_once(bot: TestBot) -> None:
    incident, held = hold(bot)
    hello(bot, lost=(held,))
    bot.clock.forward(seconds=30)
    hello(bot, lost=(held,))
    assert kinds(bot, incident).count("held:ended") == 1
    assert payloads(bot, incident, "held:ended") == [
        {"attempt": 1, "how": "died", "detail": "process 4711 was found dead"}
    ]


def test_an_engine_found_dead_is_recorded_with_the_cause_that_its_node_read(bot: TestBot) -> None:
    incident, held = hold(bot)
    hello(bot, lost=(held,), lost_because={held.job_id: "torch.OutOfMemoryError: CUDA out of memory."})
    (end,) = payloads(bot, incident, "held:ended")
    assert end["detail"] == "process 4711 was found dead: torch.OutOfMemoryError: CUDA out of memory."


def test_an_engine_that_the_node_ended_is_recorded_as_it_says(bot: TestBot) -> None:
    incident, held = hold(bot)
    hello(bot, ended=(EngineEnd(engine=held, how="expired", detail="held for 10 min"),))
    assert payloads(bot, incident, "held:ended")[0]["how"] == "expired"


@pytest.mark.parametrize(
    ("minutes", "how"),
    [pytest.param(5, "died", id="before its time"), pytest.param(11, "expired", id="after its time")],
)
def test_an_engine_that_is_not_told_of_any_more_has_ended(bot: TestBot, minutes: int, how: str) -> None:
    incident, held = hold(bot)
    hello(bot, held=(held,))
    bot.clock.forward(minutes=minutes)
    hello(bot)
    assert payloads(bot, incident, "held:ended")[0]["how"] == how


def test_a_hello_written_before_the_report_says_nothing_about_its_engine(bot: TestBot) -> None:
    incident, _held = hold(bot)
    bot.clock.forward(seconds=10)
    hello(bot)
    assert "held:ended" not in kinds(bot, incident)


def test_an_engine_that_the_record_does_not_know_is_left_alone(bot: TestBot) -> None:
    incident, held = hold(bot)
    hello(bot, lost=(held.model_copy(update={"attempt": 9}), held.model_copy(update={"incident": "INC-0777"})))
    assert "held:ended" not in kinds(bot, incident)


def test_an_older_hello_is_refused(bot: TestBot) -> None:
    hello(bot)
    with pytest.raises(Replayed):
        hello(bot, at=bot.clock.now() - timedelta(seconds=1))


def test_a_node_that_was_silent_and_speaks_again_has_its_dashboards_redrawn(bot: TestBot) -> None:
    hello(bot)
    case = open_case(bot)
    bot.clock.forward(seconds=10)
    hello(bot)
    assert case not in dict(bot.store.dashboards()), "a hello in time changes nothing that is shown"
    with bot.store.write() as tx:
        tx.set_thread(case, "1.0")
    bot.clock.at += bot.services.timing.node_silent_after + timedelta(seconds=1)
    hello(bot)
    assert case in dict(bot.store.dashboards())
