"""Withdraw a recorded attempt that is none of this case, as a log dropped into the wrong thread: a new entry, nothing is edited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.blocks.elements import Message
from bot.blocks.notices import notice, refusal
from bot.flows.ask_next import ask_next
from bot.flows.once import lock_open, once, refuse
from bot.flows.permission import Action, require
from bot.flows.score_attempts import score_against_previous
from bot.flows.showing import Asker, known, language_for
from playbooks.evidence.entries import AttemptRecorded, AttemptWithdrawn
from playbooks.evidence.redaction import redact_text
from playbooks.guiding.case import Case, Noted

if TYPE_CHECKING:
    from bot.blocks.texts import Translate
    from bot.flows.services import Services

_MOST = 1000


def withdraw_attempt(services: Services, asker: Asker, incident_id: str, said: str) -> Message:
    """Withdraw the attempt whose number begins what was said; the rest is the reason.

    Raises:
        Repeated: this was taken already.
        Refused: the asker may not, the case is closed, there is no such recorded attempt, or no reason is given.
    """
    now = services.clock.now()
    with services.store.read() as reading:
        _ = language_for(reading, asker, known(reading, incident_id))
    require(services, asker, Action.RECORD_LOG, _)
    number, _sep, reason = said.strip().partition(" ")
    with once(services, asker) as tx:
        incident = lock_open(tx, incident_id)
        found = _meant(incident.case, number.strip("#:,."), _)
        if not reason.strip():
            why = _("Say `withdraw {n}` and why; the reason goes into the record.", n=found.payload.attempt)
            raise refuse(refusal(_("Not withdrawn: a reason is needed"), why))
        between = found.seq == incident.case.attempts[-2].seq if len(incident.case.attempts) > 2 else False
        payload = AttemptWithdrawn(
            attempt=found.payload.attempt, recorded_as=found.seq, reason=redact_text(reason.strip()[:_MOST]).text
        )
        entry = tx.append(incident_id, payload, actor=asker.actor, at=now)
        if between:  # the newest attempt has another one before it now
            score_against_previous(tx, services, incident_id, now=now)
        ask_next(tx, services, incident_id, now=now)
    return notice(_("Attempt {n} is withdrawn, #{seq}.", n=payload.attempt, seq=entry.seq))


def _meant(case: Case, number: str, _: Translate) -> Noted[AttemptRecorded]:
    """Return the attempt.

    Raises:
        Refused: there is none of that number, or it was seen by a node and not recorded from a log.
    """
    recorded = [noted for noted in case.attempts if noted.payload.origin == "recorded"]
    found = next((noted for noted in recorded if str(noted.payload.attempt) == number), None)
    if found is not None:
        return found
    names = ", ".join(str(noted.payload.attempt) for noted in recorded) or "-"
    raise refuse(
        refusal(
            _("Not withdrawn: no such recorded attempt"),
            _(
                "Attempts recorded from logs: {names}. What a node observed is not withdrawn; run it again.",
                names=names,
            ),
        )
    )
