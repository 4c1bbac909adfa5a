"""Record a node's report: judge its facts, append what they say, end the job and its lease. All of it once.

Judging that reads files is done before the transaction, so that a long log holds nobody up. A report whose log is still
wanted for judging is not recorded yet: the answer names the digest, and the node sends the report again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bot.errors import UnknownIncident
from bot.flows.advance_phase import advance_phase
from bot.flows.ask_next import ask_next
from bot.flows.draw_charts import charts_of
from bot.flows.end_rank import end_rank
from bot.flows.job_access import job_of, lock_job_of
from bot.flows.judge_facts import judge_facts
from bot.flows.judge_launch import LogWanted
from bot.flows.judge_ranks import rank_end
from bot.flows.judged import Context, Judged
from bot.flows.stop_engines import stop_the_rest
from bot.ports import ArtifactMeta, JobState
from playbooks.errors import MalformedMessage
from playbooks.evidence.canonical import canonical_bytes, sha256_hex
from playbooks.evidence.entries import HeldEnded, JobEnded
from playbooks.judging.ranks import RankEnd
from playbooks.messages import ReportReply
from playbooks.vocabulary import JobOutcome

if TYPE_CHECKING:
    from datetime import datetime

    from bot.flows.draw_charts import ChartFile
    from bot.flows.services import Services
    from bot.ports import Job, Reading, Writing
    from playbooks.messages import JobReport


def record_report(services: Services, report: JobReport) -> ReportReply:
    """Record a report; sent again, it changes nothing and gets the same answer.

    Raises:
        UnknownJob: no job of that id.
        NotThatNode: the job is another node's.
    """
    now = services.clock.now()
    body = canonical_bytes(report)
    digest = sha256_hex(body)
    with services.store.read() as reading:
        job = job_of(reading, report.job_id, report.node)
        if job.state is JobState.ENDED:
            return _answer_again(reading, job, report, digest, now)
        context = _context(reading, job, report, now)
    try:
        judged = _judge(services, context) if job.request.rank is None else rank_end(services, context)
    except LogWanted as wanted:
        return ReportReply(job_id=job.id, recorded=False, missing=(wanted.sha256,), detail=str(wanted), bot_time=now)
    charts = charts_of(services, context, judged) if isinstance(judged, Judged) else ()
    services.artifacts.put(body)
    with services.store.write() as tx:
        job = lock_job_of(tx, report.job_id, report.node)
        if job.state is JobState.ENDED:
            return _answer_again(tx, job, report, digest, now)
        _record(tx, services, job, report, judged, charts=charts, digest=digest, size=len(body), now=now)
        missing = _missing(tx, report)
    services.nudge()
    note = judged.note if isinstance(judged, Judged) else judged.why
    return ReportReply(job_id=job.id, recorded=True, missing=missing, detail=note, bot_time=now)


def _context(reading: Reading, job: Job, report: JobReport, now: datetime) -> Context:
    incident = reading.incident(job.incident)
    if incident is None:
        raise UnknownIncident(f"no incident {job.incident}")
    earlier: dict[str, str] = {}
    for attempt in incident.case.attempts:
        for job_id in (attempt.payload.job_id, *(rank.job_id for rank in attempt.payload.ranks)):
            past = reading.job(job_id) if job_id else None
            if past is not None and past.report_sha256 is not None:
                earlier[past.id] = past.report_sha256
    return Context(job=job, report=report, case=incident.case, reports=earlier, now=now, language=incident.language)


def _judge(services: Services, context: Context) -> Judged:
    """Say what the report comes to; facts that cannot be read, or of a lost lease, are kept and not judged."""
    job, report = context.job, context.report
    if report.outcome is not JobOutcome.DONE:
        return _ended(job, report.outcome, report.error or f"ended as {report.outcome.value} without a reason")
    if job.kind.loads_gpu and (job.fence is None or report.fence != job.fence):
        found = "none" if report.fence is None else str(report.fence)
        detail = f"not judged: expected fence {job.fence}, found {found}; this worker had no lease any more"
        return _ended(job, JobOutcome.INCONCLUSIVE, detail)
    if report.kind is not job.kind:
        detail = f"not judged: expected the facts of a {job.kind.value}, found those of a {report.kind.value}"
        return _ended(job, JobOutcome.INCONCLUSIVE, detail)
    try:
        return judge_facts(services, context)
    except MalformedMessage as error:
        return _ended(job, JobOutcome.INCONCLUSIVE, f"not judged: the facts cannot be read: {error}")


def _ended(job: Job, outcome: JobOutcome, detail: str) -> Judged:
    return Judged(
        entries=(
            JobEnded(job_id=job.id, job_kind=job.kind, outcome=outcome, detail=detail, attempt=job.request.attempt),
        ),
        note=detail,
    )


def _record(
    tx: Writing,
    services: Services,
    job: Job,
    report: JobReport,
    judged: Judged | RankEnd,
    *,
    charts: tuple[ChartFile, ...],
    digest: str,
    size: int,
    now: datetime,
) -> None:
    for ref in report.artifacts:
        tx.note_artifact(
            ArtifactMeta(
                sha256=ref.sha256,
                name=ref.name,
                size_bytes=ref.size_bytes,
                media_type=ref.media_type,
                incident=job.incident,
                stored=services.artifacts.has(ref.sha256),
                redactions=ref.redactions,
            )
        )
    tx.note_artifact(
        ArtifactMeta(
            sha256=digest,
            name=f"report-{job.id}.json",
            size_bytes=size,
            media_type="application/json",
            incident=job.incident,
            stored=True,
        )
    )
    tx.update_job(job.id, state=JobState.ENDED, outcome=report.outcome.value, report_sha256=digest, last_heard_at=now)
    if isinstance(judged, RankEnd):
        end_rank(tx, services, job, judged, now=now)
        return
    if job.fence is not None:
        tx.end_lease(job.node, fence=job.fence)
    for meta in (*judged.made, *(chart.meta(job.incident) for chart in charts)):
        tx.note_artifact(meta)
        tx.artifact_stored(meta.sha256)
    files = (
        digest,
        *(ref.sha256 for ref in report.artifacts),
        *(meta.sha256 for meta in judged.made),
        *(chart.sha256 for chart in charts),
    )
    for number, payload in enumerate(judged.entries):
        by_node = number == 0 and not judged.by_bot
        tx.append(
            job.incident,
            payload,
            actor=f"node:{report.node}" if by_node else "bot",
            at=now,
            artifacts=files if number == 0 else (),
        )
        if isinstance(payload, HeldEnded):
            stop_the_rest(tx, services, job.incident, payload.attempt, but=job.node, now=now)
    if judged.log is not None and services.artifacts.has(judged.log.sha256):
        tx.enqueue(judged.log.kind, judged.log.payload(), incident=job.incident, at=now)
    for chart in charts:
        tx.enqueue(chart.kind, chart.payload(), incident=job.incident, at=now)
    for follow in judged.follow_ups:
        follow(tx, services, now)
    advance_phase(tx, services, job.incident, now=now)
    ask_next(tx, services, job.incident, now=now)
    tx.want_dashboard(job.incident)


def _answer_again(reading: Reading, job: Job, report: JobReport, digest: str, now: datetime) -> ReportReply:
    detail = "" if job.report_sha256 == digest else f"the job had ended already: {job.outcome}"
    return ReportReply(job_id=job.id, recorded=True, missing=_missing(reading, report), detail=detail, bot_time=now)


def _missing(reading: Reading, report: JobReport) -> tuple[str, ...]:
    """Return the announced digests whose bytes are still wanted."""
    known: dict[str, Any] = {ref.sha256: reading.artifact(ref.sha256) for ref in report.artifacts}
    return tuple(sha256 for sha256, meta in known.items() if meta is not None and not meta.stored)
