"""Who may do what, who could instead, and where a second person is needed."""

from __future__ import annotations

import pytest

from playbooks.errors import RuleViolation, SecondPersonNeeded
from playbooks.guiding.roles import Action, may, require, second_person, who_could
from playbooks.vocabulary import Role

VIEWER, RESPONDER, APPROVER = Role.VIEWER, Role.RESPONDER, Role.APPROVER
LEAST = {
    Action.VIEW: VIEWER,
    Action.ANALYSE: VIEWER,
    Action.OPEN: RESPONDER,
    Action.ANSWER: RESPONDER,
    Action.RECORD_LOG: RESPONDER,
    Action.COLLECT: RESPONDER,
    Action.FINGERPRINT: RESPONDER,
    Action.FREEZE_BASELINE: RESPONDER,
    Action.LAUNCH: RESPONDER,
    Action.LAUNCH_BESIDE_TENANTS: APPROVER,
    Action.REQUEST: RESPONDER,
    Action.STOP: RESPONDER,
    Action.CANCEL_JOB: RESPONDER,
    Action.PROPOSE: RESPONDER,
    Action.EXPORT: RESPONDER,
    Action.CLOSE: RESPONDER,
    Action.APPROVE: APPROVER,
    Action.REJECT: APPROVER,
    Action.APPROVE_CHANGE_STEP: APPROVER,
    Action.SKIP_GATE: APPROVER,
    Action.TAKE_LEASE: APPROVER,
}
ORDER = (VIEWER, RESPONDER, APPROVER)
SECOND = {Action.APPROVE, Action.APPROVE_CHANGE_STEP, Action.SKIP_GATE, Action.TAKE_LEASE}


@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("role", Role)
def test_a_role_may_what_lesser_roles_may(action, role):
    expected = ORDER.index(role) >= ORDER.index(LEAST[action])
    assert may(role, action) is expected
    if expected:
        require(role, action)
    else:
        with pytest.raises(RuleViolation) as caught:
            require(role, action)
        assert f"you are a {role.value} here" in str(caught.value)
        assert all(could.value in str(caught.value) for could in who_could(action))
        assert caught.value.items == (action.value,)


@pytest.mark.parametrize(("action", "least"), LEAST.items())
def test_who_could_names_the_roles_least_first(action, least):
    assert who_could(action) == ORDER[ORDER.index(least) :]


def test_a_refusal_reads_like_a_sentence():
    with pytest.raises(RuleViolation, match=r"^Only an approver may approve a decision; you are a responder here\.$"):
        require(RESPONDER, Action.APPROVE)
    with pytest.raises(
        RuleViolation, match=r"^Only a responder or an approver may launch an attempt; you are a viewer here\.$"
    ):
        require(VIEWER, Action.LAUNCH)


@pytest.mark.parametrize("action", Action)
def test_the_proposer_and_the_owner_are_refused_where_a_second_person_is_needed(action):
    assert action.needs_second_person is (action in SECOND)
    second_person("U3", action, proposer="U1", owner="U2")
    for actor, part in (("U1", "You proposed it"), ("U2", "You own the case")):
        if action in SECOND:
            with pytest.raises(SecondPersonNeeded, match=f"^{part}, so you cannot .* yourself. Another approver can"):
                second_person(actor, action, proposer="U1", owner="U2")
        else:
            second_person(actor, action, proposer="U1", owner="U2")


def test_nobody_of_that_part_stops_nobody():
    second_person("U1", Action.TAKE_LEASE, proposer=None, owner=None)


def test_the_refusal_names_the_action():
    with pytest.raises(SecondPersonNeeded) as caught:
        second_person("U1", Action.SKIP_GATE, proposer="U1", owner="U1")
    assert str(caught.value) == "You proposed it, so you cannot skip a gate yourself. Another approver can."
    assert caught.value.items == ("skip_gate",)
