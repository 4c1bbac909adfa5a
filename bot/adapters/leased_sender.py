"""Runs a sender in a thread of its own while this process holds the right to send; other bots stand by."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

import structlog

from bot.errors import BotError, StoreError

if TYPE_CHECKING:
    from datetime import datetime

    from bot.flows.services import Services

LEASE_S = 60
RENEW_S = 5.0
_STAND_BY_S = 2.0
_GATHER_S = 0.05
"""What is committed within so short a time is looked at in one round: under load the rounds would cost more than the answers."""
_ERROR_PAUSE_S = 2.0
log = structlog.get_logger(__name__)


class Sender(Protocol):
    """One round of sending; returns the seconds until the next is worth it."""

    def send_due(self) -> float:
        """Send what is due."""
        ...


class LeasedSender:
    """One of several bots sends. `nudge` wakes it after a commit."""

    def __init__(self, services: Services, sender: Sender, *, name: str, holder: str) -> None:
        self._name = name
        self._services = services
        self._sender = sender
        self._holder = holder
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._ask_at: datetime | None = None

    def start(self) -> None:
        """Begin to send, as soon as nobody else does."""
        self._thread = threading.Thread(target=self._loop, name=f"{self._name}-sender", daemon=True)
        self._thread.start()

    def nudge(self) -> None:
        """Say that there may be something to send."""
        self._wake.set()

    def stop(self, *, timeout_s: float = 5.0) -> None:
        """End the thread and give the right to send back; what is not sent stays in the outbox."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=timeout_s)
        try:
            self._services.store.end_sender_lease(self._name, self._holder, now=self._services.clock.now())
        except StoreError as error:
            log.info("right to send not given back", sender=self._name, why=str(error))

    def round(self) -> float:
        """Send what is due, if it is this process's turn; returns the seconds until the next round."""
        return min(self._sender.send_due(), RENEW_S) if self._is_mine() else _STAND_BY_S

    def _is_mine(self) -> bool:
        """Take or renew the right to send; a right renewed lately needs no word to the store."""
        now = self._services.clock.now()
        if self._ask_at is not None and now < self._ask_at:
            return True
        mine = self._services.store.sender_lease(self._name, self._holder, now=now, ttl_s=LEASE_S)
        self._ask_at = now + timedelta(seconds=RENEW_S) if mine else None
        return mine

    def _loop(self) -> None:
        while not self._stop.is_set():
            self._wake.clear()
            try:
                wait = self.round()
            except StoreError as error:
                log.warning("outbox not read", sender=self._name, why=str(error))
                wait = _ERROR_PAUSE_S
            except BotError:
                log.exception("sender", sender=self._name)
                wait = _ERROR_PAUSE_S
            if wait > 0 and not self._stop.wait(min(wait, _GATHER_S)):
                self._wake.wait(wait)
