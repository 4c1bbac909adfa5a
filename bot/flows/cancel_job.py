"""Cancel a job: one that nobody took up ends at once, a running one is told with its next heartbeat."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from bot.errors import UnknownJob
from bot.ports import JobState
from playbooks.evidence.entries import JobEnded
from playbooks.vocabulary import JobOutcome

if TYPE_CHECKING:
    from bot.flows.services import Services


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
