"""The checklist of a case: every item of the playbook with its state, and the evidence that closes it.

What a machine can prove closes by its evidence number; what it cannot read, or what no node is there for, closes by a
person's value and name. Which item comes next is said by `checklist`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from playbooks.guiding import seen
from playbooks.guiding.case import Case
from playbooks.guiding.decision import decide, facts_of
from playbooks.guiding.playbook import NOT_CARRIED_OUT, Playbook, Step, StepKind
from playbooks.vocabulary import Phase

State = Literal["open", "proven", "answered", "not_needed"]


@dataclass(frozen=True, slots=True)
class Item:
    """One item of the checklist. Texts are English sources; `value` is what was read or answered."""

    id: str
    phase: Phase
    requirement: str
    label: str
    why: str
    how: str
    state: State
    evidence: int | None
    value: str | None
    kind: Literal["human", "machine"]
    choices: tuple[str, ...] = ()
    answerable: bool = True
    """Whether a person's value would close it now."""
    carried_out: bool = True
    by: str | None = None
    """Who answered; None unless a person did."""


def items(case: Case, playbook: Playbook) -> tuple[Item, ...]:
    """Return all items in the playbook's order, each as the case stands."""
    listed = tuple(_item(case, phase.id, step) for phase in playbook.phases for step in phase.steps)
    wanted = decide(facts_of(case)).missing_items
    return tuple(_not_asked(item) if _is_idle(item, wanted) else item for item in listed)


def _is_idle(item: Item, wanted: tuple[str, ...]) -> bool:
    """Whether this is a question of the decision that the decision does not turn on now."""
    return item.phase is Phase.DECISION and item.kind == "human" and item.state == "open" and item.id not in wanted


def _not_asked(item: Item) -> Item:
    return replace(item, state="not_needed", value="The decision does not turn on it as things stand.")


def open_items(case: Case, playbook: Playbook, phase: Phase) -> tuple[Item, ...]:
    """Return what is still open in one phase, of what this version carries out."""
    found = playbook.phase(phase)
    steps = () if found is None else found.steps
    judged = (_item(case, phase, step) for step in steps)
    return tuple(item for item in judged if item.state == "open" and item.carried_out)


def may_answer(case: Case, step: Step) -> bool:
    """Whether a person's value closes this step now: always for a question, else only what no machine can read here."""
    match step.kind:
        case StepKind.ANSWER:
            return True
        case StepKind.COLLECT | StepKind.FINGERPRINT:
            job = step.kind.job
            return step.answerable and (case.opened.payload.node is None or (job is not None and seen.tried(case, job)))
        case _:
            return False


def _item(case: Case, phase: Phase, step: Step) -> Item:
    answerable = may_answer(case, step)
    state: State = "open"
    evidence: int | None = None
    value: str | None = None
    by: str | None = None
    how = step.how
    answer = case.answers.get(step.id)
    if not step.kind.carried_out:
        how = f"{NOT_CARRIED_OUT} {step.how}"
    elif step.not_needed_when is not None and (proof := step.not_needed_when.judge(case)).holds:
        state, evidence, value = "not_needed", proof.evidence, step.not_needed_why
    elif step.done_when is not None and (proof := step.done_when.judge(case)).holds:
        state, evidence, value = "proven", proof.evidence, proof.value
    elif answer is not None and answer.payload.value.strip() and answerable:
        state, evidence, value, by = "answered", answer.seq, answer.payload.value, answer.actor
    return Item(
        id=step.id,
        phase=phase,
        requirement=step.requirement,
        label=step.label,
        why=step.why,
        how=how,
        state=state,
        evidence=evidence,
        value=value,
        kind="human" if step.kind is StepKind.ANSWER else "machine",
        choices=step.choices,
        answerable=answerable,
        carried_out=step.kind.carried_out,
        by=by,
    )
