"""The stability score over two consecutive attempts of one baseline: a total table, the first row that applies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from playbooks.errors import BaselineMismatch
from playbooks.judging.finding import Finding
from playbooks.vocabulary import ErrorClass, Outcome


class Row(NamedTuple):
    """A row of the table as it is printed; `score` None = no score is given."""

    id: str
    text: str
    score: int | None


NOT_OBSERVED = Row("not-observed", "one of the two could not be observed, or neither: run again", None)
OTHER_OUTCOME = Row("other-outcome", "one attempt was ready, the other was not", 0)
OTHER_STAGE = Row("other-stage", "the attempts failed in different stages", 0)
BOTH_READY = Row("both-ready", "both attempts were ready", 2)
OTHER_CLASS = Row("other-class", "same stage, other error class", 1)
OTHER_RANK = Row("other-rank", "same stage and class, but another rank of the launch failed first", 1)
SAME_UNKNOWN = Row("same-unknown", "same stage, both unknown, normalised blocks equal", 2)
OTHER_UNKNOWN = Row("other-unknown", "same stage, both unknown, normalised blocks differ", 1)
OTHER_STACK = Row("other-stack", "same stage and class, other stack position", 1)
OTHER_WARNINGS = Row("other-warnings", "same stage, class and stack, other warnings before the failure", 1)
SAME = Row("same", "same stage, class, stack position and warnings", 2)
ROWS = (
    Row("baseline", "the attempts did not start from one baseline: refused", None),
    NOT_OBSERVED,
    OTHER_OUTCOME,
    OTHER_STAGE,
    BOTH_READY,
    OTHER_CLASS,
    OTHER_RANK,
    SAME_UNKNOWN,
    OTHER_UNKNOWN,
    OTHER_STACK,
    OTHER_WARNINGS,
    SAME,
)
"""The table in the order it is asked; docs/rules.md prints it."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What the score needs of an attempt."""

    baseline_digest: str
    outcome: Outcome
    finding: Finding
    tenants: tuple[str, ...] = ()
    free_memory_moved: bool = False
    first_ranks: tuple[int, ...] = ()
    """Of a launch over several nodes: the ranks named as the first to fail."""


@dataclass(frozen=True, slots=True)
class StabilityScore:
    """2, 1, 0, or None where no score is given; `row` is the table's row and `why` says it for these two attempts.

    one_cause: the root lines differ, but both tell the same error class.
    """

    score: int | None
    row: str
    why: str
    one_cause: bool


def score(earlier: Observed, later: Observed) -> StabilityScore:
    """Score how repeatable the first failure is over two consecutive attempts.

    2  same stage, same error class, same stack and warnings; or ready twice
    1  same stage, but other class, rank, stack position or warnings
    0  other stage or outcome

    Raises:
        BaselineMismatch: the attempts did not start from one baseline; their
            agreement says nothing about stability.

    Rule: docs/rules.md#stability-score
    """
    if earlier.baseline_digest != later.baseline_digest:
        raise BaselineMismatch(
            f"expected attempts of one baseline, found {earlier.baseline_digest[:12]} and {later.baseline_digest[:12]}"
        )
    row = _row(earlier, later)
    one_cause = row in {OTHER_STAGE, OTHER_STACK} and earlier.finding.error_class is later.finding.error_class not in {
        ErrorClass.UNKNOWN,
        ErrorClass.NONE,
    }
    return StabilityScore(row.score, row.id, _why(row, earlier, later, one_cause=one_cause), one_cause=one_cause)


def _row(earlier: Observed, later: Observed) -> Row:
    a, b = earlier.finding, later.finding
    if Outcome.NOT_OBSERVED in {earlier.outcome, later.outcome}:
        return NOT_OBSERVED
    if (earlier.outcome is Outcome.READY) != (later.outcome is Outcome.READY):
        return OTHER_OUTCOME
    if a.stage is not b.stage:
        return OTHER_STAGE
    if earlier.outcome is Outcome.READY and a.error_class is b.error_class is ErrorClass.NONE:
        return BOTH_READY
    if a.error_class is not b.error_class:
        return OTHER_CLASS
    if earlier.first_ranks and later.first_ranks and not set(earlier.first_ranks) & set(later.first_ranks):
        return OTHER_RANK
    if a.error_class is ErrorClass.UNKNOWN:
        return SAME_UNKNOWN if a.block_digest == b.block_digest else OTHER_UNKNOWN
    if a.stack != b.stack:
        return OTHER_STACK
    if a.warnings != b.warnings:
        return OTHER_WARNINGS
    return SAME


def _why(row: Row, earlier: Observed, later: Observed, *, one_cause: bool) -> str:
    a, b = earlier.finding, later.finding
    says = row.text
    if row is OTHER_STAGE:
        says = f"{row.text}: {a.stage.value}, then {b.stage.value}"
    elif row is OTHER_OUTCOME:
        says = f"{row.text}: {earlier.outcome.value}, then {later.outcome.value}"
    elif row is OTHER_CLASS:
        says = f"{row.text}: {a.error_class.value}, then {b.error_class.value}"
    elif row is OTHER_RANK:
        says = f"{row.text}: {_ranks(earlier)}, then {_ranks(later)}"
    elif row is OTHER_WARNINGS:
        moved = sorted(set(a.warnings) ^ set(b.warnings))
        says = f"{row.text}: {moved[0][:120]}" if moved else row.text
    if one_cause:
        says += f"; one cause all the same: {a.error_class.value}"
    if row.score == 0 and (earlier.tenants != later.tenants or earlier.free_memory_moved or later.free_memory_moved):
        says += "; it moved with the load on the node"
    return says


def _ranks(observed: Observed) -> str:
    return " and ".join(map(str, observed.first_ranks))
