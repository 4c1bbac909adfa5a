"""Close a case, hand it over, skip a phase: small changes of a case, each with a name and a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.blocks.elements import Message, Ref, button
from bot.blocks.notices import notice, refusal
from bot.blocks.terms import PHASES
from bot.blocks.texts import person
from bot.errors import Refused
from bot.flows.ask_next import ask_next
from bot.flows.case_playbook import case_playbook
from bot.flows.once import lock_open, once, refuse
from bot.flows.permission import Action, require
from bot.flows.showing import Asker, known, language_for
from bot.ports import OutboxKind
from playbooks.errors import SecondPersonNeeded
from playbooks.evidence.entries import IncidentClosed, PhaseEntered
from playbooks.evidence.redaction import redact_text
from playbooks.guiding import roles, seen
from playbooks.vocabulary import Phase, Role

if TYPE_CHECKING:
    from bot.flows.services import Services

_MOST = 1000


def close_incident(services: Services, asker: Asker, incident_id: str, *, reason: str) -> Message:
    """Close the case with what was decided, if anything was.

    Raises:
        Repeated: this form was sent already.
        Refused: role, no reason, closed already, or a job is still running.
    """
    now = services.clock.now()
    with services.store.read() as reading:
        incident = known(reading, incident_id)
        _ = language_for(reading, asker, incident)
    require(services, asker, Action.CLOSE, _)
    if not reason.strip():
        how = _("Write `close REASON` to me in the thread, or press the button.")
        form = button(_.plain("Close the case"), "close", Ref(incident_id), style="primary")
        raise refuse(refusal(_("Not closed"), _("A reason is needed: what came of it?"), how, buttons=[form]))
    with once(services, asker) as tx:
        incident = lock_open(tx, incident_id)
        if tx.jobs(incident=incident_id):
            raise refuse(refusal(_("Not closed"), _("A job is still on its way or running; stop it or wait for it.")))
        approved = seen.approved_proposal(incident.case)
        payload = IncidentClosed(
            reason=redact_text(reason.strip()[:_MOST]).text,
            decision=approved.payload.kind if approved is not None else None,
        )
        tx.append(incident_id, payload, actor=asker.actor, at=now)
    return notice(_("{incident} is closed.", incident=incident_id))


def hand_over(services: Services, asker: Asker, incident_id: str, *, to: str) -> Message:
    """Give the case to another owner, who must be a responder.

    Raises:
        Repeated: this form was sent already.
        Refused: role of either person, or the case is closed.
    """
    now = services.clock.now()
    with services.store.read() as reading:
        incident = known(reading, incident_id)
        _ = language_for(reading, asker, incident)
    require(services, asker, Action.ANSWER, _)
    if services.people.role_of(to) is Role.VIEWER:
        why = _("{who} is no responder here.", who=person(f"user:{to}"))
        raise refuse(refusal(_("Not handed over"), why))
    with once(services, asker) as tx:
        lock_open(tx, incident_id)
        tx.set_owner(incident_id, to)
        tx.want_dashboard(incident_id)
        said = notice(
            _("{new} owns this case now, handed over by {old}.", new=person(f"user:{to}"), old=person(asker.actor))
        )
        tx.enqueue(OutboxKind.NOTE, said.payload(), incident=incident_id, at=now)
    return notice(_("Handed over to {who}.", who=person(f"user:{to}")))


def skip_phase(services: Services, asker: Asker, incident_id: str, *, reason: str) -> Message:
    """Open the next phase although its gate is open: an approver's word, with a reason, and the record says so.

    Raises:
        Repeated: this form was sent already.
        Refused: role, same person as the owner, no reason, or there is no next phase.
    """
    now = services.clock.now()
    with services.store.read() as reading:
        incident = known(reading, incident_id)
        _ = language_for(reading, asker, incident)
    require(services, asker, Action.SKIP_GATE, _)
    if not reason.strip():
        raise refuse(refusal(_("Not skipped"), _("A skipped gate needs its reason.")))
    with once(services, asker) as tx:
        incident = lock_open(tx, incident_id)
        try:
            roles.second_person(asker.actor, Action.SKIP_GATE, proposer=None, owner=f"user:{incident.owner}")
        except SecondPersonNeeded as error:
            raise refuse(refusal(_("Not skipped"), _.told(str(error)))) from error
        phases = [found.id for found in case_playbook(services, incident.case).phases]
        order = list(Phase)
        later = [phase for phase in phases if order.index(phase) > order.index(incident.case.phase)]
        if not later:
            raise Refused(_("There is no phase after this one."))
        payload = PhaseEntered(phase=later[0], skipped=True, reason=redact_text(reason.strip()[:_MOST]).text)
        tx.append(incident_id, payload, actor=asker.actor, at=now)
        ask_next(tx, services, incident_id, now=now)
    return notice(_("Phase {phase} is open; the record says that its gate was skipped.", phase=_(PHASES[later[0]])))
