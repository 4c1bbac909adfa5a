"""Runs the probe script where the engine lives: a given interpreter, a running container, or a short-lived one of an image."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playbooks.messages import FieldValue
from playbooks.reading.fields import read
from workers.adapters.docker_facts import container_facts, image_facts
from workers.adapters.docker_gateway import DockerGateway, explanation
from workers.errors import ProbeFailed
from workers.ports import Facts

if TYPE_CHECKING:
    from docker import DockerClient

MARK = "BASELINE-PROBE "
LIMIT_S = 150
"""The probe's own parts are limited one by one; this is their sum with some air."""
LABEL_PROBE = "dev.baseline.probe"
"""On every short-lived container, with the worker that made it, so that a sweep finds what a killed worker left."""
_CONTROL_NODE = Path("/dev/nvidiactl")
_PROBE_COMMAND = ("python3", "-c")


class ProbeInsideReader:
    """The port `InsideReader`. docker None: only interpreters can be looked into."""

    def __init__(
        self,
        docker: DockerGateway | None,
        *,
        worker: str,
        has_gpus: Callable[[], bool] = _CONTROL_NODE.exists,
    ) -> None:
        self._docker = docker
        self._worker = worker
        self._has_gpus = has_gpus

    def in_python(self, python: str) -> Facts:
        """Return the facts of an interpreter on this host."""
        return self._run(python, "versions,nvml,cuda,torch", LIMIT_S)

    def packages(self, python: str) -> Facts:
        """Return the versions an interpreter has, without importing any of them."""
        return self._run(python, "versions", 20)

    def in_container(self, name: str) -> Facts:
        """Return the facts of a container: its inspection, and the probe's when it runs."""
        with self._gateway().client() as client:  # a daemon that hangs costs this one's time, not the probe's
            attributes = client.containers.get(name).attrs
            facts = container_facts(attributes, tag_image_id=_tag_points_to(client, attributes))
            image = client.images.get(attributes["Image"]).attrs
            facts |= image_facts(image, reference=attributes["Config"].get("Image", ""))
        if attributes["State"]["Status"] != "running":
            return facts
        with self._gateway().client(timeout_s=LIMIT_S) as client:
            container = client.containers.get(attributes["Id"])
            code, printed = container.exec_run([*_PROBE_COMMAND, probe_text()], stderr=False)
        out = printed.decode(errors="replace") if isinstance(printed, bytes) else ""
        return facts | self._parse(out, "", code or 0)

    def in_image(self, reference: str) -> Facts:
        """Return the facts of an image: its inspection, and the probe's in a short-lived container without network.

        On a node with GPUs the container asks for all of them; when the runtime cannot give them, that is a field, and the
        rest is read without.
        """
        with self._gateway().client() as client:
            attributes = client.images.get(reference).attrs
        facts = image_facts(attributes, reference=reference)
        with self._gateway().client(timeout_s=LIMIT_S) as client:
            if not self._has_gpus():
                return facts | self._short_lived(client, attributes["Id"], gpus=False)
            try:
                return facts | self._short_lived(client, attributes["Id"], gpus=True)
            except ProbeFailed as refused:
                facts["container.error"] = read(str(refused), "docker start with all GPUs")
            return facts | self._short_lived(client, attributes["Id"], gpus=False)

    def _short_lived(self, client: DockerClient, image: str, *, gpus: bool) -> Facts:
        """Run the probe in a container of its own, which is gone afterwards.

        Raises:
            ProbeFailed: it could not be created or started; the daemon's own text.
        """
        from docker.errors import APIError
        from docker.types import DeviceRequest

        container = None
        try:
            container = client.containers.create(
                image,
                entrypoint=list(_PROBE_COMMAND),
                command=[probe_text()],
                network_mode="none",
                labels={LABEL_PROBE: self._worker},
                device_requests=[DeviceRequest(count=-1, capabilities=[["gpu"]])] if gpus else [],
            )
            container.start()
            code = container.wait(timeout=LIMIT_S)["StatusCode"]
            out, err = container.logs(stdout=True, stderr=False), container.logs(stdout=False, stderr=True)
        except APIError as error:
            raise ProbeFailed(explanation(error)) from error
        finally:
            if container is not None:
                container.remove(force=True)
        return self._parse(out.decode(errors="replace"), err.decode(errors="replace"), code)

    def container_facts(self, inspection: dict[str, Any]) -> Facts:
        """Return the fields `container.*` of a `docker inspect`."""
        return container_facts(inspection)

    def image_facts(self, reference: str) -> Facts:
        """Return the fields `image.*` alone."""
        with self._gateway().client() as client:
            return image_facts(client.images.get(reference).attrs, reference=reference)

    def _gateway(self) -> DockerGateway:
        if self._docker is None:
            raise ProbeFailed("expected a container engine, found none on this node")
        return self._docker

    def _run(self, python: str, parts: str, limit_s: int) -> Facts:
        env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "BASELINE_", "VIRTUAL_ENV"))
        }
        try:
            done = subprocess.run(  # noqa: S603 - the policy lists the interpreter
                [str(Path(python).absolute()), "-c", probe_text()],
                capture_output=True,
                timeout=limit_s,
                check=False,
                env={**env, "BASELINE_PROBE_PARTS": parts},
                cwd="/",
            )
        except subprocess.TimeoutExpired as error:
            raise ProbeFailed(f"{python}: no answer within {limit_s} s") from error
        except OSError as error:
            raise ProbeFailed(f"{python}: {error.strerror}") from error
        return self._parse(done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"), done.returncode)

    @staticmethod
    def _parse(out: str, err: str, code: int) -> Facts:
        lines = [line for line in out.splitlines() if line.startswith(MARK)]
        if not lines:
            why = (err.strip().splitlines() or out.strip().splitlines() or [""])[-1][:300]
            return {"probe.static": read(code, "probe", detail=f"expected one line of facts, found none: {why}")}
        return {
            name: FieldValue.model_validate(field) for name, field in json.loads(lines[-1].removeprefix(MARK)).items()
        }


def _tag_points_to(client: DockerClient, attributes: dict[str, Any]) -> str | None:
    """Return the id that the container's image name stands for now; None when the name is an id, or stands for nothing."""
    from docker.errors import ImageNotFound

    name = str((attributes.get("Config") or {}).get("Image") or "")
    if not name or name.startswith("sha256:") or "@sha256:" in name:
        return None
    try:
        return str(client.images.get(name).attrs["Id"])
    except ImageNotFound:
        return None


def probe_text() -> str:
    """Return the probe script."""
    return (resources.files("workers.adapters") / "inside_probe.py").read_text(encoding="utf-8")
