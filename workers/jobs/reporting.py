"""Hands reports and files over to the bot, again and again until it has said that it has them."""

from __future__ import annotations

import structlog

from playbooks.messages import ArtifactRef, JobReport
from workers.errors import BotError, BotRefused
from workers.jobs.deps import Deps

_GONE = frozenset({404, 410})
"""The bot does not know the job any more: sending again would go on for ever."""
_UNWANTED = frozenset({404, 409, 410, 413})

log = structlog.get_logger()


def deliver(report: JobReport, deps: Deps, *, patience_s: float) -> bool:
    """Send a report and the files the bot asks for; False when it has to be tried again later."""
    try:
        reply = deps.bot.report(report, patience_s=patience_s)
    except BotRefused as refusal:
        log.warning("report refused", job=report.job_id, why=str(refusal))
        if refusal.status in _GONE:
            deps.journal.acknowledge(report.job_id)
        return False
    except BotError as error:
        log.info("report not delivered, kept", job=report.job_id, why=str(error))
        return False
    if not reply.recorded:
        log.warning("report not recorded", job=report.job_id, why=reply.detail)
        return False
    deps.journal.acknowledge(report.job_id)
    wanted = set(reply.missing)
    for job_id, ref in deps.journal.undelivered(report.job_id):
        if ref.sha256 in wanted:
            put(deps, job_id, ref)
        else:
            _has(deps, ref)
    return True


def put(deps: Deps, job_id: str, ref: ArtifactRef) -> bool:
    """Upload one file; False when it has to be tried again later."""
    path = deps.spool.path(ref.sha256)
    if not path.exists():
        deps.journal.delivered(ref.sha256)
        return True
    try:
        deps.bot.put_artifact(ref, path, job_id=job_id)
    except BotRefused as refusal:
        log.warning("file refused", job=job_id, name=ref.name, why=str(refusal))
        if refusal.status not in _UNWANTED:
            return False
        deps.journal.delivered(ref.sha256)  # it stays in the spool, but is not offered again
        return True
    except BotError as error:
        log.info("file not delivered, kept", job=job_id, name=ref.name, why=str(error))
        return False
    _has(deps, ref)
    return True


def deliver_rest(deps: Deps) -> None:
    """Try again what an earlier time could not hand over."""
    for report in deps.journal.unacknowledged():
        if not deliver(report, deps, patience_s=2):
            return
    for job_id, ref in deps.journal.undelivered():
        job = deps.journal.job(job_id)
        if job is not None and job.report is not None and not put(deps, job_id, ref):
            return


def _has(deps: Deps, ref: ArtifactRef) -> None:
    deps.journal.delivered(ref.sha256)
    deps.spool.forget(ref.sha256)
