"""How the worker's own processes end with each other: death of a parent, one worker per node."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
from pathlib import Path
from typing import TextIO

from workers.errors import InvalidNodeSettings

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent ends; end at once when it has ended already.

    An engine that this process starts is not affected: the request is not inherited.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def only_worker(home: Path, node: str) -> TextIO:
    """Take the lock of a node's folder for the life of this process; keep the returned file open.

    Raises:
        InvalidNodeSettings: another worker of this node runs from the same folder.
    """
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = (home / "worker.lock").open("a+", encoding="ascii")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        holder = lock.read().strip() or "unknown"
        lock.close()
        raise InvalidNodeSettings(f"expected no other worker of {node} on {home}, found process {holder}") from error
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock
