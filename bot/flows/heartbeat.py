"""Take a heartbeat: the job's state comes up, a cancel goes down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.flows.end_rank import word_for
from bot.flows.job_access import job_of
from bot.ports import JobState
from playbooks.messages import HeartbeatReply
from playbooks.vocabulary import JobOutcome

if TYPE_CHECKING:
    from bot.flows.services import Services
    from bot.ports import Job
    from playbooks.messages import Heartbeat


def heartbeat(services: Services, beat: Heartbeat) -> HeartbeatReply:
    """Note that the job is alive, and say whether it is to end.

    Raises:
        UnknownJob: no job of that id.
        NotThatNode: the job is another node's.
    """
    now = services.clock.now()
    with services.store.write() as tx:
        job = job_of(tx, beat.job_id, beat.node)
        if job.state in {JobState.CLAIMED, JobState.CANCELLING} and beat.fence == job.fence:
            stage = beat.stage.value if beat.stage is not None else job.stage
            if stage != job.stage:
                tx.want_dashboard(job.incident)  # before the job's row: the incident is locked first, always
            job = tx.update_job(job.id, last_heard_at=now, stage=stage, note=beat.note or job.note)
        group = word_for(tx, job)
    why = _why_it_ends(job, beat)
    return HeartbeatReply(job_id=job.id, cancel=why is not None, cancelled_by=why or "", group=group, bot_time=now)


def _why_it_ends(job: Job, beat: Heartbeat) -> str | None:
    if job.state is JobState.CANCELLING or job.outcome == JobOutcome.CANCELLED.value:
        return job.cancelled_by or "the bot"
    if job.state is JobState.ENDED:
        return f"this job has ended: {job.outcome}"
    if beat.fence != job.fence:
        return f"the lease is no longer this worker's: expected fence {job.fence}, found {beat.fence}"
    return None
