"""Recording reports: judged once, each kind its entry, the lease ended, and what follows by itself."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.errors import NotThatNode, UnknownJob
from bot.flows.claim_job import claim_job
from bot.flows.record_report import record_report
from bot.flows.request_job import Wish, request_job
from bot.flows.store_artifact import store_artifact
from bot.flows.take_lease import take_lease
from bot.ports import Job, JobState, OutboxKind, OutboxState
from playbooks.evidence.entries import FingerprintRecorded
from playbooks.judging.baseline import Interpreter
from playbooks.judging.cache_facts import CacheConfig
from playbooks.judging.feature_facts import FeatureTry, ToolCall
from playbooks.judging.ladder_facts import Climbed, Ended, LadderFacts, Question, Rung, RungTry
from playbooks.messages import (
    ArtifactOffer,
    ArtifactRef,
    CacheProbeFacts,
    CacheProbeParams,
    Claim,
    CollectFacts,
    FeatureProbeFacts,
    FeatureProbeParams,
    FieldValue,
    FingerprintFacts,
    HeldEngine,
    JobReport,
    LadderParams,
    LaunchFacts,
    LimitHit,
    Message,
    RequestFacts,
    RequestRun,
    SweepFacts,
)
from playbooks.vocabulary import ErrorClass, FieldStatus, JobKind, JobOutcome, Outcome, Stage
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
from tests.support.people import record

LOG = b"INFO 12-01 02:41:00 [api_server.py:1] vLLM API server version 0.11.0\nOSError: no such model\n"
LOG_SHA = hashlib.sha256(LOG).hexdigest()


@pytest.fixture
def bot(tmp_path: Path) -> TestBot:
    return make_bot(tmp_path)


@pytest.fixture
def mine(bot: TestBot) -> str:
    """The digest of the bot's own signatures."""
    return bot.services.definitions.signatures().digest


def claimed(bot: TestBot, incident: str, kind: JobKind = JobKind.LAUNCH, **changes: Any) -> Job:
    """Ask for a job and let the node claim it."""
    say_hello(bot)
    launch = {"attempt": 1, "baseline": a_baseline()} if kind is JobKind.LAUNCH else {}
    wish = {"incident": incident, "kind": kind, "node": NODE, "requested_by": f"user:{RESPONDER}"}
    job = request_job(bot.services, Wish(**{**wish, **launch, **changes}))
    return claim(bot, job)


def claim(bot: TestBot, job: Job) -> Job:
    claim_job(bot.services, Claim(job_id=job.id, node=NODE, at=bot.clock.now()))
    with bot.store.read() as reading:
        found = reading.job(job.id)
    assert found is not None
    return found


def report_of(bot: TestBot, job: Job, facts: Message | None = None, **changes: Any) -> JobReport:
    now = bot.clock.now()
    return JobReport(
        **{
            "job_id": job.id,
            "node": NODE,
            "kind": job.kind,
            "outcome": JobOutcome.DONE if facts is not None else JobOutcome.LOST,
            "facts": {} if facts is None else facts.model_dump(mode="json"),
            "started_at": now - timedelta(seconds=11),
            "ended_at": now,
            "duration_ms": 11_000,
            "fence": job.fence,
            "worker_version": "0.1.0",
            **changes,
        }
    )


def failed(catalogue: str, **changes: Any) -> LaunchFacts:
    return LaunchFacts(**{"outcome": Outcome.FAILED, "exit_code": 1, "finding": a_finding(catalogue), **changes})


def run_attempt(bot: TestBot, incident: str, number: int, facts: LaunchFacts, mine: str, **changes: Any) -> Job:
    job = claimed(bot, incident, attempt=number, **changes)
    record_report(bot.services, report_of(bot, job, facts, catalogue=mine))
    return job


def test_a_failed_launch_is_an_attempt_and_ends_job_and_lease(bot: TestBot, mine: str) -> None:
    incident = open_case(bot)
    job = claimed(bot, incident)
    reply = record_report(bot.services, report_of(bot, job, failed(mine), catalogue=mine))
    (attempt,) = payloads(bot, incident, "attempt:recorded")
    assert reply.recorded
    assert (attempt["origin"], attempt["outcome"], attempt["stopped_after_ms"]) == ("observed", "failed", 11_000)
    assert attempt["finding"]["root_text"] == "OSError: no such model"
    assert attempt["baseline_digest"] == a_baseline().digest
    with bot.store.read() as reading:
        after = reading.job(job.id)
        assert reading.lease(NODE) is None
    assert after is not None
    assert (after.state, after.outcome) == (JobState.ENDED, "done")
    assert after.report_sha256 is not None
    assert bot.artifacts.has(after.report_sha256)


def test_a_report_sent_again_changes_nothing_and_gets_the_same_answer(bot: TestBot, mine: str) -> None:
    incident = open_case(bot)
    report = report_of(bot, claimed(bot, incident), failed(mine), catalogue=mine)
    first, again = record_report(bot.services, report), record_report(bot.services, report)
    assert (first.recorded, again.recorded, again.detail) == (True, True, "")
    assert kinds(bot, incident).count("attempt:recorded") == 1


def test_another_report_of_an_ended_job_is_answered_and_dropped(bot: TestBot, mine: str) -> None:
    incident = open_case(bot)
    job = claimed(bot, incident)
    record_report(bot.services, report_of(bot, job, failed(mine), catalogue=mine))
    reply = record_report(bot.services, report_of(bot, job))
    assert reply.recorded
    assert reply.detail == "the job had ended already: done"
    assert "job:ended" not in kinds(bot, incident)


def test_a_report_about_another_nodes_job_or_none_is_refused(bot: TestBot) -> None:
    job = claimed(bot, open_case(bot))
    with pytest.raises(NotThatNode):
        record_report(bot.services, report_of(bot, job, node="gpu-b2"))
    with pytest.raises(UnknownJob):
        record_report(bot.services, report_of(bot, job, job_id="JOB-9999"))


@pytest.mark.parametrize("outcome", [outcome for outcome in JobOutcome if outcome is not JobOutcome.DONE])
def test_a_job_without_facts_says_how_it_ended_and_why(bot: TestBot, outcome: JobOutcome) -> None:
    incident = open_case(bot)
    job = claimed(bot, incident)
    record_report(bot.services, report_of(bot, job, outcome=outcome, error="docker: cannot connect"))
    assert payloads(bot, incident, "job:ended") == [
        {
            "job_id": job.id,
            "job_kind": "launch",
            "outcome": outcome.value,
            "detail": "docker: cannot connect",
            "attempt": 1,
        }
    ]
    with bot.store.read() as reading:
        assert reading.lease(NODE) is None


def test_facts_of_a_lost_lease_are_kept_and_not_judged(bot: TestBot, mine: str) -> None:
    incident = open_case(bot)
    job = claimed(bot, incident)
    reply = record_report(bot.services, report_of(bot, job, failed(mine), catalogue=mine, fence=99))
    assert reply.recorded
    assert "attempt:recorded" not in kinds(bot, incident)
    assert payloads(bot, incident, "job:ended")[0]["detail"] == (
        "not judged: expected fence 1, found 99; this worker had no lease any more"
    )


def test_a_report_after_its_lease_was_taken_is_answered_and_dropped(bot: TestBot, mine: str) -> None:
    incident = open_case(bot)
    job = claimed(bot, incident)
    take_lease(bot.services, NODE, by=APPROVER, reason="rebooted")
    assert record_report(bot.services, report_of(bot, job, failed(mine), catalogue=mine)).recorded
    assert "attempt:recorded" not in kinds(bot, incident)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"facts": {"outcome": "exploded"}}, id="not of the form"),
        pytest.param({"kind": JobKind.REQUEST}, id="of another kind"),
    ],
)
def test_facts_that_cannot_be_read_end_the_job_in_words(bot: TestBot, mine: str, changes: dict[str, Any]) -> None:
    incident = open_case(bot)
    job = claimed(bot, incident)
    report = report_of(bot, job, failed(mine)).model_copy(update=changes)
    assert record_report(bot.services, report).recorded
    (ended,) = payloads(bot, incident, "job:ended")
    assert (ended["outcome"], ended["detail"][:11]) == ("inconclusive", "not judged:")


# whose finding counts


def log_ref(sha256: str = LOG_SHA) -> ArtifactRef:
    return ArtifactRef(sha256=sha256, name="attempt-1.log", size_bytes=len(LOG), redactions=1)


def test_with_other_signatures_the_log_is_asked_for_and_judged_here(bot: TestBot, mine: str) -> None:
    incident = open_case(bot)
    job = claimed(bot, incident)
    facts = failed("other", log_sha256=LOG_SHA)
    report = report_of(bot, job, facts, catalogue="other", artifacts=(log_ref(),))
    first = record_report(bot.services, report)
    assert (first.recorded, first.missing) == (False, (LOG_SHA,))
    assert kinds(bot, incident) == ["incident:opened", "job:requested"]
    bot.artifacts.put(LOG)
    assert record_report(bot.services, report).recorded
    (attempt,) = payloads(bot, incident, "attempt:recorded")
    assert attempt["finding"]["catalogue"] == mine


def test_with_the_same_signatures_the_bytes_may_follow(bot: TestBot, mine: str) -> None:
    incident = open_case(bot)
    job = claimed(bot, incident)
    facts = failed(mine, log_sha256=LOG_SHA)
    reply = record_report(bot.services, report_of(bot, job, facts, catalogue=mine, artifacts=(log_ref(),)))
    assert (reply.recorded, reply.missing) == (True, (LOG_SHA,))
    assert files(bot) == []
    offer = ArtifactOffer(
        sha256=LOG_SHA, size_bytes=len(LOG), name="attempt-1.log", job_id=job.id, node=NODE, at=bot.clock.now()
    )
    store_artifact(bot.services, offer, [LOG])
    assert files(bot) == [f"Attempt 1: log, redacted: 1 · sha256 {LOG_SHA[:12]}"]
    store_artifact(bot.services, offer, [LOG])
    assert len(files(bot)) == 1


def test_a_log_that_came_before_its_report_is_shown_with_it(bot: TestBot, mine: str) -> None:
    bot.artifacts.put(LOG)
    job = claimed(bot, open_case(bot))
    facts = failed(mine, log_sha256=LOG_SHA)
    reply = record_report(bot.services, report_of(bot, job, facts, catalogue=mine, artifacts=(log_ref(),)))
    assert reply.missing == ()
    assert len(files(bot)) == 1


def files(bot: TestBot) -> list[str]:
    with bot.store.read() as reading:
        rows = reading.outbox(states=[OutboxState.WAITING], kinds=[OutboxKind.FILE])
    return [row.payload["title"] for row in rows]


def test_a_launch_that_a_limit_ended_is_a_failure_of_that_stage(bot: TestBot, mine: str) -> None:
    incident = open_case(bot)
    silent = a_finding(mine, stage=Stage.NONE, error_class=ErrorClass.UNKNOWN, root_line=None, root_text=None)
    limit = LimitHit(stage=Stage.WEIGHT_LOADING, kind="silence", limit_s=300)
    run_attempt(bot, incident, 1, failed(mine, outcome=Outcome.STOPPED_BY_LIMIT, finding=silent, limit=limit), mine)
    finding = payloads(bot, incident, "attempt:recorded")[0]["finding"]
    assert (finding["stage"], finding["error_class"]) == ("weight_loading", "unknown")
    assert finding["why"] == "stopped by a limit: weight_loading was silent for 300 s"


def test_a_launch_that_left_no_log_is_judged_by_the_runtimes_own_words(bot: TestBot, mine: str) -> None:
    incident = open_case(bot)
    words = 'could not select device driver "" with capabilities: [[gpu]]'
    run_attempt(bot, incident, 1, failed("", finding=None, state_error=words), mine)
    assert payloads(bot, incident, "attempt:recorded")[0]["finding"]["catalogue"] == mine


# two attempts


def test_two_equal_failures_of_one_baseline_score_two(bot: TestBot, mine: str) -> None:
    incident = open_case(bot)
    run_attempt(bot, incident, 1, failed(mine), mine)
    assert "score:given" not in kinds(bot, incident)
    run_attempt(bot, incident, 2, failed(mine), mine)
    (score,) = payloads(bot, incident, "score:given")
    assert (score["earlier"], score["later"], score["score"]) == (1, 2, 2)


def test_attempts_of_two_baselines_are_not_scored(bot: TestBot, mine: str) -> None:
    incident = open_case(bot)
    run_attempt(bot, incident, 1, failed(mine), mine)
    run_attempt(bot, incident, 2, failed(mine), mine, baseline=a_baseline(argv=("serve", "other")))
    assert "score:given" not in kinds(bot, incident)


def test_what_moved_since_the_attempt_before_is_named_and_voids_the_score(bot: TestBot, mine: str) -> None:
    incident = open_case(bot)
    before, after = (
        a_baseline(interpreter=Interpreter(python="3.11", packages={"torch": version})) for version in ("2.8", "2.9")
    )
    run_attempt(bot, incident, 1, failed(mine, resolved=before), mine)
    run_attempt(bot, incident, 2, failed(mine, resolved=after), mine)
    _, second = payloads(bot, incident, "attempt:recorded")
    (score,) = payloads(bot, incident, "score:given")
    assert any("torch" in moved and "2.8" in moved and "2.9" in moved for moved in second["changed"])
    assert (score["score"], score["row"]) == (None, "drift")


def test_a_second_attempt_is_asked_for_by_itself(bot: TestBot, mine: str) -> None:
    incident = open_case(bot)
    job = claimed(bot, incident, params={"hold_s": 0, "repeat": 1})
    record_report(bot.services, report_of(bot, job, failed(mine), catalogue=mine))
    with bot.store.read() as reading:
        (again,) = reading.jobs(incident=incident)
    assert (again.request.attempt, again.request.params["repeat"]) == (2, 0)
    assert again.request.params["expect_tenants"] == [], "a repeat is not to run beside others"
    assert (again.request.baseline, again.request.requested_by) == (job.request.baseline, f"user:{RESPONDER}")
    record_report(bot.services, report_of(bot, claim(bot, again), failed(mine), catalogue=mine))
    assert payloads(bot, incident, "score:given")[0]["score"] == 2
    with bot.store.read() as reading:
        assert reading.jobs(incident=incident) == []


def test_a_second_attempt_that_cannot_be_asked_for_is_said(bot: TestBot, mine: str) -> None:
    incident = open_case(bot)
    job = claimed(bot, incident, params={"repeat": 1})
    bot.clock.forward(minutes=5)
    record_report(bot.services, report_of(bot, job, failed(mine), catalogue=mine))
    with bot.store.read() as reading:
        notes = reading.outbox(states=[OutboxState.WAITING], kinds=[OutboxKind.NOTE])
        assert reading.jobs(incident=incident) == []
    assert "Attempt 2 was not asked for gpu-a1 was last heard of" in notes[0].payload["text"]


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(lambda mine: failed(mine, outcome=Outcome.NOT_OBSERVED), id="not observed"),
        pytest.param(lambda _mine: None, id="lost"),
    ],
)
def test_no_second_attempt_after_one_that_was_not_observed(
    bot: TestBot, mine: str, facts: Callable[[str], LaunchFacts | None]
) -> None:
    incident = open_case(bot)
    job = claimed(bot, incident, params={"repeat": 1})
    record_report(bot.services, report_of(bot, job, facts(mine), catalogue=mine))
    with bot.store.read() as reading:
        assert reading.jobs(incident=incident) == []


# held engines


def ready(bot: TestBot, mine: str, incident: str, number: int) -> LaunchFacts:
    return failed(
        mine,
        outcome=Outcome.READY,
        exit_code=None,
        finding=a_finding(mine, stage=Stage.NONE, error_class=ErrorClass.NONE, root_line=None, root_text=None),
        ready_ms=9000,
        held=HeldEngine(
            job_id="x",
            incident=incident,
            attempt=number,
            engine="process",
            what="process 1",
            endpoint="http://127.0.0.1:8000",
            since=bot.clock.now(),
            until=bot.clock.now() + timedelta(minutes=30),
        ),
    )


def test_the_next_attempt_replaces_a_held_engine(bot: TestBot, mine: str) -> None:
    incident = open_case(bot)
    run_attempt(bot, incident, 1, ready(bot, mine, incident, 1), mine)
    run_attempt(bot, incident, 2, ready(bot, mine, incident, 2), mine)
    assert payloads(bot, incident, "held:ended") == [
        {"attempt": 1, "how": "replaced", "detail": "attempt 2 took the node"}
    ]
    assert payloads(bot, incident, "score:given")[0]["score"] == 2


def test_a_stop_ends_what_is_held(bot: TestBot, mine: str) -> None:
    incident = open_case(bot)
    run_attempt(bot, incident, 1, ready(bot, mine, incident, 1), mine)
    job = claimed(bot, incident, JobKind.STOP, params={"attempt": 1})
    record_report(bot.services, report_of(bot, job, SweepFacts(ended=("process 1",))))
    assert payloads(bot, incident, "held:ended")[0]["how"] == "stopped"
    assert payloads(bot, incident, "job:ended")[0]["detail"] == "ended: process 1"


def test_a_stop_that_failed_says_what_lives_on(bot: TestBot, mine: str) -> None:
    incident = open_case(bot)
    run_attempt(bot, incident, 1, ready(bot, mine, incident, 1), mine)
    job = claimed(bot, incident, JobKind.STOP, params={"attempt": 1})
    record_report(bot.services, report_of(bot, job, SweepFacts(failed=("process 1",), spared=("process 2",))))
    assert "held:ended" not in kinds(bot, incident)
    assert payloads(bot, incident, "job:ended")[0]["detail"] == (
        "nothing was left to end; spared: process 2; could not be ended: process 1"
    )


def runs(*complete: bool) -> tuple[RequestRun, ...]:
    from tests.support.bot_services import START

    return tuple(
        RequestRun(n=n, started_at=START, ended_ms=100, complete=done, http_status=200 if done else 500)
        for n, done in enumerate(complete, 1)
    )


def test_fixed_requests_are_judged(bot: TestBot, mine: str) -> None:
    incident = open_case(bot)
    run_attempt(bot, incident, 1, ready(bot, mine, incident, 1), mine)
    job = claimed(bot, incident, JobKind.REQUEST, attempt=1)
    facts = RequestFacts(target_attempt=1, sample_sha256="s", runs=runs(True, True, True), engine_alive=True)
    record_report(bot.services, report_of(bot, job, facts))
    (request,) = payloads(bot, incident, "request:recorded")
    assert (request["verdict"], request["complete"], request["of"]) == ("stable", 3, 3)


def test_an_engine_that_died_under_the_requests_is_recorded(bot: TestBot, mine: str) -> None:
    incident = open_case(bot)
    run_attempt(bot, incident, 1, ready(bot, mine, incident, 1), mine)
    job = claimed(bot, incident, JobKind.REQUEST, attempt=1)
    facts = RequestFacts(target_attempt=1, sample_sha256="s", runs=runs(True, False), engine_alive=False)
    record_report(bot.services, report_of(bot, job, facts))
    assert payloads(bot, incident, "request:recorded")[0]["verdict"] != "stable"
    assert payloads(bot, incident, "held:ended")[0]["how"] == "died"


# fingerprint and scene


def fingerprint(driver: str) -> FingerprintFacts:
    return FingerprintFacts(
        host={"driver.loaded": FieldValue(status=FieldStatus.OK, value=driver, source="/proc/driver/nvidia/version")},
        duration_ms=900,
    )


def test_a_fingerprint_is_recorded_and_its_boundary_judged(bot: TestBot) -> None:
    incident = open_case(bot)
    job = claimed(bot, incident, JobKind.FINGERPRINT)
    record_report(bot.services, report_of(bot, job, fingerprint("575.57.08")))
    assert kinds(bot, incident)[2:4] == ["fingerprint:recorded", "boundary:judged"]
    assert payloads(bot, incident, "fingerprint:recorded")[0]["moved"] == []


def test_a_second_fingerprint_names_what_moved(bot: TestBot) -> None:
    incident = open_case(bot)
    for driver in ("575.57.08", "580.95.05"):
        job = claimed(bot, incident, JobKind.FINGERPRINT)
        record_report(bot.services, report_of(bot, job, fingerprint(driver)))
    moved = payloads(bot, incident, "fingerprint:recorded")[1]["moved"]
    assert len(moved) == 1
    assert "575.57.08" in moved[0]
    assert "580.95.05" in moved[0]


def test_the_nodes_of_a_case_are_compared_and_what_differs_stands_in_the_newest_fingerprint(bot: TestBot) -> None:
    incident = open_case(bot)
    other = fingerprint("575.57.08").model_dump(mode="json")
    record(bot, incident, FingerprintRecorded(job_id="JOB-X", node="gpu-b2", facts=other, stable_sha256="2" * 64))
    for driver, expected in (("575.57.08", []), ("580.95.05", ["node-differs"])):
        job = claimed(bot, incident, JobKind.FINGERPRINT)
        record_report(bot.services, report_of(bot, job, fingerprint(driver)))
        found = payloads(bot, incident, "fingerprint:recorded")[-1]["disagreements"]
        assert [one["rule"] for one in found if one["rule"] == "node-differs"] == expected
    assert "575.57.08 on gpu-b2, 580.95.05 on gpu-a1" in str(found)


def test_a_scene_keeps_what_was_saved_and_what_was_not(bot: TestBot, mine: str) -> None:
    incident = open_case(bot)
    bot.artifacts.put(LOG)
    job = claimed(bot, incident, JobKind.COLLECT)
    facts = CollectFacts(saved={"log": LOG_SHA}, missing={"docker-info": "no docker here"}, redactions=2)
    record_report(bot.services, report_of(bot, job, facts))
    (scene,) = payloads(bot, incident, "scene:collected")
    assert (scene["saved"], scene["missing"]) == ({"log": LOG_SHA}, {"docker-info": "no docker here"})
    assert scene["finding"]["catalogue"] == mine


def test_a_cache_probe_is_judged_by_the_bot_with_its_rows(bot: TestBot) -> None:
    incident = open_case(bot)
    params = CacheProbeParams(target_attempt=1).model_dump(mode="json")
    for enabled, verdict in ((False, "disabled"), (True, "inconclusive")):
        job = claimed(bot, incident, JobKind.CACHE_PROBE, params=params)
        facts = CacheProbeFacts(target="attempt 1", config=CacheConfig(enabled=enabled, block=128, unit=128))
        record_report(bot.services, report_of(bot, job, facts))
        found = payloads(bot, incident, "cache:probed")[-1]
        assert (found["verdict"], found["attempt"], found["config"]["block"]) == (verdict, 1, 128)
    with bot.store.read() as reading:
        assert reading.incident(incident).case.answered_jobs >= {found["job_id"]}


def test_a_ladder_is_judged_by_the_bot_and_a_dead_engine_by_its_log(bot: TestBot) -> None:
    incident = open_case(bot)
    bot.artifacts.put(LOG)
    params = LadderParams(target_attempt=1).model_dump(mode="json")
    rung = Rung(question=Question.INPUT, input_tokens=512, output_tokens=16, concurrency=1, requests=2)
    died = Climbed(rung=rung, tries=(RungTry(runs=(), duration_ms=9, alive=False),))
    facts = LadderFacts(
        target="attempt 1", planned=7, rungs=(died,), ended=Ended.DIED, engine_alive=False, log_sha256=LOG_SHA
    )
    job = claimed(bot, incident, JobKind.LADDER, params=params)
    record_report(bot.services, report_of(bot, job, facts))
    (found,) = payloads(bot, incident, "ladder:climbed")
    assert (found["verdict"], found["attempt"], found["failed"]) == ("capacity", 1, 0)
    assert found["finding"]["error_class"] in found["grounds"]
    assert found["finding"]["root_text"]


def test_a_feature_probe_is_judged_by_the_bot(bot: TestBot) -> None:
    incident = open_case(bot)
    params = FeatureProbeParams(target_attempt=1, feature="tool_call").model_dump(mode="json")
    calls = (ToolCall(name="get_time", arguments='{"city": "Oslo", "unit": "24h"}'),)
    tries = (
        FeatureTry(n=1, asked="Paris", http_status=200, done=True, finish_reason="tool_calls"),
        FeatureTry(n=2, asked="Oslo", http_status=200, done=True, finish_reason="tool_calls", tool_calls=calls),
    )
    facts = FeatureProbeFacts(feature="tool_call", target="attempt 1", tries=tries, engine_alive=False)
    job = claimed(bot, incident, JobKind.FEATURE_PROBE, params=params)
    record_report(bot.services, report_of(bot, job, facts))
    (found,) = payloads(bot, incident, "feature:probed")
    assert (found["verdict"], found["passed"], found["of"], found["failures"]) == (
        "fails",
        1,
        2,
        {"empty_tool_calls": 1},
    )
    assert "died" in found["grounds"]
