"""Which node may speak about which job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.errors import NotThatNode, UnknownJob

if TYPE_CHECKING:
    from bot.ports import Job, Reading, Writing


def job_of(reading: Reading, job_id: str, node: str) -> Job:
    """Return the job that this node speaks about.

    Raises:
        UnknownJob: no job of that id.
        NotThatNode: the job is another node's.
    """
    job = reading.job(job_id)
    if job is None:
        raise UnknownJob(f"no job {job_id}")
    if job.node != node:
        raise NotThatNode(f"expected {job_id} from the node it was sent to, found {node}")
    return job


def lock_job_of(tx: Writing, job_id: str, node: str) -> Job:
    """Lock a job's incident, then the job - always in this order - and return its newest row; raises as `job_of`."""
    job = job_of(tx, job_id, node)
    tx.lock(job.incident)
    return tx.lock_job(job_id)
