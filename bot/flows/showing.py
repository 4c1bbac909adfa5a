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
from bot.flows.case_playbook import case_playbook
from bot.flows.held_engines import still_held
from bot.ports import JobState
from playbooks.evidence.chain import head_hash
from playbooks.guiding import seen
from playbooks.guiding.case import Case, fold
from playbooks.guiding.checklist import Item, items, next_step
from playbooks.vocabulary import Stage

if TYPE_CHECKING:
    from bot.flows.services import Services
    from bot.ports import Incident, Job, Reading


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


def dashboard_of(services: Services, reading: Reading, incident: Incident, now: datetime) -> Dashboard:
    """Gather what the parent message shows."""
    case = incident.case
    playbook = case_playbook(services, case)
    step = next_step(case, playbook)
    item = item_of(services, case, step.item)
    active = reading.jobs(incident=incident.id)
    return Dashboard(
        incident=incident.id,
        owner=incident.owner,
        opened_at=incident.opened_at,
        case=case,
        head_seq=incident.head_seq,
        head_hash=incident.head_hash,
        phases=tuple(phase.id for phase in playbook.phases),
        step=step,
        step_label=item.label if item is not None and step.kind == "answer" else "",
        running=tuple(_running(reading, job) for job in active),
        silent_node=next(
            filter(None, (silent_node(services, reading, node, now) for node in seen.nodes_of(case))), None
        ),
        held=tuple((noted.payload.attempt, until) for noted, until in still_held(case, now)),
    )


def item_of(services: Services, case: Case, item_id: str | None) -> Item | None:
    """Return one checklist item by its id."""
    return next((item for item in items(case, case_playbook(services, case)) if item.id == item_id), None)


def silent_node(services: Services, reading: Reading, name: str | None, now: datetime) -> str | None:
    """Return the node's name when nothing was heard of it for too long."""
    if name is None:
        return None
    node = reading.node(name)
    heard = node.heard_at if node else None
    return None if heard is not None and now - heard <= services.timing.node_silent_after else name


def recorded_of(services: Services, reading: Reading, incident_id: str, seq: int) -> Recorded | None:
    """Return an entry with the case as it was at that entry."""
    entries = []
    for entry in reading.entries(incident_id):
        if entry.seq > seq:
            break
        entries.append(entry)
    if not entries or entries[-1].seq != seq:
        return None
    last = entries[-1]
    case = fold(incident_id, entries)
    return Recorded(
        seq=last.seq,
        kind=last.kind,
        actor=last.actor,
        at=last.at,
        payload=last.payload,
        head=head_hash(incident_id, last.seq, last.hash),
        case=case,
        labels={step.id: step.label for step in case_playbook(services, case).steps()},
    )


def _running(reading: Reading, job: Job) -> Running:
    lease = reading.lease(job.node) if job.state is JobState.WANTED and job.kind.loads_gpu else None
    return Running(
        kind=job.kind,
        node=job.node,
        claimed=job.claimed_at is not None,
        since=job.claimed_at or job.requested_at,
        stage=_stage(job.stage),
        note=job.note,
        attempt=job.request.attempt,
        held_by="" if lease is None or lease.job_id == job.id else lease.incident,
    )


def _stage(name: str | None) -> Stage | None:
    return Stage(name) if name in set(Stage) else None
