"""Record a launch that somebody else started and `baseline watch` looked on: a recorded attempt, told by the node's key."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.errors import DigestMismatch, NotThatNode, Repeated, UnknownIncident
from bot.flows.once import lock_open, once
from bot.flows.record_log import record_taken
from bot.flows.showing import Asker
from bot.flows.take_log import take_log
from playbooks.guiding import seen
from playbooks.messages import WatchedOffer, WatchedReply

if TYPE_CHECKING:
    from bot.flows.services import Services
    from bot.ports import Incident, Reading


@dataclass(frozen=True, slots=True)
class _NodeAsker(Asker):
    """A node that reports of itself; `user` is its name."""

    @property
    def actor(self) -> str:
        return f"node:{self.user}"


def record_watched(services: Services, offer: WatchedOffer, chunks: Iterable[bytes]) -> WatchedReply:
    """Record the file once, however often it is sent.

    Raises:
        UnknownIncident: no incident of that id.
        NotThatNode: the incident is another node's.
        Refused: it is closed.
        DigestMismatch: the bytes are not those that were offered; nothing was recorded.
    """
    with services.store.read() as reading:
        _of_this_node(reading, offer)
    digest = hashlib.sha256()

    def counted() -> Iterator[bytes]:
        for chunk in chunks:
            digest.update(chunk)
            yield chunk

    log = take_log(services, offer.name, counted())
    if digest.hexdigest() != offer.sha256:
        raise DigestMismatch(f"expected bytes of sha256 {offer.sha256[:16]}…, found {digest.hexdigest()[:16]}…")
    now = services.clock.now()
    asker = _NodeAsker(user=offer.node, key=f"watched:{offer.incident}:{offer.sha256}")
    try:
        with once(services, asker) as tx:
            incident = lock_open(tx, offer.incident)
            seq = record_taken(tx, services, incident, log, asker=asker, now=now)
        detail = f"recorded as entry {seq}"
    except Repeated:
        with services.store.read() as reading:
            incident = _of_this_node(reading, offer)
        seq = next(
            (noted.seq for noted in incident.case.attempts if noted.payload.log_sha256 == log.sha256),
            incident.head_seq,
        )
        detail = "recorded before"
    return WatchedReply(incident=offer.incident, seq=seq, detail=detail, bot_time=now)


def _of_this_node(reading: Reading, offer: WatchedOffer) -> Incident:
    incident = reading.incident(offer.incident)
    if incident is None:
        raise UnknownIncident(f"no incident {offer.incident}")
    nodes = seen.nodes_of(incident.case)
    if nodes and offer.node not in nodes:
        raise NotThatNode(f"{offer.incident} is no incident of {offer.node}, but of {', '.join(nodes)}")
    return incident
