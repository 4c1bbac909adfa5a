"""Ask the next open thing in the thread: once per question, with why it matters and how to get it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.blocks.notices import question
from bot.blocks.texts import translator
from bot.flows.case_playbook import case_playbook
from bot.flows.showing import item_of
from bot.ports import OutboxKind
from playbooks.guiding.checklist import next_step

if TYPE_CHECKING:
    from datetime import datetime

    from bot.flows.services import Services
    from bot.ports import Writing


def ask_next(tx: Writing, services: Services, incident_id: str, *, now: datetime) -> None:
    """Queue the question for what only a person can do; what waits for a node or an approver is on the dashboard."""
    incident = tx.lock(incident_id)
    step = next_step(incident.case, case_playbook(services, incident.case))
    if incident.case.closed is not None or step.kind in {"wait", "approve"}:
        return
    asked = tx.preference(f"incident:{incident_id}", "asked")
    about = f"{step.kind}:{step.item or step.job or ''}:{step.text}"
    if asked == about:
        return
    tx.set_preference(f"incident:{incident_id}", "asked", about)
    item = item_of(services, incident.case, step.item) if step.kind == "answer" else None
    message = question(incident_id, step, item, translator(incident.language))
    tx.enqueue(OutboxKind.NOTE, message.payload(), incident=incident_id, at=now)
