"""The launch with prefix caching beside the stable baseline's without it, from what is stored of both."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from bot.errors import ArtifactError
from bot.flows.judge_launch import read_launch
from playbooks.errors import MalformedMessage
from playbooks.guiding.add_back import add_back_of
from playbooks.guiding.seen import attempts_of
from playbooks.judging.off_on import MOST_LINES, Launched, compare
from playbooks.messages import JobReport
from playbooks.reading.whole_lines import lines_between
from playbooks.vocabulary import Outcome

if TYPE_CHECKING:
    from bot.flows.judged import Context
    from bot.flows.services import Services
    from playbooks.evidence.entries import AttemptRecorded


def off_against_on(services: Services, context: Context, attempt: int) -> dict[str, Any] | None:
    """Return the comparison as JSON; None where the attempt is no add-back, or nothing is there to compare it with."""
    found = add_back_of(context.case)
    if found is None or found.frozen is None:
        return None
    on = next((n.payload for n in context.case.attempts if n.payload.attempt == attempt), None)
    ready = [
        noted.payload
        for noted in attempts_of(context.case, found.stable.payload.digest)
        if noted.payload.outcome is Outcome.READY
    ]
    if on is None or not ready or on.baseline_digest != found.frozen.payload.digest:
        return None
    off = ready[-1]
    sides = [_launched(services, context, one) for one in (off, on)]
    logs = [_log(services, one.log_sha256) for one in (off, on)]
    return compare(sides[0], sides[1], logs[0], logs[1]).model_dump(mode="json")


def _launched(services: Services, context: Context, attempt: AttemptRecorded) -> Launched:
    memory: int | None = None
    digest = context.reports.get(attempt.job_id or "")
    if digest is not None:
        with contextlib.suppress(ArtifactError, MalformedMessage, ValueError):
            report = JobReport.model_validate_json(services.artifacts.get(digest))
            memory = max((used for _at, used in read_launch(report).memory_samples), default=None)
    return Launched(attempt=attempt.attempt, ready_ms=attempt.ready_ms, memory_bytes=memory)


def _log(services: Services, sha256: str | None) -> list[bytes] | None:
    """Return the first lines of a stored log; None when it is not there."""
    if sha256 is None or not services.artifacts.has(sha256):
        return None
    try:
        with services.artifacts.open(sha256) as chunks:
            return [line for _no, line in lines_between(chunks, 1, MOST_LINES)]
    except ArtifactError:
        return None
