"""Score the newest attempt of a case against the one before it, when both are of one baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.blocks.texts import N_
from playbooks.errors import BaselineMismatch
from playbooks.evidence.entries import AttemptRecorded, ScoreGiven
from playbooks.judging.finding import Finding
from playbooks.judging.first_failure import analyse_blocks
from playbooks.judging.recorded import moved_arguments
from playbooks.judging.stability import Observed, score
from playbooks.reading.whole_lines import whole_lines

if TYPE_CHECKING:
    from datetime import datetime

    from bot.flows.services import Services
    from bot.ports import Entry, Writing


def score_against_previous(tx: Writing, services: Services, incident_id: str, *, now: datetime) -> Entry | None:
    """Append the score of the two newest attempts; None when there is nothing to compare."""
    attempts = tx.lock(incident_id).case.attempts
    if len(attempts) < 2:
        return None
    earlier, later = attempts[-2].payload, attempts[-1].payload
    if earlier.baseline_digest != later.baseline_digest:
        return None
    given = _given(services, earlier, later)
    return tx.append(incident_id, given, actor="bot", at=now)


def _given(services: Services, earlier: AttemptRecorded, later: AttemptRecorded) -> ScoreGiven:
    pair = {"earlier": earlier.attempt, "later": later.attempt}
    if later.changed:
        said = N_("something moved between the attempts, so they do not compare")
        why = f"{said}: {'; '.join(later.changed)}"
        return ScoreGiven(**pair, score=None, row="drift", why=why)
    before = _under_one_catalogue(services, earlier, Finding.model_validate(later.finding).catalogue)
    if before is None:
        why = N_("the signatures changed in between, and the earlier log is not here to be judged again")
        return ScoreGiven(**pair, score=None, row="catalogue", why=why)
    try:
        result = score(_observed(earlier, before), _observed(later, Finding.model_validate(later.finding)))
    except BaselineMismatch as error:
        return ScoreGiven(**pair, score=None, row="baseline", why=str(error))
    why = result.why + _doubt(earlier, later)
    return ScoreGiven(**pair, score=result.score, row=result.row, why=why, one_cause=result.one_cause)


def _doubt(earlier: AttemptRecorded, later: AttemptRecorded) -> str:
    """Name what speaks against one baseline where only people say that there was one."""
    if later.origin != "recorded":
        return ""
    moved = moved_arguments(Finding.model_validate(earlier.finding), Finding.model_validate(later.finding))
    said = N_("but the logs tell other arguments, so this may not be one baseline")
    return f"; {said}: {'; '.join(moved)[:300]}" if moved else ""


def _under_one_catalogue(services: Services, attempt: AttemptRecorded, catalogue: str) -> Finding | None:
    finding = Finding.model_validate(attempt.finding)
    if finding.catalogue == catalogue:
        return finding
    if attempt.log_sha256 is None or not services.artifacts.has(attempt.log_sha256):
        return None
    with services.artifacts.open(attempt.log_sha256) as chunks:
        return analyse_blocks(whole_lines(chunks), services.definitions.signatures())


def _observed(attempt: AttemptRecorded, finding: Finding) -> Observed:
    return Observed(
        baseline_digest=attempt.baseline_digest,
        outcome=attempt.outcome,
        finding=finding,
        tenants=tuple(attempt.tenants),
        first_ranks=tuple(attempt.first_ranks),
    )
