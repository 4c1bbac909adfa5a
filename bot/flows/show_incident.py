"""Show an incident to a program: summary of its case, jobs, and the newest entries, as JSON without floats."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from bot.errors import NotThatNode, UnknownIncident

if TYPE_CHECKING:
    from bot.flows.services import Services
    from bot.ports import Entry, Job

NEWEST = 50
"""Entries shown; the bundle holds all of them."""


def show_incident(
    services: Services, incident_id: str, *, to_node: str | None = None, newest: int = NEWEST
) -> dict[str, Any]:
    """Return the incident's state.

    to_node: the node that asks; it sees its own incidents only.

    Raises:
        UnknownIncident: no incident of that id.
        NotThatNode: the incident is another node's.
    """
    with services.store.read() as reading:
        incident = reading.incident(incident_id)
        if incident is None:
            raise UnknownIncident(f"no incident {incident_id}")
        after = max(incident.head_seq - newest, 0)
        entries = deque(reading.entries(incident_id, after=after), maxlen=newest)
        jobs = reading.jobs(incident=incident_id)
    case = incident.case
    opened = case.opened.payload
    if to_node is not None and opened.node != to_node:
        raise NotThatNode(f"{incident_id} is no incident of {to_node}")
    attempt = case.attempts[-1].payload if case.attempts else None
    score = case.scores[-1].payload if case.scores else None
    proposal = case.proposals[-1] if case.proposals else None
    approved = bool(case.approvals and proposal is not None and case.approvals[-1].payload.proposal == proposal.seq)
    return {
        "incident": incident.id,
        "title": opened.title,
        "node": opened.node,
        "playbook": {"id": opened.playbook, "sha256": opened.playbook_sha256},
        "phase": case.phase.value,
        "closed": case.closed is not None,
        "owner": incident.owner,
        "opened_at": incident.opened_at.isoformat(),
        "channel": incident.channel,
        "thread_ts": incident.thread_ts,
        "head": {"seq": incident.head_seq, "hash": incident.head_hash},
        "boundary": None if case.boundary is None else case.boundary.payload.verdict.value,
        "attempts": len(case.attempts),
        "last_attempt": None
        if attempt is None
        else {
            "attempt": attempt.attempt,
            "origin": attempt.origin,
            "outcome": attempt.outcome.value,
            "stage": attempt.finding.get("stage"),
            "error_class": attempt.finding.get("error_class"),
            "root_text": attempt.finding.get("root_text"),
            "baseline": attempt.baseline_digest,
        },
        "score": None if score is None else {"score": score.score, "row": score.row, "why": score.why},
        "decision": None
        if proposal is None
        else {
            "seq": proposal.seq,
            "kind": proposal.payload.kind.value,
            "headline": proposal.payload.headline,
            "approved": approved,
            "void": proposal.seq < case.newest_report,
        },
        "jobs": [_job(job) for job in jobs],
        "entries": [_entry(entry) for entry in entries],
    }


def _job(job: Job) -> dict[str, Any]:
    return {
        "job_id": job.id,
        "kind": job.kind.value,
        "node": job.node,
        "state": job.state.value,
        "attempt": job.request.attempt,
        "stage": job.stage,
        "note": job.note,
        "fence": job.fence,
        "requested_by": job.request.requested_by,
        "requested_at": job.requested_at.isoformat(),
        "last_heard_at": None if job.last_heard_at is None else job.last_heard_at.isoformat(),
    }


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "seq": entry.seq,
        "kind": entry.kind,
        "actor": entry.actor,
        "at": entry.at.isoformat(),
        "hash": entry.hash,
        "previous": entry.previous,
        "artifacts": list(entry.artifacts),
        "payload": entry.payload,
    }
