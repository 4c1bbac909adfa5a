"""One rank of a launch over several nodes has ended: the others follow, and the last one makes the attempt.

Ranks that never started end with it at once; running ones are told with their next heartbeat. The leases of all nodes end
together, so that no other launch gets half of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.flows.advance_phase import advance_phase
from bot.flows.ask_next import ask_next
from bot.flows.judge_ranks import judge_ranks
from bot.ports import JobState
from playbooks.judging.ranks import GroupWord, RankEnd
from playbooks.vocabulary import JobOutcome, Outcome

if TYPE_CHECKING:
    from datetime import datetime

    from bot.flows.services import Services
    from bot.ports import Job, Reading, Writing


def end_rank(tx: Writing, services: Services, job: Job, end: RankEnd, *, now: datetime) -> None:
    """Note how a rank ended, inside a transaction that holds the incident's lock and has ended the job."""
    if job.request.rank is None:
        return
    tx.update_job(job.id, rank_end=end)
    jobs = tx.group_jobs(job.request.rank.group)
    if end.outcome is not Outcome.READY:
        for peer in jobs:
            if peer.state is JobState.WANTED:
                why = f"not started, because {_said(end)}"
                cancelled = JobOutcome.CANCELLED
                never = without_facts(peer, cancelled, why)
                tx.update_job(
                    peer.id, state=JobState.ENDED, outcome=cancelled.value, cancelled_by="bot", rank_end=never
                )
        jobs = tx.group_jobs(job.request.rank.group)
    tx.want_dashboard(job.incident)
    if any(peer.rank_end is None for peer in jobs):
        return
    for peer in jobs:
        if peer.fence is not None:
            tx.end_lease(peer.node, fence=peer.fence)
    judge_ranks(tx, services, jobs, now=now)
    advance_phase(tx, services, job.incident, now=now)
    ask_next(tx, services, job.incident, now=now)


def without_facts(job: Job, outcome: JobOutcome, why: str) -> RankEnd:
    """Return the end of a rank that brought no facts."""
    rank = job.request.rank
    return RankEnd(
        rank=0 if rank is None else rank.rank,
        node=job.node,
        job_id=job.id,
        job_outcome=outcome,
        outcome=Outcome.NOT_OBSERVED,
        why=why,
    )


def word_for(reading: Reading, job: Job) -> GroupWord | None:
    """Return what a rank is told of the others; None for a launch on one node."""
    rank = job.request.rank
    if rank is None:
        return None
    ends = [peer.rank_end for peer in reading.group_jobs(rank.group) if peer.id != job.id and peer.rank_end is not None]
    over = next((end for end in ends if end.outcome is not Outcome.READY), None)
    return GroupWord(
        ready=any(end.rank == 0 and end.outcome is Outcome.READY for end in ends),
        ended="" if over is None else _said(over),
    )


def _said(end: RankEnd) -> str:
    how = {Outcome.FAILED: "failed", Outcome.STOPPED_BY_LIMIT: "was stopped by a limit"}.get(end.outcome, "ended")
    return f"rank {end.rank} on {end.node} {how}" + (f": {end.why}" if end.why and not end.by_itself else "")
