"""One delivery, one transaction: a second delivery of the same press or event changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bot.blocks.elements import Message
from bot.blocks.texts import Translate, translator
from bot.errors import Refused, Repeated
from bot.ports import OutboxKind

if TYPE_CHECKING:
    from bot.flows.services import Services
    from bot.flows.showing import Asker
    from bot.ports import Incident, Writing


@contextmanager
def once(services: Services, asker: Asker) -> Iterator[Writing]:
    """Open a transaction for a delivery and nudge the senders after the commit.

    Raises:
        Repeated: the delivery was taken already.
    """
    with services.store.write() as tx:
        if asker.key and not tx.first_time(asker.key, at=services.clock.now()):
            raise Repeated("this was recorded already; it arrived a second time")
        yield tx
    services.nudge()


def lock_open(tx: Writing, incident_id: str) -> Incident:
    """Lock an incident that is still open.

    Raises:
        UnknownIncident: no incident of that id.
        Refused: it is closed.
    """
    incident = tx.lock(incident_id)
    still_open(incident, translator(incident.language))
    return incident


def still_open(incident: Incident, _: Translate) -> None:
    """Let only an open incident pass.

    Raises:
        Refused: it is closed.
    """
    if incident.case.closed is not None:
        raise Refused(_("{incident} is closed; open a new one with /baseline open.", incident=incident.id))


def refuse(message: Message) -> Refused:
    """Return a refusal that shows this message."""
    return Refused(message.text, blocks=message.blocks)


def reply(tx: Writing, services: Services, asker: Asker, message: Message, *, thread_ts: str | None) -> None:
    """Answer an event, which has no answer of its own, by a message where it was asked."""
    payload = {"channel": asker.channel, **message.payload(), **({"thread_ts": thread_ts} if thread_ts else {})}
    tx.enqueue(OutboxKind.DIRECT, payload, incident=None, at=services.clock.now())
