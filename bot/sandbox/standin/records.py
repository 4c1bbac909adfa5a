"""Keeps the stand-in's workspace on disk, so that a thread outlives a restart as it does in Slack.

JSON objects by kind and key in one SQLite file, written through. Only the stand-in's event loop uses it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from bot.sandbox.standin.table import Json


class Records:
    """JSON objects by kind and key, in the order they were first put."""

    def __init__(self, path: Path | None) -> None:
        """Open the file; None keeps everything in memory."""
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path or ":memory:", check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS record (n INTEGER PRIMARY KEY, kind TEXT NOT NULL, key TEXT NOT NULL, "
            "body TEXT NOT NULL, UNIQUE (kind, key))"
        )

    def put(self, kind: str, key: str, body: Json) -> None:
        """Store or replace one object."""
        self._db.execute(
            "INSERT INTO record (kind, key, body) VALUES (?, ?, ?) ON CONFLICT (kind, key) DO UPDATE SET body = excluded.body",
            (kind, key, json.dumps(body, ensure_ascii=False)),
        )

    def drop(self, kind: str, key: str) -> None:
        """Remove one object, if it is there."""
        self._db.execute("DELETE FROM record WHERE kind = ? AND key = ?", (kind, key))

    def all(self, kind: str) -> Iterator[tuple[str, Json]]:
        """Yield the kind's objects, oldest first."""
        for key, body in self._db.execute("SELECT key, body FROM record WHERE kind = ? ORDER BY n", (kind,)).fetchall():
            yield key, json.loads(body)

    def close(self) -> None:
        """Close the file."""
        self._db.close()
