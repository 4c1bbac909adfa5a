"""A flow that was given up must not commit afterwards: the caller has been told that nothing was recorded.

A call and its caller agree on one winner: either the commit begins, and the caller waits a moment longer for its end, or
the caller gives up first, and the transaction is rolled back.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from enum import Enum, auto
from typing import TYPE_CHECKING

from bot.errors import StoreBusy

if TYPE_CHECKING:
    from datetime import datetime

    from bot.ports import Reading, Store, Writing


class _Stage(Enum):
    RUNNING = auto()
    COMMITTING = auto()
    GIVEN_UP = auto()


class Call:
    """One run of a flow, seen from its thread and from its caller."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stage = _Stage.RUNNING

    def begin_commit(self) -> None:
        """Say that the commit begins.

        Raises:
            StoreBusy: the caller has given up; roll back.
        """
        with self._lock:
            if self._stage is _Stage.GIVEN_UP:
                raise StoreBusy("given up before the commit; nothing was recorded")
            self._stage = _Stage.COMMITTING

    def give_up(self) -> bool:
        """Give the call up; False when its commit has begun already."""
        with self._lock:
            if self._stage is _Stage.COMMITTING:
                return False
            self._stage = _Stage.GIVEN_UP
            return True

    @property
    def given_up(self) -> bool:
        """Whether the caller waits no longer."""
        with self._lock:
            return self._stage is _Stage.GIVEN_UP


CURRENT: ContextVar[Call | None] = ContextVar("baseline_flow_call", default=None)
"""The call that the running flow belongs to; None outside the flow pool."""


class GuardedStore:
    """A store whose transactions of a given-up call are rolled back; implements `bot.ports.Store`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self) -> AbstractContextManager[Reading]:
        """Read one consistent picture."""
        return self._store.read()

    @contextmanager
    def write(self) -> Iterator[Writing]:
        """Commit when the block ends, unless the caller has given up."""
        with self._store.write() as tx:
            yield tx
            call = CURRENT.get()
            if call is not None:
                call.begin_commit()

    def dashboards(self, *, limit: int = 20) -> list[tuple[str, int]]:
        """Pass on."""
        return self._store.dashboards(limit=limit)

    def dashboard_posted(self, incident_id: str, revision: int) -> None:
        """Pass on."""
        self._store.dashboard_posted(incident_id, revision)

    def sender_lease(self, name: str, holder: str, *, now: datetime, ttl_s: int) -> bool:
        """Pass on."""
        return self._store.sender_lease(name, holder, now=now, ttl_s=ttl_s)

    def end_sender_lease(self, name: str, holder: str, *, now: datetime) -> None:
        """Pass on."""
        self._store.end_sender_lease(name, holder, now=now)

    def check(self) -> None:
        """Pass on."""
        self._store.check()
