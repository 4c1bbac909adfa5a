"""One queue of a node's worker: `python -m workers NODE QUEUE PARENT`, started by the supervisor, ends with it."""

from __future__ import annotations

import os
import sys
from typing import Any

from celery.signals import worker_process_init

from workers.adapters.lifetime import die_with_parent
from workers.app import celery_app, run_on, wire


def main(node: str, queue: str, parent: int) -> None:
    """Take jobs from one queue, one at a time, until told to end."""
    die_with_parent(parent)
    wired = wire(node)
    main_pid = os.getpid()

    def started(**_: Any) -> None:
        die_with_parent(main_pid)

    worker_process_init.connect(started, weak=False)
    app = celery_app(wired.settings.broker_url.get_secret_value(), run_on(wired), folder=wired.deps.home)
    app.worker_main(
        [
            "worker",
            f"--queues={queue}",
            f"--hostname={queue}@%h",
            "--concurrency=1",
            "--pool=prefork",
            "--loglevel=WARNING",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
        ]
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
