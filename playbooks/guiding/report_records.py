"""The single-variable record and the rollback results of a bundle's first page: changed, expected, happened, baseline back?"""

from __future__ import annotations

from collections.abc import Iterator

from playbooks.evidence import entries as e
from playbooks.guiding import seen
from playbooks.guiding.case import Case, Noted
from playbooks.guiding.report_text import at, code, plain
from playbooks.vocabulary import Outcome


def changes_of(case: Case) -> Iterator[str]:
    """Return one line a change: what, from what to what, expected, and what happened then."""
    yield "## Single-variable record"
    changed = [noted for noted in case.baselines if noted.payload.change]
    if not changed:
        yield "No variable was changed between the attempts on record."
    for noted in changed:
        change = noted.payload.change or {}
        yield (
            f"- #{noted.seq}, {at(noted)}, {plain(noted.actor)}: {code(str(change.get('variable')))}"
            f" {code(_shown(change.get('before')))} to {code(_shown(change.get('after')))}"
        )
        if change.get("reason"):
            yield f"  - Why: {plain(str(change['reason']))}"
        yield f"  - Expected: {plain(str(change.get('expected') or 'not written down'))}"
        yield f"  - Happened: {_happened(case, noted)}"


def rollbacks_of(case: Case) -> Iterator[str]:
    """Return one line a rollback: rolled back means undone and the old baseline seen again."""
    yield "## Rollback results"
    found = False
    for position, noted in enumerate(case.baselines):
        before = [earlier for earlier in case.baselines[:position] if earlier.payload.digest == noted.payload.digest]
        if not before or case.baselines[position - 1].payload.digest == noted.payload.digest:
            continue
        found = True
        yield f"- #{noted.seq}, {at(noted)}, {plain(noted.actor)}: back to the baseline of #{before[-1].seq}; {_seen_again(case, noted)}"
    if not found:
        yield "Nothing was rolled back."


def outcome_of(attempt: e.AttemptRecorded) -> str:
    """Return how an attempt ended, in words."""
    if attempt.outcome in {Outcome.READY, Outcome.NOT_OBSERVED}:
        return attempt.outcome.value.replace("_", " ")
    return f"{attempt.finding.get('stage')}, {attempt.finding.get('error_class')}"


def _shown(value: object) -> str:
    return "not set" if value is None else str(value)


def _after(case: Case, frozen: Noted[e.BaselineFrozen]) -> list[Noted[e.AttemptRecorded]]:
    return [n for n in seen.attempts_of(case, frozen.payload.digest) if n.seq > frozen.seq]


def _happened(case: Case, frozen: Noted[e.BaselineFrozen]) -> str:
    attempts = _after(case, frozen)
    if not attempts:
        return "no attempt yet"
    return "; ".join(f"attempt {n.payload.attempt}: {outcome_of(n.payload)} (#{n.seq})" for n in attempts)


def _seen_again(case: Case, frozen: Noted[e.BaselineFrozen]) -> str:
    attempts = seen.attempts_of(case, frozen.payload.digest)
    after = [n for n in attempts if n.seq > frozen.seq]
    before = [n for n in attempts if n.seq < frozen.seq]
    if not after:
        return "not seen again yet, so not rolled back"
    if not before:
        return f"seen: {outcome_of(after[-1].payload)} (#{after[-1].seq}); it was never tried before"
    if outcome_of(after[-1].payload) == outcome_of(before[-1].payload):
        return f"the old baseline was seen again: {outcome_of(after[-1].payload)} (#{after[-1].seq})"
    return (
        f"undone, but the old baseline did not come back: {outcome_of(after[-1].payload)} (#{after[-1].seq}),"
        f" before it was {outcome_of(before[-1].payload)}"
    )
