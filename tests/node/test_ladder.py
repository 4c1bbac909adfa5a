"""The pressure ladder against a scripted engine: how it climbs, where it stops, and that it can be called off."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from playbooks.judging.ladder import judge
from playbooks.judging.ladder_facts import Ended, LadderFacts, Question
from playbooks.messages import JobReport
from playbooks.vocabulary import JobKind, JobOutcome
from tests.node.test_launch import READY_LINES, launch, wait_for
from tests.support.node_builders import TestNode, job
from workers.jobs import ladder

BOUNDS: dict[str, Any] = {
    "target_attempt": 1,
    "longest_input": 512,
    "longest_output": 64,
    "most_at_once": 4,
    "total_s": 40,
    "timeout_s": 5,
}


@pytest.fixture
def node(node: TestNode) -> TestNode:
    """The test node with ports of its own: files of tests run side by side."""
    assert node.deps.policy is not None
    policy = node.deps.policy.model_copy(update={"ports": (26000, 26999)})
    return replace(node, deps=replace(node.deps, policy=policy))


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder, "_LOOK_S", 0.02)


def climb(node: TestNode, *, script: dict[str, object] | None = None, **bounds: Any) -> JobReport:
    held = launch(node, job_id="ladder-held", lines=READY_LINES, serve=True, hold_s=60, **(script or {}))
    assert held.held is not None, held
    node.deliver(job(JobKind.LADDER, job_id="job-2", params={**BOUNDS, **bounds}))
    report = node.bot.report_of("job-2")
    assert report is not None
    return report


def facts_of(report: JobReport) -> LadderFacts:
    assert report.outcome is JobOutcome.DONE, report.error
    return LadderFacts.model_validate(report.facts)


def test_it_climbs_to_the_top_one_thing_at_a_time(node: TestNode) -> None:
    report = climb(node)
    facts = facts_of(report)
    assert facts.ended is Ended.TOP
    assert facts.engine_alive
    assert [climbed.rung.question for climbed in facts.rungs] == (
        [Question.SHORT] + [Question.INPUT] * 2 + [Question.OUTPUT] + [Question.CONCURRENCY] * 3
    )
    assert all(len(one.runs) == climbed.rung.requests for climbed in facts.rungs for one in climbed.tries)
    assert judge(facts).verdict == "climbed"
    names = {ref.name: ref.sha256 for ref in report.artifacts}
    assert json.loads(node.bot.files[names["ladder.json"]])["ended"] == "top"


def test_it_stops_at_the_first_rung_that_fails_twice(node: TestNode) -> None:
    facts = facts_of(climb(node, script={"most_at_once": 1, "slow_s": 0.3}))
    assert facts.ended is Ended.FAILED_TWICE
    last = facts.rungs[-1]
    assert (last.rung.question, len(last.tries)) == (Question.CONCURRENCY, 2)
    assert last.rung.concurrency > 1
    assert judge(facts).verdict == "scheduling"
    assert facts.engine_alive


def test_an_engine_that_dies_on_the_way_ends_it_at_once_with_its_log(node: TestNode) -> None:
    report = climb(node, script={"die_after_requests": 8})
    facts = facts_of(report)
    assert facts.ended is Ended.DIED
    assert not facts.engine_alive
    assert facts.rungs[-1].rung.question is Question.INPUT
    assert len(facts.rungs[-1].tries) == 1
    assert judge(facts).verdict == "capacity"
    assert facts.log_sha256 in node.bot.files
    assert "engine.log" in {ref.name for ref in report.artifacts}


BOUNDED = [
    pytest.param({"most_tokens": 600}, Ended.TOKENS, id="tokens"),
    pytest.param({"total_s": 1}, Ended.TIME, id="time"),
]


@pytest.mark.parametrize(("bounds", "ended"), BOUNDED)
def test_a_bound_ends_it_and_is_no_failure(node: TestNode, bounds: dict[str, Any], ended: Ended) -> None:
    facts = facts_of(climb(node, script={"slow_s": 0.3}, **bounds))
    assert facts.ended is ended
    assert judge(facts).verdict == "inconclusive"


def test_it_is_called_off_while_a_request_is_under_way(node: TestNode) -> None:
    launch(node, job_id="ladder-held", lines=READY_LINES, serve=True, hold_s=60, hang_after_requests=1)
    request = job(JobKind.LADDER, job_id="job-2", params={**BOUNDS, "timeout_s": 40})
    climbing = threading.Thread(target=node.deliver, args=(request,))
    climbing.start()
    wait_for(lambda: any("ladder 1/" in told.note for told in node.bot.progress))
    node.bot.cancel.add("job-2")
    climbing.join(timeout=15)
    report = node.bot.report_of("job-2")
    assert report is not None
    assert report.outcome is JobOutcome.CANCELLED


def test_an_attempt_that_is_not_held_is_not_climbed(node: TestNode) -> None:
    node.deliver(job(JobKind.LADDER, job_id="job-2", params={"target_attempt": 9}))
    report = node.bot.report_of("job-2")
    assert report is not None
    assert "expected a held engine of attempt 9" in str(report.error)
