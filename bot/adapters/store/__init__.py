"""The incident store over SQLAlchemy: SQLite by default, PostgreSQL for teams.

State, evidence entries and outbox rows of one `write()` block are one transaction. `bot.ports` says what it can do.
"""

from bot.adapters.store.migrate import migrate
from bot.adapters.store.store import SqlStore, open_store

__all__ = ["SqlStore", "migrate", "open_store"]
