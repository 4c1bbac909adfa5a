"""Kinds and payloads of the ledger's entries: what an incident's record can say.

The case of an incident (`playbooks.guiding.case`) is nothing but the fold of these entries, so that a bundle read
offline leads to the same case as the bot's store. Payloads are stored as JSON without floats; new fields are optional.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from playbooks.vocabulary import (
    DecisionKind,
    DriverVerdict,
    ErrorClass,
    JobKind,
    JobOutcome,
    Outcome,
    Phase,
    Stage,
)


class Payload(BaseModel):
    """Base of all payloads; unknown keys of a newer writer are kept."""

    model_config = ConfigDict(frozen=True, extra="allow")
    KIND: ClassVar[str]


class IncidentOpened(Payload):
    """`incident:opened`."""

    KIND: ClassVar[str] = "incident:opened"
    title: str
    node: str | None
    """Of several nodes the head."""
    nodes: list[str] = []
    """All nodes of a case with several, head first; empty = `node` alone."""
    playbook: str
    playbook_sha256: str
    what_fails: str = ""
    command: str = ""
    """The launch command as pasted, redacted."""
    channel: str = ""


class AnswerRecorded(Payload):
    """`answer:recorded`: a person's value for a checklist item or decision fact; the newest per item counts."""

    KIND: ClassVar[str] = "answer:recorded"
    item: str
    value: str
    note: str = ""


class JobRequested(Payload):
    """`job:requested`."""

    KIND: ClassVar[str] = "job:requested"
    job_id: str
    job_kind: JobKind
    node: str
    attempt: int | None = None
    params: dict[str, Any] = {}


class JobEnded(Payload):
    """`job:ended`: a job that ended without facts (refused, cancelled, lost, inconclusive) and why."""

    KIND: ClassVar[str] = "job:ended"
    job_id: str
    job_kind: JobKind
    outcome: JobOutcome
    detail: str
    attempt: int | None = None


class SceneCollected(Payload):
    """`scene:collected`: what a collect job saved (`CollectFacts` by role)."""

    KIND: ClassVar[str] = "scene:collected"
    job_id: str
    node: str
    saved: dict[str, str]
    missing: dict[str, str] = {}
    container: dict[str, Any] = {}
    redactions: int = 0
    finding: dict[str, Any] | None = None


class FingerprintRecorded(Payload):
    """`fingerprint:recorded`; `facts` is `FingerprintFacts` as JSON."""

    KIND: ClassVar[str] = "fingerprint:recorded"
    job_id: str
    node: str
    facts: dict[str, Any]
    stable_sha256: str
    """Digest over the stable fields alone: two equal ones mean nothing moved."""
    disagreements: list[dict[str, Any]] = []
    moved: list[str] = []
    """Stable fields that moved since the previous fingerprint, `driver.loaded: 575… → 580…`."""


class BaselineFrozen(Payload):
    """`baseline:frozen`: the set of variables of the following attempts."""

    KIND: ClassVar[str] = "baseline:frozen"
    digest: str
    baseline: dict[str, Any]
    removed: list[dict[str, str]] = []
    """What the minimal command left out: {option, why}."""
    added: list[dict[str, str]] = []
    """What it made explicit: {option, why}."""
    change: dict[str, Any] | None = None
    """The one change against the previous baseline; None for the first."""
    derived_from: str = ""


class RankLine(BaseModel):
    """What an attempt over several nodes keeps of one rank; unknown keys of a newer writer are kept."""

    model_config = ConfigDict(frozen=True, extra="allow")
    rank: int
    node: str
    job_id: str
    job_outcome: JobOutcome
    outcome: Outcome
    why: str = ""
    """Why there are no facts, or for which other rank it was ended."""
    failed_at: str | None = None
    """By the bot's clock, when it failed by itself."""
    stage: Stage = Stage.NONE
    error_class: ErrorClass = ErrorClass.UNKNOWN
    root_text: str | None = None
    exit_code: int | None = None
    log_sha256: str | None = None
    stages: list[dict[str, Any]] = []


class AttemptRecorded(Payload):
    """`attempt:recorded`: one launch, seen here (`observed`) or elsewhere (`recorded`, a dropped log)."""

    KIND: ClassVar[str] = "attempt:recorded"
    attempt: int
    baseline_digest: str
    origin: Literal["observed", "recorded"]
    outcome: Outcome
    finding: dict[str, Any]
    """`Finding` as JSON, judged by the bot."""
    job_id: str | None = None
    node: str | None = None
    log_sha256: str | None = None
    log_name: str = ""
    watched: dict[str, Any] | None = None
    """Of a recorded attempt: `WatchedRun` as JSON, when `baseline watch` looked on."""
    exit_code: int | None = None
    oom_killed: bool | None = None
    stopped_after_ms: int | None = None
    ready_ms: int | None = None
    stages: list[dict[str, Any]] = []
    limit: dict[str, Any] | None = None
    held_until: str | None = None
    tenants: list[str] = []
    left_behind: list[str] = []
    changed: list[str] = []
    """What moved against the attempt before (baseline and fingerprint); empty = nothing."""
    resolved_digest: str | None = None
    """Digest of the baseline with the node's own facts; drift shows here."""
    ranks: list[RankLine] = []
    """Of a launch over several nodes, by rank; the fields above are those of the first rank to fail."""
    first_ranks: list[int] = []
    """Ranks named as the first to fail; more than one when no clock tells them apart."""
    first_why: str = ""
    ranks_differ: list[str] = []
    """What the ranks did not have alike when they started, as each node read it."""


class AttemptWithdrawn(Payload):
    """`attempt:withdrawn`: a recorded attempt that is none of this case (`recorded_as`: its number here); it counts no more, the record keeps both."""

    KIND: ClassVar[str] = "attempt:withdrawn"
    attempt: int
    recorded_as: int
    reason: str


class ScoreGiven(Payload):
    """`score:given`: `score` None = refused or not observed; `why` says which row of the table."""

    KIND: ClassVar[str] = "score:given"
    earlier: int
    later: int
    score: int | None
    row: str
    why: str
    one_cause: bool = False


class BoundaryJudged(Payload):
    """`boundary:judged`."""

    KIND: ClassVar[str] = "boundary:judged"
    verdict: DriverVerdict
    grounds: list[str]
    rule: str
    snapshot: str
    """Id of the boundary data and the day it was checked."""
    age_days: int
    findings: list[dict[str, Any]] = []


class RequestRecorded(Payload):
    """`request:recorded`: N runs of the fixed request."""

    KIND: ClassVar[str] = "request:recorded"
    job_id: str
    attempt: int
    runs: list[dict[str, Any]]
    complete: int
    of: int
    verdict: Literal["stable", "unstable", "once", "failed", "inconclusive"]
    why: str


class CacheProbed(Payload):
    """`cache:probed`: what a probe of the prefix cache proves, with its requests."""

    KIND: ClassVar[str] = "cache:probed"
    job_id: str
    attempt: int
    verdict: Literal["hit", "repeat_only", "miss", "disabled", "inconclusive", "contaminated"]
    grounds: str
    remarks: list[str] = []
    causes: list[dict[str, str]] = []
    """Usual causes of a miss: {name, state: excluded | suspected | unknown, text}."""
    rows: list[dict[str, Any]] = []
    """Requests: {round, name, tokens, expected, cached, counted, ttft_ms}; counted = by how much the hit counter moved."""
    config: dict[str, Any] = {}
    off_on: dict[str, Any] | None = None
    """`OffOn` as JSON: this launch against the stable baseline's, where there is one to compare with."""


class FeatureProbed(Payload):
    """`feature:probed`: how often one feature did what it promises, and what the other tries did instead."""

    KIND: ClassVar[str] = "feature:probed"
    job_id: str
    attempt: int
    feature: str
    verdict: Literal["works", "sometimes", "fails", "untested", "inconclusive"]
    grounds: str
    passed: int
    of: int
    low: int | None = None
    """95 % interval of the rate, in permille."""
    high: int | None = None
    failures: dict[str, int] = {}
    examples: list[dict[str, str]] = []
    """First try of each kind of failure: {kind, try, how, said}."""
    remarks: list[str] = []


class LadderClimbed(Payload):
    """`ladder:climbed`: how far the pressure ladder went, and which layer the rung points to that ended it."""

    KIND: ClassVar[str] = "ladder:climbed"
    job_id: str
    attempt: int
    verdict: Literal["climbed", "capacity", "scheduling", "environment", "short_unstable", "inconclusive"]
    grounds: str
    remarks: list[str] = []
    rows: list[dict[str, Any]] = []
    """Rungs: {question, input, output, at_once, complete, of, tries, latency_ms, ttft_ms, tokens_s, preemptions, …}."""
    failed: int | None = None
    """Row of the rung that ended it, from 0."""
    finding: dict[str, Any] | None = None
    """What the launch analyser says of the log of an engine that died on the way."""


class PhaseEntered(Payload):
    """`phase:entered`: the gate before it was closed, or an approver skipped it (`skipped` says so)."""

    KIND: ClassVar[str] = "phase:entered"
    phase: Phase
    skipped: bool = False
    reason: str = ""


class DecisionProposed(Payload):
    """`decision:proposed`. Void when a newer report arrives."""

    KIND: ClassVar[str] = "decision:proposed"
    kind: DecisionKind
    rule: str
    headline: str
    reasons: list[str]
    evidence: list[int] = []
    would_change: list[str] = []
    not_concluded: list[str] = []
    missing: list[str] = []
    carry_out: list[str] = []
    """What is agreed or named first, and what follows."""
    costs: list[str] = []
    note: str = ""


class DecisionJudged(Payload):
    """`decision:approved` and `decision:rejected`; `proposal` is the sequence number of the proposal."""

    proposal: int
    reason: str = ""


class DecisionApproved(DecisionJudged):
    """`decision:approved`."""

    KIND: ClassVar[str] = "decision:approved"


class DecisionRejected(DecisionJudged):
    """`decision:rejected`."""

    KIND: ClassVar[str] = "decision:rejected"


class BundleExported(Payload):
    """`bundle:exported`: the artifact and what it covered."""

    KIND: ClassVar[str] = "bundle:exported"
    sha256: str
    upto: int


class HeldEnded(Payload):
    """`held:ended`: a held engine ended - by stop, by time, by the next attempt, or by itself (`died`)."""

    KIND: ClassVar[str] = "held:ended"
    attempt: int
    how: Literal["stopped", "expired", "replaced", "died"]
    detail: str = ""


class LogAnalysed(Payload):
    """`log:analysed`: a log looked at inside the incident without making it an attempt."""

    KIND: ClassVar[str] = "log:analysed"
    sha256: str
    name: str
    finding: dict[str, Any]


class LeaseTaken(Payload):
    """`lease:taken`: an approver ended a silent node's lease."""

    KIND: ClassVar[str] = "lease:taken"
    node: str
    fence: int
    reason: str


class IncidentClosed(Payload):
    """`incident:closed`."""

    KIND: ClassVar[str] = "incident:closed"
    reason: str
    decision: DecisionKind | None = None


PAYLOADS: dict[str, type[Payload]] = {
    model.KIND: model
    for model in (
        IncidentOpened,
        AnswerRecorded,
        JobRequested,
        JobEnded,
        SceneCollected,
        FingerprintRecorded,
        BaselineFrozen,
        AttemptRecorded,
        AttemptWithdrawn,
        ScoreGiven,
        BoundaryJudged,
        RequestRecorded,
        CacheProbed,
        FeatureProbed,
        LadderClimbed,
        PhaseEntered,
        DecisionProposed,
        DecisionApproved,
        DecisionRejected,
        BundleExported,
        HeldEnded,
        LogAnalysed,
        LeaseTaken,
        IncidentClosed,
    )
}
