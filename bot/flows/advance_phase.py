"""Enter the next phases of an incident whose gates have closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.flows.case_playbook import case_playbook
from playbooks.evidence.entries import PhaseEntered
from playbooks.guiding.gate import next_phase

if TYPE_CHECKING:
    from datetime import datetime

    from bot.flows.services import Services
    from bot.ports import Writing
    from playbooks.vocabulary import Phase


def advance_phase(tx: Writing, services: Services, incident_id: str, *, now: datetime) -> tuple[Phase, ...]:
    """Enter what is open now, one phase after the other; call it after any entry that may close a gate."""
    entered: list[Phase] = []
    while True:
        case = tx.lock(incident_id).case
        if case.closed is not None:
            return tuple(entered)
        phase = next_phase(case, case_playbook(services, case))
        if phase is None or phase in entered:
            return tuple(entered)
        tx.append(incident_id, PhaseEntered(phase=phase), actor="bot", at=now)
        entered.append(phase)
