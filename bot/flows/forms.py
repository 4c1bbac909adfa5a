"""Which form a press opens, filled with what the record knows; reading only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.blocks import modals
from bot.blocks.elements import Block, Ref
from bot.blocks.notices import refusal
from bot.blocks.terms import PHASES
from bot.flows.case_playbook import case_playbook
from bot.flows.freeze_baseline import nodes_wanted, runnable
from bot.flows.once import refuse, still_open
from bot.flows.permission import Action, require
from bot.flows.recorded_baseline import command_of
from bot.flows.showing import Asker, item_of, known, language_for
from playbooks.guiding import seen
from playbooks.guiding.checklist import items

if TYPE_CHECKING:
    from bot.flows.services import Services


def open_form(services: Services, asker: Asker, *, log: str = "", title: str = "", what_fails: str = "") -> Block:
    """Return the form that opens a case.

    Raises:
        Refused: the asker may not open one.
    """
    with services.store.read() as reading:
        _ = language_for(reading, asker)
    require(services, asker, Action.OPEN, _)
    return modals.open_incident(
        asker.channel,
        services.nodes,
        services.definitions.playbook_names(),
        _,
        playbook=services.playbook,
        log=log,
        title=title,
        what_fails=what_fails,
    )


def analyse_form(services: Services, asker: Asker) -> Block:
    """Return the form for a pasted log."""
    with services.store.read() as reading:
        return modals.analyse(asker.channel, language_for(reading, asker))


def answer_form(services: Services, asker: Asker, incident_id: str, item_id: str) -> Block:
    """Return the form for an item: the next open one when none is named.

    Raises:
        Refused: the asker may not, nothing is open, or the case is closed.
    """
    with services.store.read() as reading:
        incident = known(reading, incident_id)
        _ = language_for(reading, asker, incident)
    still_open(incident, _)
    require(services, asker, Action.ANSWER, _)
    if item_id in {"minimal-command", "two-attempts", "stability"}:
        return attempt_form(services, asker, incident_id)
    item = item_of(services, incident.case, item_id)
    if item is None:
        found = [one for one in items(incident.case, case_playbook(services, incident.case)) if one.state == "open"]
        item = next((one for one in found if one.answerable), None)
    if item is None:
        raise refuse(refusal(_("Nothing is open to answer"), _("Ask me for `next` in the thread.")))
    return modals.answer(incident_id, item, _)


def attempt_form(services: Services, asker: Asker, incident_id: str) -> Block:
    """Return the form that freezes and runs.

    Raises:
        Refused: the asker may not, or the case is closed.
    """
    with services.store.read() as reading:
        incident = known(reading, incident_id)
        _ = language_for(reading, asker, incident)
    still_open(incident, _)
    case = incident.case
    require(services, asker, Action.LAUNCH, _)
    return modals.attempt(
        incident_id,
        case.baselines[-1] if runnable(case) else None,
        command_of(case),
        _,
        attempts_so_far=len(case.attempts),
        has_node=case.opened.payload.node is not None,
        nodes=seen.nodes_of(case),
        chosen=nodes_wanted(case, ()),
    )


def review_form(services: Services, asker: Asker, incident_id: str) -> Block:
    """Return the form that judges the standing proposal.

    Raises:
        Refused: nothing waits for a decision, or the case is closed.
    """
    with services.store.read() as reading:
        incident = known(reading, incident_id)
        _ = language_for(reading, asker, incident)
    still_open(incident, _)
    proposal = seen.standing_proposal(incident.case)
    if proposal is None:
        why = _("It was judged already, a newer report made it void, or none was made.")
        raise refuse(refusal(_("No proposal waits for a decision"), why))
    return modals.review(incident_id, proposal, _)


def reason_form(services: Services, asker: Asker, incident_id: str, what: str, step: str = "") -> Block:
    """Return the form that asks for a reason: `reject`, `skip` or `close`.

    Raises:
        Refused: the asker may not, or the case is closed.
    """
    with services.store.read() as reading:
        incident = known(reading, incident_id)
        _ = language_for(reading, asker, incident)
    still_open(incident, _)
    ref = Ref(incident_id, step)
    match what:
        case "reject":
            require(services, asker, Action.REJECT, _)
            explain = _("Proposal #{seq} of {incident} is rejected with your name.", seq=step, incident=incident_id)
            return modals.reason("reject", ref, _.plain("Reject"), explain, _.plain("Reject"), _)
        case "skip":
            require(services, asker, Action.SKIP_GATE, _)
            explain = _(
                "The gate after *{phase}* is open. Skipping it goes into the record with your name and reason.",
                phase=_(PHASES[incident.case.phase]),
            )
            return modals.reason("skip", ref, _.plain("Skip this phase"), explain, _.plain("Skip"), _)
        case _:
            require(services, asker, Action.CLOSE, _)
            return modals.reason("close", ref, _.plain("Close the case"), _("What came of it?"), _.plain("Close it"), _)


def hand_over_form(services: Services, asker: Asker, incident_id: str) -> Block:
    """Return the form that names a new owner.

    Raises:
        Refused: the case is closed.
    """
    with services.store.read() as reading:
        incident = known(reading, incident_id)
        _ = language_for(reading, asker, incident)
    still_open(incident, _)
    return modals.hand_over(incident_id, _)
