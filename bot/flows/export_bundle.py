"""Export the reproduction bundle: built from record and files, stored by digest, posted into the thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.blocks.elements import Message
from bot.blocks.notices import notice
from bot.blocks.texts import short
from bot.flows.bundle_material import build, collect
from bot.flows.once import once
from bot.flows.permission import Action, require
from bot.flows.showing import Asker, known, language_for
from bot.ports import ArtifactMeta, OutboxKind
from playbooks.evidence.entries import BundleExported

if TYPE_CHECKING:
    from bot.flows.services import Services


def export_bundle(services: Services, asker: Asker, incident_id: str) -> Message:
    """Export the bundle of everything recorded so far; a closed case has one too.

    Raises:
        Repeated: this press was taken already.
        Refused: the asker may not.
        ArtifactError: a file of the record cannot be read, or the bundle cannot be stored.
    """
    now = services.clock.now()
    with services.store.read() as reading:
        incident = known(reading, incident_id)
        _ = language_for(reading, asker, incident)
        entries, metas = collect(reading, incident_id)
    require(services, asker, Action.EXPORT, _)
    data = build(services, incident.case, entries, metas, now=now)
    sha256, upto = services.artifacts.put(data), entries[-1].seq
    name = f"{incident_id}-record-{upto}.zip"
    with once(services, asker) as tx:
        tx.lock(incident_id)
        meta = ArtifactMeta(
            sha256=sha256,
            name=name,
            size_bytes=len(data),
            media_type="application/zip",
            incident=incident_id,
            stored=True,
        )
        tx.note_artifact(meta)
        tx.artifact_stored(sha256)
        exported = BundleExported(sha256=sha256, upto=upto)
        tx.append(incident_id, exported, actor=asker.actor, at=now, artifacts=(sha256,))
        title = f"Bundle of {incident_id}, record #1-#{upto} · sha256 {sha256[:12]}"
        tx.enqueue(OutboxKind.FILE, {"sha256": sha256, "name": name, "title": title}, incident=incident_id, at=now)
    return notice(_("The bundle is on its way into the thread: {digest}", digest=short(sha256)))
