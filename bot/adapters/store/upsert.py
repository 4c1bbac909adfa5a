"""Insert-or-update and counting, in the words that SQLite and PostgreSQL share."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

from bot.adapters.store.schema import counters


def upsert(connection: Connection, table: Table, key: dict[str, Any], values: dict[str, Any]) -> None:
    """Insert the row, or set the values of the one that has this key."""
    insert = _insert(connection, table).values(**key, **values)
    connection.execute(insert.on_conflict_do_update(index_elements=list(key), set_=values))


def insert_new(connection: Connection, table: Table, key: dict[str, Any], values: dict[str, Any]) -> bool:
    """Insert the row unless its key is there; returns whether it was new."""
    insert = _insert(connection, table).values(**key, **values).on_conflict_do_nothing(index_elements=list(key))
    inserted = connection.execute(insert.returning(*(table.c[name] for name in key)))
    return inserted.first() is not None  # psycopg counts no rows of a statement that SQLAlchemy sends as a batch


def count_on(connection: Connection, name: str) -> int:
    """Return the next number of a counter, from 1; the counter is locked until the transaction ends."""
    insert = _insert(connection, counters).values(name=name, value=1)
    counted = insert.on_conflict_do_update(index_elements=["name"], set_={"value": counters.c.value + 1})
    return int(connection.execute(counted.returning(counters.c.value)).scalar_one())


def _insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)
