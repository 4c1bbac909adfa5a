"""Docker's answers as fingerprint fields, read from the daemon; what they mean is read by `playbooks.reading.docker_inspect`."""

from __future__ import annotations

import re
from typing import Any

from playbooks.reading import docker_inspect
from playbooks.reading.fields import read
from playbooks.vocabulary import FieldStatus
from workers.adapters.attempted import attempt, failed, output
from workers.adapters.docker_gateway import DockerGateway
from workers.errors import EngineUnavailable, ProbeFailed
from workers.ports import Facts


def docker_facts(gateway: DockerGateway) -> Facts:
    """Return `docker.*`; a dead daemon is one field that says so."""
    source = "docker info"
    if not gateway.is_there:
        return {"docker.version": failed(FieldStatus.ABSENT, source, "no docker socket on this node")}
    try:
        with gateway.client(timeout_s=2) as client:
            info: dict[str, Any] = client.info()
            listed = client.api.containers(all=True)
    except (EngineUnavailable, ProbeFailed) as error:
        status = FieldStatus.TIMEOUT if "timed out" in str(error) or "in time" in str(error) else FieldStatus.ERROR
        return {"docker.version": failed(status, source, error)}

    def containers() -> list[dict[str, Any]]:
        return [
            {
                "id": str(row.get("Id") or "")[:12],
                "name": row["Names"][0].lstrip("/") if row.get("Names") else "",
                "image": row.get("Image"),
                "state": row.get("State"),
            }
            for row in listed
        ]

    found = {name: value for name, value in docker_inspect.daemon_facts(info).items() if name.startswith("docker.")}
    return found | {
        "docker.toolkit_version": attempt("nvidia-ctk --version", _toolkit),
        "docker.containers": read(containers(), "docker ps -a"),
    }


def _toolkit() -> str | None:
    found = re.search(r"version (\S+)", output("nvidia-ctk", "--version", timeout_s=1))
    return found[1] if found else None


def image_facts(attributes: dict[str, Any], *, reference: str) -> Facts:
    """Return `image.*` from an image's inspection; reference: the name it was asked by."""
    facts = docker_inspect.image_facts(attributes)
    facts["image.reference"] = read(reference or None, "docker image inspect")
    if facts["image.digest"].value is None:
        facts["image.digest"] = read(None, "docker image inspect", detail="built or loaded locally")
    return facts


def container_facts(attributes: dict[str, Any], *, tag_image_id: str | None = None) -> Facts:
    """Return `container.*` from a container's inspection; tag_image_id: what its image name stands for now."""
    facts = docker_inspect.container_facts(attributes)
    if tag_image_id is not None:
        facts["image.tag_image_id"] = read(tag_image_id, "docker image inspect")
    return facts
