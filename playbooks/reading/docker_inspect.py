"""`docker inspect` (container, image) and `docker info` as JSON to fingerprint fields, and the launch command of a container.

Times are passed on as docker writes them. Secrets in environment and arguments become references `${node:NAME}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from playbooks.errors import UnreadableInput
from playbooks.reading import engine_words
from playbooks.reading.command_secrets import Redactor
from playbooks.reading.command_values import CommandKind, ContainerSpec, LaunchCommand, MountSpec
from playbooks.reading.fields import FieldValue
from playbooks.reading.fields import read as field

_IMAGE_BORN = frozenset(
    [
        "PATH",
        "HOME",
        "HOSTNAME",
        "LANG",
        "LC_ALL",
        "PWD",
        "CUDA_VERSION",
        "NVARCH",
        "NVIDIA_REQUIRE_CUDA",
        "NVIDIA_VISIBLE_DEVICES",
        "DEBIAN_FRONTEND",
        "NVIDIA_DRIVER_CAPABILITIES",
        "LD_LIBRARY_PATH",
        "LIBRARY_PATH",
        "PYTHON_VERSION",
        "GPG_KEY",
        "PYTHON_SHA256",
        "UV_HTTP_TIMEOUT",
        "UV_INDEX_STRATEGY",
        "UV_LINK_MODE",
        "VLLM_USAGE_SOURCE",
        "TORCH_CUDA_ARCH_LIST",
        "PIP_DISABLE_PIP_VERSION_CHECK",
    ]
)
"""Variables that images bring along; taken out of a command when the image itself was not inspected."""
_IMAGE_PREFIXES = ("NV_", "NVIDIA_PRODUCT", "CUDNN_")
_NEVER = "0001-01-01T00:00:00Z"


def read(text: str) -> dict[str, FieldValue]:
    """Read every object of a `docker inspect`, `docker image inspect` or `docker info` as JSON.

    Raises:
        UnreadableInput: it is no such JSON.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableInput(f"expected the JSON of docker inspect or docker info, found {error}") from error
    facts: dict[str, FieldValue] = {}
    for item in value if isinstance(value, list) else [value]:
        facts |= facts_of(item)
    if not facts:
        raise UnreadableInput("expected a container, an image or docker info in the JSON, found none of them")
    return facts


def facts_of(item: Any) -> dict[str, FieldValue]:
    """Return the fields of one object; {} when it is neither container, image nor daemon."""
    if not isinstance(item, dict):
        return {}
    if is_container(item):
        return container_facts(item)
    if is_image(item):
        return image_facts(item)
    return daemon_facts(item) if "ServerVersion" in item else {}


def is_container(item: Mapping[str, Any]) -> bool:
    """Whether the object is a container's inspection."""
    return isinstance(item.get("State"), dict) and isinstance(item.get("Image"), str)


def is_image(item: Mapping[str, Any]) -> bool:
    """Whether the object is an image's inspection."""
    return "RepoTags" in item or "RepoDigests" in item or ("RootFS" in item and "Architecture" in item)


def container_facts(item: Mapping[str, Any]) -> dict[str, FieldValue]:
    """Return `container.*` of a container's inspection."""
    state, config, host = _dict(item.get("State")), _dict(item.get("Config")), _dict(item.get("HostConfig"))
    redactor = Redactor()
    argv = redactor.argv(tuple(str(word) for word in _list(config.get("Cmd"))))
    values: dict[str, Any] = {
        "id": item.get("Id"),
        "name": str(item["Name"]).lstrip("/") if item.get("Name") else None,
        "image_id": item.get("Image"),
        "image_reference": config.get("Image"),
        "status": state.get("Status"),
        "exit_code": None if state.get("Running") else state.get("ExitCode"),
        "oom_killed": state.get("OOMKilled"),
        "error": state.get("Error") or None,
        "created_at": item.get("Created"),
        "started_at": _time(state.get("StartedAt")),
        "finished_at": _time(state.get("FinishedAt")),
        "restart_count": item.get("RestartCount"),
        "restart_policy": _dict(host.get("RestartPolicy")).get("Name") or None,
        "health": _dict(state.get("Health")).get("Status"),
        "ipc_mode": host.get("IpcMode") or None,
        "pid_mode": host.get("PidMode"),
        "network_mode": host.get("NetworkMode") or None,
        "runtime": host.get("Runtime") or None,
        "privileged": host.get("Privileged"),
        "cap_add": sorted(map(str, _list(host.get("CapAdd")))),
        "security_opt": sorted(map(str, _list(host.get("SecurityOpt")))),
        "ulimits": {str(u.get("Name")): u.get("Soft") for u in _list(host.get("Ulimits")) if isinstance(u, dict)},
        "device_requests": [_request(r) for r in _list(host.get("DeviceRequests")) if isinstance(r, dict)],
        "devices": sorted(str(d.get("PathOnHost")) for d in _list(host.get("Devices")) if isinstance(d, dict)),
        "binds": sorted(redactor.text(str(bind)) for bind in _list(host.get("Binds"))),
        "cgroup_parent": host.get("CgroupParent") or None,
        "entrypoint": _list(config.get("Entrypoint")) or None,
        "cmd": list(argv),
    }
    facts = {f"container.{name}": field(value, "docker inspect") for name, value in values.items()}
    for name, key in (("shm_bytes", "ShmSize"), ("memory_limit_bytes", "Memory")):
        facts[f"container.{name}"] = field(host.get(key) or None, "docker inspect", unit="bytes")
    for name, value in _pairs(config.get("Env")):
        facts[f"container.env.{name}"] = field(redactor.value(name, value), "docker inspect")
    return facts


def image_facts(item: Mapping[str, Any]) -> dict[str, FieldValue]:
    """Return `image.*` of an image's inspection."""
    config = _dict(item.get("Config"))
    env = dict(_pairs(config.get("Env")))
    digests = sorted(str(digest) for digest in _list(item.get("RepoDigests")))
    tags = sorted(str(tag) for tag in _list(item.get("RepoTags")))
    source = "docker image inspect"
    values: dict[str, Any] = {
        "reference": tags[0] if tags else digests[0] if digests else None,
        "id": item.get("Id"),
        "tags": tags,
        "digest": digests[0].rpartition("@")[2] if digests else None,
        "digests": digests,
        "created": item.get("Created"),
        "architecture": item.get("Architecture"),
        "require_cuda": env.get("NVIDIA_REQUIRE_CUDA"),
        "disable_require": env.get("NVIDIA_DISABLE_REQUIRE"),
        "entrypoint": _list(config.get("Entrypoint")) or None,
        "cmd": _list(config.get("Cmd")) or None,
    }
    facts = {f"image.{name}": field(value, source) for name, value in values.items()}
    facts["image.size_bytes"] = field(item.get("Size"), source, unit="bytes")
    redactor = Redactor()
    for name, value in env.items():
        facts[f"image.env.{name}"] = field(redactor.value(name, value), source)
    for name, value in _dict(config.get("Labels")).items():
        facts[f"image.labels.{name}"] = field(redactor.value(str(name), str(value)), source)
    return facts


def daemon_facts(item: Mapping[str, Any]) -> dict[str, FieldValue]:
    """Return `docker.*` of `docker info`."""
    devices = item.get("DiscoveredDevices")
    values: dict[str, Any] = {
        "docker.version": item.get("ServerVersion"),
        "docker.runtimes": sorted(_dict(item.get("Runtimes"))),
        "docker.default_runtime": item.get("DefaultRuntime"),
        "docker.cdi_dirs": item.get("CDISpecDirs"),
        "docker.cdi_devices": sorted(str(_dict(d).get("ID")) for d in _list(devices)) if devices is not None else None,
        "docker.cgroup_version": int(v) if (v := str(item.get("CgroupVersion", ""))).isdigit() else None,
        "docker.cgroup_driver": item.get("CgroupDriver"),
        "docker.live_restore": item.get("LiveRestoreEnabled"),
        "os.kernel": item.get("KernelVersion"),
        "os.release": item.get("OperatingSystem"),
        "os.machine": item.get("Architecture"),
        "os.hostname": item.get("Name"),
        "cpu.count": item.get("NCPU"),
    }
    facts = {name: field(value, "docker info") for name, value in values.items()}
    facts["memory.total_bytes"] = field(item.get("MemTotal"), "docker info", unit="bytes")
    return facts


def command_of(value: Any) -> LaunchCommand | None:
    """Return the launch command of the container in a `docker inspect`, secrets still in it; None when there is none.

    The image's own variables are taken out: by comparison when the image was inspected too, else by name.
    """
    items = [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict)]
    container = next((item for item in items if is_container(item)), None)
    if container is None:
        return None
    image = next((item for item in items if is_image(item) and item.get("Id") == container["Image"]), None)
    config, host = _dict(container.get("Config")), _dict(container.get("HostConfig"))
    built_in = _dict(image.get("Config")) if image is not None else {}
    given = dict(_pairs(config.get("Env")))
    born = dict(_pairs(built_in.get("Env")))
    env = {
        name: text
        for name, text in given.items()
        if (
            born.get(name) != text
            if image is not None
            else name not in _IMAGE_BORN and not name.startswith(_IMAGE_PREFIXES)
        )
    }
    entrypoint = tuple(str(word) for word in _list(config.get("Entrypoint")))
    own = tuple(str(word) for word in _list(built_in.get("Entrypoint")))
    requests = [_request(r) for r in _list(host.get("DeviceRequests")) if isinstance(r, dict)]
    spec = ContainerSpec(
        shm_size_bytes=host.get("ShmSize") or None,
        ipc_mode=host.get("IpcMode") or None,
        network_mode=host.get("NetworkMode") or None,
        pid_mode=host.get("PidMode") or None,
        runtime=host.get("Runtime") or None,
        ulimits={
            str(u["Name"]): int(u["Soft"])
            for u in _list(host.get("Ulimits"))
            if isinstance(u, dict) and {"Name", "Soft"} <= set(u)
        },
        entrypoint=None if image is not None and entrypoint == own else entrypoint or None,
        memory_limit_bytes=host.get("Memory") or None,
        gpus=_gpus(requests),
        privileged=host.get("Privileged") is True,
    )
    mounts = tuple(
        MountSpec(str(m.get("Source") or m.get("Name")), str(m.get("Destination")), m.get("RW") is False)
        for m in _list(container.get("Mounts"))
        if isinstance(m, dict) and m.get("Destination")
    )
    notes = (
        ()
        if image is not None
        else ("the image was not inspected with it: variables that images bring along were left out by name",)
    )
    return engine_words.in_container(
        LaunchCommand(
            CommandKind.INSPECT,
            tuple(str(word) for word in _list(config.get("Cmd"))),
            image=config.get("Image") or container["Image"],
            env=env,
            mounts=mounts,
            container=spec,
            notes=notes,
        )
    )


def _request(request: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "driver": request.get("Driver") or "",
        "count": request.get("Count") or 0,
        "device_ids": _list(request.get("DeviceIDs")),
        "capabilities": _list(request.get("Capabilities")),
    }


def _gpus(requests: list[dict[str, Any]]) -> str | None:
    for request in requests:
        if request["device_ids"]:
            return f"device={','.join(map(str, request['device_ids']))}"
        if request["count"]:
            return "all" if request["count"] == -1 else str(request["count"])
    return None


def _pairs(env: Any) -> Iterable[tuple[str, str]]:
    return [(name, value) for name, equals, value in (str(item).partition("=") for item in _list(env)) if equals]


def _time(value: Any) -> Any:
    return None if value in {None, "", _NEVER} else value


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
