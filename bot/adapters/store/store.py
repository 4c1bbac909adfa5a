"""The store itself: transactions, dashboards, the leased sender, and whether it answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from sqlalchemy import func, select, update

from bot.adapters.store import schema as t
from bot.adapters.store.cases import CaseCache
from bot.adapters.store.edge import mapped
from bot.adapters.store.engines import WAIT_MS, Engines, open_engines
from bot.adapters.store.migrate import newest_revision, schema_revision
from bot.adapters.store.reading import SqlReading
from bot.adapters.store.upsert import insert_new
from bot.adapters.store.writing import SqlWriting
from bot.errors import StoreBusy, StoreUnavailable


def open_store(url: str, *, wait_ms: int = WAIT_MS) -> SqlStore:
    """Return the store at this URL; run `migrate(url)` first.

    wait_ms: how long to wait for other writers before `StoreBusy`.

    Raises:
        StoreUnavailable: not a URL of SQLite or PostgreSQL.
    """
    return SqlStore(open_engines(url, wait_ms=wait_ms), wait_ms=wait_ms)


class SqlStore:
    """The incident store; implements `bot.ports.Store`. May be used from any thread."""

    def __init__(self, engines: Engines, *, wait_ms: int = WAIT_MS) -> None:
        self._engines = engines
        self._wait_s = wait_ms / 1000
        self._cases = CaseCache()
        # SQLite has one writer: threads of one process queue here, in order, instead of polling the file's lock.
        self._writers = threading.Lock() if engines.is_sqlite else None

    @contextmanager
    def read(self) -> Iterator[SqlReading]:
        """Read one consistent picture.

        Raises:
            StoreUnavailable, StoreBusy: the store does not answer, or not in time.
        """
        with mapped(), self._engines.reading.connect() as connection, connection.begin():
            yield SqlReading(connection, self._cases)

    @contextmanager
    def write(self) -> Iterator[SqlWriting]:
        """Commit when the block ends, roll back when it raises.

        Raises:
            StoreUnavailable, StoreBusy: nothing was recorded.
        """
        with self._turn(), mapped():
            with self._engines.writing.begin() as connection:
                writing = SqlWriting(connection, self._cases)
                yield writing
            writing.publish_cases()

    def dashboards(self, *, limit: int = 20) -> list[tuple[str, int]]:
        """Return incidents whose wanted dashboard revision is newer than the posted one, oldest wish first."""
        c = t.incidents.c
        wanted = select(c.id, c.dashboard_wanted).where(c.dashboard_wanted > c.dashboard_posted)
        with mapped(), self._engines.reading.connect() as connection:
            found = connection.execute(wanted.order_by(c.dashboard_wished_at, c.id).limit(limit)).all()
        return [(row.id, row.dashboard_wanted) for row in found]

    def dashboard_posted(self, incident_id: str, revision: int) -> None:
        """Say that the dashboard of this revision is shown; an older word changes nothing."""
        c = t.incidents.c
        posted = update(t.incidents).where(c.id == incident_id, c.dashboard_posted < revision)
        with self._turn(), mapped(), self._engines.writing.begin() as connection:
            connection.execute(posted.values(dashboard_posted=revision))

    def sender_lease(self, name: str, holder: str, *, now: datetime, ttl_s: int) -> bool:
        """Take or renew the right to send for a workspace; False while another process holds it."""
        until = now + timedelta(seconds=ttl_s)
        c = t.sender_leases.c
        taken = update(t.sender_leases).where(c.name == name, (c.holder == holder) | (c.until <= now))
        with self._turn(), mapped(), self._engines.writing.begin() as connection:
            if insert_new(connection, t.sender_leases, {"name": name}, {"holder": holder, "until": until}):
                return True
            return connection.execute(taken.values(holder=holder, until=until)).rowcount == 1

    def end_sender_lease(self, name: str, holder: str, *, now: datetime) -> None:
        """Give the right to send back, so that another process need not wait for its end."""
        c = t.sender_leases.c
        ended = update(t.sender_leases).where(c.name == name, c.holder == holder).values(until=now)
        with self._turn(), mapped(), self._engines.writing.begin() as connection:
            connection.execute(ended)

    def check(self) -> None:
        """Say whether the store answers and has this version's schema.

        Raises:
            StoreUnavailable, StoreBusy: it does not.
        """
        with mapped(), self._engines.reading.connect() as connection:
            found = schema_revision(connection)
            if found == newest_revision():
                connection.execute(select(func.count()).select_from(t.counters)).scalar_one()
                return
        raise StoreUnavailable(
            f"expected the store's schema {newest_revision()}, found {found or 'none'}: start the bot to migrate it"
        )

    def close(self) -> None:
        """Close the store's idle connections."""
        self._engines.dispose()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if self._writers is None:
            yield
            return
        if not self._writers.acquire(timeout=self._wait_s):
            raise StoreBusy("other writers held the store for longer than we wait; nothing was recorded")
        try:
            yield
        finally:
            self._writers.release()
