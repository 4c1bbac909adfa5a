"""Fresh incident stores: a SQLite file or a PostgreSQL database of its own for each test, migrated once and copied."""

from __future__ import annotations

import shutil
import uuid
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from sqlalchemy import create_engine, make_url

from bot.adapters.store import SqlStore, migrate, open_store
from bot.ports import Incident
from playbooks.evidence.entries import AnswerRecorded, IncidentOpened
from playbooks.messages import JobRequest
from playbooks.vocabulary import JobKind

AT = datetime(2026, 12, 1, 2, 41, 7, 250_001, tzinfo=UTC)


def fresh_sqlite(folder: Path) -> str:
    """Return the URL of a new, migrated SQLite store in this folder."""
    path = folder / f"{uuid.uuid4().hex}.db"
    shutil.copyfile(_sqlite_template(), path)
    return f"sqlite:///{path}"


@cache
def _sqlite_template() -> Path:
    path = Path(mkdtemp(prefix="baseline-store-")) / "template.db"
    migrate(f"sqlite:///{path}")
    return path


def fresh_postgresql(server_url: str) -> str:
    """Return the URL of a new, migrated database on this server."""
    return _new_database(server_url, template=_postgresql_template(server_url))


@cache
def _postgresql_template(server_url: str) -> str:
    url = _new_database(server_url, template="template1")
    migrate(url)
    return str(make_url(url).database)


def _new_database(server_url: str, *, template: str) -> str:
    name = f"t_{uuid.uuid4().hex}"
    engine = create_engine(server_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE {template}")
    engine.dispose()
    return make_url(server_url).set(database=name).render_as_string(hide_password=False)


def sqlite_store(folder: Path) -> SqlStore:
    """Return a new SQLite store in this folder."""
    return open_store(fresh_sqlite(folder))


def opening(**changes: object) -> IncidentOpened:
    """Return the first entry of an incident."""
    values = {"title": "K3 does not start", "node": "gpu-a1", "playbook": "kimi-k3", "playbook_sha256": "0" * 64}
    return IncidentOpened.model_validate(values | changes)


def opened(store: SqlStore, *, channel: str = "C1", owner: str = "U1", at: datetime = AT) -> Incident:
    """Open an incident."""
    with store.write() as tx:
        return tx.open_incident(channel=channel, owner=owner, payload=opening(), at=at, language="en")


def answer(value: str, item: str = "first-failure-time") -> AnswerRecorded:
    """Return an answer."""
    return AnswerRecorded(item=item, value=value)


def job_request(
    job_id: str = "J1", *, incident: str = "INC-0001", node: str = "gpu-a1", at: datetime = AT
) -> JobRequest:
    """Return a wish for a fingerprint."""
    return JobRequest(
        job_id=job_id,
        incident=incident,
        kind=JobKind.FINGERPRINT,
        node=node,
        requested_by="user:U1",
        requested_at=at,
        not_after=at + timedelta(minutes=10),
    )
