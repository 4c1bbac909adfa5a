"""Give up a job that no node took up in time, or whose worker took it up and never began, and say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.flows.claim_job import is_forgotten
from bot.flows.end_rank import end_rank, without_facts
from bot.ports import JobState
from playbooks.evidence.entries import JobEnded
from playbooks.vocabulary import JobOutcome

if TYPE_CHECKING:
    from datetime import datetime

    from bot.flows.services import Services
    from bot.ports import Job, Writing


def give_up_job(services: Services, job_id: str) -> bool:
    """End a job whose time to start is over; False when it was taken up or ended meanwhile."""
    now = services.clock.now()
    with services.store.write() as tx:
        found = tx.job(job_id)
        if found is None:
            return False
        tx.lock(found.incident)
        job = tx.lock_job(job_id)
        why = _why(tx, job) if job.state is JobState.WANTED else _never_began(tx, job, now)
        if now <= job.not_after or why is None:
            return False
        tx.update_job(job_id, state=JobState.ENDED, outcome=JobOutcome.INCONCLUSIVE.value)
        if job.request.rank is not None:
            end = without_facts(job, JobOutcome.INCONCLUSIVE, f"not reached: {why}; nothing was started there")
            end_rank(tx, services, job, end, now=now)
            services.nudge()
            return True
        if job.fence is not None:
            tx.end_lease(job.node, fence=job.fence)
        tx.append(
            job.incident,
            JobEnded(
                job_id=job_id,
                job_kind=job.kind,
                outcome=JobOutcome.INCONCLUSIVE,
                detail=f"not reached: {why}; nothing was started",
                attempt=job.request.attempt,
            ),
            actor="bot",
            at=now,
        )
    services.nudge()
    return True


def _why(tx: Writing, job: Job) -> str:
    node = job.node
    lease = tx.lease(node)
    if lease is not None and lease.job_id != job.id:
        return f"{node} was held by {lease.incident} (job {lease.job_id}) until the time to start was over"
    known = tx.node(node)
    if known is None or known.heard_at is None:
        return f"{node} has never reported"
    return f"{node} did not take it up; it was last heard of at {known.heard_at:%H:%M:%S} UTC"


def _never_began(tx: Writing, job: Job, now: datetime) -> str | None:
    """Return why a claimed job has not begun, by the node's own word after its time to start; None when it may have."""
    known = tx.node(job.node)
    if not is_forgotten(job, now) or known is None or known.hello is None:
        return None
    if known.hello.at <= job.not_after or job.id in known.hello.running:
        return None
    return f"{job.node} claimed it, was not heard of it again, and says that it does not run"
