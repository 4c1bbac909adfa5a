"""Rebuild an incident's thread: the store is the truth, Slack a view of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.ports import OutboxKind

if TYPE_CHECKING:
    from bot.flows.services import Services


def repost_incident(services: Services, incident_id: str) -> int:
    """Queue the parent message and every evidence reply anew; returns how many messages.

    The old thread stays as it is; from then on buttons and replies belong to the new one.

    Raises:
        UnknownIncident: no incident of that id.
    """
    now = services.clock.now()
    with services.store.write() as tx:
        tx.lock(incident_id)
        tx.set_message_ts(incident_id, "dashboard", "")  # the parent is the dashboard again
        tx.enqueue(OutboxKind.PARENT, {"repost": True}, incident=incident_id, at=now)
        count = 1
        for entry in list(tx.entries(incident_id)):
            tx.enqueue(OutboxKind.EVIDENCE, {"seq": entry.seq}, incident=incident_id, at=now)
            count += 1
        tx.want_dashboard(incident_id)
    services.nudge()
    return count
