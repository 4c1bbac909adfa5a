"""Who may do what in an incident, and where a second person is needed (R16).

At 03:00 there is nobody else: a responder alone may collect, fingerprint, launch and probe inside the node's policy while no
other tenant is on it. Decisions, change steps, skipped gates and a taken lease need a second person, an approver.
"""

from __future__ import annotations

from enum import StrEnum

from playbooks.errors import RuleViolation, SecondPersonNeeded
from playbooks.vocabulary import Role


class Action(StrEnum):
    """What a person may want to do."""

    VIEW = "view"
    ANALYSE = "analyse"
    OPEN = "open"
    ANSWER = "answer"
    RECORD_LOG = "record_log"
    COLLECT = "collect"
    FINGERPRINT = "fingerprint"
    FREEZE_BASELINE = "freeze_baseline"
    LAUNCH = "launch"
    LAUNCH_BESIDE_TENANTS = "launch_beside_tenants"
    REQUEST = "request"
    STOP = "stop"
    CANCEL_JOB = "cancel_job"
    PROPOSE = "propose"
    EXPORT = "export"
    CLOSE = "close"
    APPROVE = "approve"
    REJECT = "reject"
    APPROVE_CHANGE_STEP = "approve_change_step"
    SKIP_GATE = "skip_gate"
    TAKE_LEASE = "take_lease"

    @property
    def needs_second_person(self) -> bool:
        """Whether the actor must be neither the proposer nor the owner."""
        return self in _SECOND_PERSON


_ANYONE = frozenset({Action.VIEW, Action.ANALYSE})
_SECOND_PERSON = frozenset({Action.APPROVE, Action.APPROVE_CHANGE_STEP, Action.SKIP_GATE, Action.TAKE_LEASE})
_APPROVERS = _SECOND_PERSON | {Action.REJECT, Action.LAUNCH_BESIDE_TENANTS}
_ORDER = (Role.VIEWER, Role.RESPONDER, Role.APPROVER)
_VERBS = {
    Action.VIEW: "look at a case",
    Action.ANALYSE: "have a log analysed",
    Action.OPEN: "open a case",
    Action.ANSWER: "answer an item",
    Action.RECORD_LOG: "record an attempt from a log",
    Action.COLLECT: "collect the scene",
    Action.FINGERPRINT: "fingerprint a node",
    Action.FREEZE_BASELINE: "freeze a baseline",
    Action.LAUNCH: "launch an attempt",
    Action.LAUNCH_BESIDE_TENANTS: "launch beside other work on the node",
    Action.REQUEST: "send the fixed request",
    Action.STOP: "stop a held engine",
    Action.CANCEL_JOB: "cancel a job",
    Action.PROPOSE: "propose a decision",
    Action.EXPORT: "export the bundle",
    Action.CLOSE: "close a case",
    Action.APPROVE: "approve a decision",
    Action.REJECT: "reject a decision",
    Action.APPROVE_CHANGE_STEP: "approve a change step",
    Action.SKIP_GATE: "skip a gate",
    Action.TAKE_LEASE: "take a node's lease",
}


def may(role: Role, action: Action) -> bool:
    """Whether the role is enough; a second person may still be needed."""
    return role in who_could(action)


def who_could(action: Action) -> tuple[Role, ...]:
    """Return the roles that may, least first; an approver may do what a responder may."""
    if action in _ANYONE:
        return _ORDER
    return _ORDER[2:] if action in _APPROVERS else _ORDER[1:]


def require(role: Role, action: Action) -> None:
    """Refuse an action that the role does not cover.

    Raises:
        RuleViolation: the role is not enough; the message says who could.
    """
    if not may(role, action):
        could = " or ".join(f"an {one}" if one is Role.APPROVER else f"a {one}" for one in who_could(action))
        raise RuleViolation(f"Only {could} may {_VERBS[action]}; you are a {role.value} here.", items=(action.value,))


def second_person(actor: str, action: Action, *, proposer: str | None, owner: str | None) -> None:
    """Refuse a step that the proposer or the owner of the case may not approve alone.

    actor, proposer, owner: named alike (`user:U123`); None = there is nobody of that part.

    Raises:
        SecondPersonNeeded: the actor is one of them.
    """
    if not action.needs_second_person:
        return
    part = "proposed it" if actor == proposer else "own the case" if actor == owner else None
    if part is not None:
        raise SecondPersonNeeded(
            f"You {part}, so you cannot {_VERBS[action]} yourself. Another approver can.", items=(action.value,)
        )
