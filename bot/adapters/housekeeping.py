"""Deletes what only the delivery needed: keys of deliveries, messages long sent, unfinished drafts. Never the record."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from bot.flows.services import Services

DELIVERIES_KEPT = timedelta(days=3)
"""Slack repeats an event for about an hour, and a socket that was away for a day brings what it missed."""
SENT_KEPT = timedelta(days=90)
DRAFTS_KEPT = timedelta(days=1)
EVERY = timedelta(hours=1)
log = structlog.get_logger(__name__)


class Housekeeping:
    """Implements `bot.adapters.leased_sender.Sender`: one round an hour."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._next: datetime | None = None

    def send_due(self) -> float:
        """Clear up if an hour has passed; returns the seconds until the next round.

        Raises:
            StoreError: the store does not answer; the next round tries again.
            ArtifactsUnavailable: the place of the files does not answer; likewise.
        """
        services = self._services
        now = services.clock.now()
        if self._next is None or now >= self._next:
            with services.store.write() as tx:
                deliveries = tx.forget_deliveries(before=now - DELIVERIES_KEPT)
                sent = tx.forget_sent(before=now - SENT_KEPT)
            drafts = services.artifacts.forget_drafts(before=now - DRAFTS_KEPT)
            self._next = now + EVERY
            if deliveries or sent or drafts:
                log.info("cleared up", deliveries=deliveries, sent=sent, drafts=drafts)
        return (self._next - now).total_seconds()
