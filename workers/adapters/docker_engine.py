"""Engine adapter for containers, over the Docker SDK: GPUs, shared memory, read-only mounts, labels; never privileged.

A container is started by image id, so that a tag that moves in between changes nothing. What fails before the first log
line is read from the daemon's text or `State.Error`, and the dead container is removed.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from docker.errors import APIError, ImageNotFound, NotFound
from docker.models.containers import Container
from docker.types import DeviceRequest, LogConfig, Mount, Ulimit

from workers.adapters import process_table
from workers.adapters.docker_gateway import DockerGateway, explanation
from workers.adapters.inside_reader import LABEL_PROBE
from workers.errors import EngineUnavailable, ProbeFailed, StartFailed
from workers.ports import EngineRef, EngineState, LaunchSpec, RunningEngine

LABEL_JOB = "dev.baseline.job"
LABEL_INCIDENT = "dev.baseline.incident"
LABEL_WORKER = "dev.baseline.worker"
_GONE_WAIT_S = 10.0
_STATE_AGE_S = 0.25
_LOG_END_WAIT_S = 3.0
_LOG_FILE_SIZE = "64m"
_FOLLOW_S = 24 * 3600
"""Time-out of a silent log stream: longer than any stage may be silent, the watcher's limits decide."""


class DockerEngine:
    """Starts, finds and sweeps containers of one worker."""

    kind = "docker"

    def __init__(self, gateway: DockerGateway, *, worker: str) -> None:
        self._gateway = gateway
        self._worker = worker

    def start(self, spec: LaunchSpec, started: Callable[[EngineRef], None]) -> RunningEngine:
        """Start a container.

        Raises:
            StartFailed: no such image, or the daemon refused to create or start it.
            EngineUnavailable: the daemon does not answer.
        """
        if spec.image is None:
            raise StartFailed("expected an image to start, found none in the baseline")
        spec.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._gateway.client(timeout_s=60) as client:
            try:
                image = client.images.get(spec.image.reference)
            except ImageNotFound as error:
                raise StartFailed(f"image {spec.image.reference} is not on this node: {explanation(error)}") from error
            _check_same(spec, image.id or "", list(image.attrs.get("RepoDigests") or ()))
            try:
                container = client.containers.create(image.id or spec.image.reference, **self._options(spec))
            except APIError as error:
                raise StartFailed(explanation(error)) from error
            ref = EngineRef("docker", container.id or "", spec.job_id, str(spec.folder / "engine.log"), spec.port)
            started(ref)
            try:
                container.start()
            except APIError as error:
                container.reload()
                state = container.attrs["State"]
                container.remove(force=True)
                raise StartFailed(state.get("Error") or explanation(error), exit_code=state.get("ExitCode")) from error
        handle = DockerHandle(self._gateway, ref)
        handle.follow()
        return handle

    def find(self, ref: EngineRef) -> RunningEngine | None:
        """Return the container's handle when it still runs."""
        handle = DockerHandle(self._gateway, ref)
        return handle if handle.state().running else None

    def clear(self, ref: EngineRef) -> tuple[str, ...]:
        """Remove whatever is left of a container."""
        return DockerHandle(self._gateway, ref).stop(grace_s=1)

    def sweep(self, *, spare: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Remove every container of this worker whose job is not spared, and every short-lived one that a probe left."""
        ended: list[str] = []
        failed: list[str] = []
        with self._gateway.client(timeout_s=60) as client:
            for container in client.containers.list(all=True, filters={"label": f"{LABEL_WORKER}={self._worker}"}):
                job = container.labels.get(LABEL_JOB, "")
                if job in spare:
                    continue
                name = f"container {container.short_id} of job {job}"
                left = self.clear(EngineRef("docker", container.id or "", job, "", 0))
                (failed if left else ended).append(name)
            for container in client.containers.list(all=True, filters={"label": f"{LABEL_PROBE}={self._worker}"}):
                left = self.clear(EngineRef("docker", container.id or "", "", "", 0))
                (failed if left else ended).append(f"container {container.short_id} of a probe")
        return tuple(ended), tuple(failed)

    def _options(self, spec: LaunchSpec) -> dict[str, Any]:
        options = spec.container
        wanted: dict[str, Any] = {"device_ids": list(spec.gpus)} if spec.gpus else {"count": -1}
        gpus = DeviceRequest(**wanted, capabilities=[["gpu"]])
        found: dict[str, Any] = {
            "command": list(spec.argv),
            "environment": dict(spec.env),
            "labels": {LABEL_JOB: spec.job_id, LABEL_INCIDENT: spec.incident, LABEL_WORKER: self._worker},
            "mounts": [Mount(m.target, m.source, type="bind", read_only=m.read_only) for m in spec.mounts],
            "device_requests": [gpus] if spec.use_gpus else [],
            # without a bound the daemon keeps all that an engine prints in days of service; our own copy has the head
            "log_config": LogConfig(type="json-file", config={"max-size": _LOG_FILE_SIZE, "max-file": "2"}),
        }
        network = options.network_mode if options else None
        if network == "host":
            found["network_mode"] = "host"
        else:
            found["ports"] = {f"{spec.port}/tcp": ("127.0.0.1", spec.port)}
            found |= {"network_mode": network} if network else {}
        if options is not None:
            chosen = {
                "shm_size": options.shm_size_bytes,
                "ipc_mode": options.ipc_mode,
                "runtime": options.runtime,
                "mem_limit": options.memory_limit_bytes,
                "memswap_limit": options.memory_limit_bytes,
                "entrypoint": list(options.entrypoint) if options.entrypoint else None,
            }
            found |= {name: value for name, value in chosen.items() if value is not None}
            found["ulimits"] = [Ulimit(name=name, soft=value, hard=value) for name, value in options.ulimits.items()]
        return found


class DockerHandle:
    """A container by its id."""

    def __init__(self, gateway: DockerGateway, ref: EngineRef) -> None:
        self.ref = ref
        self._gateway = gateway
        self._follower: LogFollower | None = None
        self._seen: tuple[float, EngineState] | None = None

    def read(self) -> bytes:
        """Return what was logged since the last call; from the first call on the log is followed into the job's folder."""
        follower = self.follow()
        if self._seen is not None and not self._seen[1].running:
            follower.finish()
        return follower.take()

    def follow(self) -> LogFollower:
        """Begin to follow the log, once."""
        if self._follower is None:
            self._follower = LogFollower(self._gateway, self.ref)
        return self._follower

    def state(self) -> EngineState:
        """Return the container's state, at most a quarter of a second old; a container that is gone does not run."""
        now = time.monotonic()
        if self._seen is None or now - self._seen[0] >= _STATE_AGE_S:
            self._seen = (now, self._read_state())
        return self._seen[1]

    def _read_state(self) -> EngineState:
        try:
            with self._gateway.client() as client:
                state = client.containers.get(self.ref.id).attrs["State"]
        except ProbeFailed as error:
            return EngineState(running=False, error=str(error))
        running = bool(state.get("Running"))
        if not running and self._follower is not None:
            self._follower.finish()
        return EngineState(
            running=running,
            exit_code=None if running else int(state.get("ExitCode", 0)),
            oom_killed=None if running else bool(state.get("OOMKilled")),
            error=state.get("Error") or None,
        )

    def answers_on(self, port: int) -> bool | None:
        """Whether the container publishes the port, or on the host's network one of its processes listens there.

        None = its processes cannot be looked at from here.
        """
        with self._gateway.client() as client:
            container = client.containers.get(self.ref.id)
            if container.attrs["HostConfig"].get("NetworkMode") == "host":
                return _listens(container, port)
        bound = (container.attrs["NetworkSettings"].get("Ports") or {}).get(f"{port}/tcp") or []
        return any(row.get("HostPort") == str(port) for row in bound)

    def snapshot(self) -> str:
        """Return the container's processes."""
        try:
            with self._gateway.client() as client:
                top = client.containers.get(self.ref.id).top(ps_args="-eo pid,ppid,stat,time,args")
        except (EngineUnavailable, ProbeFailed) as error:
            return str(error)
        return "\n".join(" ".join(map(str, row))[:200] for row in [top["Titles"], *(top["Processes"] or ())])

    def stop(self, *, grace_s: float) -> tuple[str, ...]:
        """Stop and remove the container; verify that it is gone."""
        deadline = time.monotonic() + _GONE_WAIT_S
        why = ""
        while time.monotonic() < deadline:
            try:
                with self._gateway.client(timeout_s=max(5, int(grace_s) + 5)) as client:
                    container = client.containers.get(self.ref.id)
                    self._end(container, grace_s)
            except ProbeFailed:
                return ()
            except EngineUnavailable as error:
                why = str(error)
                time.sleep(0.2)
        return (f"{self.ref.what} ({why or 'still there'})",)

    def _end(self, container: Container, grace_s: float) -> None:
        with contextlib.suppress(NotFound):
            if container.attrs["State"].get("Running"):
                container.stop(timeout=max(1, round(grace_s)))
            if self._follower is not None:
                self._follower.finish()
            container.remove(force=True)


class LogFollower:
    """Follows a container's log, both streams merged, into a file and to whoever takes it."""

    def __init__(self, gateway: DockerGateway, ref: EngineRef) -> None:
        self._gateway = gateway
        self._ref = ref
        self._lock = threading.Lock()
        self._fresh = bytearray()
        self._thread = threading.Thread(target=self._run, name="container-log", daemon=True)
        self._thread.start()

    def take(self) -> bytes:
        """Return what came since the last call."""
        with self._lock:
            data = bytes(self._fresh)
            self._fresh.clear()
        return data

    def finish(self) -> None:
        """Wait for the rest of the log of a container that has ended."""
        self._thread.join(timeout=_LOG_END_WAIT_S)

    def _run(self) -> None:
        with (
            contextlib.suppress(EngineUnavailable, ProbeFailed),
            os.fdopen(os.open(self._ref.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as log,
            self._gateway.client(timeout_s=_FOLLOW_S) as client,
        ):
            container = client.containers.get(self._ref.id)
            with contextlib.closing(container.logs(stdout=True, stderr=True, stream=True, follow=True)) as stream:
                for chunk in stream:
                    log.write(chunk)
                    log.flush()
                    with self._lock:
                        self._fresh += chunk


def _listens(container: Container, port: int) -> bool | None:
    inodes = process_table.listening_inodes(port)
    if not inodes:
        return False
    try:
        listed = container.top(ps_args="-eo pid,args")
    except APIError:  # it has just ended
        return False
    pids = [int(row[0]) for row in listed["Processes"] or ()]
    if any(process_table.owns_socket(pid, inodes) for pid in pids):
        return True
    return False if any(process_table.environment(pid) for pid in pids) else None


def _check_same(spec: LaunchSpec, image_id: str, digests: list[str]) -> None:
    """Refuse an image that is not the one the baseline froze: the tag has moved since."""
    image = spec.image
    if image is None:
        return
    if image.image_id and image.image_id != image_id:
        raise StartFailed(f"image {image.reference}: expected id {image.image_id}, found {image_id}: the tag has moved")
    if image.digest and image.digest not in {digest.partition("@")[2] for digest in digests}:
        raise StartFailed(f"image {image.reference}: expected digest {image.digest}, found {digests or 'none'}")
