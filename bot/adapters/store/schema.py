"""The tables. Times are fixed-width UTC text, the same text that is hashed; JSON is text, byte for byte as written."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

from bot.errors import StoreCorrupt
from playbooks.errors import NotCanonical
from playbooks.evidence.canonical import read_utc, utc_text


class UtcTime(TypeDecorator[datetime]):
    """An aware time, kept as `2026-12-01T08:30:00.000000Z`: exact on both databases, and it sorts as text."""

    impl = String(27)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - SQLAlchemy names it
        """Write."""
        return None if value is None else utc_text(value)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - SQLAlchemy names it
        """Read.

        Raises:
            StoreCorrupt: somebody wrote another form.
        """
        try:
            return None if value is None else read_utc(value)
        except NotCanonical as error:
            raise StoreCorrupt(f"a time in the store: {error}") from error


metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)
_RowId = BigInteger().with_variant(Integer, "sqlite")

counters = Table(
    "counters",
    metadata,
    Column("name", String(80), primary_key=True),
    Column("value", BigInteger, nullable=False),
)
"""Incident numbers, fencing numbers by node, and the order of dashboard wishes."""

incidents = Table(
    "incidents",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("channel", String(80), nullable=False),
    Column("thread_ts", String(40)),
    Column("owner", String(80), nullable=False),
    Column("language", String(20), nullable=False),
    Column("opened_at", UtcTime, nullable=False),
    Column("closed", Boolean, nullable=False),
    Column("head_seq", BigInteger, nullable=False),
    Column("last_hash", String(64), nullable=False),
    Column("head_hash", String(64), nullable=False),
    Column("dashboard_wanted", BigInteger, nullable=False),
    Column("dashboard_posted", BigInteger, nullable=False),
    Column("dashboard_wished_at", UtcTime, nullable=False),
    Index(None, "channel", "thread_ts"),
    Index(None, "closed", "opened_at"),
)

entries = Table(
    "entries",
    metadata,
    Column("incident", String(40), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("previous", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    Column("kind", String(80), nullable=False),
    Column("actor", String(120), nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("payload", Text, nullable=False),
    Column("artifacts", Text, nullable=False),
    UniqueConstraint("incident", "seq"),
)
"""Append only: nothing in the code updates or deletes here."""

jobs = Table(
    "jobs",
    metadata,
    Column("id", String(80), primary_key=True),
    Column("incident", String(40), nullable=False),
    Column("node", String(120), nullable=False),
    Column("kind", String(40), nullable=False),
    Column("state", String(20), nullable=False),
    Column("request", Text, nullable=False),
    Column("requested_at", UtcTime, nullable=False),
    Column("not_after", UtcTime, nullable=False),
    Column("claimed_at", UtcTime),
    Column("fence", BigInteger),
    Column("last_heard_at", UtcTime),
    Column("cancelled_by", String(120)),
    Column("stage", String(40)),
    Column("note", Text, nullable=False),
    Column("outcome", String(40)),
    Column("report_sha256", String(64)),
    Column("group_id", String(80)),
    Column("rank_end", Text),
    Index(None, "state", "requested_at"),
    Index(None, "incident", "requested_at"),
    Index(None, "group_id"),
)

leases = Table(
    "leases",
    metadata,
    Column("node", String(120), primary_key=True),
    Column("fence", BigInteger, nullable=False),
    Column("incident", String(40), nullable=False),
    Column("job_id", String(80), nullable=False),
    Column("since", UtcTime, nullable=False),
)

nodes = Table(
    "nodes",
    metadata,
    Column("name", String(120), primary_key=True),
    Column("public_key", String(80)),
    Column("hello", Text),
    Column("heard_at", UtcTime),
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", _RowId, primary_key=True, autoincrement=True),
    Column("incident", String(40)),
    Column("lane", String(10), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("payload", Text, nullable=False),
    Column("state", String(20), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("not_before", UtcTime, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("external_id", String(120)),
    Column("error", Text),
    Index(None, "state", "lane", "incident", "id"),
    sqlite_autoincrement=True,
)
"""`lane`: `thread` rows go out in order per incident, `free` and `job` rows wait for nobody."""

messages = Table(
    "messages",
    metadata,
    Column("incident", String(40), primary_key=True),
    Column("slot", String(120), primary_key=True),
    Column("ts", String(40), nullable=False),
)

artifacts = Table(
    "artifacts",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("name", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("media_type", String(120), nullable=False),
    Column("incident", String(40)),
    Column("stored", Boolean, nullable=False),
    Column("redactions", Integer, nullable=False),
    Index(None, "incident"),
)

preferences = Table(
    "preferences",
    metadata,
    Column("scope", String(120), primary_key=True),
    Column("key", String(120), primary_key=True),
    Column("value", Text, nullable=False),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("key", String(200), primary_key=True),
    Column("at", UtcTime, nullable=False),
    Index(None, "at"),
)

sender_leases = Table(
    "sender_leases",
    metadata,
    Column("name", String(120), primary_key=True),
    Column("holder", String(120), nullable=False),
    Column("until", UtcTime, nullable=False),
)
