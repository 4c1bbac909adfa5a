"""The edge to the database: every exception of the library is ours or known, and what is no store is refused in words."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import NullPool, create_engine, exc

from bot.adapters.store import migrate, open_store
from bot.adapters.store.edge import MISTAKES, mapped, to_store_error
from bot.adapters.store.schema import metadata
from bot.errors import StoreBusy, StoreConflict, StoreCorrupt, StoreError, StoreUnavailable
from playbooks.evidence.canonical import utc_text
from tests.support.stores import AT, answer, fresh_postgresql, fresh_sqlite, job_request, opened

MIGRATIONS = Path(__file__).parents[2] / "bot" / "adapters" / "migrations"


def walk(root: type[exc.SQLAlchemyError]) -> Iterator[type[exc.SQLAlchemyError]]:
    for child in root.__subclasses__():
        if child.__module__ == "sqlalchemy.exc":
            yield child
            yield from walk(child)


ALL = sorted(set(walk(exc.SQLAlchemyError)), key=lambda kind: kind.__name__)


def an(kind: type[exc.SQLAlchemyError]) -> exc.SQLAlchemyError:
    said = sqlite3.OperationalError("said by the driver\nin two lines")
    if kind is exc.StatementError:
        return exc.StatementError("said by the library", "SELECT 1", {}, said)
    if issubclass(kind, exc.StatementError):
        return kind("SELECT 1", {}, said)
    error = kind.__new__(kind)
    Exception.__init__(error, "said by the library")
    return error


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_exception_of_the_library_is_mapped_or_a_known_mistake(kind: type[exc.SQLAlchemyError]) -> None:
    ours = to_store_error(an(kind))
    assert isinstance(ours, StoreError) != issubclass(kind, MISTAKES)


def driver_error(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = code
    return error


class ServerError(Exception):
    def __init__(self, sqlstate: str) -> None:
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (exc.OperationalError("S", {}, driver_error(sqlite3.SQLITE_BUSY)), StoreBusy),
        (exc.OperationalError("S", {}, driver_error(sqlite3.SQLITE_BUSY_SNAPSHOT)), StoreBusy),
        (exc.OperationalError("S", {}, driver_error(sqlite3.SQLITE_FULL)), StoreUnavailable),
        (exc.OperationalError("S", {}, ServerError("55P03")), StoreBusy),
        (exc.OperationalError("S", {}, ServerError("40P01")), StoreBusy),
        (exc.OperationalError("S", {}, ServerError("57P01")), StoreUnavailable),
        (exc.IntegrityError("S", {}, sqlite3.IntegrityError("UNIQUE")), StoreConflict),
        (exc.DataError("S", {}, sqlite3.DataError("too long")), StoreCorrupt),
        (exc.TimeoutError(), StoreBusy),
        (exc.DisconnectionError(), StoreUnavailable),
    ],
)
def test_what_the_driver_says_becomes_what_we_say(error: exc.SQLAlchemyError, expected: type[StoreError]) -> None:
    with pytest.raises(expected) as caught, mapped():
        raise error
    assert caught.value.__cause__ is error


def test_a_mistake_of_ours_propagates_as_it_is() -> None:
    with pytest.raises(exc.ArgumentError), mapped():
        raise exc.ArgumentError


@pytest.mark.parametrize(
    "url",
    ["", "no url", "mysql://u@h/db", "sqlite://", "sqlite:///:memory:", "nonsense+driver://x/y"],
)
def test_only_databases_that_keep_incidents_are_opened(url: str) -> None:
    with pytest.raises(StoreUnavailable, match="expected"):
        open_store(url)


def test_a_store_that_cannot_be_reached_says_so(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/no/such/folder/x.db"
    store = open_store(url)
    with pytest.raises(StoreUnavailable, match="does not answer"):
        store.check()
    with pytest.raises(StoreUnavailable, match="does not answer"):
        migrate(url)
    with pytest.raises(StoreUnavailable, match="does not answer"):
        opened(store)


def test_a_server_that_is_not_there_says_so() -> None:
    with pytest.raises(StoreUnavailable, match="does not answer"):
        open_store("postgresql://app@127.0.0.1:1/app", wait_ms=500).check()


def test_a_file_that_is_no_database_says_so(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("a text, and long enough to be read as the first page of a file" * 99)
    with pytest.raises(StoreUnavailable):
        open_store(f"sqlite:///{tmp_path}/x.db").check()


def test_a_store_that_was_not_migrated_says_so(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/x.db")
    with pytest.raises(StoreUnavailable, match=r"expected the store's schema 0002\w*, found none"):
        store.check()
    store.close()


def test_a_store_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    url = fresh_sqlite(tmp_path)
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999_future'")
    with pytest.raises(StoreUnavailable, match="9999_future"):
        migrate(url)
    with pytest.raises(StoreUnavailable, match="9999_future"):
        open_store(url).check()


def test_several_processes_may_migrate_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(migrate, [url] * 4))
    store = open_store(url)
    store.check()
    assert opened(store).id == "INC-0001"
    store.close()


def test_sqlite_writes_through_to_the_disk(tmp_path: Path) -> None:
    store = open_store(fresh_sqlite(tmp_path))
    with store._engines.writing.connect() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in ("journal_mode", "synchronous")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2}
    store.close()


def test_threads_of_one_process_queue_for_the_one_writer(tmp_path: Path) -> None:
    store = open_store(fresh_sqlite(tmp_path), wait_ms=60)
    incident = opened(store)
    with store.write(), ThreadPoolExecutor(1) as pool:

        def late() -> None:
            with store.write() as tx:
                tx.append(incident.id, answer("x"), actor="bot", at=AT)

        with pytest.raises(StoreBusy, match="other writers"):
            pool.submit(late).result()
    store.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.services)])
def migrated(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return fresh_sqlite(tmp_path)
    return fresh_postgresql(request.getfixturevalue("postgres_url"))


def test_the_migrations_lead_to_the_tables_the_code_knows(migrated: str) -> None:
    migrate(migrated)
    engine = create_engine(migrated, poolclass=NullPool)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_a_store_of_the_first_version_keeps_its_jobs(migrated: str) -> None:
    engine = create_engine(migrated, poolclass=NullPool)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "0001")
        names = "id, incident, node, kind, state, request, requested_at, not_after, note"
        row = job_request()
        values = (row.job_id, row.incident, row.node, row.kind.value, "wanted", row.model_dump_json())
        at = (utc_text(row.requested_at), utc_text(row.not_after), "")
        texts = ", ".join(map(repr, (*values, *at)))
        connection.exec_driver_sql(f"INSERT INTO jobs ({names}) VALUES ({texts})")  # noqa: S608 - values of this test
    migrate(migrated)
    store = open_store(migrated)
    with store.read() as reading:
        job = reading.job(row.job_id)
    store.close()
    assert job is not None
    assert (job.request, job.rank_end) == (row, None)
