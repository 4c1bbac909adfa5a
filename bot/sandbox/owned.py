"""Processes that belong to one sandbox: started with a record, ended with their children, found again after a crash.

A record names process id and start time, so that a process id that was given to somebody else is never touched.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

_KILLED_WITHIN_S = 3.0


class Owned:
    """One process, its record and its log."""

    def __init__(self, name: str, *, run_dir: Path, log_dir: Path) -> None:
        self.name = name
        self.log = log_dir / f"{name}.log"
        self._record = run_dir / f"{name}.json"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: Sequence[str], env: Mapping[str, str], *, tether: bool = True) -> None:
        """Start the command in a session of its own; what it prints goes to its log."""
        self._record.parent.mkdir(parents=True, exist_ok=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        words = [sys.executable, "-m", "bot.sandbox.tethered", str(os.getpid()), *command] if tether else list(command)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own programs
                words, env=dict(env), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        with suppress(psutil.Error):
            started = psutil.Process(self._process.pid).create_time()
            self._record.write_text(json.dumps({"pid": self._process.pid, "started": started}))

    @property
    def is_running(self) -> bool:
        """Whether it was started here and still runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs or before it was started."""
        return None if self._process is None else self._process.poll()

    def end(self, *, within_s: float) -> None:
        """Ask it to end, wait, and end it with all its children when it does not."""
        if self._process is not None:
            _end(self._process.pid, within_s)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_KILLED_WITHIN_S)
        self._process = None
        self._record.unlink(missing_ok=True)

    def end_leftover(self, *, within_s: float) -> bool:
        """End what an earlier sandbox left running under this name; whether there was something."""
        pid = self._recorded()
        if pid is not None:
            _end(pid, within_s)
        self._record.unlink(missing_ok=True)
        return pid is not None

    def _recorded(self) -> int | None:
        """Return the recorded process if it is still that process."""
        try:
            record = json.loads(self._record.read_text())
            process = psutil.Process(int(record["pid"]))
            return process.pid if abs(process.create_time() - float(record["started"])) < 1 else None
        except (OSError, ValueError, KeyError, TypeError, psutil.Error):
            return None

    def last_words(self, lines: int = 3) -> str:
        """Return the end of its log."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, self.log.stat().st_size - 4000))
                return "\n".join(log.read().decode(errors="replace").strip().splitlines()[-lines:])
        except OSError:
            return ""


def _end(pid: int, within_s: float) -> None:
    """End a process and its children: politely, then not."""
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
        root.terminate()
    except psutil.NoSuchProcess:
        return
    _, alive = psutil.wait_procs([root], timeout=within_s)
    if alive:
        with suppress(psutil.NoSuchProcess):
            family += root.children(recursive=True)
    for one in family:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    psutil.wait_procs(family, timeout=_KILLED_WITHIN_S)
