"""One delivery of a job, from the signed envelope to the handed-over report.

Order of things: check who signed, enter it in the journal, ask the bot, run, store the report, send it. A second delivery
meets the journal; a missing yes starts nothing; every exception of ours becomes a report that says why.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import structlog

from playbooks.errors import MessageError
from playbooks.evidence.signing import PublicKey, open_envelope
from playbooks.messages import ArtifactRef, JobReport, JobRequest
from playbooks.vocabulary import JobKind, JobOutcome
from workers.errors import BotError, JobCancelled, JobError, PolicyRefusal
from workers.jobs.cache_probe import cache_probe
from workers.jobs.collect import collect
from workers.jobs.control import LiveControl
from workers.jobs.deps import Deps, Done
from workers.jobs.feature_probe import feature_probe
from workers.jobs.fingerprint import fingerprint
from workers.jobs.ladder import ladder
from workers.jobs.launch import launch
from workers.jobs.redacting import clean
from workers.jobs.reporting import deliver
from workers.jobs.request import request as request_job
from workers.jobs.stopping import stop, sweep, sweep_node
from workers.journal import Delivery
from workers.ports import Control

CLAIM_PATIENCE_S = 30.0
REPORT_PATIENCE_S = 20.0
CLOCK_LIMIT_MS = 60_000
"""A node further off refuses work: its times would be no evidence, and the bot would refuse its messages."""

Job = Callable[[JobRequest, Deps, Control], Done]
JOBS: Mapping[JobKind, Job] = {
    JobKind.COLLECT: collect,
    JobKind.FINGERPRINT: fingerprint,
    JobKind.LADDER: ladder,
    JobKind.LAUNCH: launch,
    JobKind.REQUEST: request_job,
    JobKind.CACHE_PROBE: cache_probe,
    JobKind.FEATURE_PROBE: feature_probe,
    JobKind.STOP: stop,
    JobKind.SWEEP: sweep,
}
"""Kinds that this worker can do; another kind is refused in words."""

log = structlog.get_logger()


class Delivered(StrEnum):
    """What became of a delivery."""

    RAN = "ran"
    NOT_OURS = "not ours"
    """Unsigned, altered, expired, or for another node: nothing was touched."""
    RUNNING_ALREADY = "running already"
    REPORTED_AGAIN = "reported again"
    NOT_CLAIMED = "not claimed"


def run_delivery(envelope: Mapping[str, Any], deps: Deps, *, bot: PublicKey) -> Delivered:
    """Take one delivery as far as it goes."""
    request = _acceptable(envelope, deps, bot)
    if request is None:
        return Delivered.NOT_OURS
    now = deps.clock.now()
    match deps.journal.enter(request, owner=deps.owner(), is_alive=deps.is_alive, now=now):
        case Delivery.RUNNING:
            return Delivered.RUNNING_ALREADY
        case Delivery.FINISHED:
            row = deps.journal.job(request.job_id)
            if row is not None and row.report is not None:
                deliver(row.report, deps, patience_s=REPORT_PATIENCE_S)
            return Delivered.REPORTED_AGAIN
        case Delivery.FRESH:
            return _run_fresh(request, deps)


def report_cut(deps: Deps) -> list[JobReport]:
    """Give a report to the jobs that a death of their process cut, sweep what they left, and store it all."""
    cut = deps.journal.cut(deps.is_alive)
    if not cut:
        return []
    now = deps.clock.now()
    reports = [
        _report(
            row.request,
            deps,
            outcome=JobOutcome.LOST,
            error="the worker's process ended while the job ran; the job is not run again",
            started_at=row.entered_at,
            duration_ms=max(0, round((now - row.entered_at).total_seconds() * 1000)),
            fence=row.fence,
        )
        for row in cut
    ]
    for report in reports:
        _save_engine_log(report.job_id, deps)
        deps.journal.finish(report.model_copy(update={"artifacts": _artifacts(report.job_id, deps)}), now=now)
    sweep_node(deps)
    return reports


def _acceptable(envelope: Mapping[str, Any], deps: Deps, bot: PublicKey) -> JobRequest | None:
    try:
        request = open_envelope(dict(envelope), {"bot": bot}, JobRequest)
    except MessageError as error:
        log.warning("job refused: message not acceptable", why=str(error))
        return None
    if request.node != deps.node:
        log.warning("job refused: for another node", job=request.job_id, node=request.node)
        return None
    offset = timedelta(milliseconds=deps.bot.clock_offset_ms or 0)
    if deps.clock.now() - offset > request.not_after:
        log.warning("job refused: expired", job=request.job_id, not_after=request.not_after.isoformat())
        return None
    return request


def _run_fresh(request: JobRequest, deps: Deps) -> Delivered:
    try:
        reply = deps.bot.claim(request.job_id, patience_s=CLAIM_PATIENCE_S)
    except BotError as error:
        log.warning("nothing started: no yes from the bot", job=request.job_id, why=str(error))
        deps.journal.release(request.job_id)
        return Delivered.NOT_CLAIMED
    if not reply.granted:
        log.info("nothing started: claim refused", job=request.job_id, reason=reply.reason, detail=reply.detail)
        deps.journal.release(request.job_id)
        return Delivered.NOT_CLAIMED
    deps.journal.start(request.job_id, fence=reply.fence)
    report = _run_claimed(request, deps, fence=reply.fence)
    deps.journal.finish(report, now=deps.clock.now())
    deliver(report, deps, patience_s=REPORT_PATIENCE_S)
    return Delivered.RAN


def _run_claimed(request: JobRequest, deps: Deps, *, fence: int | None) -> JobReport:
    started_at, start = deps.clock.now(), time.monotonic()
    outcome, error, facts = JobOutcome.DONE, None, {}
    try:
        _check_clock(deps)
        job = JOBS.get(request.kind)
        if job is None:
            raise PolicyRefusal("kind", f"this worker cannot do {request.kind.value} jobs yet; nothing was started")
        with LiveControl(request, deps, fence=fence) as control:
            facts = job(request, deps, control).facts.model_dump(mode="json")
    except PolicyRefusal as refusal:
        outcome, error = JobOutcome.REFUSED, str(refusal)
    except JobCancelled as cancel:
        outcome, error = JobOutcome.CANCELLED, str(cancel)
    except JobError as failure:
        outcome, error = JobOutcome.INCONCLUSIVE, str(failure)
    except Exception as failure:  # outermost layer: a mistake of ours must reach the thread, and the node stay clean
        log.exception("job failed", job=request.job_id, kind=request.kind.value)
        outcome, error = JobOutcome.INCONCLUSIVE, f"worker error: {type(failure).__name__}: {failure}"
    return _report(
        request,
        deps,
        outcome=outcome,
        error=clean(error, {}) if error else None,
        facts=facts,
        started_at=started_at,
        duration_ms=round((time.monotonic() - start) * 1000),
        fence=fence,
    )


def _check_clock(deps: Deps) -> None:
    offset = deps.bot.clock_offset_ms
    if offset is not None and abs(offset) > CLOCK_LIMIT_MS:
        raise PolicyRefusal(
            "clock",
            f"this node's clock is {offset // 1000} s off the bot's, expected at most {CLOCK_LIMIT_MS // 1000} s",
        )


def _report(
    request: JobRequest,
    deps: Deps,
    *,
    outcome: JobOutcome,
    error: str | None,
    started_at: datetime,
    duration_ms: int,
    fence: int | None,
    facts: dict[str, Any] | None = None,
) -> JobReport:
    return JobReport(
        job_id=request.job_id,
        node=deps.node,
        kind=request.kind,
        outcome=outcome,
        error=error,
        facts=facts or {},
        artifacts=_artifacts(request.job_id, deps),
        started_at=started_at,
        ended_at=deps.clock.now(),
        duration_ms=duration_ms,
        clock_offset_ms=deps.bot.clock_offset_ms or 0,
        fence=fence,
        worker_version=deps.version,
        catalogue=deps.catalogue().digest,
    )


def _artifacts(job_id: str, deps: Deps) -> tuple[ArtifactRef, ...]:
    return tuple(ref for _, ref in deps.journal.undelivered(job_id))


def _save_engine_log(job_id: str, deps: Deps) -> None:
    log_file = deps.home / "engines" / job_id / "engine.log"
    if log_file.exists():
        deps.spool.save_log(job_id, "engine.log", log_file)
