"""The worker's main process: the queue processes as its descendants, and the duties beside them.

The end of this process ends them too, whatever ended it. When the queue processes are lost as a whole, it asks to be
started anew, for a process with threads does not fork.
"""

from __future__ import annotations

import signal
import threading
from enum import StrEnum

import structlog

from workers.adapters import process_table, queue_processes
from workers.jobs.deps import Deps
from workers.jobs.duties import Duties

_LOOK_S = 0.5
_AIR_S = 3.0

log = structlog.get_logger()


class Ended(StrEnum):
    """Why a worker ended."""

    ASKED = "asked"
    """By a signal, or with its parent."""
    START_AGAIN = "start again"


class Supervisor:
    """Runs a node's worker until it is told to end.

    queues: pid of the process that keeps the queue processes, our child.
    parent: end, with all engines, when this process ends; None = nobody's child.
    """

    def __init__(self, deps: Deps, *, queues: int, parent: int | None = None, stop_held: bool = False) -> None:
        self._deps = deps
        self._queues = queues
        self._parent = process_table.identity(parent) if parent is not None else None
        self._stop_held = stop_held or parent is not None
        self._ended = threading.Event()

    def run(self) -> Ended:
        """Run; returns after everything of the worker has ended. Call it in the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        duties = Duties(self._deps)
        duties.start()
        log.info("worker started", node=self._deps.node)
        why = Ended.ASKED
        try:
            while not self._ended.wait(_LOOK_S):
                if queue_processes.has_ended(self._queues):
                    log.warning("queue processes are gone, starting anew")
                    why = Ended.START_AGAIN
                    break
                if self._parent is not None and not process_table.is_alive(self._parent):
                    log.info("parent has ended", parent=self._parent)
                    break
        finally:
            if why is Ended.ASKED:
                self._call_off()
                queue_processes.end(self._queues, within_s=queue_processes.WARM_S + _AIR_S)
            duties.close(stop_held=self._stop_held and why is Ended.ASKED)
            log.info("worker ended", node=self._deps.node, why=why.value)
        return why

    def _on_signal(self, number: int, _frame: object) -> None:
        log.info("asked to end", signal=signal.Signals(number).name)
        self._ended.set()

    def _call_off(self) -> None:
        for row in self._deps.journal.running():
            self._deps.journal.want_stop(row.request.job_id, by="the worker's own end")
