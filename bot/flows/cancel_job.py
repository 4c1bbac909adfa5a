"""Cancel a job: one that nobody took up ends at once, a running one is told with its next heartbeat."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from bot.errors import UnknownJob
from bot.flows.end_rank import end_rank, without_facts
from bot.ports import JobState
from playbooks.evidence.entries import JobEnded
from playbooks.vocabulary import JobOutcome

if TYPE_CHECKING:
    from bot.flows.services import Services
    from bot.ports import Job, Writing


class Cancelled(StrEnum):
    """What a cancel came to."""

    ENDED = "ended"
    """The job had not started, and will not."""
    TOLD = "told"
    """The job runs; the node is told within a heartbeat, and its report ends it."""
    TOO_LATE = "too_late"
    """The job had ended already."""


def cancel_job(services: Services, job_id: str, *, by: str, reason: str = "") -> Cancelled:
    """Cancel a job.

    by: `user:U123`.

    Raises:
        UnknownJob: no job of that id.
    """
    now = services.clock.now()
    with services.store.write() as tx:
        found = tx.job(job_id)
        if found is None:
            raise UnknownJob(f"no job {job_id}")
        tx.lock(found.incident)
        job = tx.lock_job(job_id)
        if job.request.rank is not None:
            done = _cancel_group(tx, services, job, by=by, reason=reason)
            services.nudge()
            return done
        done = Cancelled.TOLD
        match job.state:
            case JobState.ENDED:
                return Cancelled.TOO_LATE
            case JobState.CANCELLING:
                return Cancelled.TOLD
            case JobState.CLAIMED:
                tx.update_job(job_id, state=JobState.CANCELLING, cancelled_by=by)
                tx.want_dashboard(job.incident)
            case JobState.WANTED:
                tx.update_job(job_id, state=JobState.ENDED, cancelled_by=by, outcome=JobOutcome.CANCELLED.value)
                tx.append(
                    job.incident,
                    JobEnded(
                        job_id=job_id,
                        job_kind=job.kind,
                        outcome=JobOutcome.CANCELLED,
                        detail=reason or "cancelled before it started",
                        attempt=job.request.attempt,
                    ),
                    actor=by,
                    at=now,
                )
                done = Cancelled.ENDED
    services.nudge()
    return done


def _cancel_group(tx: Writing, services: Services, asked: Job, *, by: str, reason: str) -> Cancelled:
    """Cancel every rank of a launch over several nodes: running ones are told, the others never start."""
    now = services.clock.now()
    rank = asked.request.rank
    jobs = [job for job in tx.group_jobs(rank.group) if job.state is not JobState.ENDED] if rank is not None else []
    if not jobs:
        return Cancelled.TOO_LATE
    running = [job for job in jobs if job.state is not JobState.WANTED]
    for job in running:
        tx.update_job(job.id, state=JobState.CANCELLING, cancelled_by=by)
    waiting = [job for job in jobs if job.state is JobState.WANTED]
    for job in waiting:  # all of them first, for the end of the first one ends what still waits
        tx.update_job(job.id, state=JobState.ENDED, cancelled_by=by, outcome=JobOutcome.CANCELLED.value)
    why = reason or "cancelled before it started"
    for job in waiting:
        end_rank(tx, services, job, without_facts(job, JobOutcome.CANCELLED, why), now=now)
    tx.want_dashboard(asked.incident)
    return Cancelled.TOLD if running else Cancelled.ENDED
