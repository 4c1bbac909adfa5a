"""Answer a node's claim: may this job start, and with which fencing number?

One transaction takes the node's lease and marks the job, so of two claims one is granted. The same claim asked again (its
answer was lost) gets the same answer. A claim whose worker was never heard of afterwards is forgotten: the node has no other
way to say that the yes did not reach it. The next one gets a new fence, so that a first worker, should there be one, ends.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from bot.flows.held_engines import holder_of
from bot.flows.job_access import lock_job_of
from bot.ports import JobState
from playbooks.messages import ClaimReply
from playbooks.vocabulary import JobOutcome

if TYPE_CHECKING:
    from bot.flows.services import Services
    from bot.ports import Job, Writing
    from playbooks.messages import Claim

FORGOTTEN_AFTER = timedelta(seconds=45)
"""A worker asks for 30 s, and a claimed one is heard of every 3 s."""
Reason = Literal["granted", "cancelled", "held", "expired", "finished", "unknown_job", "wrong_node"]


def claim_job(services: Services, claim: Claim) -> ClaimReply:
    """Decide on a claim.

    Raises:
        UnknownJob: no job of that id.
        NotThatNode: the job is another node's.
    """
    now = services.clock.now()
    with services.store.write() as tx:
        job = lock_job_of(tx, claim.job_id, claim.node)
        reply = _decide(tx, job, claim, now)
    if reply.granted:
        services.nudge()
    return reply


def _decide(tx: Writing, job: Job, claim: Claim, now: datetime) -> ClaimReply:
    key = f"claim:{job.id}:{claim.nonce or claim.at.isoformat()}"
    is_new = tx.first_time(key, at=now)
    match job.state:
        case JobState.ENDED if job.outcome == JobOutcome.CANCELLED.value:
            return _no(job, "cancelled", f"cancelled by {job.cancelled_by or 'the bot'}", now)
        case JobState.ENDED:
            return _no(job, "finished", f"this job has ended: {job.outcome}", now)
        case JobState.CANCELLING:
            return _no(job, "cancelled", f"cancelled by {job.cancelled_by or 'the bot'}", now)
        case JobState.CLAIMED if not is_new:
            return _yes(job, now)
        case JobState.CLAIMED if is_forgotten(job, now) and now <= job.not_after:
            if job.fence is not None:
                tx.end_lease(job.node, fence=job.fence)
            return _first_claim(tx, job, now)
        case JobState.CLAIMED:
            return _no(job, "held", f"claimed already at {job.claimed_at:%H:%M:%S} UTC by another delivery", now)
        case JobState.WANTED:
            return _first_claim(tx, job, now)


def is_forgotten(job: Job, now: datetime) -> bool:
    """Whether a claimed job was never heard of for so long that its worker cannot have got the yes."""
    if job.state is not JobState.CLAIMED or job.claimed_at is None or job.last_heard_at != job.claimed_at:
        return False
    return now - job.claimed_at > FORGOTTEN_AFTER


def _first_claim(tx: Writing, job: Job, now: datetime) -> ClaimReply:
    if now > job.not_after:
        return _no(job, "expired", f"was to start before {job.not_after:%H:%M:%S} UTC", now)
    incident = tx.incident(job.incident)
    if incident is None or incident.case.closed is not None:
        return _no(job, "cancelled", f"{job.incident} is closed", now)
    fence: int | None = None
    if job.kind.loads_gpu:
        holder = holder_of(tx, job.node, incident=job.incident, now=now, job_id=job.id)
        if holder is not None:
            return _no(job, "held", f"{job.node} {holder}", now)
        if job.request.rank is not None:
            fence, why = _fence_of_the_group(tx, job, now)
        else:
            lease = tx.take_lease(job.node, incident=job.incident, job_id=job.id, at=now)
            fence, why = (
                (None, f"{job.node} was taken by another job at this moment") if lease is None else (lease.fence, "")
            )
        if fence is None:
            return _no(job, "held", why, now)
    claimed = tx.update_job(job.id, state=JobState.CLAIMED, claimed_at=now, last_heard_at=now, fence=fence)
    tx.want_dashboard(job.incident)
    return _yes(claimed, now)


def _fence_of_the_group(tx: Writing, job: Job, now: datetime) -> tuple[int | None, str]:
    """Take the leases of every rank's node, or none; a rank whose peer took them before has its own already.

    Returns the fence of this rank, or None and in words who holds which node.
    """
    mine = tx.lease(job.node)
    if mine is not None and mine.job_id == job.id:
        return mine.fence, ""
    peers = tx.group_jobs(job.request.rank.group) if job.request.rank is not None else []
    if job.fence is not None:  # taken before, and given back by a claim that was forgotten
        peers = [job]
    for peer in peers:
        holder = holder_of(tx, peer.node, incident=job.incident, now=now, job_id=peer.id)
        if holder is not None:
            return None, f"{peer.node} {holder}"
    taken = tx.take_leases({peer.node: peer.id for peer in peers}, incident=job.incident, at=now)
    if taken is None:
        return None, "a node of this launch was taken by another job at this moment"
    for peer in peers:
        tx.update_job(peer.id, fence=taken[peer.node].fence)
    return taken[job.node].fence, ""


def _yes(job: Job, now: datetime) -> ClaimReply:
    return ClaimReply(job_id=job.id, granted=True, fence=job.fence, reason="granted", bot_time=now)


def _no(job: Job, reason: Reason, detail: str, now: datetime) -> ClaimReply:
    return ClaimReply(job_id=job.id, granted=False, reason=reason, detail=detail, bot_time=now)
