"""What the conversation's tests need: recorded entries and dashboards from a growing record, presses, a fake Slack."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bot.blocks.dashboard import Dashboard, Running
from bot.blocks.evidence import Recorded
from playbooks.catalog import load_playbook
from playbooks.guiding.checklist import items, next_step
from tests.support.cases import OPENED_AT, CaseLines

EVIL = "<!channel> <@U0BOSS> & `code` ```fence``` <https://evil.example|click>"


def recorded(lines: CaseLines) -> Recorded:
    """Return the newest entry of a record, as the sender renders it."""
    last = lines.lines[-1]
    return Recorded(
        seq=last.seq,
        kind=last.kind,
        actor=last.actor,
        at=last.at,
        payload=last.payload,
        head="9f3a" * 16,
        case=lines.case,
        labels={step.id: step.label for step in load_playbook(lines.case.opened.payload.playbook).steps()},
    )


def a_dashboard(lines: CaseLines, *, running: tuple[Running, ...] = (), **changes: Any) -> Dashboard:
    """Return the dashboard of a record."""
    case = lines.case
    playbook = load_playbook(case.opened.payload.playbook)
    step = next_step(case, playbook)
    label = next((i.label for i in items(case, playbook) if i.id == step.item and step.kind == "answer"), "")
    shown = Dashboard(
        incident=lines.incident,
        owner="U0ONCALL",
        opened_at=OPENED_AT,
        case=case,
        head_seq=lines.seq,
        head_hash="9f3a" * 16,
        phases=tuple(phase.id for phase in playbook.phases),
        step=step,
        step_label=label,
        running=running,
    )
    return replace(shown, **changes)
