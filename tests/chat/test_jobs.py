"""Asking for a job, claiming it, giving it up: the flows on a real SQLite store."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.errors import NodeHeld, NodeSilent, NodeUnknown, NotThatNode, UnknownIncident, UnknownJob
from bot.flows.cancel_job import Cancelled, cancel_job
from bot.flows.claim_job import claim_job
from bot.flows.give_up_job import give_up_job
from bot.flows.heartbeat import heartbeat
from bot.flows.request_job import Wish, request_job
from bot.flows.take_lease import take_lease
from bot.ports import Job, JobState, OutboxKind, OutboxState
from playbooks.errors import RuleViolation, SecondPersonNeeded
from playbooks.evidence.entries import AttemptRecorded, IncidentClosed
from playbooks.messages import Claim, Heartbeat, HeldEngine
from playbooks.vocabulary import JobKind, Outcome, Stage
from tests.support.bot_services import (
    APPROVER,
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


def wish(incident: str, kind: JobKind = JobKind.LAUNCH, **changes: Any) -> Wish:
    launch = {"attempt": 1, "baseline": a_baseline()} if kind is JobKind.LAUNCH else {}
    return Wish(
        **{"incident": incident, "kind": kind, "node": NODE, "requested_by": f"user:{RESPONDER}", **launch, **changes}
    )


def asked(bot: TestBot, incident: str | None = None, kind: JobKind = JobKind.LAUNCH, **changes: Any) -> Job:
    say_hello(bot)
    return request_job(bot.services, wish(incident or open_case(bot), kind, **changes))


def claim(bot: TestBot, job: Job, *, node: str = NODE, nonce: str = "first") -> Any:
    return claim_job(bot.services, Claim(job_id=job.id, node=node, nonce=nonce, at=bot.clock.now()))


def test_a_wish_is_one_entry_one_job_and_one_outbox_row(bot: TestBot) -> None:
    incident = open_case(bot)
    job = asked(bot, incident)
    with bot.store.read() as reading:
        rows = reading.outbox(states=[OutboxState.WAITING], kinds=[OutboxKind.JOB])
    assert kinds(bot, incident) == ["incident:opened", "job:requested"]
    assert [row.payload for row in rows] == [{"job_id": job.id}]
    assert (job.state, job.not_after) == (JobState.WANTED, bot.clock.now() + timedelta(minutes=10))
    assert bot.nudges


def test_a_job_is_not_asked_of_a_node_that_nobody_enrolled(bot: TestBot) -> None:
    incident = open_case(bot)
    with pytest.raises(NodeUnknown, match=r"expected a node of BASELINE_NODES \(gpu-a1\), found elsewhere"):
        request_job(bot.services, wish(incident, node="elsewhere"))
    assert kinds(bot, incident) == ["incident:opened"]


@pytest.mark.parametrize("heard", [False, True], ids=["never", "too long ago"])
def test_a_silent_node_is_named_and_nothing_is_recorded(bot: TestBot, heard: bool) -> None:
    incident = open_case(bot)
    if heard:
        say_hello(bot)
        bot.clock.forward(seconds=91)
    with pytest.raises(NodeSilent, match=NODE):
        request_job(bot.services, wish(incident))
    assert kinds(bot, incident) == ["incident:opened"]


def test_a_job_of_no_incident_is_refused(bot: TestBot) -> None:
    say_hello(bot)
    with pytest.raises(UnknownIncident):
        request_job(bot.services, wish("INC-9999"))


def test_a_granted_claim_takes_the_lease_with_a_fence(bot: TestBot) -> None:
    job = asked(bot)
    reply = claim(bot, job)
    with bot.store.read() as reading:
        lease, after = reading.lease(NODE), reading.job(job.id)
    assert reply.granted
    assert lease is not None
    assert after is not None
    assert reply.fence == lease.fence == after.fence
    assert (after.state, after.claimed_at) == (JobState.CLAIMED, bot.clock.now())


def test_jobs_that_load_no_gpu_need_no_lease(bot: TestBot) -> None:
    reply = claim(bot, asked(bot, kind=JobKind.FINGERPRINT))
    with bot.store.read() as reading:
        lease = reading.lease(NODE)
    assert (reply.granted, reply.fence, lease) == (True, None, None)


def test_the_same_claim_asked_again_gets_the_same_fence(bot: TestBot) -> None:
    job = asked(bot)
    first, again = claim(bot, job), claim(bot, job)
    assert again.granted
    assert again.fence == first.fence


def test_a_second_delivery_of_a_claimed_job_is_turned_away(bot: TestBot) -> None:
    job = asked(bot)
    claim(bot, job)
    second = claim(bot, job, nonce="second delivery")
    assert (second.granted, second.reason) == (False, "held")
    assert "another delivery" in second.detail


def test_a_claim_that_was_never_heard_of_again_makes_room_for_the_next_with_a_new_fence(bot: TestBot) -> None:
    job = asked(bot)
    first = claim(bot, job)
    bot.clock.forward(seconds=46)
    second = claim(bot, job, nonce="second delivery")
    assert second.granted
    assert second.fence > first.fence
    assert beat(bot, job, fence=first.fence).cancel
    assert not beat(bot, job, fence=second.fence).cancel


def test_a_claim_that_was_heard_of_makes_no_room(bot: TestBot) -> None:
    job = asked(bot)
    claim(bot, job)
    bot.clock.forward(seconds=3)
    beat(bot, job)
    bot.clock.forward(hours=1)
    assert not claim(bot, job, nonce="second delivery").granted


def test_of_claims_at_the_same_moment_one_is_granted(bot: TestBot) -> None:
    job = asked(bot)
    replies: list[Any] = []
    start = threading.Barrier(8)

    def one(number: int) -> None:
        start.wait()
        replies.append(claim(bot, job, nonce=f"delivery {number}"))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [reply.granted for reply in replies].count(True) == 1


def test_the_holder_is_named_when_another_incident_has_the_node(bot: TestBot) -> None:
    first, second = asked(bot), asked(bot)
    claim(bot, first)
    reply = claim(bot, second)
    assert (reply.granted, reply.reason) == (False, "held")
    assert first.incident in reply.detail
    with pytest.raises(NodeHeld, match=first.incident):
        request_job(bot.services, wish(second.incident))


def test_a_held_engine_of_another_incident_refuses_a_launch_until_its_time_is_over(bot: TestBot) -> None:
    holder, other = open_case(bot), open_case(bot)
    hold(bot, holder, minutes=10)
    say_hello(bot)
    with pytest.raises(NodeHeld, match=f"{holder}, attempt 1, until 02:51 UTC"):
        request_job(bot.services, wish(other))
    assert request_job(bot.services, wish(other, JobKind.STOP)).kind is JobKind.STOP
    bot.clock.forward(minutes=11)
    say_hello(bot)
    assert request_job(bot.services, wish(other)).incident == other


def test_a_held_engine_that_only_the_node_tells_of_refuses_a_launch(bot: TestBot) -> None:
    held = HeldEngine(
        job_id="JOB-X",
        incident="INC-0777",
        attempt=2,
        engine="process",
        what="process 1",
        endpoint="http://127.0.0.1:8000",
        since=bot.clock.now(),
        until=bot.clock.now() + timedelta(minutes=5),
    )
    incident = open_case(bot)
    say_hello(bot, held=(held,))
    with pytest.raises(NodeHeld, match="INC-0777, attempt 2"):
        request_job(bot.services, wish(incident))


def hold(bot: TestBot, incident: str, *, minutes: int) -> None:
    with bot.store.write() as tx:
        tx.append(
            incident,
            AttemptRecorded(
                attempt=1,
                baseline_digest=a_baseline().digest,
                origin="observed",
                outcome=Outcome.READY,
                finding=a_finding("c").model_dump(mode="json"),
                node=NODE,
                held_until=(bot.clock.now() + timedelta(minutes=minutes)).isoformat(),
            ),
            actor=f"node:{NODE}",
            at=bot.clock.now(),
        )


def test_a_claim_after_its_time_is_expired(bot: TestBot) -> None:
    job = asked(bot)
    bot.clock.forward(minutes=11)
    assert claim(bot, job).reason == "expired"


def test_a_claim_for_a_closed_incident_is_cancelled(bot: TestBot) -> None:
    job = asked(bot)
    with bot.store.write() as tx:
        tx.append(job.incident, IncidentClosed(reason="done"), actor="user:U1", at=bot.clock.now())
    assert claim(bot, job).reason == "cancelled"


def test_only_the_node_it_was_sent_to_may_claim_a_job(bot: TestBot) -> None:
    job = asked(bot)
    with pytest.raises(NotThatNode):
        claim(bot, job, node="gpu-b2")
    with pytest.raises(UnknownJob):
        claim_job(bot.services, Claim(job_id="JOB-9999", node=NODE, at=bot.clock.now()))


def test_a_job_that_nobody_took_up_is_ended_by_a_cancel_at_once(bot: TestBot) -> None:
    job = asked(bot)
    assert cancel_job(bot.services, job.id, by=f"user:{RESPONDER}") is Cancelled.ENDED
    assert claim(bot, job).reason == "cancelled"
    assert payloads(bot, job.incident, "job:ended")[0]["outcome"] == "cancelled"
    assert cancel_job(bot.services, job.id, by=f"user:{RESPONDER}") is Cancelled.TOO_LATE


def beat(bot: TestBot, job: Job, **changes: Any) -> Any:
    return heartbeat(
        bot.services, Heartbeat(**{"job_id": job.id, "node": NODE, "fence": 1, "at": bot.clock.now(), **changes})
    )


def test_a_running_job_is_told_of_its_cancel_with_the_next_heartbeat(bot: TestBot) -> None:
    job = asked(bot)
    claim(bot, job)
    assert not beat(bot, job).cancel
    assert cancel_job(bot.services, job.id, by=f"user:{APPROVER}") is Cancelled.TOLD
    assert cancel_job(bot.services, job.id, by=f"user:{APPROVER}") is Cancelled.TOLD
    reply = beat(bot, job)
    assert (reply.cancel, reply.cancelled_by) == (True, f"user:{APPROVER}")


def test_a_heartbeat_brings_the_stage_up(bot: TestBot) -> None:
    job = asked(bot)
    claim(bot, job)
    bot.clock.forward(seconds=3)
    beat(bot, job, stage=Stage.WEIGHT_LOADING, note="shard 3 of 8")
    with bot.store.read() as reading:
        after = reading.job(job.id)
    assert after is not None
    assert (after.stage, after.note, after.last_heard_at) == ("weight_loading", "shard 3 of 8", bot.clock.now())


def test_a_heartbeat_with_an_old_fence_is_told_to_end(bot: TestBot) -> None:
    job = asked(bot)
    claim(bot, job)
    reply = beat(bot, job, fence=99)
    assert reply.cancel
    assert "expected fence 1, found 99" in reply.cancelled_by


def test_an_unclaimed_job_is_given_up_when_its_time_is_over_and_not_before(bot: TestBot) -> None:
    job = asked(bot)
    assert not give_up_job(bot.services, job.id)
    bot.clock.forward(minutes=11)
    assert give_up_job(bot.services, job.id)
    assert not give_up_job(bot.services, job.id)
    (ended,) = payloads(bot, job.incident, "job:ended")
    assert ended["outcome"] == "inconclusive"
    assert "not reached: gpu-a1 did not take it up" in ended["detail"]


@pytest.mark.parametrize(
    ("heard", "running", "given_up"),
    [
        pytest.param(True, False, False, id="it was heard of"),
        pytest.param(False, True, False, id="the node says that it runs"),
        pytest.param(False, None, False, id="the node says nothing"),
        pytest.param(False, False, True, id="never heard of, and the node says that it does not run"),
    ],
)
def test_a_claimed_job_is_given_up_by_its_nodes_word_only(
    bot: TestBot, heard: bool, running: bool | None, given_up: bool
) -> None:
    job = asked(bot)
    claim(bot, job)
    bot.clock.forward(seconds=3)
    if heard:
        beat(bot, job)
    bot.clock.forward(days=1)
    if running is not None:
        say_hello(bot, running=(job.id,) if running else ())
    assert give_up_job(bot.services, job.id) is given_up
    with bot.store.read() as reading:
        assert (reading.lease(NODE) is None) is given_up


def test_a_job_that_does_not_exist_is_not_given_up(bot: TestBot) -> None:
    assert not give_up_job(bot.services, "JOB-9999")


def test_an_approver_takes_a_silent_nodes_lease_with_a_reason(bot: TestBot) -> None:
    job = asked(bot)
    claim(bot, job)
    taken = take_lease(bot.services, NODE, by=APPROVER, reason="the node was rebooted, nothing runs")
    assert taken.job_id == job.id
    assert kinds(bot, job.incident)[-2:] == ["lease:taken", "job:ended"]
    assert beat(bot, job).cancel
    with bot.store.read() as reading:
        assert reading.lease(NODE) is None


@pytest.mark.parametrize(
    ("by", "reason", "error"),
    [
        pytest.param(RESPONDER, "rebooted", RuleViolation, id="not an approver"),
        pytest.param(APPROVER, " ", RuleViolation, id="no reason"),
    ],
)
def test_a_lease_is_not_taken_otherwise(bot: TestBot, by: str, reason: str, error: type[Exception]) -> None:
    claim(bot, asked(bot))
    with pytest.raises(error):
        take_lease(bot.services, NODE, by=by, reason=reason)


def test_the_one_who_asked_for_the_job_may_not_take_its_lease(bot: TestBot) -> None:
    claim(bot, asked(bot, requested_by=f"user:{APPROVER}"))
    with pytest.raises(SecondPersonNeeded):
        take_lease(bot.services, NODE, by=APPROVER, reason="rebooted")


def test_there_is_no_lease_to_take_where_nothing_runs(bot: TestBot) -> None:
    with pytest.raises(RuleViolation, match="nothing runs there"):
        take_lease(bot.services, NODE, by=APPROVER, reason="rebooted")
