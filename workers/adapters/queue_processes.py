"""The queue processes: one process that has imported everything forks one Celery process per queue, and forks it again.

Importing takes seconds, forking none; the forking process never has a thread, so that a fork is safe at any time. The chain
worker → this process → queue process → Celery's pool ends from the top by the kernel's word, whatever ended it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

import structlog

from workers.adapters.lifetime import die_with_parent

WARM_S = 12.0
"""Time for running jobs to stop their engine and store their report."""
_RESTART_S = 1.0
_LOOK_S = 0.1

log = structlog.get_logger()


def start(queues: Sequence[str], take: Callable[[str], None]) -> int:
    """Fork the forking process; call it before this process has threads. Returns its pid.

    take: runs one queue until it is told to end; called in a process of its own.
    """
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(lambda: _Keeper(queues, take).run(), parent)
    return pid


def has_ended(pid: int) -> bool:
    """Whether the forking process, our child, has ended."""
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    return True


def end(pid: int, *, within_s: float) -> None:
    """Ask the forking process to end with its queue processes; kill it, and with it them, when it does not in time."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + within_s
        while not has_ended(pid):
            if time.monotonic() >= deadline:
                log.warning("queue processes did not end in time, killed", pid=pid)
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return
            time.sleep(_LOOK_S)


class _Keeper:
    def __init__(self, queues: Sequence[str], take: Callable[[str], None]) -> None:
        self._queues = queues
        self._take = take
        self._ended = False
        self._pids: dict[str, int] = {}
        self._not_before = dict.fromkeys(queues, 0.0)

    def run(self) -> None:
        signal.signal(signal.SIGTERM, self._on_signal)
        while not self._ended:
            self._reap()
            for queue in self._queues:
                if queue not in self._pids and time.monotonic() >= self._not_before[queue]:
                    self._fork(queue)
            time.sleep(_LOOK_S)
        self._end()

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._ended = True

    def _fork(self, queue: str) -> None:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _become(lambda: self._take(queue), parent)
        self._pids[queue] = pid

    def _reap(self) -> None:
        for queue, pid in list(self._pids.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                log.warning("queue process ended", queue=queue, code=os.waitstatus_to_exitcode(status))
                del self._pids[queue]
                self._not_before[queue] = time.monotonic() + _RESTART_S

    def _end(self) -> None:
        for pid in self._pids.values():
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + WARM_S
        while self._pids and time.monotonic() < deadline:
            self._reap()
            time.sleep(_LOOK_S)
        for queue, pid in self._pids.items():
            log.warning("queue process did not end in time, killed", queue=queue)
            os.killpg(pid, signal.SIGKILL)


def _become(work: Callable[[], None], parent: int) -> NoReturn:
    """Be a process of one's own in the fork: own session, default signals, and no way back into the caller's frames."""
    code = 1
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        die_with_parent(parent)
        work()
        code = 0
    except SystemExit as end_of_work:
        code = end_of_work.code if isinstance(end_of_work.code, int) else 1
    except Exception:  # outermost layer of this process
        log.exception("queue process failed")
    finally:
        os._exit(code)
