"""The two engines of a store: one that writes, one that reads a consistent picture without holding anybody up.

SQLite: WAL, synchronous=FULL, BEGIN IMMEDIATE for writers; needs a local disk. PostgreSQL: row locks, bounded waits.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from bot.errors import StoreUnavailable

WAIT_MS = 2000
"""How long a statement may wait for other writers: an answer in words must be out after 2.5 s (design §13)."""
_POOL = 20


@dataclass(frozen=True, slots=True)
class Engines:
    """Both engines of one database."""

    writing: Engine
    reading: Engine

    @property
    def is_sqlite(self) -> bool:
        """Whether writers queue for the whole database rather than for a row."""
        return self.writing.dialect.name == "sqlite"

    def dispose(self) -> None:
        """Close all idle connections."""
        self.writing.dispose()
        self.reading.dispose()


def open_engines(url: str, *, wait_ms: int = WAIT_MS) -> Engines:
    """Make the engines; connects to nothing yet.

    Raises:
        StoreUnavailable: no URL, or one of a database this product does not keep its incidents in.
    """
    try:
        parsed = make_url(url)
        match parsed.get_backend_name():
            case "sqlite":
                return _sqlite(parsed, wait_ms)
            case "postgresql":
                return _postgresql(parsed, wait_ms)
            case other:
                raise StoreUnavailable(f"expected a sqlite:/// or postgresql+psycopg:// URL, found {other}")
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise StoreUnavailable("expected a database URL like sqlite:///baseline.db, found something else") from error


def _sqlite(url: URL, wait_ms: int) -> Engines:
    if url.database in {None, "", ":memory:"}:
        raise StoreUnavailable("expected a file in the SQLite URL, found none: an incident store in memory is lost")
    return Engines(
        writing=_sqlite_engine(url, wait_ms, begin="BEGIN IMMEDIATE"),
        reading=_sqlite_engine(url, wait_ms, begin="BEGIN"),
    )


def _sqlite_engine(url: URL, wait_ms: int, *, begin: str) -> Engine:
    engine = create_engine(
        url, pool_size=_POOL, max_overflow=_POOL, pool_timeout=wait_ms / 1000, connect_args={"timeout": wait_ms / 1000}
    )

    @event.listens_for(engine, "connect")
    def on_connect(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # the driver must not begin transactions of its own
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={wait_ms:d}")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def on_begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _postgresql(url: URL, wait_ms: int) -> Engines:
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    engine = create_engine(
        url,
        pool_size=_POOL,
        max_overflow=_POOL,
        pool_timeout=wait_ms / 1000,
        pool_pre_ping=True,
        connect_args={
            "connect_timeout": max(2, wait_ms // 1000),
            "options": f"-c lock_timeout={wait_ms} -c statement_timeout={wait_ms * 2} -c timezone=UTC",
        },
    )
    reading = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    return Engines(writing=engine, reading=reading)
