"""Who holds a node's GPUs: a running job by its lease, or an engine that lives on after its launch.

A held engine is known from the launch's entry and from the node's hello; either is enough, for each may be the older one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from playbooks.evidence.entries import AttemptRecorded
from playbooks.guiding.case import Case, Noted

if TYPE_CHECKING:
    from bot.ports import Reading


def holder_of(reading: Reading, node: str, *, incident: str, now: datetime, job_id: str | None = None) -> str | None:
    """Say in words who else holds the node; None when this incident may load its GPUs.

    job_id: the job that asks; its own lease is no obstacle.
    """
    lease = reading.lease(node)
    if lease is not None and lease.job_id != job_id:
        return f"is held by {lease.incident} (job {lease.job_id}, since {lease.since:%H:%M} UTC)"
    known = reading.node(node)
    if known is not None and known.hello is not None:
        for held in known.hello.held:
            if held.incident != incident and held.until > now and not _ended(reading, held.incident, held.attempt):
                return _words(held.incident, held.attempt, held.until)
    for other in reading.incidents(open_only=True):
        if other.id == incident:
            continue
        for noted, until in still_held(other.case, now):
            if node in nodes_of_attempt(noted.payload):
                return _words(other.id, noted.payload.attempt, until)
    return None


def still_held(case: Case, now: datetime | None) -> Iterator[tuple[Noted[AttemptRecorded], datetime]]:
    """Yield the attempts whose engine is held as far as the record says; `now` None takes those past their time too."""
    for noted in case.attempts:
        if noted.payload.held_until is None or is_ended(case, noted):
            continue
        until = datetime.fromisoformat(noted.payload.held_until)
        if now is None or until > now:
            yield noted, until


def nodes_of_attempt(attempt: AttemptRecorded) -> frozenset[str]:
    """Return the nodes that an attempt ran on."""
    ranks = frozenset(rank.node for rank in attempt.ranks)
    return ranks or frozenset(() if attempt.node is None else (attempt.node,))


def is_ended(case: Case, attempt: Noted[AttemptRecorded]) -> bool:
    """Whether the record says that this attempt's engine ended."""
    return any(e.payload.attempt == attempt.payload.attempt and e.seq > attempt.seq for e in case.held_ended)


def _ended(reading: Reading, incident: str, attempt: int) -> bool:
    row = reading.incident(incident)
    if row is None:
        return False
    return any(n.payload.attempt == attempt and is_ended(row.case, n) for n in row.case.attempts)


def _words(incident: str, attempt: int, until: datetime) -> str:
    return f"holds the engine of {incident}, attempt {attempt}, until {until:%H:%M} UTC"
