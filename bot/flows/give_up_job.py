"""Give up a job that no node took up in time, and say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.ports import JobState
from playbooks.evidence.entries import JobEnded
from playbooks.vocabulary import JobOutcome

if TYPE_CHECKING:
    from bot.flows.services import Services
    from bot.ports import Writing


def give_up_job(services: Services, job_id: str) -> bool:
    """End a job whose time to start is over; False when it was taken up or ended meanwhile."""
    now = services.clock.now()
    with services.store.write() as tx:
        found = tx.job(job_id)
        if found is None:
            return False
        tx.lock(found.incident)
        job = tx.lock_job(job_id)
        if job.state is not JobState.WANTED or now <= job.not_after:
            return False
        tx.update_job(job_id, state=JobState.ENDED, outcome=JobOutcome.INCONCLUSIVE.value)
        tx.append(
            job.incident,
            JobEnded(
                job_id=job_id,
                job_kind=job.kind,
                outcome=JobOutcome.INCONCLUSIVE,
                detail=f"not reached: {_why(tx, job.node)}; nothing was started",
                attempt=job.request.attempt,
            ),
            actor="bot",
            at=now,
        )
    services.nudge()
    return True


def _why(tx: Writing, node: str) -> str:
    lease = tx.lease(node)
    if lease is not None:
        return f"{node} was held by {lease.incident} (job {lease.job_id}) until the time to start was over"
    known = tx.node(node)
    if known is None or known.heard_at is None:
        return f"{node} has never reported"
    return f"{node} did not take it up; it was last heard of at {known.heard_at:%H:%M:%S} UTC"
