"""Propose a decision from what the record holds; a hold says what is missing and is no proposal to approve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.blocks.elements import Message
from bot.blocks.notices import notice
from bot.flows.ask_next import ask_next
from bot.flows.once import lock_open, once
from bot.flows.permission import Action, require
from bot.flows.showing import Asker, known, language_for
from playbooks.evidence.redaction import redact_text
from playbooks.guiding.decision import decide, facts_of

if TYPE_CHECKING:
    from bot.flows.services import Services
    from playbooks.vocabulary import DecisionKind, ErrorClass


def propose_decision(services: Services, asker: Asker, incident_id: str, *, remark: str = "") -> Message:
    """Decide by the rules and record the proposal.

    Raises:
        Repeated: this press was taken already.
        Refused: the asker may not, or the case is closed.
    """
    now = services.clock.now()
    with services.store.read() as reading:
        incident = known(reading, incident_id)
        _ = language_for(reading, asker, incident)
    require(services, asker, Action.PROPOSE, _)
    with once(services, asker) as tx:
        incident = lock_open(tx, incident_id)
        decision = decide(facts_of(incident.case, usual_actions(services)))
        payload = decision.proposal(redact_text(remark.strip()[:1000]).text)
        standing = incident.case.proposals[-1] if incident.case.proposals else None
        if standing is not None and standing.payload == payload and standing.seq > incident.case.newest_report:
            return notice(_("Nothing new since proposal #{seq}: it would say the same.", seq=standing.seq))
        entry = tx.append(incident_id, payload, actor=asker.actor, at=now)
        ask_next(tx, services, incident_id, now=now)
    return notice(_("Proposed as #{seq}: {headline}", seq=entry.seq, headline=_.told(payload.headline)))


def usual_actions(services: Services) -> dict[ErrorClass, DecisionKind]:
    """Return the usual next action of each error class, as the definitions say."""
    classes = services.definitions.signatures().classes
    return {name: known_class.points_to for name, known_class in classes.items()}
