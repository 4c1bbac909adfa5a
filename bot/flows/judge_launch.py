"""Judge a launch: its first failure, what moved since the attempt before, and how stable the failure is.

The node's live finding is adopted when it was judged by this bot's own catalogue; else the stored log is read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from bot.blocks.notices import notice
from bot.blocks.texts import translator
from bot.errors import JobNotAsked
from bot.flows.add_back import roll_back_a_failed_cache
from bot.flows.held_engines import nodes_of_attempt, still_held
from bot.flows.judged import Context, Judged, LogFile
from bot.flows.request_job import Wish
from bot.flows.request_ranks import add_launch
from bot.flows.score_attempts import score_against_previous
from bot.ports import OutboxKind
from playbooks.errors import MalformedMessage
from playbooks.evidence.entries import AttemptRecorded, HeldEnded, Payload
from playbooks.judging.baseline_diff import diff
from playbooks.judging.finding import Finding
from playbooks.judging.first_failure import analyse_blocks, analyse_text
from playbooks.messages import JobReport, LaunchFacts, LaunchParams
from playbooks.reading.whole_lines import whole_lines
from playbooks.vocabulary import ErrorClass, Outcome

if TYPE_CHECKING:
    from datetime import datetime

    from bot.flows.judged import FollowUp
    from bot.flows.services import Services
    from bot.ports import Job, Writing
    from playbooks.judging.baseline import Baseline
    from playbooks.judging.signature_catalogue import Catalogue


class LogWanted(Exception):  # noqa: N818 - says the condition; not an error: the node is asked for the bytes
    """The log has to be read before the report can be judged, and its bytes are not here yet."""

    def __init__(self, sha256: str) -> None:
        super().__init__(f"send the log {sha256[:12]} first: it is judged here, by this bot's catalogue")
        self.sha256 = sha256


def judge_launch(services: Services, context: Context) -> Judged:
    """Say what a launch showed.

    Raises:
        MalformedMessage: the facts are not those of a launch.
        LogWanted: the log's bytes are needed first.
    """
    job, report = context.job, context.report
    facts = read_launch(report)
    if job.request.attempt is None or job.request.baseline is None:
        raise MalformedMessage("a launch without attempt or baseline")
    catalogue = services.definitions.signatures()
    finding = finding_of(services, facts, report.catalogue, catalogue)
    attempt = attempt_of(job, report, facts, finding, moved_since(services, context, facts))
    entries: list[Payload] = [attempt]
    entries += [
        HeldEnded(attempt=noted.payload.attempt, how="replaced", detail=f"attempt {attempt.attempt} took the node")
        for noted, _until in still_held(context.case, None)
        if job.node in nodes_of_attempt(noted.payload)
    ]
    return Judged(entries=tuple(entries), log=_log(report, facts, attempt), follow_ups=follow_ups(job, attempt))


def read_launch(report: JobReport) -> LaunchFacts:
    """Read a launch's facts.

    Raises:
        MalformedMessage: they are not of that form.
    """
    try:
        return LaunchFacts.model_validate(report.facts)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        raise MalformedMessage(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def read_log(
    services: Services,
    sha256: str,
    catalogue: Catalogue,
    *,
    exit_code: int | None = None,
    oom_killed: bool | None = None,
) -> Finding:
    """Analyse a stored log.

    Raises:
        LogWanted: its bytes are not stored.
    """
    if not services.artifacts.has(sha256):
        raise LogWanted(sha256)
    with services.artifacts.open(sha256) as chunks:
        return analyse_blocks(whole_lines(chunks), catalogue, exit_code=exit_code, oom_killed=oom_killed)


def finding_of(services: Services, facts: LaunchFacts, theirs: str, catalogue: Catalogue) -> Finding:
    """Adopt the node's finding when it was judged by this catalogue, else read the log.

    Raises:
        LogWanted: the log's bytes are not stored.
    """
    if facts.finding is not None and theirs == catalogue.digest == facts.finding.catalogue:
        finding = facts.finding
    elif facts.log_sha256 is not None:
        finding = read_log(
            services, facts.log_sha256, catalogue, exit_code=facts.exit_code, oom_killed=facts.oom_killed
        )
    else:
        finding = analyse_text(
            facts.state_error or "", catalogue, exit_code=facts.exit_code, oom_killed=facts.oom_killed
        )
    return _at_limit(facts, finding)


def _at_limit(facts: LaunchFacts, finding: Finding) -> Finding:
    """A launch that a limit ended is a failure of that stage, also when nothing in its log says so."""
    if facts.outcome is not Outcome.STOPPED_BY_LIMIT or facts.limit is None:
        return finding
    if finding.error_class not in {ErrorClass.NONE, ErrorClass.UNKNOWN}:
        return finding
    kind = {"silence": "was silent for", "total": "took longer than", "job": "ran into the job's limit of"}
    why = f"stopped by a limit: {facts.limit.stage.value} {kind[facts.limit.kind]} {facts.limit.limit_s} s"
    return finding.model_copy(
        update={"stage": facts.limit.stage, "error_class": ErrorClass.UNKNOWN, "why": why, "confidence": "unsure"}
    )


def attempt_of(job: Job, report: JobReport, facts: LaunchFacts, finding: Finding, moved: list[str]) -> AttemptRecorded:
    """Return what one node's launch comes to.

    Raises:
        MalformedMessage: the job has no attempt or baseline.
    """
    baseline, number = job.request.baseline, job.request.attempt
    if baseline is None or number is None:
        raise MalformedMessage("a launch without attempt or baseline")
    name = next((ref.name for ref in report.artifacts if ref.sha256 == facts.log_sha256), "")
    return AttemptRecorded(
        attempt=number,
        baseline_digest=baseline.digest,
        origin="observed",
        outcome=facts.outcome,
        finding=finding.model_dump(mode="json"),
        job_id=job.id,
        node=report.node,
        log_sha256=facts.log_sha256,
        log_name=name,
        exit_code=facts.exit_code,
        oom_killed=facts.oom_killed,
        stopped_after_ms=None if facts.outcome is Outcome.READY else report.duration_ms,
        ready_ms=facts.ready_ms,
        stages=[span.model_dump(mode="json") for span in facts.stages],
        limit=None if facts.limit is None else facts.limit.model_dump(mode="json"),
        held_until=None if facts.held is None else facts.held.until.isoformat(),
        tenants=list(facts.tenants),
        left_behind=list(facts.left_behind),
        changed=moved,
        resolved_digest=None if facts.resolved is None else facts.resolved.digest,
    )


def moved_since(services: Services, context: Context, facts: LaunchFacts) -> list[str]:
    """Name what differs on this node from the attempt before: resolved baseline first, then fingerprints in between."""
    before = context.case.attempts[-1] if context.case.attempts else None
    if before is None:
        return []
    moved: list[str] = []
    earlier = _resolved(services, context, _job_on(before.payload, context.job.node))
    if earlier is not None and facts.resolved is not None:
        moved = [f"{v.name}: {_shown(v.before)} → {_shown(v.after)}" for v in diff(earlier, facts.resolved)]
    for fingerprint in context.case.fingerprints:
        if fingerprint.seq > before.seq and fingerprint.payload.node == context.job.node:
            moved += [text for text in fingerprint.payload.moved if text not in moved]
    return moved


def _shown(value: object) -> str:
    return "not set" if value is None else str(value)


def _job_on(attempt: AttemptRecorded, node: str) -> str | None:
    """Return the job that an attempt ran as on a node."""
    ranks = {rank.node: rank.job_id for rank in attempt.ranks}
    return ranks.get(node) if ranks else attempt.job_id


def _resolved(services: Services, context: Context, job_id: str | None) -> Baseline | None:
    """Return the earlier attempt's baseline with the node's facts, from its report; None when it is not known."""
    sha256 = context.reports.get(job_id or "")
    if sha256 is None or not services.artifacts.has(sha256):
        return None
    return read_launch(JobReport.model_validate_json(services.artifacts.get(sha256))).resolved


def _log(report: JobReport, facts: LaunchFacts, attempt: AttemptRecorded) -> LogFile | None:
    if facts.log_sha256 is None:
        return None
    ref = next((ref for ref in report.artifacts if ref.sha256 == facts.log_sha256), None)
    return log_file(attempt, redactions=0 if ref is None else ref.redactions)


def log_file(attempt: AttemptRecorded, *, redactions: int, rank: str = "") -> LogFile:
    """Return how an attempt's log is shown in the thread."""
    sha256 = attempt.log_sha256 or ""
    redacted = f", redacted: {redactions}" if redactions else ""
    return LogFile(
        sha256=sha256,
        name=attempt.log_name or f"attempt-{attempt.attempt}.log",
        title=f"Attempt {attempt.attempt}{rank}: log{redacted} · sha256 {sha256[:12]}",
    )


def follow_ups(job: Job, attempt: AttemptRecorded) -> tuple[FollowUp, ...]:
    """Return what happens by itself after an attempt: its score, the way back, the next attempt of the same baseline."""

    def scored(tx: Writing, services: Services, now: datetime) -> None:
        score_against_previous(tx, services, job.incident, now=now)
        roll_back_a_failed_cache(tx, services, job.incident, now=now)

    params = LaunchParams.model_validate(job.request.params)
    if params.repeat <= 0 or attempt.outcome is Outcome.NOT_OBSERVED or job.cancelled_by is not None:
        return (scored,)

    def again(tx: Writing, services: Services, now: datetime) -> None:
        """Ask for the next attempt of the same baseline; a node that cannot take it up is named in the thread."""
        request = job.request
        try:
            add_launch(
                tx,
                services,
                Wish(
                    incident=job.incident,
                    kind=job.kind,
                    node=job.node,
                    requested_by=request.requested_by,
                    attempt=attempt.attempt + 1,
                    baseline=request.baseline,
                    params={
                        **request.params,
                        "repeat": params.repeat - 1,
                        "expect_tenants": None if attempt.ranks else list(attempt.tenants),
                    },
                    limits=request.limits,
                    post=False,
                ),
                now=now,
            )
        except JobNotAsked as error:
            _ = translator(tx.lock(job.incident).language)
            said = notice(_("Attempt {n} was not asked for", n=attempt.attempt + 1), _("{why}.", why=str(error)))
            tx.enqueue(OutboxKind.NOTE, said.payload(), incident=job.incident, at=now)

    return (scored, again)
