"""The case of an incident: the fold of its ledger entries, and nothing else.

`fold` is a pure function, so the bot, the bundle's first page and an auditor's laptop come to the same case.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from playbooks.evidence import entries as e
from playbooks.vocabulary import Phase


class EntryLike(Protocol):
    """What the fold needs of a ledger entry."""

    @property
    def seq(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def actor(self) -> str: ...
    @property
    def at(self) -> datetime: ...
    @property
    def payload(self) -> dict[str, Any]: ...
    @property
    def artifacts(self) -> tuple[str, ...]: ...


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
    scores: tuple[Noted[e.ScoreGiven], ...] = ()
    requests: tuple[Noted[e.RequestRecorded], ...] = ()
    analysed: tuple[Noted[e.LogAnalysed], ...] = ()
    proposals: tuple[Noted[e.DecisionProposed], ...] = ()
    approvals: tuple[Noted[e.DecisionApproved], ...] = ()
    rejections: tuple[Noted[e.DecisionRejected], ...] = ()
    phases: tuple[Noted[e.PhaseEntered], ...] = ()
    held_ended: tuple[Noted[e.HeldEnded], ...] = ()
    bundles: tuple[Noted[e.BundleExported], ...] = ()
    closed: Noted[e.IncidentClosed] | None = None


def fold(incident: str, entries: Iterable[EntryLike]) -> Case:
    """Fold the entries of one incident, oldest first, into its case.

    Raises:
        MalformedMessage: the first entry is not `incident:opened`, or a payload is not of its kind's form.
    """
    raise NotImplementedError


def fold_one(case: Case, entry: EntryLike) -> Case:
    """Fold one more entry into a case; unknown kinds of a newer writer change nothing but `head_seq`."""
    raise NotImplementedError
