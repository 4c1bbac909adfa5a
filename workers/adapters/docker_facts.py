"""Docker's answers as fingerprint fields: daemon, image, container. Reads only."""

from __future__ import annotations

import re
from typing import Any

from playbooks.messages import FieldValue
from playbooks.reading.fields import read
from playbooks.vocabulary import FieldStatus
from workers.adapters.attempted import attempt, failed, output
from workers.adapters.docker_gateway import DockerGateway
from workers.errors import EngineUnavailable, ProbeFailed
from workers.ports import Facts

_IMAGE_ENV = re.compile(r"(CUDA_|NVIDIA_|VLLM_|NCCL_|TORCH_|LD_LIBRARY_PATH|PYTHONPATH|PATH$)")


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

    discovered = info.get("DiscoveredDevices") or []
    return {
        "docker.version": read(info.get("ServerVersion"), source),
        "docker.runtimes": read(sorted(info.get("Runtimes") or {}), source),
        "docker.default_runtime": read(info.get("DefaultRuntime"), source),
        "docker.cdi_dirs": read(info.get("CDISpecDirs"), source),
        "docker.cdi_devices": read(sorted(device.get("ID", "") for device in discovered) or None, source),
        "docker.cgroup_version": read(int(info["CgroupVersion"]) if info.get("CgroupVersion") else None, source),
        "docker.cgroup_driver": read(info.get("CgroupDriver"), source),
        "docker.live_restore": read(info.get("LiveRestoreEnabled"), source),
        "docker.toolkit_version": attempt("nvidia-ctk --version", _toolkit),
        "docker.containers": read(containers(), "docker ps -a"),
    }


def _toolkit() -> str | None:
    found = re.search(r"version (\S+)", output("nvidia-ctk", "--version", timeout_s=1))
    return found[1] if found else None


def image_facts(attributes: dict[str, Any], *, reference: str) -> Facts:
    """Return `image.*` from an image's inspection."""
    source = "docker image inspect"
    config = attributes.get("Config") or {}
    env = dict(part.split("=", 1) for part in config.get("Env") or () if "=" in part)
    digests = sorted(attributes.get("RepoDigests") or ())
    facts = {
        "image.reference": read(reference, source),
        "image.id": read(attributes.get("Id"), source),
        "image.tags": read(sorted(attributes.get("RepoTags") or ()), source),
        "image.digest": read(
            digests[0].partition("@")[2] if digests else None,
            source,
            detail="" if digests else "built or loaded locally",
        ),
        "image.digests": read(digests or None, source),
        "image.created": read(attributes.get("Created"), source),
        "image.architecture": read(attributes.get("Architecture"), source),
        "image.size_bytes": read(attributes.get("Size"), source, unit="bytes"),
        "image.require_cuda": read(env.get("NVIDIA_REQUIRE_CUDA"), source),
        "image.disable_require": read(env.get("NVIDIA_DISABLE_REQUIRE"), source),
        "image.entrypoint": read(config.get("Entrypoint"), source),
        "image.cmd": read(config.get("Cmd"), source),
    }
    facts |= {f"image.env.{name}": read(value, source) for name, value in sorted(env.items()) if _IMAGE_ENV.match(name)}
    return facts | {
        f"image.labels.{name}": read(value, source) for name, value in sorted((config.get("Labels") or {}).items())
    }


def container_facts(attributes: dict[str, Any], *, tag_image_id: str | None = None) -> Facts:
    """Return `container.*` from a container's inspection."""
    source = "docker inspect"
    state, host = attributes.get("State") or {}, attributes.get("HostConfig") or {}
    config = attributes.get("Config") or {}
    env = dict(part.split("=", 1) for part in config.get("Env") or () if "=" in part)
    requests = [
        {
            "driver": row.get("Driver") or "",
            "count": row.get("Count") or 0,
            "device_ids": row.get("DeviceIDs") or [],
            "capabilities": row.get("Capabilities") or [],
        }
        for row in host.get("DeviceRequests") or ()
    ]
    values: dict[str, Any] = {
        "id": attributes.get("Id"),
        "name": str(attributes.get("Name", "")).lstrip("/"),
        "image_id": attributes.get("Image"),
        "image_reference": config.get("Image"),
        "status": state.get("Status"),
        "exit_code": state.get("ExitCode") if not state.get("Running") else None,
        "oom_killed": state.get("OOMKilled"),
        "error": state.get("Error") or None,
        "created_at": attributes.get("Created"),
        "started_at": _time(state.get("StartedAt")),
        "finished_at": _time(state.get("FinishedAt")),
        "restart_count": attributes.get("RestartCount"),
        "restart_policy": (host.get("RestartPolicy") or {}).get("Name") or "no",
        "health": (state.get("Health") or {}).get("Status"),
        "shm_bytes": host.get("ShmSize"),
        "ipc_mode": host.get("IpcMode"),
        "pid_mode": host.get("PidMode"),
        "network_mode": host.get("NetworkMode"),
        "runtime": host.get("Runtime"),
        "privileged": host.get("Privileged"),
        "cap_add": sorted(host.get("CapAdd") or ()),
        "security_opt": sorted(host.get("SecurityOpt") or ()),
        "ulimits": {row["Name"]: row["Soft"] for row in host.get("Ulimits") or ()},
        "device_requests": requests,
        "devices": sorted(row.get("PathOnHost", "") for row in host.get("Devices") or ()),
        "binds": sorted(host.get("Binds") or ()),
        "cgroup_parent": host.get("CgroupParent") or None,
        "memory_limit_bytes": host.get("Memory") or None,
        "entrypoint": config.get("Entrypoint"),
        "cmd": config.get("Cmd"),
    }
    facts: dict[str, FieldValue] = {f"container.{name}": read(value, source) for name, value in values.items()}
    facts |= {f"container.env.{name}": read(value, source) for name, value in sorted(env.items())}
    if tag_image_id is not None:
        facts["image.tag_image_id"] = read(tag_image_id, "docker image inspect")
    return facts


def _time(text: str | None) -> str | None:
    return None if not text or text.startswith("0001-") else text
