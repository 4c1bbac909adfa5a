"""Bring a database to this version's schema, and say whether it is there."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from bot.adapters.store.edge import mapped
from bot.adapters.store.engines import open_engines
from bot.errors import StoreUnavailable

_MIGRATIONS = Path(__file__).parent.parent / "migrations"
_MIGRATION_LOCK = 0x6261_7365  # any number that no other user of the database takes
_MIGRATION_WAIT_MS = 60_000


def migrate(url: str) -> None:
    """Create or upgrade the schema in one transaction; several processes may do it at once.

    Raises:
        StoreUnavailable: the database does not answer, or it was upgraded by a newer version than this one.
    """
    engines = open_engines(url, wait_ms=_MIGRATION_WAIT_MS)
    try:
        with mapped(), engines.writing.begin() as connection:
            if not engines.is_sqlite:
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
            found = schema_revision(connection)
            _refuse_newer(found)
            if found != newest_revision():
                command.upgrade(_config(connection), "head")
    finally:
        engines.dispose()


def schema_revision(connection: Connection) -> str | None:
    """Return the revision the database is at; None when it is empty."""
    return MigrationContext.configure(connection).get_current_revision()


@cache
def newest_revision() -> str:
    """Return the revision that this version of the code is written for."""
    head = _scripts().get_current_head()
    if head is None:
        raise StoreUnavailable("the migrations of the store are missing from this installation")
    return head


def _refuse_newer(found: str | None) -> None:
    known = {script.revision for script in _scripts().walk_revisions()}
    if found is not None and found not in known:
        raise StoreUnavailable(
            f"expected a schema up to {newest_revision()}, found {found}: a newer version was here; install that one"
        )


@cache
def _scripts() -> ScriptDirectory:
    return ScriptDirectory(str(_MIGRATIONS))


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
