"""Tells open pages what changed: one queue per page, filtered by who may read it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from bot.sandbox.standin.table import Json

QUEUE_MOST = 2000


class Feed:
    """Live changes for pages."""

    def __init__(self) -> None:
        self._readers: dict[asyncio.Queue[Json | None], str] = {}
        self._life = secrets.token_hex(4)
        self._count = 0

    def mark(self) -> Json:
        """Say how far the feed is: `count` of changes so far, in this `life` of the process.

        What a page loads and what it hears meet by it: a change between the two is loaded, not lost.
        """
        return {"life": self._life, "count": self._count}

    def publish(self, item: Json, *, readers: Collection[str] | None = None) -> None:
        """Tell the pages of these users (None: all)."""
        self._count += 1
        item = {**item, "count": self._count}
        for queue, user in list(self._readers.items()):
            if readers is not None and user not in readers:
                continue
            if queue.full():
                # A page that does not read is told to load anew instead of growing without bound.
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait({"kind": "reload", "count": self._count})
            else:
                queue.put_nowait(item)

    @contextmanager
    def reading(self, user: str) -> Iterator[asyncio.Queue[Json | None]]:
        """Hold a queue for one page; None in it means the sandbox ends."""
        queue: asyncio.Queue[Json | None] = asyncio.Queue(QUEUE_MOST)
        self._readers[queue] = user
        try:
            yield queue
        finally:
            del self._readers[queue]

    def close(self) -> None:
        """End all pages' streams."""
        for queue in self._readers:
            while queue.full():
                queue.get_nowait()
            queue.put_nowait(None)
