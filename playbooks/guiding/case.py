"""The case of an incident: the fold of its ledger entries, and nothing else.

`fold` is a pure function, so the bot, the bundle's first page and an auditor's laptop come to the same case.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from pydantic import ValidationError

from playbooks.errors import MalformedMessage
from playbooks.evidence import entries as e
from playbooks.vocabulary import Phase


class EntryLike(Protocol):
    """What the fold needs of a ledger entry."""

    @property
    def seq(self) -> int:
        """Place in the incident's record, from 1."""
        ...

    @property
    def kind(self) -> str:
        """`KIND` of the payload's model."""
        ...

    @property
    def actor(self) -> str:
        """`user:U123`, `node:gpu-a1`, `bot`."""
        ...

    @property
    def at(self) -> datetime:
        """Aware UTC."""
        ...

    @property
    def payload(self) -> dict[str, Any]:
        """JSON without floats."""
        ...

    @property
    def artifacts(self) -> tuple[str, ...]:
        """Digests of stored files."""
        ...


P = TypeVar("P", bound=e.Payload)


@dataclass(frozen=True, slots=True)
class Noted(Generic[P]):
    """A payload with where it stands in the record."""

    seq: int
    actor: str
    at: datetime
    payload: P


@dataclass(frozen=True, slots=True)
class Case:
    """What is known of an incident, folded from its entries in order. Tuples are oldest first."""

    incident: str
    opened: Noted[e.IncidentOpened]
    head_seq: int
    """Sequence number of the newest entry folded in."""
    phase: Phase = Phase.FREEZE
    answers: dict[str, Noted[e.AnswerRecorded]] = field(default_factory=dict)
    jobs: dict[str, Noted[e.JobRequested]] = field(default_factory=dict)
    ended_jobs: dict[str, Noted[e.JobEnded]] = field(default_factory=dict)
    """Jobs without facts; a job with facts is answered by the entry that carries its job_id."""
    answered_jobs: frozenset[str] = frozenset()
    scenes: tuple[Noted[e.SceneCollected], ...] = ()
    fingerprints: tuple[Noted[e.FingerprintRecorded], ...] = ()
    boundary: Noted[e.BoundaryJudged] | None = None
    baselines: tuple[Noted[e.BaselineFrozen], ...] = ()
    attempts: tuple[Noted[e.AttemptRecorded], ...] = ()
    withdrawn: tuple[Noted[e.AttemptWithdrawn], ...] = ()
    """Attempts that count no more; they are not in `attempts`, and no score of them is in `scores`."""
    scores: tuple[Noted[e.ScoreGiven], ...] = ()
    requests: tuple[Noted[e.RequestRecorded], ...] = ()
    cache_probes: tuple[Noted[e.CacheProbed], ...] = ()
    feature_probes: tuple[Noted[e.FeatureProbed], ...] = ()
    ladders: tuple[Noted[e.LadderClimbed], ...] = ()
    analysed: tuple[Noted[e.LogAnalysed], ...] = ()
    proposals: tuple[Noted[e.DecisionProposed], ...] = ()
    approvals: tuple[Noted[e.DecisionApproved], ...] = ()
    rejections: tuple[Noted[e.DecisionRejected], ...] = ()
    phases: tuple[Noted[e.PhaseEntered], ...] = ()
    held_ended: tuple[Noted[e.HeldEnded], ...] = ()
    bundles: tuple[Noted[e.BundleExported], ...] = ()
    leases_taken: tuple[Noted[e.LeaseTaken], ...] = ()
    newest_report: int = 0
    """Sequence number of the newest entry that brought facts; a proposal before it is void."""
    closed: Noted[e.IncidentClosed] | None = None

    @property
    def next_attempt(self) -> int:
        """Number of the next attempt; that of a withdrawn one is not given again."""
        taken = {noted.payload.attempt for noted in self.attempts} | {n.payload.attempt for n in self.withdrawn}
        return 1 + max(taken, default=0)


_APPENDED: dict[type[e.Payload], str] = {
    e.SceneCollected: "scenes",
    e.FingerprintRecorded: "fingerprints",
    e.BaselineFrozen: "baselines",
    e.AttemptRecorded: "attempts",
    e.AttemptWithdrawn: "withdrawn",
    e.ScoreGiven: "scores",
    e.RequestRecorded: "requests",
    e.CacheProbed: "cache_probes",
    e.FeatureProbed: "feature_probes",
    e.LadderClimbed: "ladders",
    e.LogAnalysed: "analysed",
    e.DecisionProposed: "proposals",
    e.DecisionApproved: "approvals",
    e.DecisionRejected: "rejections",
    e.PhaseEntered: "phases",
    e.HeldEnded: "held_ended",
    e.BundleExported: "bundles",
    e.LeaseTaken: "leases_taken",
}
"""Kinds of which all entries are kept, and the field that keeps them."""
_KEYED: dict[type[e.Payload], tuple[str, str]] = {
    e.AnswerRecorded: ("answers", "item"),
    e.JobRequested: ("jobs", "job_id"),
    e.JobEnded: ("ended_jobs", "job_id"),
}
"""Kinds of which the newest per key counts: the field that keeps them and the payload's key."""
REPORTS = (
    e.SceneCollected,
    e.FingerprintRecorded,
    e.BoundaryJudged,
    e.AttemptRecorded,
    e.AttemptWithdrawn,
    e.RequestRecorded,
    e.CacheProbed,
    e.FeatureProbed,
    e.LadderClimbed,
    e.LogAnalysed,
)
"""Kinds that bring new facts: a proposal made before the newest of them is void."""


def fold(incident: str, entries: Iterable[EntryLike]) -> Case:
    """Fold the entries of one incident, oldest first, into its case.

    Raises:
        MalformedMessage: the first entry is not `incident:opened`, or a payload is not of its kind's form.
    """
    case: Case | None = None
    for entry in entries:
        case = _opened(incident, entry) if case is None else fold_one(case, entry)
    if case is None:
        raise MalformedMessage(f"{incident} has no entries; expected incident:opened first")
    return case


def fold_one(case: Case, entry: EntryLike) -> Case:
    """Fold one more entry into a case; unknown kinds of a newer writer change nothing but `head_seq`.

    Raises:
        MalformedMessage: the payload is not of its kind's form.
    """
    model = e.PAYLOADS.get(entry.kind)
    if model is None:
        return replace(case, head_seq=entry.seq)
    noted = _noted(model, entry)
    payload = noted.payload
    changes: dict[str, Any] = {"head_seq": entry.seq}
    if isinstance(payload, REPORTS):
        changes["newest_report"] = entry.seq
    if (job_id := getattr(payload, "job_id", None)) is not None and isinstance(payload, REPORTS):
        ranks = {rank.job_id for rank in getattr(payload, "ranks", ())}
        changes["answered_jobs"] = case.answered_jobs | {job_id} | ranks
    if (name := _APPENDED.get(model)) is not None:
        changes[name] = (*getattr(case, name), noted)
    if (keyed := _KEYED.get(model)) is not None:
        name, key = keyed
        changes[name] = {**getattr(case, name), getattr(payload, key): noted}
    return replace(case, **changes, **_further(case, noted))


def _further(case: Case, noted: Noted[Any]) -> dict[str, Any]:
    """Return what an entry changes besides being kept."""
    match noted.payload:
        case e.IncidentOpened():
            raise MalformedMessage(f"#{noted.seq} opens {case.incident} a second time")
        case e.AttemptWithdrawn(attempt=number):
            return {
                "attempts": tuple(n for n in case.attempts if n.payload.attempt != number),
                "scores": tuple(n for n in case.scores if number not in {n.payload.earlier, n.payload.later}),
            }
        case e.BoundaryJudged():
            return {"boundary": noted}
        case e.PhaseEntered(phase=phase):
            return {"phase": phase}
        case e.IncidentClosed():
            return {"closed": noted, "phase": Phase.CLOSED}
        case _:
            return {}


def _opened(incident: str, entry: EntryLike) -> Case:
    if entry.kind != e.IncidentOpened.KIND:
        raise MalformedMessage(f"{incident} begins with {entry.kind} (#{entry.seq}); expected {e.IncidentOpened.KIND}")
    return Case(incident=incident, opened=_noted(e.IncidentOpened, entry), head_seq=entry.seq)


def _noted(model: type[P], entry: EntryLike) -> Noted[P]:
    try:
        payload = model.model_validate(entry.payload)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "payload"
        raise MalformedMessage(f"#{entry.seq} {entry.kind}: {place}: {first['msg']}") from error
    return Noted(seq=entry.seq, actor=entry.actor, at=entry.at, payload=payload)
