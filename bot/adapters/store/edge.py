"""The edge to SQLAlchemy: every exception of the library becomes one of ours, or is known to be our own mistake."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc

from bot.errors import StoreBusy, StoreConflict, StoreCorrupt, StoreError, StoreUnavailable

MISTAKES: tuple[type[exc.SQLAlchemyError], ...] = (
    exc.ArgumentError,
    exc.CircularDependencyError,
    exc.CompileError,
    exc.IdentifierError,
    exc.InvalidRequestError,
)
"""The library was called wrongly: these propagate as they are."""

_BUSY_SQLITE = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_BUSY_SQLSTATES = frozenset(
    {
        "40001",  # serialization_failure
        "40P01",  # deadlock_detected
        "55P03",  # lock_not_available: lock_timeout
        "57014",  # query_canceled: statement_timeout
    }
)


@contextmanager
def mapped() -> Iterator[None]:
    """Run a block; what SQLAlchemy raises leaves it as a `StoreError`."""
    try:
        yield
    except exc.SQLAlchemyError as error:
        ours = to_store_error(error)
        if ours is None:
            raise
        raise ours from error


def to_store_error(error: exc.SQLAlchemyError) -> StoreError | None:
    """Return our error for one of SQLAlchemy's; None when it is a mistake of ours that must propagate."""
    match error:
        case exc.IntegrityError():
            return StoreConflict(f"the store refuses the row: {_first_line(error)}")
        case exc.DataError():
            return StoreCorrupt(f"the store cannot take or read the value: {_first_line(error)}")
        case exc.DBAPIError() if _is_busy(error):
            return StoreBusy("another writer held the store for longer than we wait; nothing was recorded")
        case exc.DBAPIError():
            return StoreUnavailable(f"the store does not answer: {_first_line(error)}")
        case exc.TimeoutError():
            return StoreBusy("no connection to the store became free in time; nothing was recorded")
        case exc.DisconnectionError():
            return StoreUnavailable("the connection to the store was lost")
        case exc.StatementError():
            return StoreCorrupt(f"a value of the store cannot be written: {_first_line(error)}")
        case _:
            return None


def _is_busy(error: exc.DBAPIError) -> bool:
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in _BUSY_SQLITE
    return getattr(error.orig, "sqlstate", None) in _BUSY_SQLSTATES


def _first_line(error: exc.StatementError) -> str:
    """Return what the driver said, without statement and parameters: those may be long."""
    return str(error.orig).strip().split("\n", 1)[0][:200]
