"""Where the log of a launch that others start comes from: a command run here, standard input, or a container that is already there.

A command is run as it was given, with its output passed on as it comes; a signal for us is a signal for it. A container is
only read.
"""

from __future__ import annotations

import contextlib
import os
import queue
import selectors
import signal
import subprocess
import sys
import threading
import time
from types import FrameType
from typing import IO, TYPE_CHECKING, Protocol, cast

from workers.errors import JobError, UnusableRequest

if TYPE_CHECKING:
    from workers.adapters.docker_gateway import DockerGateway

_CHUNK = 64 * 1024
_ORPHANS_QUIET_S = 2.0
"""After the command ended, its children may hold the pipe: so long without a byte is the end."""
_SIGNAL_BASE = 128


class Source(Protocol):
    """A log while it is written."""

    def read(self, timeout_s: float) -> bytes | None:
        """Return what came, b"" when nothing did in time, None at the end."""
        ...

    def ending(self) -> tuple[int | None, bool | None]:
        """Return the exit code (128 + number for a signal) and whether the runtime says OOM-killed; None = not known."""
        ...

    def close(self) -> None:
        """Give back what was taken."""
        ...


class CommandSource:
    """A command as a child of ours, both streams merged in the order they were written."""

    def __init__(self, command: tuple[str, ...]) -> None:
        try:
            self._child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0)  # noqa: S603 - the user's own command
        except OSError as error:
            raise UnusableRequest(f"cannot start {command[0]}: {error.strerror or error}") from error
        self._pipe = cast("IO[bytes]", self._child.stdout)
        self._stream = _Stream(self._pipe.fileno())
        self._last = time.monotonic()
        names = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
        self._before = {name: signal.signal(name, self._pass_on) for name in names}

    def read(self, timeout_s: float) -> bytes | None:
        """Return what the command wrote."""
        data = self._stream.read(timeout_s)
        now = time.monotonic()
        if data:
            self._last = now
        elif data is None or (self._child.poll() is not None and now - self._last >= _ORPHANS_QUIET_S):
            return None
        return data

    def ending(self) -> tuple[int | None, bool | None]:
        """Wait for the command and return how it ended."""
        code = self._child.wait()
        return (_SIGNAL_BASE - code if code < 0 else code), None

    def close(self) -> None:
        """Give the signals back."""
        for name, handler in self._before.items():
            signal.signal(name, handler)
        self._pipe.close()

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT and sys.stdin.isatty():
            return  # the terminal has sent it to the command too
        with contextlib.suppress(ProcessLookupError):
            self._child.send_signal(number)


class StdinSource:
    """Standard input, as in `kubectl logs -f … | baseline watch -`."""

    def __init__(self) -> None:
        self._stream = _Stream(sys.stdin.fileno())

    def read(self, timeout_s: float) -> bytes | None:
        """Return what came through the pipe."""
        return self._stream.read(timeout_s)

    def ending(self) -> tuple[int | None, bool | None]:
        """A pipe does not tell how its writer's writer ended."""
        return None, None

    def close(self) -> None:
        """Nothing to give back."""


class ContainerSource:
    """A container that is already there, running or dead: its log from the beginning, then its state. Read only."""

    def __init__(self, gateway: DockerGateway, name: str) -> None:
        """Begin to follow.

        Raises:
            ProbeFailed: there is no such container.
            EngineUnavailable: the daemon does not answer.
        """
        self._gateway = gateway
        with gateway.client() as client:
            self._id = client.containers.get(name).id or name
        self._came: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(target=self._follow, name="container-log", daemon=True).start()

    def read(self, timeout_s: float) -> bytes | None:
        """Return what the container logged."""
        try:
            return self._came.get(timeout=timeout_s)
        except queue.Empty:
            return b""

    def ending(self) -> tuple[int | None, bool | None]:
        """Return the container's exit code and OOM flag; nothing when it still runs or is gone."""
        try:
            with self._gateway.client() as client:
                state = client.containers.get(self._id).attrs["State"]
        except JobError:
            return None, None
        if state.get("Running"):
            return None, None
        return int(state.get("ExitCode", 0)), bool(state.get("OOMKilled"))

    def close(self) -> None:
        """The follower ends with this process."""

    def _follow(self) -> None:
        with contextlib.suppress(JobError), self._gateway.client(timeout_s=24 * 3600) as client:
            container = client.containers.get(self._id)
            with contextlib.closing(container.logs(stdout=True, stderr=True, stream=True, follow=True)) as stream:
                for chunk in stream:
                    self._came.put(chunk)
        self._came.put(None)


class _Stream:
    """A file descriptor that is read as bytes come."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._ready: selectors.BaseSelector | None = selectors.DefaultSelector()
        try:
            self._ready.register(descriptor, selectors.EVENT_READ)
        except PermissionError:  # a plain file is always ready
            self._ready = None

    def read(self, timeout_s: float) -> bytes | None:
        """Return bytes, b"" after the time without any, None at the end."""
        if self._ready is not None and not self._ready.select(timeout_s):
            return b""
        return os.read(self._descriptor, _CHUNK) or None
