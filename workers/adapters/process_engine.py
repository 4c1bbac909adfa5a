"""Engine adapter for a vLLM in a virtual environment: a session of its own that survives the worker.

Standard output and error go to one file that the worker reads as it grows. Everything that belongs to an engine is found
by the marker in its environment, by its session, or by descent - not by a pid alone - and is verified gone after a stop.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from workers.adapters import process_table as table
from workers.errors import StartFailed
from workers.ports import EngineRef, EngineState, LaunchSpec, RunningEngine

MARKER_JOB = "BASELINE_JOB"
MARKER_INCIDENT = "BASELINE_INCIDENT"
MARKER_WORKER = "BASELINE_WORKER"
_KILL_WAIT_S = 5.0
_POLL_S = 0.05
_INHERITED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "XDG_CACHE_HOME")
# Signals ignored by the worker's pool would stay ignored in the engine, and it would behave unlike one started by hand.
_SHIM = """
import os, signal, sys
for number in signal.valid_signals():
    try: signal.signal(number, signal.SIG_DFL)
    except (OSError, ValueError): pass
signal.pthread_sigmask(signal.SIG_SETMASK, ())
try: os.execv(sys.argv[1], sys.argv[1:])
except OSError as error:
    print(f"cannot start {sys.argv[1]}: {error.strerror}", file=sys.stderr, flush=True)
    os._exit(127)
"""
_children: dict[str, subprocess.Popen[bytes]] = {}
"""Engines that this very process started, by identity: only their parent can read an exit code, and reap them."""


class ProcessEngine:
    """Starts, finds and sweeps engine processes of one worker.

    worker: the journal's instance; another worker's processes are left alone.
    """

    kind = "process"

    def __init__(self, *, worker: str) -> None:
        self._worker = worker

    def start(self, spec: LaunchSpec, started: Callable[[EngineRef], None]) -> RunningEngine:
        """Start an engine in a session of its own.

        Raises:
            StartFailed: there is no such executable, or the system refused to start it.
        """
        if shutil.which(spec.argv[0]) is None:
            raise StartFailed(f"cannot start {spec.argv[0]}: expected an executable file, found none", exit_code=127)
        spec.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        log = spec.folder / "engine.log"
        work = spec.folder / "cwd"
        work.mkdir(exist_ok=True)
        try:
            with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as out:
                child = subprocess.Popen(  # noqa: S603 - the policy fixed the executable; no shell
                    [sys.executable, "-I", "-S", "-c", _SHIM, *spec.argv],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    cwd=work,
                    env=self._environment(spec),
                    start_new_session=True,
                )
        except OSError as error:
            raise StartFailed(f"cannot start {spec.argv[0]}: {error.strerror}") from error
        ref = EngineRef("process", table.identity(child.pid), spec.job_id, str(log), spec.port, self._worker)
        _children[ref.id] = child
        started(ref)
        return ProcessHandle(ref)

    def find(self, ref: EngineRef) -> RunningEngine | None:
        """Return the engine when its first process still runs and carries the marker."""
        handle = ProcessHandle(ref)
        return handle if handle.state().running else None

    def clear(self, ref: EngineRef) -> tuple[str, ...]:
        """End whatever is left of an engine, also when its first process is gone."""
        return ProcessHandle(ref).stop(grace_s=1)

    def sweep(self, *, spare: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """End every process that carries this worker's marker and a job that is not spared."""
        ours: dict[str, list[table.Process]] = {}
        for found in table.processes():
            marks = table.environment(found.pid)
            if marks.get(MARKER_WORKER) == self._worker and (job := marks.get(MARKER_JOB)) and job not in spare:
                ours.setdefault(job, []).append(found)
        ended: list[str] = []
        failed: list[str] = []
        for job, members in ours.items():
            leader = min(members, key=lambda member: member.ticks)
            left = ProcessHandle(EngineRef("process", table.identity(leader.pid), job, "", 0, self._worker)).stop(
                grace_s=1
            )
            names = [f"process {member.pid} {member.name} of job {job}" for member in members]
            (failed if left else ended).extend(left or names)
        return tuple(ended), tuple(failed)

    def _environment(self, spec: LaunchSpec) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        bin_folder = str(Path(spec.argv[0]).parent)
        return {
            **inherited,
            "PATH": f"{bin_folder}:{inherited.get('PATH', '/usr/local/bin:/usr/bin:/bin')}",
            **spec.env,
            **(
                {"CUDA_VISIBLE_DEVICES": ",".join(spec.gpus)}
                if spec.gpus and "CUDA_VISIBLE_DEVICES" not in spec.env
                else {}
            ),
            # setproctitle would overwrite the environment block, and with it the marker
            "SPT_NOENV": "1",
            MARKER_JOB: spec.job_id,
            MARKER_INCIDENT: spec.incident,
            MARKER_WORKER: self._worker,
        }


class ProcessHandle:
    """An engine process. When an earlier worker started it, no exit code can be read."""

    def __init__(self, ref: EngineRef) -> None:
        self.ref = ref
        self._child = _children.get(ref.id)
        self._offset = 0
        self._known: dict[int, int] = {}

    def read(self) -> bytes:
        """Return what was logged since the last call."""
        try:
            with Path(self.ref.log).open("rb") as log:
                log.seek(self._offset)
                data = log.read(1 << 20)
        except OSError:
            return b""
        self._offset += len(data)
        return data

    def state(self) -> EngineState:
        """Return the state of the first process."""
        if self._child is None:
            return EngineState(running=table.is_alive(self.ref.id))
        code = self._child.poll()
        if code is None:
            return EngineState(running=True)
        _children.pop(self.ref.id, None)
        return EngineState(running=False, exit_code=code if code >= 0 else None, signal=-code if code < 0 else None)

    def answers_on(self, port: int) -> bool | None:
        """Whether one of this engine's processes has the listening socket."""
        inodes = table.listening_inodes(port)
        return any(table.owns_socket(member.pid, inodes) for member in self.members())

    def members(self) -> list[table.Process]:
        """Return the living processes of this engine: by marker, session, or descent from one of them."""
        _, leader_text, leader_ticks = self.ref.id.split(":")
        leader = int(leader_text)
        rows = list(table.processes())
        by_pid = {row.pid: row for row in rows}
        taken_over = leader in by_pid and by_pid[leader].ticks != int(leader_ticks)
        found: dict[int, table.Process] = {}
        for row in rows:
            in_session = row.session == leader and not taken_over
            known = self._known.get(row.pid) == row.ticks
            if in_session or known or self._is_marked(row.pid):
                found[row.pid] = row
        grown = True
        while grown:
            children = {row.pid: row for row in rows if row.parent in found and row.pid not in found}
            found |= children
            grown = bool(children)
        found.pop(os.getpid(), None)
        self._known |= {row.pid: row.ticks for row in found.values()}
        return list(found.values())

    def _is_marked(self, pid: int) -> bool:
        marks = table.environment(pid)
        ours = not self.ref.worker or marks.get(MARKER_WORKER) == self.ref.worker
        return ours and marks.get(MARKER_JOB) == self.ref.job_id

    def snapshot(self) -> str:
        """Return processes with state and CPU, and stacks when py-spy is on the path."""
        members = self.members()
        ticks = os.sysconf("SC_CLK_TCK")
        lines = [
            f"pid {row.pid} parent {row.parent} state {row.state} cpu {row.cpu_ticks // ticks} s {row.name}: "
            f"{table.command_line(row.pid)[:200]}"
            for row in sorted(members, key=lambda member: member.ticks)
        ]
        spy = shutil.which("py-spy")
        for row in members if spy else ():
            lines.append(f"--- stack of {row.pid} {row.name}")
            lines.append(_output([str(spy), "dump", "--nonblocking", "--pid", str(row.pid)]))
        return "\n".join(lines)

    def stop(self, *, grace_s: float) -> tuple[str, ...]:
        """End the whole engine: a polite signal to its first process, then SIGKILL to all of it; verify."""
        members = self.members()
        if self.state().running:
            _send(int(self.ref.id.split(":")[1]), signal.SIGTERM)
            self._wait_gone(grace_s)
        deadline = time.monotonic() + _KILL_WAIT_S
        while (members := self.members()) and time.monotonic() < deadline:
            for row in members:
                _send(row.pid, signal.SIGKILL)
            self._wait_gone(0.2)
        if self._child is not None and not members:
            self._child.wait()
            _children.pop(self.ref.id, None)
        return tuple(f"process {row.pid} {row.name} (state {row.state})" for row in members)

    def _wait_gone(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self._child is not None:
                self._child.poll()
            if not self.members():
                return
            time.sleep(_POLL_S)


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _output(argv: list[str]) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=5, check=False)  # noqa: S603 - fixed argv
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"({type(error).__name__})"
    return done.stdout[-8000:] or done.stderr[-500:]
