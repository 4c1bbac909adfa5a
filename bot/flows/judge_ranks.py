"""Judge a launch over several nodes: each rank by its own report, the attempt by the first rank to fail.

One attempt is one entry with a line per rank; ranks without facts are ended jobs beside it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from bot.flows.draw_charts import charts_of_attempt, gpus_of
from bot.flows.held_engines import nodes_of_attempt, still_held
from bot.flows.judge_launch import attempt_of, finding_of, follow_ups, log_file, moved_since, read_launch
from bot.flows.stop_engines import stop_engines
from playbooks.errors import MalformedMessage
from playbooks.evidence.canonical import utc_text
from playbooks.evidence.entries import AttemptRecorded, HeldEnded, JobEnded, RankLine
from playbooks.judging.baseline_diff import diff
from playbooks.judging.ranks import Merged, RankEnd, first_of, merge, why_unobserved
from playbooks.messages import JobReport
from playbooks.vocabulary import ErrorClass, JobOutcome, Outcome, Stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from bot.flows.draw_charts import ChartFile
    from bot.flows.judged import Context, LogFile
    from bot.flows.services import Services
    from bot.ports import Incident, Job, Writing
    from playbooks.judging.baseline import Baseline


def rank_end(services: Services, context: Context) -> RankEnd:
    """Say how one rank ended, by its report.

    Raises:
        LogWanted: the log's bytes are needed first.
    """
    job, report = context.job, context.report
    rank = job.request.rank
    end = RankEnd(
        rank=0 if rank is None else rank.rank,
        node=job.node,
        job_id=job.id,
        job_outcome=report.outcome,
        outcome=Outcome.NOT_OBSERVED,
    )
    if report.outcome is not JobOutcome.DONE:
        return end.model_copy(update={"why": report.error or f"ended as {report.outcome.value} without a reason"})
    if job.fence is None or report.fence != job.fence:
        why = f"not judged: expected fence {job.fence}, found {report.fence}; this worker had no lease any more"
        return end.model_copy(update={"why": why, "job_outcome": JobOutcome.INCONCLUSIVE})
    try:
        facts = read_launch(report)
        finding = finding_of(services, facts, report.catalogue, services.definitions.signatures())
        moved = moved_since(services, context, facts)
        attempt = attempt_of(job, report, facts, finding, moved)
    except MalformedMessage as error:
        why = f"not judged: the facts cannot be read: {error}"
        return end.model_copy(update={"why": why, "job_outcome": JobOutcome.INCONCLUSIVE})
    by_itself = facts.outcome in {Outcome.FAILED, Outcome.STOPPED_BY_LIMIT}
    at = facts.failed_at or report.ended_at
    return end.model_copy(
        update={
            "outcome": facts.outcome,
            "why": facts.ended_for and f"ended, because {facts.ended_for}",
            "finding": finding,
            "failed_at": at - timedelta(milliseconds=report.clock_offset_ms) if by_itself else None,
            "launch": attempt.model_dump(mode="json"),
        }
    )


def judge_ranks(tx: Writing, services: Services, jobs: Sequence[Job], *, now: datetime) -> None:
    """Record what a launch came to whose ranks have all ended. jobs: by rank."""
    head = jobs[0]
    ends = [job.rank_end for job in jobs if job.rank_end is not None]
    merged = merge(ends)
    observed = [end for end in ends if end.launch]
    cause = why_unobserved(ends)
    for end in ends:
        if end.launch:
            continue
        ended = JobEnded(
            job_id=end.job_id,
            job_kind=head.kind,
            outcome=end.job_outcome,
            detail=f"rank {end.rank} on {end.node}: {end.why}",
            attempt=head.request.attempt,
        )
        tx.append(head.incident, ended, actor="bot", at=now, post=not observed and end is cause)
    if not observed:
        return
    incident = tx.lock(head.incident)
    reports = _reports(services, jobs)
    attempt = _attempt(head, ends, merged).model_copy(update={"ranks_differ": _differences(reports, jobs)})
    files = [job.report_sha256 for job in jobs if job.report_sha256 is not None]
    files += [ref.sha256 for report in reports.values() for ref in report.artifacts]
    pictures = _charts(services, incident, attempt, observed, reports)
    for picture in pictures:
        tx.note_artifact(picture.meta(head.incident))
        tx.artifact_stored(picture.sha256)
        files.append(picture.sha256)
    nodes = frozenset(job.node for job in jobs)
    replaced = [
        noted.payload for noted, _until in still_held(incident.case, None) if nodes_of_attempt(noted.payload) & nodes
    ]
    tx.append(head.incident, attempt, actor="bot", at=now, artifacts=tuple(dict.fromkeys(files)))
    for before in replaced:
        detail = f"attempt {attempt.attempt} took the node"
        tx.append(head.incident, HeldEnded(attempt=before.attempt, how="replaced", detail=detail), actor="bot", at=now)
        stop_engines(tx, services, head.incident, before.attempt, nodes_of_attempt(before) - nodes, now=now)
    for shown in _logs(services, ends, reports):
        tx.enqueue(shown.kind, shown.payload(), incident=head.incident, at=now)
    for picture in pictures:
        tx.enqueue(picture.kind, picture.payload(), incident=head.incident, at=now)
    if merged.outcome is not Outcome.READY:
        held = frozenset(end.node for end in observed if end.launch.get("held_until"))
        stop_engines(tx, services, head.incident, attempt.attempt, held, now=now)
    for follow in follow_ups(head, attempt):
        follow(tx, services, now)


def _attempt(head: Job, ends: Sequence[RankEnd], merged: Merged) -> AttemptRecorded:
    """Return the attempt: what the first rank to fail showed, and what concerns all of them."""
    parts = [(end, AttemptRecorded.model_validate(end.launch)) for end in ends if end.launch]
    chosen = first_of([end for end, _part in parts], merged)
    first = next(part for end, part in parts if end is chosen)
    serving = next((part for end, part in parts if end.rank == 0), None)
    ready = merged.outcome is Outcome.READY and serving is not None
    return first.model_copy(
        update={
            "outcome": merged.outcome,
            "job_id": head.id,
            "node": head.node,
            "ready_ms": serving.ready_ms if ready and serving is not None else None,
            "held_until": serving.held_until if ready and serving is not None else None,
            "resolved_digest": None if serving is None else serving.resolved_digest,
            "tenants": [f"{end.node}: {who}" for end, part in parts for who in part.tenants],
            "left_behind": [f"{end.node}: {what}" for end, part in parts for what in part.left_behind],
            "changed": [f"{end.node}: {what}" for end, part in parts for what in part.changed],
            "ranks": [_line(end) for end in ends],
            "first_ranks": list(merged.first),
            "first_why": merged.why,
        }
    )


def _charts(
    services: Services,
    incident: Incident,
    attempt: AttemptRecorded,
    observed: Sequence[RankEnd],
    reports: dict[str, JobReport],
) -> tuple[ChartFile, ...]:
    """Return the charts, with the memory of each node that sent its facts."""
    gpus = [
        (f"{end.node} {name}", samples)
        for end in observed
        if end.job_id in reports
        for name, samples in gpus_of(read_launch(reports[end.job_id]))
    ]
    earlier = [noted.payload for noted in incident.case.attempts]
    return charts_of_attempt(services, attempt, earlier=earlier, gpus=gpus, language=incident.language)


def _differences(reports: dict[str, JobReport], jobs: Sequence[Job]) -> list[str]:
    """Name what the ranks did not have alike when they started: image, packages, driver, model files, as each node read them."""
    read = [
        (job.node, found.model_copy(update={"gpus": ()}))
        for job in jobs
        if job.id in reports and (found := _resolved(reports[job.id])) is not None
    ]
    if not read:
        return []
    head, first = read[0]
    return [
        f"{variable.name}: {variable.before} on {head}, {variable.after} on {node}"
        for node, other in read[1:]
        for variable in diff(first, other)
    ]


def _resolved(report: JobReport) -> Baseline | None:
    try:
        return read_launch(report).resolved
    except MalformedMessage:
        return None


def _line(end: RankEnd) -> RankLine:
    """Return what the attempt keeps of a rank."""
    part = AttemptRecorded.model_validate(end.launch) if end.launch else None
    return RankLine(
        rank=end.rank,
        node=end.node,
        job_id=end.job_id,
        job_outcome=end.job_outcome,
        outcome=end.outcome,
        why=end.why,
        failed_at=None if end.failed_at is None else utc_text(end.failed_at),
        stage=Stage.NONE if end.finding is None else end.finding.stage,
        error_class=ErrorClass.UNKNOWN if end.finding is None else end.finding.error_class,
        root_text=None if end.finding is None else end.finding.root_text,
        exit_code=None if part is None else part.exit_code,
        log_sha256=None if part is None else part.log_sha256,
        stages=[] if part is None else part.stages,
    )


def _reports(services: Services, jobs: Sequence[Job]) -> dict[str, JobReport]:
    kept = {job.id: job.report_sha256 for job in jobs if job.report_sha256 is not None}
    return {
        job_id: JobReport.model_validate_json(services.artifacts.get(sha256))
        for job_id, sha256 in kept.items()
        if services.artifacts.has(sha256)
    }


def _logs(services: Services, ends: Sequence[RankEnd], reports: dict[str, JobReport]) -> Iterator[LogFile]:
    """Yield each rank's log as a file of the thread, as far as it is here."""
    for end in ends:
        part = AttemptRecorded.model_validate(end.launch) if end.launch else None
        if part is None or part.log_sha256 is None or not services.artifacts.has(part.log_sha256):
            continue
        refs = reports[end.job_id].artifacts if end.job_id in reports else ()
        redactions = next((ref.redactions for ref in refs if ref.sha256 == part.log_sha256), 0)
        yield log_file(part, redactions=redactions, rank=f", rank {end.rank} on {end.node}")
