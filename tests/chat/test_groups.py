"""A launch over several nodes in the bot: asked together, leased together or not at all, judged as one attempt."""

from __future__ import annotations

import json
import threading
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.errors import NodeHeld, NodeSilent, NodeUnfit
from bot.flows.cancel_job import Cancelled, cancel_job
from bot.flows.claim_job import claim_job
from bot.flows.give_up_job import give_up_job
from bot.flows.heartbeat import heartbeat
from bot.flows.node_hello import node_hello
from bot.flows.record_report import record_report
from bot.flows.request_job import Wish, request_job
from bot.flows.request_ranks import add_launch
from bot.flows.take_lease import take_lease
from bot.ports import Job, OutboxKind, OutboxState
from playbooks.evidence.signing import SigningKey
from playbooks.judging.baseline import Baseline, ContainerOptions
from playbooks.messages import (
    Claim,
    GroupWord,
    Heartbeat,
    HeldEngine,
    JobReport,
    LaunchFacts,
    NodeHello,
    StopParams,
    SweepFacts,
)
from playbooks.vocabulary import ErrorClass, JobKind, JobOutcome, Outcome, Stage
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

OTHER = "gpu-a2"
NODES = (NODE, OTHER)
POLICY = {"address": "10.0.0.1", "cluster_ports": [29500, 29599]}


@pytest.fixture
def bot(tmp_path: Path) -> TestBot:
    return two_nodes(tmp_path)


def two_nodes(folder: Path, **changes: Any) -> TestBot:
    keys = {node: SigningKey.generate().public for node in NODES}
    return make_bot(folder, nodes=NODES, node_keys=keys, **changes)


def hellos(bot: TestBot, **policies: dict[str, Any]) -> None:
    for node in NODES:
        say_hello(bot, node=node, policy=policies.get(node.replace("-", "_"), POLICY))


def launch(bot: TestBot, incident: str | None = None, *, baseline: Baseline | None = None, **params: Any) -> list[Job]:
    hellos(bot)
    return ask(bot, incident or open_case(bot, nodes=list(NODES)), baseline=baseline, **params)


def ask(bot: TestBot, incident: str, *, baseline: Baseline | None = None, attempt: int = 1, **params: Any) -> list[Job]:
    wish = Wish(
        incident=incident,
        kind=JobKind.LAUNCH,
        node=NODE,
        requested_by=f"user:{RESPONDER}",
        attempt=attempt,
        baseline=baseline or a_baseline(nodes=NODES),
        params=params,
        post=False,
    )
    with bot.services.store.write() as tx:
        tx.lock(incident)
        return list(add_launch(tx, bot.services, wish, now=bot.clock.now()))


def claim(bot: TestBot, job: Job) -> Any:
    return claim_job(bot.services, Claim(job_id=job.id, node=job.node, nonce="first", at=bot.clock.now()))


def beat(bot: TestBot, job: Job) -> Any:
    job = now_of(bot, job)
    return heartbeat(bot.services, Heartbeat(job_id=job.id, node=job.node, fence=job.fence, at=bot.clock.now()))


def now_of(bot: TestBot, job: Job) -> Job:
    with bot.store.read() as reading:
        found = reading.job(job.id)
    assert found is not None
    return found


def leases(bot: TestBot) -> list[str | None]:
    with bot.store.read() as reading:
        found = [reading.lease(node) for node in NODES]
    return [None if lease is None else lease.incident for lease in found]


def facts(bot: TestBot, outcome: Outcome, error_class: ErrorClass = ErrorClass.NONE, **changes: Any) -> LaunchFacts:
    catalogue = bot.services.definitions.signatures().digest
    stage = Stage.NONE if error_class is ErrorClass.NONE else Stage.WEIGHT_LOADING
    found = a_finding(catalogue, error_class=error_class, stage=stage, root_text=f"{error_class.value} here")
    at = None if outcome is Outcome.READY else bot.clock.now()
    return LaunchFacts(**{"outcome": outcome, "finding": found, "failed_at": at, **changes})


def report(
    bot: TestBot,
    job: Job,
    said: LaunchFacts | None = None,
    *,
    outcome: JobOutcome = JobOutcome.DONE,
    error: str | None = None,
    **changes: Any,
) -> Any:
    job = now_of(bot, job)
    now = bot.clock.now()
    values: dict[str, Any] = {
        "job_id": job.id,
        "node": job.node,
        "kind": job.kind,
        "outcome": outcome,
        "error": error,
        "facts": {} if said is None else said.model_dump(mode="json"),
        "started_at": now,
        "ended_at": now,
        "duration_ms": 1000,
        "fence": job.fence,
        "worker_version": "0.1.0",
        "catalogue": bot.services.definitions.signatures().digest,
        **changes,
    }
    return record_report(bot.services, JobReport.model_validate(values))


def held(bot: TestBot, job: Job) -> HeldEngine:
    return HeldEngine(
        job_id=job.id,
        incident=job.incident,
        attempt=1,
        engine="process",
        what="process 7",
        endpoint="",
        since=bot.clock.now(),
        until=bot.clock.now() + timedelta(minutes=30),
    )


def running(bot: TestBot, incident: str | None = None, **params: Any) -> list[Job]:
    jobs = launch(bot, incident, **params)
    assert [claim(bot, job).granted for job in jobs] == [True, True]
    return jobs


def attempts(bot: TestBot, incident: str) -> list[dict[str, Any]]:
    return payloads(bot, incident, "attempt:recorded")


# asked


def test_one_launch_is_one_job_per_rank_in_one_group(bot: TestBot) -> None:
    head, follower = launch(bot)
    assert [job.node for job in (head, follower)] == list(NODES)
    assert head.request.rank is not None
    assert follower.request.rank is not None
    assert head.request.rank.group == follower.request.rank.group
    assert [job.request.rank.rank for job in (head, follower) if job.request.rank] == [0, 1]
    assert head.request.rank.master_addr == follower.request.rank.master_addr == "10.0.0.1"
    assert 29500 <= (head.request.rank.master_port or 0) <= 29599
    assert head.request.rank.master_port == follower.request.rank.master_port
    assert head.request.baseline == follower.request.baseline
    with bot.store.read() as reading:
        rows = reading.outbox(states=[OutboxState.WAITING], kinds=[OutboxKind.JOB])
    assert [row.payload["job_id"] for row in rows] == [head.id, follower.id]


def test_what_the_command_names_is_left_alone(bot: TestBot) -> None:
    named = a_baseline(nodes=NODES, argv=("serve", "tiny", "--master-addr", "10.9.9.9", "--master-port", "777"))
    head, _follower = launch(bot, baseline=named)
    assert head.request.rank is not None
    assert (head.request.rank.master_addr, head.request.rank.master_port) == (None, None)


@pytest.mark.parametrize(
    ("policies", "why"),
    [
        pytest.param({"gpu_a1": {**POLICY, "address": None}}, "expected where the other nodes reach gpu-a1", id="head"),
        pytest.param({"gpu_a2": {}}, "the worker of gpu-a2 is too old", id="a follower that would start alone"),
    ],
)
def test_a_node_that_cannot_take_part_is_named_and_nothing_is_recorded(
    bot: TestBot, policies: dict[str, Any], why: str
) -> None:
    incident = open_case(bot)
    hellos(bot, **policies)
    with pytest.raises(NodeUnfit, match=why):
        ask(bot, incident)
    assert kinds(bot, incident) == ["incident:opened"]


def test_containers_need_the_hosts_network(bot: TestBot) -> None:
    incident = open_case(bot)
    hellos(bot)
    with pytest.raises(NodeUnfit, match="add --network host"):
        ask(bot, incident, baseline=a_baseline(nodes=NODES, engine="docker"))
    on_host = a_baseline(nodes=NODES, engine="docker", container=ContainerOptions(network_mode="host"))
    assert len(ask(bot, incident, baseline=on_host)) == 2


def test_one_silent_node_is_enough_to_ask_none(bot: TestBot) -> None:
    incident = open_case(bot)
    say_hello(bot, node=NODE, policy=POLICY)
    with pytest.raises(NodeSilent, match=OTHER):
        ask(bot, incident)
    assert kinds(bot, incident) == ["incident:opened"]


# leased


def test_the_first_claim_takes_every_nodes_lease(bot: TestBot) -> None:
    head, follower = launch(bot)
    first = claim(bot, follower)
    assert first.granted
    assert leases(bot) == [head.incident, head.incident]
    second = claim(bot, head)
    assert second.granted
    assert (second.fence, first.fence) == (now_of(bot, head).fence, now_of(bot, follower).fence)


def test_a_node_that_is_held_leaves_the_others_free(bot: TestBot) -> None:
    group = launch(bot)
    alone = request_job(
        bot.services,
        Wish(
            incident=open_case(bot),
            kind=JobKind.LAUNCH,
            node=OTHER,
            requested_by="user:U9",
            attempt=1,
            baseline=a_baseline(nodes=(OTHER,)),
        ),
    )
    assert claim(bot, alone).granted
    refused = claim(bot, group[0])
    assert (refused.granted, refused.reason) == (False, "held")
    assert f"{OTHER} is held by {alone.incident}" in refused.detail
    assert leases(bot) == [None, alone.incident]


def test_another_incident_is_told_who_holds_which_node(bot: TestBot) -> None:
    mine = running(bot)
    with pytest.raises(NodeHeld, match=f"gpu-a1 is held by {mine[0].incident}"):
        ask(bot, open_case(bot))


def test_of_two_groups_at_the_same_moment_one_runs_and_the_other_waits_fifty_times(bot: TestBot) -> None:
    hellos(bot)
    for _ in range(50):
        groups = [ask(bot, open_case(bot)) for _ in range(2)]
        jobs = [job for pair in zip(groups[0], groups[1][::-1], strict=True) for job in pair]
        start = threading.Barrier(len(jobs))
        replies: dict[str, Any] = {}

        def take(job: Job, start: threading.Barrier = start, replies: dict[str, Any] = replies) -> None:
            start.wait()
            replies[job.id] = claim(bot, job)

        threads = [threading.Thread(target=take, args=(job,)) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        granted = [[replies[job.id].granted for job in group] for group in groups]
        assert sorted(granted) == [[False, False], [True, True]]
        assert len(set(leases(bot))) == 1
        won = groups[granted.index([True, True])]
        for job in won:
            report(bot, job, outcome=JobOutcome.LOST, error="end of the round")
        assert leases(bot) == [None, None]
        cancel_job(bot.services, groups[granted.index([False, False])][0].id, by="user:U1")


# together


def test_a_rank_is_told_when_another_one_ended(bot: TestBot) -> None:
    head, follower = running(bot)
    assert beat(bot, follower).group == GroupWord()
    report(bot, head, facts(bot, Outcome.FAILED, ErrorClass.OOM_WEIGHT_LOAD))
    assert beat(bot, follower).group == GroupWord(ended="rank 0 on gpu-a1 failed")
    assert leases(bot) == [head.incident, head.incident]
    assert attempts(bot, head.incident) == []


def test_the_last_report_makes_one_attempt_that_names_the_first_rank(bot: TestBot) -> None:
    head, follower = running(bot)
    report(bot, follower, facts(bot, Outcome.FAILED, ErrorClass.OOM_WEIGHT_LOAD, exit_code=1))
    bot.clock.forward(seconds=3)
    report(bot, head, facts(bot, Outcome.FAILED, ErrorClass.RENDEZVOUS_FAILED, exit_code=2))
    [attempt] = attempts(bot, head.incident)
    assert attempt["first_ranks"] == [1]
    assert attempt["finding"]["error_class"] == "oom_weight_load"
    assert (attempt["node"], attempt["job_id"], attempt["exit_code"]) == (NODE, head.id, 1)
    assert [(rank["rank"], rank["node"], rank["error_class"]) for rank in attempt["ranks"]] == [
        (0, NODE, "rendezvous_failed"),
        (1, OTHER, "oom_weight_load"),
    ]
    assert leases(bot) == [None, None]
    with bot.store.read() as reading:
        incident = reading.incident(head.incident)
    assert incident is not None
    assert incident.case.answered_jobs == {head.id, follower.id}


def test_clock_offsets_are_taken_out_before_ends_are_ordered(bot: TestBot) -> None:
    head, follower = running(bot)
    at = bot.clock.now()
    report(
        bot,
        head,
        facts(bot, Outcome.FAILED, ErrorClass.OOM_WEIGHT_LOAD, failed_at=at + timedelta(seconds=20)),
        clock_offset_ms=30_000,
    )
    report(bot, follower, facts(bot, Outcome.FAILED, ErrorClass.OOM_WEIGHT_LOAD, failed_at=at))
    [attempt] = attempts(bot, head.incident)
    assert attempt["first_ranks"] == [0]
    assert datetime.fromisoformat(attempt["ranks"][0]["failed_at"]) == at - timedelta(seconds=10)


def test_a_rank_that_was_ended_for_another_is_a_line_and_no_root(bot: TestBot) -> None:
    head, follower = running(bot)
    report(bot, head, facts(bot, Outcome.FAILED, ErrorClass.OOM_WEIGHT_LOAD))
    bot.clock.forward(seconds=3)
    report(bot, follower, facts(bot, Outcome.NOT_OBSERVED, ended_for="rank 0 on gpu-a1 failed"))
    [attempt] = attempts(bot, head.incident)
    assert (attempt["outcome"], attempt["first_ranks"]) == ("failed", [0])
    assert attempt["ranks"][1]["why"] == "ended, because rank 0 on gpu-a1 failed"


def test_ready_is_ready_on_every_rank_and_the_engines_are_held_together(bot: TestBot) -> None:
    head, follower = running(bot, hold_s=1800)
    report(bot, head, facts(bot, Outcome.READY, ready_ms=900, held=held(bot, head)))
    assert beat(bot, follower).group == GroupWord(ready=True)
    report(bot, follower, facts(bot, Outcome.READY, ready_ms=1400, held=held(bot, follower)))
    [attempt] = attempts(bot, head.incident)
    assert (attempt["outcome"], attempt["ready_ms"], attempt["first_ranks"]) == ("ready", 900, [])
    assert attempt["held_until"] is not None
    for node in NODES:
        with pytest.raises(NodeHeld, match="holds the engine of"):
            request_job(
                bot.services,
                Wish(
                    incident=open_case(bot),
                    kind=JobKind.LAUNCH,
                    node=node,
                    requested_by="user:U9",
                    attempt=1,
                    baseline=a_baseline(nodes=(node,)),
                ),
            )


def asked_to_stop(bot: TestBot, incident: str) -> list[str]:
    return [entry["node"] for entry in payloads(bot, incident, "job:requested") if entry["job_kind"] == "stop"]


def test_an_engine_that_dies_while_held_ends_the_engines_of_the_other_nodes(bot: TestBot) -> None:
    head, follower = running(bot, hold_s=1800)
    engines = {job.node: held(bot, job) for job in (head, follower)}
    for job in (head, follower):
        report(bot, job, facts(bot, Outcome.READY, held=engines[job.node]))
    bot.clock.forward(seconds=5)
    node_hello(
        bot.services,
        NodeHello(
            node=OTHER,
            version="0.1.0",
            catalogue="c",
            policy_sha256="p",
            policy=POLICY,
            lost=(engines[OTHER],),
            at=bot.clock.now(),
        ),
    )
    [ended] = payloads(bot, head.incident, "held:ended")
    assert (ended["how"], ended["detail"]) == ("died", "gpu-a2: process 7 was found dead")
    assert asked_to_stop(bot, head.incident) == [NODE]


def test_an_engine_that_was_stopped_on_one_node_ends_the_engines_of_the_other_nodes(bot: TestBot) -> None:
    head, follower = running(bot, hold_s=1800)
    for job in (head, follower):
        report(bot, job, facts(bot, Outcome.READY, held=held(bot, job)))
    wish = Wish(
        incident=head.incident,
        kind=JobKind.STOP,
        node=NODE,
        requested_by=f"user:{RESPONDER}",
        params=StopParams(attempt=1).model_dump(mode="json"),
    )
    stop = request_job(bot.services, wish)
    claim(bot, stop)
    done = {"facts": SweepFacts(ended=("process 7",)).model_dump(mode="json")}
    report(bot, stop, **done)
    [ended] = payloads(bot, head.incident, "held:ended")
    assert ended["how"] == "stopped"
    assert OTHER in asked_to_stop(bot, head.incident)


def test_a_head_that_was_ready_is_stopped_when_a_follower_was_not(bot: TestBot) -> None:
    head, follower = running(bot, hold_s=1800)
    report(bot, head, facts(bot, Outcome.READY, held=held(bot, head)))
    report(bot, follower, facts(bot, Outcome.FAILED, ErrorClass.GPU_HARDWARE_FAULT))
    [attempt] = attempts(bot, head.incident)
    assert (attempt["outcome"], attempt["first_ranks"], attempt["held_until"]) == ("failed", [1], None)
    assert asked_to_stop(bot, head.incident) == [NODE]


# without facts


def test_a_lost_rank_is_not_observed_and_named(bot: TestBot) -> None:
    head, follower = running(bot)
    report(bot, follower, outcome=JobOutcome.LOST, error="the worker's process ended while the job ran")
    assert "rank 1 on gpu-a2 ended: the worker's process ended" in beat(bot, head).group.ended
    report(bot, head, facts(bot, Outcome.NOT_OBSERVED, ended_for="rank 1 on gpu-a2 ended"))
    [attempt] = attempts(bot, head.incident)
    assert attempt["outcome"] == "not_observed"
    assert attempt["first_why"] == "rank 1 on gpu-a2: the worker's process ended while the job ran"
    [ended] = payloads(bot, head.incident, "job:ended")
    assert (ended["job_id"], ended["outcome"]) == (follower.id, "lost")


def test_a_rank_that_no_node_took_up_ends_the_launch_and_frees_every_node(bot: TestBot) -> None:
    head, follower = launch(bot)
    claim(bot, follower)
    bot.clock.forward(minutes=11)
    hellos(bot)
    assert give_up_job(bot.services, head.id)
    assert "rank 0 on gpu-a1 ended: not reached: gpu-a1 did not take it up" in beat(bot, follower).group.ended
    report(bot, follower, facts(bot, Outcome.STOPPED_BY_LIMIT, ErrorClass.UNKNOWN))
    [attempt] = attempts(bot, head.incident)
    assert (attempt["outcome"], attempt["first_ranks"]) == ("stopped_by_limit", [1])
    assert leases(bot) == [None, None]


def test_a_cancel_before_the_start_ends_every_rank_at_once(bot: TestBot) -> None:
    head, follower = launch(bot)
    assert cancel_job(bot.services, follower.id, by="user:U1") is Cancelled.ENDED
    assert [now_of(bot, job).outcome for job in (head, follower)] == ["cancelled", "cancelled"]
    assert [claim(bot, job).reason for job in (head, follower)] == ["cancelled", "cancelled"]
    assert kinds(bot, head.incident).count("job:ended") == 2
    assert attempts(bot, head.incident) == []
    assert cancel_job(bot.services, head.id, by="user:U1") is Cancelled.TOO_LATE


def test_a_cancel_of_a_running_launch_reaches_every_rank(bot: TestBot) -> None:
    head, follower = running(bot)
    assert cancel_job(bot.services, head.id, by="user:U1") is Cancelled.TOLD
    assert [beat(bot, job).cancel for job in (head, follower)] == [True, True]
    for job in (head, follower):
        report(bot, job, outcome=JobOutcome.CANCELLED, error="called off by user:U1")
    assert kinds(bot, head.incident).count("job:ended") == 2
    assert leases(bot) == [None, None]


def test_a_cancel_between_two_claims_starts_no_half(bot: TestBot) -> None:
    head, follower = launch(bot)
    claim(bot, head)
    assert cancel_job(bot.services, follower.id, by="user:U1") is Cancelled.TOLD
    assert beat(bot, head).cancel
    assert claim(bot, follower).reason == "cancelled"


def test_a_lease_that_an_approver_takes_ends_that_rank(bot: TestBot) -> None:
    head, follower = running(bot)
    bot.clock.forward(minutes=5)
    take_lease(bot.services, OTHER, by=APPROVER, reason="the machine is off")
    assert "rank 1 on gpu-a2 ended" in beat(bot, head).group.ended
    report(bot, head, facts(bot, Outcome.NOT_OBSERVED, ended_for="rank 1 on gpu-a2 ended"))
    assert attempts(bot, head.incident)[0]["outcome"] == "not_observed"
    assert leases(bot) == [None, None]
    assert now_of(bot, follower).outcome == "lost"


def test_a_refusal_is_told_once_and_by_the_rank_that_refused(bot: TestBot) -> None:
    head, follower = launch(bot)
    claim(bot, follower)
    report(bot, follower, outcome=JobOutcome.REFUSED, error="expected an address of [], found 10.0.0.1 (rule endpoint)")
    ends = payloads(bot, head.incident, "job:ended")
    assert [(end["job_id"], end["outcome"]) for end in ends] == [(head.id, "cancelled"), (follower.id, "refused")]
    with bot.store.read() as reading:
        rows = reading.outbox(states=[OutboxState.WAITING], kinds=[OutboxKind.EVIDENCE])
        shown = [reading.entry(head.incident, row.payload["seq"]) for row in rows]
    assert [entry.payload["detail"] for entry in shown if entry is not None and entry.kind == "job:ended"] == [
        "rank 1 on gpu-a2: expected an address of [], found 10.0.0.1 (rule endpoint)"
    ]
    assert leases(bot) == [None, None]


def test_what_the_ranks_did_not_have_alike_at_their_start_is_named(bot: TestBot) -> None:
    head, follower = running(bot)
    for job, driver in ((head, "580.95.05"), (follower, "580.65.06")):
        read = a_baseline(nodes=NODES, driver=driver, gpus=(f"GPU-{job.node}",))
        report(bot, job, facts(bot, Outcome.FAILED, ErrorClass.OOM_WEIGHT_LOAD, resolved=read))
    [attempt] = attempts(bot, head.incident)
    assert attempt["ranks_differ"] == ["driver: 580.95.05 on gpu-a1, 580.65.06 on gpu-a2"]


# repeated, scored


def test_two_attempts_in_a_row_are_scored_and_the_second_is_asked_by_itself(bot: TestBot) -> None:
    incident = open_case(bot, nodes=list(NODES))
    first = running(bot, incident, repeat=1)
    for job in first:
        report(bot, job, facts(bot, Outcome.FAILED, ErrorClass.OOM_WEIGHT_LOAD))
    with bot.store.read() as reading:
        second = reading.jobs(incident=incident)
    assert [job.request.attempt for job in second] == [2, 2]
    for job in second:
        assert claim(bot, job).granted
    for job in second:
        report(bot, job, facts(bot, Outcome.FAILED, ErrorClass.OOM_WEIGHT_LOAD))
    [score] = payloads(bot, incident, "score:given")
    assert score["score"] == 2
    assert json.dumps(attempts(bot, incident)[1]["changed"]) == "[]"
