"""Approve or reject a proposed decision: a second person's word, void when a newer report arrived, once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.blocks.elements import Message
from bot.blocks.notices import already, notice, refusal
from bot.blocks.texts import Mrkdwn, Translate, when
from bot.flows.advance_phase import advance_phase
from bot.flows.ask_next import ask_next
from bot.flows.once import lock_open, once, refuse
from bot.flows.permission import Action, require, users_with
from bot.flows.showing import Asker, known, language_for
from playbooks.errors import SecondPersonNeeded
from playbooks.evidence.entries import DecisionApproved, DecisionRejected
from playbooks.evidence.redaction import redact_text
from playbooks.guiding import roles
from playbooks.vocabulary import DecisionKind, Role

if TYPE_CHECKING:
    from bot.flows.services import Services
    from bot.ports import Incident
    from playbooks.evidence.entries import DecisionProposed
    from playbooks.guiding.case import Case, Noted


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the approver says about the proposal of entry `proposal`."""

    proposal: int
    approve: bool
    reason: str = ""


def judge_decision(services: Services, asker: Asker, incident_id: str, judgement: Judgement) -> Message:
    """Record an approval or a rejection.

    Raises:
        Repeated: this press was taken already.
        Refused: role, same person, stale proposal, judged already, or a rejection without a reason.
    """
    now = services.clock.now()
    with services.store.read() as reading:
        incident = known(reading, incident_id)
        _ = language_for(reading, asker, incident)
    action = Action.APPROVE if judgement.approve else Action.REJECT
    require(services, asker, action, _)
    reason = redact_text(judgement.reason.strip()[:1000]).text
    if not judgement.approve and not reason:
        raise refuse(refusal(_("Not rejected"), _("A rejection needs its reason.")))
    with once(services, asker) as tx:
        incident = lock_open(tx, incident_id)
        proposal = _standing(incident.case, judgement.proposal, _)
        if judgement.approve:
            _second_person(services, asker, incident, proposal, _)
            payload: DecisionApproved | DecisionRejected = DecisionApproved(proposal=proposal.seq, reason=reason)
        else:
            payload = DecisionRejected(proposal=proposal.seq, reason=reason)
        entry = tx.append(incident_id, payload, actor=asker.actor, at=now)
        advance_phase(tx, services, incident_id, now=now)
        ask_next(tx, services, incident_id, now=now)
    said = _("Approved as #{seq}.", seq=entry.seq) if judgement.approve else _("Rejected as #{seq}.", seq=entry.seq)
    return notice(said, _.told(proposal.payload.headline))


def _standing(case: Case, seq: int, _: Translate) -> Noted[DecisionProposed]:
    """Return the proposal if it may still be judged.

    Raises:
        Refused: it was judged already, replaced, a hold, or made before the newest report.
    """
    proposal = next((noted for noted in case.proposals if noted.seq == seq), None)
    if proposal is None:
        raise refuse(refusal(_("Not recorded"), _("There is no proposal #{seq} in this case.", seq=seq)))
    for judged, word in ((case.approvals, _("approved")), (case.rejections, _("rejected"))):
        for noted in judged:
            if noted.payload.proposal == seq:
                raise refuse(already(word, noted.actor, when(noted.at), _))
    if case.newest_report > seq:
        why = _("A newer report arrived (#{seq}), so this proposal is void.", seq=case.newest_report)
        raise refuse(refusal(_("Not recorded"), why, _("Propose again: the rules see what is new.")))
    if case.proposals[-1].seq != seq:
        newest = case.proposals[-1].seq
        raise refuse(refusal(_("Not recorded"), _("A newer proposal replaced it: #{seq}.", seq=newest)))
    if proposal.payload.kind is DecisionKind.HOLD:
        raise refuse(refusal(_("Not recorded"), _("A hold is no decision to approve: it says what is missing.")))
    return proposal


def _second_person(
    services: Services, asker: Asker, incident: Incident, proposal: Noted[DecisionProposed], _: Translate
) -> None:
    try:
        roles.second_person(asker.actor, Action.APPROVE, proposer=proposal.actor, owner=f"user:{incident.owner}")
    except SecondPersonNeeded as error:
        others = [
            user
            for user in users_with(services.people, (Role.APPROVER,))
            if f"user:{user}" not in {proposal.actor, f"user:{incident.owner}"}
        ]
        could = (
            _("Could do it: {names}.", names=Mrkdwn(", ".join(f"<@{user}>" for user in others[:6])))
            if others
            else _(
                "There is no other approver: the operator names one in BASELINE_APPROVERS, or the case is handed over."
            )
        )
        raise refuse(refusal(_("Not approved"), _.told(str(error)), could)) from error
