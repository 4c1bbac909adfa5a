"""The scene as it stands, read-only: what the daemon, the kernel and a container say before anybody restarts anything."""

from __future__ import annotations

import contextlib
import json
import platform
import subprocess
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from workers.adapters.attempted import output
from workers.adapters.docker_gateway import DockerGateway
from workers.adapters.kernel_log import kernel_lines
from workers.errors import EngineUnavailable, ProbeFailed
from workers.ports import Scene

_KERNEL_LINES = 2000
_HEAD_BYTES = _TAIL_BYTES = 32 << 20
"""Of a longer log the middle is left out, and said to be."""
_LOG_SILENCE_S = 20


class LiveSceneReader:
    """The port `SceneReader` over the Docker SDK and the host's own tools."""

    def __init__(self, docker: DockerGateway | None) -> None:
        self._docker = docker

    def host(self) -> Sequence[Scene]:
        """Return what the host says."""
        return [
            _scene("docker-info", self._info, "docker-info.json", "application/json"),
            _scene("docker-ps", self._containers, "docker-ps.json", "application/json"),
            _scene("uname", lambda: " ".join(platform.uname()), "uname.txt"),
            _scene("clock", _clock, "clock.txt"),
            _scene("nvidia-smi", lambda: output("nvidia-smi", timeout_s=20), "nvidia-smi.txt"),
            _scene("nvidia-smi-q", lambda: output("nvidia-smi", "-q", timeout_s=30), "nvidia-smi-q.txt"),
            _scene("kernel-log", lambda: "\n".join(kernel_lines(most=_KERNEL_LINES)), "kernel-log.txt"),
        ]

    def container(self, name: str) -> tuple[Sequence[Scene], dict[str, Any] | None]:
        """Return inspection, image inspection and the full log of a container, running or dead."""
        inspected: dict[str, Any] = {}

        def inspect() -> str:
            with self._gateway().client() as client:
                inspected.update(client.containers.get(name).attrs)
            return json.dumps(inspected, indent=1)

        def image() -> str:
            if not inspected:
                raise ProbeFailed("the container was not found")
            with self._gateway().client() as client:
                return json.dumps(client.images.get(inspected["Image"]).attrs, indent=1)

        def log() -> bytes:
            if not inspected:
                raise ProbeFailed("the container was not found")
            return self._log(name, timestamps=True)

        def plain_log() -> bytes:
            return self._log(name, timestamps=False)

        scenes = [
            _scene("inspect", inspect, "docker-inspect.json", "application/json"),
            _scene("image-inspect", image, "docker-image-inspect.json", "application/json"),
            _scene("log-timed", log, "container-timed.log"),
            _scene("log", plain_log if inspected else log, "container.log"),
        ]
        return scenes, inspected or None

    def _log(self, name: str, *, timestamps: bool) -> bytes:
        with self._gateway().client(timeout_s=_LOG_SILENCE_S) as client:
            stream = client.containers.get(name).logs(
                stdout=True, stderr=True, timestamps=timestamps, stream=True, follow=False
            )
            with contextlib.closing(stream):
                return _head_and_tail(stream)

    def _gateway(self) -> DockerGateway:
        if self._docker is None:
            raise ProbeFailed("expected a container engine, found none on this node")
        return self._docker

    def _info(self) -> str:
        with self._gateway().client() as client:
            return json.dumps(client.info(), indent=1)

    def _containers(self) -> str:
        with self._gateway().client() as client:
            return json.dumps(client.api.containers(all=True), indent=1)


def _head_and_tail(stream: Iterable[bytes]) -> bytes:
    """Return a log, of a long one its beginning and its end, cut at lines, with a line that says what is missing."""
    head, tail = bytearray(), bytearray()
    total = 0
    for chunk in stream:
        total += len(chunk)
        room = max(0, _HEAD_BYTES - len(head)) if not tail else 0
        head += chunk[:room]
        tail += chunk[room:]
        if len(tail) > 2 * _TAIL_BYTES:
            del tail[:-_TAIL_BYTES]
    if total <= _HEAD_BYTES + _TAIL_BYTES:
        return bytes(head + tail)
    first = bytes(head[: head.rfind(b"\n") + 1])
    last = bytes(tail[-_TAIL_BYTES:]).partition(b"\n")[2]
    return b"%b[baseline: %d bytes left out here]\n%b" % (first, total - len(first) - len(last), last)


def _clock() -> str:
    now = datetime.now(UTC)
    return f"{now.isoformat()}\n{now.astimezone().isoformat()} local"


def _why(error: Exception) -> str:
    """Say in words why something could not be read, without Python's own notation."""
    match error:
        case FileNotFoundError(filename=str(name)):
            return f"no {name} here"
        case OSError(strerror=str(reason), filename=str(name)):
            return f"{name}: {reason.lower()}"
        case subprocess.TimeoutExpired(cmd=(str(program), *_), timeout=limit_s):
            return f"{program} did not answer within {limit_s:g} s"
        case _:
            return str(error)


def _scene(role: str, call: Callable[[], str | bytes], name: str, media_type: str = "text/plain") -> Scene:
    try:
        text = call()
    except (OSError, subprocess.TimeoutExpired, EngineUnavailable, ProbeFailed) as error:
        return Scene(role, None, why=_why(error)[:300], name=name, media_type=media_type)
    data = text.encode(errors="replace") if isinstance(text, str) else text
    if not data:
        return Scene(role, None, why="empty", name=name, media_type=media_type)
    return Scene(role, data, name=name, media_type=media_type)
