"""Take a silent node's lease away: an approver's word, with a reason, by another person than the one who asked for the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.errors import UnknownJob
from bot.flows.end_rank import end_rank, without_facts
from bot.ports import JobState
from playbooks.errors import RuleViolation, SecondPersonNeeded
from playbooks.evidence.entries import JobEnded, LeaseTaken
from playbooks.vocabulary import JobOutcome, Role

if TYPE_CHECKING:
    from bot.flows.services import Services
    from bot.ports import Lease


def take_lease(services: Services, node: str, *, by: str, reason: str) -> Lease:
    """End the lease of a node whose worker cannot say that its job ended; returns the lease that was taken.

    by: the approver's Slack user id.

    Raises:
        RuleViolation: not an approver, no reason, or no lease.
        SecondPersonNeeded: the approver asked for the job.
    """
    if services.people.role_of(by) is not Role.APPROVER:
        raise RuleViolation("a lease is taken by an approver only")
    if not reason.strip():
        raise RuleViolation("a lease is taken with a reason: why is it certain that nothing loads the GPUs any more?")
    now = services.clock.now()
    with services.store.write() as tx:
        held = tx.lease(node)
        if held is None:
            raise RuleViolation(f"{node} has no lease to take: nothing runs there")
        tx.lock(held.incident)
        job = tx.job(held.job_id)
        if job is None:
            raise UnknownJob(f"no job {held.job_id}")
        if job.request.requested_by == f"user:{by}":
            raise SecondPersonNeeded("the person who asked for the job may not take its lease; another approver may")
        if not tx.end_lease(node, fence=held.fence):
            raise RuleViolation(f"the lease of {node} ended at this moment")
        tx.append(held.incident, LeaseTaken(node=node, fence=held.fence, reason=reason), actor=f"user:{by}", at=now)
        if job.state is not JobState.ENDED:
            tx.update_job(job.id, state=JobState.ENDED, outcome=JobOutcome.LOST.value, cancelled_by=f"user:{by}")
            detail = f"the lease was taken; last heard of {job.last_heard_at:%H:%M:%S} UTC" if job.last_heard_at else ""
            if job.request.rank is not None:
                lost = without_facts(job, JobOutcome.LOST, detail or "the lease was taken")
                end_rank(tx, services, job, lost, now=now)
                services.nudge()
                return held
            tx.append(
                held.incident,
                JobEnded(
                    job_id=job.id,
                    job_kind=job.kind,
                    outcome=JobOutcome.LOST,
                    detail=detail or "the lease was taken",
                    attempt=job.request.attempt,
                ),
                actor=f"user:{by}",
                at=now,
            )
    services.nudge()
    return held
