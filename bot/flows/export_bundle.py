"""Export the reproduction bundle: built from record and files, stored by digest, posted into the thread."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bot.blocks.elements import Message
from bot.blocks.notices import notice
from bot.blocks.texts import short
from bot.flows.once import once
from bot.flows.permission import Action, require
from bot.flows.showing import Asker, known, language_for
from bot.ports import ArtifactMeta, OutboxKind
from playbooks.evidence import bundle, chain
from playbooks.evidence.entries import BundleExported
from playbooks.guiding.report_page import first_page

if TYPE_CHECKING:
    from datetime import datetime

    from bot.flows.services import Services
    from bot.ports import Entry, Incident

_DIGEST = re.compile(r"[0-9a-f]{64}")
_NO_NAME = re.compile(r"[^\w.-]+")


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
        entries = list(reading.entries(incident_id))
        metas = [meta for sha in sorted(_named(entries)) if (meta := reading.artifact(sha)) is not None]
    require(services, asker, Action.EXPORT, _)
    data = _build(services, incident, entries, metas, now)
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


def _build(
    services: Services, incident: Incident, entries: list[Entry], metas: list[ArtifactMeta], now: datetime
) -> bytes:
    """Return the archive: first page, ledger, and every file that the record names."""
    files = {
        f"artifacts/{meta.sha256}-{_NO_NAME.sub('_', meta.name)[:80] or 'file'}": services.artifacts.get(meta.sha256)
        for meta in metas
        if services.artifacts.has(meta.sha256)
    }
    head = chain.head_hash(incident.id, entries[-1].seq, entries[-1].hash)
    return bundle.build(
        incident=incident.id,
        page=first_page(incident.case, head_hash=head, exported_at=now),
        ledger=b"".join(chain.dump_line(entry) + b"\n" for entry in entries),
        files=files,
        key=services.signing_key,
        created_at=now,
        missing=tuple(meta.sha256 for meta in metas if not services.artifacts.has(meta.sha256)),
    )


def _named(entries: list[Entry]) -> set[str]:
    """Return the digests that entries name, in their list of files or anywhere in what they say; no earlier bundle."""
    found: set[str] = set()
    for entry in entries:
        if entry.kind != BundleExported.KIND:
            found |= {*entry.artifacts, *_digests(entry.payload)}
    return found


def _digests(value: Any) -> Iterator[str]:
    match value:
        case str() if _DIGEST.fullmatch(value):
            yield value
        case dict():
            for inner in value.values():
                yield from _digests(inner)
        case list():
            for inner in value:
                yield from _digests(inner)
        case _:
            return
