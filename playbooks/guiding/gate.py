"""The gate: ten items before each round and before any next stage (R6), and which phase may be entered.

An item that a machine can prove is proven by an entry of the record, never ticked; a person's value counts where no machine
can read it. Any open item refuses the next stage and says which.
"""

from __future__ import annotations

from dataclasses import dataclass

from playbooks.errors import PhaseClosed
from playbooks.guiding import seen
from playbooks.guiding.case import Case
from playbooks.guiding.gate_rows import ROWS, GateRow, Judged
from playbooks.guiding.items import may_answer, open_items
from playbooks.guiding.playbook import NOT_CARRIED_OUT, Playbook
from playbooks.vocabulary import Outcome, Phase

BEFORE_AN_ATTEMPT = (1, 2, 4, 5, 6, 7, 10)
"""Items that can be closed before anything was started; 3, 8 and 9 are answered by an attempt itself."""


@dataclass(frozen=True, slots=True)
class GateItem:
    """One of the ten. `item` is the checklist item that a person may answer instead, where there is one."""

    no: int
    text: str
    closed: bool
    evidence: int | None
    how: str
    value: str | None
    item: str | None
    by_attempt: bool
    """Open, and only another attempt can close it."""


@dataclass(frozen=True, slots=True)
class Gate:
    """The ten items as the case stands."""

    items: tuple[GateItem, ...]

    @property
    def open(self) -> tuple[int, ...]:
        """Numbers of the open items."""
        return tuple(item.no for item in self.items if not item.closed)


def evaluate(case: Case, playbook: Playbook) -> Gate:
    """Judge the ten items of the gate."""
    return Gate(tuple(_item(row, case, playbook) for row in ROWS))


def may_attempt(case: Case, playbook: Playbook) -> None:
    """Refuse another attempt while what can be closed before one is open.

    Raises:
        PhaseClosed: items are open; `items` names them.
    """
    left = [item for item in evaluate(case, playbook).items if item.no in BEFORE_AN_ATTEMPT and not item.by_attempt]
    if missing := [f"{item.no} {item.text}" for item in left if not item.closed]:
        raise _refusal("No attempt yet", missing)


def may_enter(case: Case, playbook: Playbook, phase: Phase) -> None:
    """Refuse a phase whose gate is open; a phase may be entered again, and a decision may be taken from any phase.

    Raises:
        PhaseClosed: the gate is open; `items` names what is missing.
    """
    if phase in {Phase.DECISION, Phase.CLOSED}:
        return
    found = playbook.phase(phase)
    if found is None:
        raise _refusal(f"The playbook {playbook.id} has no phase {phase.value}", [])
    if missing := _missing(case, playbook, phase):
        raise _refusal(f"{found.title}: not yet", missing)
    if not found.carried_out:
        raise PhaseClosed(f"{found.title}: {NOT_CARRIED_OUT}")


def next_phase(case: Case, playbook: Playbook) -> Phase | None:
    """Return the phase that follows when its gate is closed, so that it can be entered now; else None."""
    later = [found.id for found in playbook.phases if _position(found.id) > _position(case.phase)]
    if not later or later[0] is Phase.DECISION:
        return None
    try:
        may_enter(case, playbook, later[0])
    except PhaseClosed:
        return None
    return later[0]


def _position(phase: Phase) -> int:
    return list(Phase).index(phase)


def _refusal(message: str, missing: list[str]) -> PhaseClosed:
    text = f"{message}; open: {'; '.join(missing)}" if missing else message
    return PhaseClosed(text, items=tuple(missing))


def _missing(case: Case, playbook: Playbook, phase: Phase) -> list[str]:
    """Name what is open of every layer below the phase that was not skipped by an approver; each layer opens the next."""
    skipped = {noted.payload.phase for noted in case.phases if noted.payload.skipped}
    missing: list[str] = []
    below = [found.id for found in playbook.phases if _position(found.id) < _position(phase)]
    reached = max(_position(found) for found in {case.phase, *skipped})
    for layer in below:
        if _position(layer) >= reached:
            missing += _open_of(case, playbook, layer)
    return missing


def _open_of(case: Case, playbook: Playbook, layer: Phase) -> list[str]:
    match layer:
        case Phase.FREEZE | Phase.REGRESSION:
            return [item.label for item in open_items(case, playbook, layer)]
        case Phase.BOUNDARY:
            # A verdict that is not "supported" is passed by an approved decision only.
            if case.boundary is not None and case.approvals and case.approvals[-1].seq > case.boundary.seq:
                return []
            return [item.label for item in open_items(case, playbook, layer)]
        case Phase.LAUNCH:
            left = [f"{item.no} {item.text}" for item in evaluate(case, playbook).items if not item.closed]
            return [item.label for item in open_items(case, playbook, layer)] + left + _not_ready(case)
        case Phase.DECISION:
            return [] if case.approvals else ["Decision approved by a second person"]
        case Phase.ADD_BACK | Phase.CHANGE | Phase.OBSERVE | Phase.CLOSED:
            return []


def _not_ready(case: Case) -> list[str]:
    """A failure that repeats opens a decision; only an engine that is ready twice opens what lies after the launch."""
    newest = seen.newest_attempt(case)
    return [] if newest is not None and newest.payload.outcome is Outcome.READY else ["The newest attempt is ready"]


def _item(row: GateRow, case: Case, playbook: Playbook) -> GateItem:
    judged = row.judge(case, playbook)
    if not judged.closed:
        judged = _answered(case, playbook, row.item) or judged
    return GateItem(
        no=row.no,
        text=row.text,
        closed=judged.closed,
        evidence=judged.evidence,
        how=judged.how or row.how,
        value=judged.value,
        item=row.item,
        by_attempt=judged.by_attempt,
    )


def _answered(case: Case, playbook: Playbook, item: str | None) -> Judged | None:
    if item is None:
        return None
    step, answer = playbook.step(item), case.answers.get(item)
    if step is None or answer is None or not answer.payload.value.strip() or not may_answer(case, step):
        return None
    return Judged(closed=True, evidence=answer.seq, value=f"{answer.payload.value} ({answer.actor})")
