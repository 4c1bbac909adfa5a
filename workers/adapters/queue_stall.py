"""Notices that a queue process takes nothing from a queue that holds jobs, and ends it, so that it is forked anew.

After the broker was gone for some seconds Celery's consumer over Redis sometimes comes back connected and deaf: no error, no
job, for ever (seen when the broker is killed between two jobs). Whoever waits for the job sees only that nothing happens.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import redis
import structlog

from workers.adapters import process_table
from workers.journal import Journal

LOOK_S = 4.0
PATIENCE = 4
"""So many looks in a row, 16 s: a healthy consumer takes a job within a second, and an interrupted one reconnects in 2 to 6 s."""

log = structlog.get_logger()


@dataclass(slots=True)
class Stall:
    """Counts looks at which jobs waited and none ran."""

    waiting: Callable[[], int | None]
    """Jobs in the queue; None = the broker does not answer."""
    busy: Callable[[], bool]
    seen: int = 0

    def look(self) -> bool:
        """Look once; True when the consumer is deaf."""
        waiting = self.waiting()
        self.seen = self.seen + 1 if waiting and not self.busy() else 0
        return self.seen >= PATIENCE


def watch(broker_url: str, queue: str, journal: Journal) -> None:
    """Watch this process's queue in a thread; ends the process when it is deaf and runs no job."""
    main = os.getpid()

    def waiting() -> int | None:
        with (
            contextlib.suppress(redis.RedisError),
            contextlib.closing(redis.Redis.from_url(broker_url, socket_timeout=2, socket_connect_timeout=2)) as client,
        ):
            return int(client.llen(queue))
        return None

    def busy() -> bool:
        return any(_parent_of(row.owner) == main for row in journal.running())

    def run() -> None:
        stall = Stall(waiting, busy)
        while True:
            time.sleep(LOOK_S)
            if stall.look():
                log.warning("queue process takes no jobs though some wait, ended and started anew", queue=queue)
                os.kill(main, signal.SIGKILL)

    threading.Thread(target=run, name="queue-stall", daemon=True).start()


def _parent_of(owner: str) -> int | None:
    found = process_table.process(int(owner.split(":")[1])) if process_table.is_alive(owner) else None
    return found.parent if found is not None else None
