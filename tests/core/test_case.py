"""The case is the fold of its entries, and a snapshot gives the same case back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from playbooks.errors import MalformedMessage
from playbooks.evidence import entries as e
from playbooks.guiding.case import fold, fold_one
from playbooks.vocabulary import JobKind, Phase
from tests.support.cases import CaseLines, Line, docker_baseline


def full_record() -> CaseLines:
    base = docker_baseline()
    lines = CaseLines().opened().answer("change-history", "none").fingerprint().scene({"log": "l" * 64}).boundary()
    lines.ask(JobKind.LAUNCH).ended(kind=JobKind.LAUNCH).frozen(base).attempt(1, base).attempt(2, base).score(1, 2, 2)
    lines.add(e.LogAnalysed(sha256="a" * 64, name="engine.log", finding={})).requested(2).probed(2).climbed(2)
    tried = {"attempt": 2, "feature": "vision", "verdict": "untested", "grounds": "", "passed": 0, "of": 0}
    lines.add(e.FeatureProbed(job_id="job-5", **tried))
    lines.add(e.AttemptWithdrawn(attempt=99, recorded_as=1, reason="none of this case"))
    lines.entered(Phase.BOUNDARY).proposed().rejected().proposed().approved()
    lines.add(e.HeldEnded(attempt=2, how="died")).add(e.BundleExported(sha256="b" * 64, upto=3))
    lines.add(e.LeaseTaken(node="gpu-a1", fence=3, reason="silent"))
    return lines.add(e.IncidentClosed(reason="done"))


def test_every_kind_of_entry_finds_its_place():
    case = full_record().case
    assert case.incident == "INC-0042"
    assert case.opened.payload.title == "Kimi K3 does not start"
    assert case.answers["change-history"].payload.value == "none"
    assert [n.payload.job_kind for n in case.jobs.values()] == [
        JobKind.FINGERPRINT,
        JobKind.COLLECT,
        JobKind.LAUNCH,
        JobKind.LAUNCH,
        JobKind.LAUNCH,
        JobKind.REQUEST,
        JobKind.CACHE_PROBE,
        JobKind.LADDER,
    ]
    assert set(case.ended_jobs) == {"job-3"}
    assert case.answered_jobs == {"job-1", "job-2", "job-4", "job-5", "job-6", "job-7", "job-8"}
    counts = {
        name: len(getattr(case, name))
        for name in (
            "scenes",
            "fingerprints",
            "baselines",
            "attempts",
            "scores",
            "requests",
            "cache_probes",
            "ladders",
            "analysed",
            "phases",
        )
    }
    assert counts == {
        "scenes": 1,
        "fingerprints": 1,
        "baselines": 1,
        "attempts": 2,
        "scores": 1,
        "requests": 1,
        "cache_probes": 1,
        "ladders": 1,
        "analysed": 1,
        "phases": 1,
    }
    assert (len(case.proposals), len(case.approvals), len(case.rejections)) == (2, 1, 1)
    assert (len(case.held_ended), len(case.bundles), len(case.leases_taken)) == (1, 1, 1)
    assert case.boundary is not None
    assert case.closed is not None
    assert case.phase is Phase.CLOSED
    assert case.head_seq == case.closed.seq == len(full_record().lines)


def test_every_kind_of_the_ledger_is_kept():
    kinds = {line.kind for line in full_record().lines}
    assert kinds == set(e.PAYLOADS)


def test_an_entry_keeps_its_number_actor_and_time():
    lines = CaseLines().opened().answer("change-history", "none", actor="user:U9")
    noted = lines.case.answers["change-history"]
    assert (noted.seq, noted.actor, noted.at) == (2, "user:U9", lines.lines[1].at)


def test_the_newest_answer_counts():
    lines = CaseLines().opened().answer("node-drain", "no").answer("node-drain", "yes")
    assert lines.case.answers["node-drain"].payload.value == "yes"


def test_a_phase_entered_is_the_case_s_phase():
    assert CaseLines().opened().case.phase is Phase.FREEZE
    assert CaseLines().opened().entered(Phase.LAUNCH).case.phase is Phase.LAUNCH


@pytest.mark.parametrize(
    ("add", "is_report"),
    [
        pytest.param(lambda lines: lines.fingerprint(), True, id="fingerprint"),
        pytest.param(lambda lines: lines.scene(), True, id="scene"),
        pytest.param(lambda lines: lines.boundary(), True, id="boundary"),
        pytest.param(lambda lines: lines.attempt(1, docker_baseline()), True, id="attempt"),
        pytest.param(lambda lines: lines.requested(1), True, id="request"),
        pytest.param(lambda lines: lines.add(e.LogAnalysed(sha256="a", name="x", finding={})), True, id="log"),
        pytest.param(lambda lines: lines.answer("node-drain", "yes"), False, id="answer"),
        pytest.param(lambda lines: lines.score(1, 2, 2), False, id="score"),
        pytest.param(lambda lines: lines.entered(Phase.LAUNCH), False, id="phase"),
        pytest.param(lambda lines: lines.ask(JobKind.LAUNCH), False, id="job asked for"),
        pytest.param(lambda lines: lines.proposed(), False, id="proposal"),
    ],
)
def test_only_new_facts_void_a_proposal(add, is_report):
    lines = add(CaseLines().opened())
    assert lines.case.newest_report == (lines.seq if is_report else 0)


def test_an_unknown_kind_moves_the_head_and_nothing_else():
    lines = CaseLines().opened()
    case = lines.case
    newer = fold_one(case, Line(2, "thing:from_the_future", "bot", lines.lines[0].at, {"x": 1}))
    assert newer == replace(case, head_seq=2)


def test_folding_one_by_one_is_folding_all():
    lines = full_record()
    case = fold("INC-0042", lines.lines[:1])
    for line in lines.lines[1:]:
        case = fold_one(case, line)
    assert case == lines.case


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        pytest.param([], "INC-1 has no entries", id="nothing"),
        pytest.param(CaseLines().answer("a", "b").lines, "begins with answer:recorded \\(#1\\)", id="not opened"),
        pytest.param(CaseLines().opened().opened().lines, "#2 opens INC-1 a second time", id="opened twice"),
        pytest.param(
            [Line(1, "incident:opened", "bot", full_record().lines[0].at, {"title": "x"})],
            "#1 incident:opened: node: Field required",
            id="half a payload",
        ),
        pytest.param(
            [*CaseLines().opened().lines, Line(2, "score:given", "bot", full_record().lines[0].at, {"earlier": "x"})],
            "#2 score:given: earlier: ",
            id="wrong payload",
        ),
    ],
)
def test_a_record_that_is_none_says_where(lines, message):
    with pytest.raises(MalformedMessage, match=message):
        fold("INC-1", lines)


def test_a_withdrawn_attempt_and_its_scores_count_no_more_and_its_number_is_not_given_again():
    base = docker_baseline()
    lines = CaseLines().opened().frozen(base)
    lines.attempt(1, base, origin="recorded").attempt(2, base, origin="recorded").score(1, 2, 2).proposed()
    lines.add(e.AttemptWithdrawn(attempt=2, recorded_as=4, reason="the log of another service"))
    case = lines.case
    assert [noted.payload.attempt for noted in case.attempts] == [1]
    assert case.scores == ()
    assert case.next_attempt == 3
    assert [noted.payload.reason for noted in case.withdrawn] == ["the log of another service"]
    assert case.newest_report == lines.seq, "a proposal that rested on it is void"
