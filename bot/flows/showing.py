"""What is shown of an incident: the dashboard's value and one evidence reply, read from the store.

Pure reading: used by the sender when a message's turn comes, and by the flows that answer `status` and `next`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from bot.blocks.dashboard import Dashboard, Running
from bot.blocks.evidence import Recorded
from bot.blocks.texts import Translate, translator
from bot.errors import UnknownIncident
from playbooks.guiding.case import Case, fold
from playbooks.guiding.checklist import Item, items, next_step
from playbooks.vocabulary import Phase, Stage

if TYPE_CHECKING:
    from bot.flows.services import Services
    from bot.ports import Incident, Job, Reading
    from playbooks.guiding.playbook import Playbook


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks, from where; `key` identifies the delivery, so that a second one changes nothing."""

    user: str
    channel: str = ""
    key: str = ""

    @property
    def actor(self) -> str:
        """The asker as the ledger names people."""
        return f"user:{self.user}"


def language_for(reading: Reading, asker: Asker, incident: Incident | None = None) -> Translate:
    """Return the texts in the asker's own language, else the channel's, else the incident's, else English."""
    own = reading.preference(f"user:{asker.user}", "language")
    channel = reading.preference(f"channel:{asker.channel}", "language") if asker.channel else None
    return translator(own or channel or (incident.language if incident else "en"))


def known(reading: Reading, incident_id: str) -> Incident:
    """Return the incident.

    Raises:
        UnknownIncident: no incident of that id.
    """
    incident = reading.incident(incident_id)
    if incident is None:
        raise UnknownIncident(f"no incident {incident_id}")
    return incident


def playbook_of(services: Services, case: Case) -> Playbook:
    """Return the playbook the incident was opened with."""
    return services.definitions.playbook(case.opened.payload.playbook)


def dashboard_of(services: Services, reading: Reading, incident: Incident, now: datetime) -> Dashboard:
    """Gather what the parent message shows."""
    case = incident.case
    playbook = playbook_of(services, case)
    step = next_step(case, playbook)
    label = item_of(services, case, step.item).label if step.item and item_of(services, case, step.item) else ""
    active = reading.jobs(incident=incident.id)
    return Dashboard(
        incident=incident.id,
        owner=incident.owner,
        opened_at=incident.opened_at,
        case=case,
        head_seq=incident.head_seq,
        head_hash=incident.head_hash,
        phases=tuple(phase for phase in Phase if phase is not Phase.CLOSED),
        step=step,
        step_label=label,
        running=tuple(_running(job) for job in active),
        silent_node=silent_node(services, reading, case.opened.payload.node, now),
        held=_held(reading, incident.id, case.opened.payload.node),
    )


def item_of(services: Services, case: Case, item_id: str | None) -> Item | None:
    """Return one checklist item by its id."""
    return next((item for item in items(case, playbook_of(services, case)) if item.id == item_id), None)


def silent_node(services: Services, reading: Reading, name: str | None, now: datetime) -> str | None:
    """Return the node's name when nothing was heard of it for too long."""
    if name is None:
        return None
    node = reading.node(name)
    heard = node.heard_at if node else None
    return None if heard is not None and now - heard <= services.timing.node_silent_after else name


def recorded_of(reading: Reading, incident_id: str, seq: int) -> Recorded | None:
    """Return an entry with the case as it was at that entry."""
    entries = []
    for entry in reading.entries(incident_id):
        if entry.seq > seq:
            break
        entries.append(entry)
    if not entries or entries[-1].seq != seq:
        return None
    last = entries[-1]
    return Recorded(
        seq=last.seq,
        kind=last.kind,
        actor=last.actor,
        at=last.at,
        payload=last.payload,
        hash=last.hash,
        case=fold(incident_id, entries),
    )


def _running(job: Job) -> Running:
    return Running(
        kind=job.kind,
        node=job.node,
        claimed=job.claimed_at is not None,
        since=job.claimed_at or job.requested_at,
        stage=_stage(job.stage),
        note=job.note,
        attempt=job.request.attempt,
    )


def _stage(name: str | None) -> Stage | None:
    return Stage(name) if name in set(Stage) else None


def _held(reading: Reading, incident_id: str, name: str | None) -> str:
    node = reading.node(name) if name else None
    if node is None or node.hello is None:
        return ""
    mine = [held for held in node.hello.held if held.incident == incident_id]
    return "; ".join(f"attempt {h.attempt} is held until {h.until:%H:%M} UTC ({h.what})" for h in mine)


