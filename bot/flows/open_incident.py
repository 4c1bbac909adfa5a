"""Open a case: its first entry, the parent message, and at once the jobs that save the scene before anything changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.blocks.elements import Message
from bot.blocks.notices import notice, refusal
from bot.blocks.texts import Translate
from bot.errors import JobNotAsked
from bot.flows.ask_next import ask_next
from bot.flows.node_jobs import collect_wish, fingerprint_wish
from bot.flows.once import once, refuse
from bot.flows.permission import Action, require
from bot.flows.record_log import record_taken
from bot.flows.request_job import add_job
from bot.flows.showing import Asker, language_for
from bot.flows.take_log import TakenLog
from bot.ports import ArtifactMeta, OutboxKind
from playbooks.evidence.entries import IncidentOpened
from playbooks.evidence.redaction import redact_text
from playbooks.guiding import seen
from playbooks.judging.first_failure import analyse_blocks
from playbooks.reading.whole_lines import whole_lines

if TYPE_CHECKING:
    from datetime import datetime

    from bot.flows.services import Services
    from bot.ports import Incident, Writing

_MOST = 3000


@dataclass(frozen=True, slots=True)
class Opening:
    """What the opener filled in. `log_sha256` is a log that was analysed before."""

    title: str
    node: str | None = None
    more_nodes: tuple[str, ...] = ()
    """Further nodes of a launch over several; `node` is its head."""
    what_fails: str = ""
    command: str = ""
    playbook: str = ""
    log_sha256: str = ""

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes, head first, each once."""
        return tuple(dict.fromkeys(filter(None, (self.node, *self.more_nodes))))


@dataclass(frozen=True, slots=True)
class Opened:
    """The new case and what the opener is told."""

    incident: str
    message: Message


def open_incident(services: Services, asker: Asker, opening: Opening) -> Opened:
    """Open a case in the asker's channel.

    Raises:
        Repeated: this form was sent already.
        Refused: the asker may not, or the form names what is not there.
    """
    with services.store.read() as reading:
        _ = language_for(reading, asker)
    require(services, asker, Action.OPEN, _)
    playbook = opening.playbook or services.playbook
    _check(services, opening, playbook, _)
    log = _taken(services, opening.log_sha256)
    sha256 = services.artifacts.put(services.definitions.playbook_bytes(playbook))
    now = services.clock.now()
    payload = IncidentOpened(
        title=_redacted(opening.title.strip()[:200]),
        node=next(iter(opening.nodes), None),
        nodes=list(opening.nodes) if len(opening.nodes) > 1 else [],
        playbook=playbook,
        playbook_sha256=sha256,
        what_fails=_redacted(opening.what_fails.strip()[:_MOST]),
        command=_redacted(opening.command.strip()[: _MOST * 4]),
        channel=asker.channel,
    )
    with once(services, asker) as tx:
        incident = tx.open_incident(
            channel=asker.channel, owner=asker.user, payload=payload, at=now, language=_.language
        )
        tx.enqueue(OutboxKind.EVIDENCE, {"seq": incident.head_seq}, incident=incident.id, at=now)
        tx.note_artifact(_playbook_meta(sha256, playbook, services, incident.id))
        tx.artifact_stored(sha256)
        _save_scene(tx, services, incident, asker, now)
        if log is not None:
            record_taken(tx, services, tx.lock(incident.id), log, asker=asker, now=now)
        else:
            ask_next(tx, services, incident.id, now=now)
    title = _("{incident} is open: its thread is in this channel.", incident=incident.id)
    return Opened(incident.id, notice(title, _("Drop the logs there; the next step is on top of it.")))


def _check(services: Services, opening: Opening, playbook: str, _: Translate) -> None:
    if not opening.title.strip():
        raise refuse(refusal(_("Not opened"), _("A title is needed: what is it about?")))
    for node in opening.nodes:
        if node not in services.nodes:
            known = ", ".join(services.nodes) or "-"
            why = _("Expected one of the nodes {known}, found {node}.", known=known, node=node)
            raise refuse(refusal(_("Not opened"), why))
    if playbook not in services.definitions.playbook_names():
        known = ", ".join(services.definitions.playbook_names())
        why = _("Expected one of the playbooks {known}, found {name}.", known=known, name=playbook)
        raise refuse(refusal(_("Not opened"), why))


def _save_scene(tx: Writing, services: Services, incident: Incident, asker: Asker, now: datetime) -> None:
    """Ask the nodes for scene and fingerprint; one that cannot take them up now is named in the thread."""
    for node in seen.nodes_of(incident.case):
        try:
            add_job(tx, services, collect_wish(incident, node, asker.actor), now=now)
            add_job(tx, services, fingerprint_wish(tx, incident, node, asker.actor), now=now)
        except JobNotAsked as error:
            _ = language_for(tx, asker, incident)
            message = refusal(_("The scene was not saved yet: the node cannot be asked"), _("{why}.", why=str(error)))
            tx.enqueue(OutboxKind.NOTE, message.payload(), incident=incident.id, at=now)


def _taken(services: Services, sha256: str) -> TakenLog | None:
    if not sha256 or not services.artifacts.has(sha256):
        return None
    with services.store.read() as reading:
        meta = reading.artifact(sha256)
    if meta is None:
        return None
    with services.artifacts.open(sha256) as chunks:
        finding = analyse_blocks(whole_lines(chunks), services.definitions.signatures())
    return TakenLog(
        sha256=sha256, name=meta.name, size_bytes=meta.size_bytes, redactions=meta.redactions, finding=finding
    )


def _playbook_meta(sha256: str, name: str, services: Services, incident: str) -> ArtifactMeta:
    size = len(services.definitions.playbook_bytes(name))
    return ArtifactMeta(
        sha256=sha256,
        name=f"{name}.yaml",
        size_bytes=size,
        media_type="application/yaml",
        incident=incident,
        stored=True,
    )


def _redacted(text: str) -> str:
    return redact_text(text).text
