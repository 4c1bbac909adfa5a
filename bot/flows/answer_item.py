"""Record a person's answer to a checklist item or decision question: a value with a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.blocks.elements import Message
from bot.blocks.notices import notice, refusal
from bot.flows.advance_phase import advance_phase
from bot.flows.ask_next import ask_next
from bot.flows.case_playbook import case_playbook
from bot.flows.once import lock_open, once, refuse
from bot.flows.permission import Action, require
from bot.flows.showing import Asker, known, language_for
from playbooks.evidence.entries import AnswerRecorded
from playbooks.evidence.redaction import redact_text

if TYPE_CHECKING:
    from bot.flows.services import Services

_MOST = 12_000


def answer_item(
    services: Services, asker: Asker, incident_id: str, item_id: str, *, value: str, note: str = ""
) -> Message:
    """Record the answer; the newest per item counts, older ones stay in the record.

    Raises:
        Repeated: this form was sent already.
        Refused: the asker may not, the case is closed, there is no such item, or the value is empty.
    """
    now = services.clock.now()
    with services.store.read() as reading:
        incident = known(reading, incident_id)
        _ = language_for(reading, asker, incident)
    require(services, asker, Action.ANSWER, _)
    if not value.strip():
        raise refuse(refusal(_("Not recorded"), _("An answer needs a value; “unknown” is one.")))
    with once(services, asker) as tx:
        incident = lock_open(tx, incident_id)
        step = case_playbook(services, incident.case).step(item_id)
        if step is None:
            why = _("This case's playbook has no item {item}.", item=item_id)
            raise refuse(refusal(_("Not recorded"), why))
        payload = AnswerRecorded(
            item=item_id, value=redact_text(value.strip()[:_MOST]).text, note=redact_text(note.strip()[:1000]).text
        )
        entry = tx.append(incident_id, payload, actor=asker.actor, at=now)
        advance_phase(tx, services, incident_id, now=now)
        ask_next(tx, services, incident_id, now=now)
    return notice(_("Recorded as #{seq}: {label}", seq=entry.seq, label=_.told(step.label)))
