"""Take a file that a node sends: whose it is, whether its bytes are wanted, and what follows once they are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.flows.job_access import job_of
from bot.flows.judge_launch import log_file
from bot.ports import ArtifactMeta

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bot.flows.services import Services
    from playbooks.messages import ArtifactOffer


def is_wanted(services: Services, offer: ArtifactOffer) -> bool:
    """Whether the bytes of an offered file are still to come.

    Raises:
        UnknownJob: no job of that id.
        NotThatNode: the job is another node's.
    """
    with services.store.read() as reading:
        job_of(reading, offer.job_id, offer.node)
        meta = reading.artifact(offer.sha256)
    return meta is None or not meta.stored or not services.artifacts.has(offer.sha256)


def store_artifact(services: Services, offer: ArtifactOffer, chunks: Iterable[bytes]) -> None:
    """Store a file, remember it, and show it in the thread when it is an attempt's log that was waited for.

    Raises:
        DigestMismatch: the bytes are not those that were offered; nothing was stored.
        UnknownJob, NotThatNode: as `is_wanted`.
    """
    services.artifacts.put_stream(chunks, expected=offer.sha256)
    now = services.clock.now()
    with services.store.write() as tx:
        job = job_of(tx, offer.job_id, offer.node)
        incident = tx.lock(job.incident)
        before = tx.artifact(offer.sha256)
        tx.note_artifact(
            ArtifactMeta(
                sha256=offer.sha256,
                name=offer.name,
                size_bytes=offer.size_bytes,
                media_type=offer.media_type,
                incident=job.incident,
                stored=True,
                redactions=0 if before is None else before.redactions,
            )
        )
        tx.artifact_stored(offer.sha256)
        if before is not None and not before.stored:
            for noted in incident.case.attempts:
                if noted.payload.log_sha256 == offer.sha256 and noted.payload.job_id == job.id:
                    log = log_file(noted.payload, redactions=before.redactions)
                    tx.enqueue(log.kind, log.payload(), incident=job.incident, at=now)
    services.nudge()
