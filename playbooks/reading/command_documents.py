"""Launch commands written as documents: compose services, Kubernetes containers, `docker inspect`, JSON lists of words."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

from playbooks import safe_yaml
from playbooks.errors import InvalidCommand
from playbooks.reading import docker_inspect, engine_words
from playbooks.reading.command_values import CommandKind, ContainerSpec, LaunchCommand, MountSpec
from playbooks.reading.docker_run import environment, size_bytes, ulimit, volume

_DOCUMENT = re.compile(r"(?m)^\s*(?:-\s+)?(?:services|image|command|args|containers|apiVersion|kind)\s*:")
_MOST_NODES = 20_000
_DEEPEST = 24
_GPU_RESOURCE = re.compile(r".*/gpu$|.*\.com/gpu.*")
_COMPOSE_KEYS = frozenset(
    {"image", "command", "entrypoint", "environment", "volumes", "shm_size", "ipc", "network_mode", "pid", "runtime"}
    | {"ulimits", "mem_limit", "gpus", "deploy", "privileged"}
)
_COMPOSE_IMMATERIAL = frozenset(
    {"container_name", "restart", "depends_on", "healthcheck", "labels", "logging", "hostname", "stdin_open", "tty"}
    | {"profiles", "networks"}
)
_SHM = "/dev/shm"  # noqa: S108  # a mount point of the container, no file of ours


def read(text: str) -> LaunchCommand | None:
    """Read the document; None when the text is none.

    Raises:
        InvalidCommand: it is one, but not of one launch; the message says what was expected and found.
    """
    if text.startswith(("[", "{")):
        return _json(text)
    if "\n" not in text or not _DOCUMENT.search(text):
        return None
    documents = _yaml(text)
    for document in documents:
        if isinstance(document, dict) and (service := _service(document)) is not None:
            return _compose(*service)
    containers = [found for document in documents for found in _containers(document)]
    telling = [(body, pod) for body, pod in containers if _mentions_vllm(body)] or containers
    if len(telling) > 1:
        names = ", ".join(sorted(str(body.get("name", "?")) for body, _ in telling))
        raise InvalidCommand(f"expected one container that launches the engine, found {len(telling)}: {names}")
    return _kubernetes(*telling[0]) if telling else None


def _yaml(text: str) -> list[Any]:
    try:
        return [document for document in safe_yaml.load_all(text) if document is not None]
    except safe_yaml.YamlFaults as error:
        found = str(error).splitlines()[0]
        raise InvalidCommand(f"expected a compose or Kubernetes document in YAML, found {found[:160]}") from error


def _json(text: str) -> LaunchCommand | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list) and value and all(isinstance(word, str | int) for word in value):
        return _of_words(tuple(str(word) for word in value))
    if (inspected := docker_inspect.command_of(value)) is not None:
        return inspected
    bodies = value if isinstance(value, list) else [value]
    for body in bodies:
        if isinstance(body, dict) and (service := _service(body)) is not None:
            return _compose(*service)
        if isinstance(body, dict) and (found := next(iter(_containers(body)), None)) is not None:
            return _kubernetes(*found)
    keys = ", ".join(list(value)[:5]) if isinstance(value, dict) else type(value).__name__
    raise InvalidCommand(
        f"expected a JSON list of words or the output of docker inspect, found {keys or 'an empty object'}"
    )


def _of_words(words: tuple[str, ...]) -> LaunchCommand:
    engine = engine_words.find(words)
    if engine is None:
        return LaunchCommand(CommandKind.ARGV, words)
    return LaunchCommand(
        CommandKind.ARGV,
        engine.argv,
        env=engine.env,
        program=engine.program,
        wrapper=engine.wrapper,
        notes=engine.notes,
    )


def _nodes(value: Any) -> Iterator[Any]:
    """Walk a document without trust: anchors may make it endless."""
    stack: list[tuple[Any, int]] = [(value, 0)]
    seen = 0
    while stack and seen < _MOST_NODES:
        node, depth = stack.pop()
        seen += 1
        yield node
        if depth < _DEEPEST:
            children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
            stack.extend((child, depth + 1) for child in reversed(list(children)))


def _mentions_vllm(body: Any) -> bool:
    return any(isinstance(node, str) and "vllm" in node.lower() for node in _nodes(body))


# ---- compose


def _service(document: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Find the compose service to launch: the one that names vLLM, else the only one."""
    if "apiVersion" in document or "containers" in document or "args" in document or "spec" in document:
        return None
    services = document.get("services", document)
    if not isinstance(services, dict):
        raise InvalidCommand(f"expected services as a mapping, found {type(services).__name__}")
    if isinstance(services.get("image"), str):
        return "service", services
    named = {
        str(name): body
        for name, body in services.items()
        if isinstance(body, dict) and ("image" in body or "command" in body)
    }
    telling = {name: body for name, body in named.items() if _mentions_vllm(body)} or named
    if len(telling) > 1:
        raise InvalidCommand(
            f"expected one service that launches the engine, found {len(telling)}: {', '.join(sorted(telling))}"
        )
    return next(iter(telling.items()), None)


def _compose(name: str, body: dict[str, Any]) -> LaunchCommand:
    notes = [f"read from the compose service `{name}`"]
    if "env_file" in body:
        notes.append(f"variables of env_file {body['env_file']} are not known here")
    mounts, shm = [], body.get("shm_size")
    for item in _list(body.get("volumes")):
        mount = _compose_mount(item)
        if mount is None:
            notes.append(f"volume not taken over: {item}")
        else:
            mounts.append(mount)
    limits = {
        str(key): value.get("soft", -1) if isinstance(value, dict) else value
        for key, value in _dict(body.get("ulimits")).items()
    }
    others = [
        (key, json.dumps(value, default=str) if isinstance(value, dict | list) else str(value))
        for key, value in body.items()
        if key not in _COMPOSE_KEYS | _COMPOSE_IMMATERIAL | {"env_file"}
    ]
    container = ContainerSpec(
        shm_size_bytes=size_bytes(str(shm)) if shm is not None else None,
        ipc_mode=_text(body.get("ipc")),
        network_mode=_text(body.get("network_mode")),
        pid_mode=_text(body.get("pid")),
        runtime=_text(body.get("runtime")),
        ulimits={key: number for key, value in limits.items() if (number := ulimit(str(value))) is not None},
        entrypoint=_words(body["entrypoint"]) if body.get("entrypoint") is not None else None,
        memory_limit_bytes=size_bytes(str(body["mem_limit"])) if body.get("mem_limit") is not None else None,
        gpus=_compose_gpus(body),
        privileged=body.get("privileged") is True,
        others=tuple(others),
    )
    command = LaunchCommand(
        CommandKind.COMPOSE,
        tuple(word.replace("$$", "$") for word in _words(body.get("command"))),
        image=_text(body.get("image")),
        env=dict(_environment(body.get("environment"))),
        mounts=tuple(mounts),
        container=container,
        notes=tuple(notes),
    )
    return engine_words.in_container(command)


def _compose_mount(item: Any) -> MountSpec | None:
    if isinstance(item, dict):
        if item.get("source") is None or item.get("target") is None:
            return None
        return MountSpec(str(item["source"]), str(item["target"]), item.get("read_only") is True)
    return volume(str(item))


def _compose_gpus(body: dict[str, Any]) -> str | None:
    if body.get("gpus") is not None:
        return str(body["gpus"]) if not isinstance(body["gpus"], list) else _device_text(body["gpus"])
    reserved = _dict(_dict(_dict(body.get("deploy")).get("resources")).get("reservations")).get("devices")
    return _device_text(reserved) if isinstance(reserved, list) and reserved else None


def _device_text(devices: list[Any]) -> str:
    first = devices[0] if isinstance(devices[0], dict) else {}
    ids = first.get("device_ids")
    return f"device={','.join(map(str, ids))}" if isinstance(ids, list) else str(first.get("count", "all"))


def _environment(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, text in value.items():
            yield str(key), f"${{node:{key}}}" if text is None else _text(text) or ""
    else:
        for item in _list(value):
            yield environment(str(item))


# ---- Kubernetes


def _containers(document: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each container with the pod it is in ({} when only the container was pasted)."""
    seen: set[int] = set()
    for node in _nodes(document):
        pairs: list[tuple[Any, dict[str, Any]]] = []
        if isinstance(node, dict) and isinstance(node.get("containers"), list):
            pairs = [(body, node) for body in node["containers"]]
        elif isinstance(node, dict) and ("args" in node or "command" in node):
            pairs = [(node, {})]
        for body, pod in pairs:
            if (
                isinstance(body, dict)
                and id(body) not in seen
                and (isinstance(body.get("image"), str) or "args" in body)
            ):
                seen.add(id(body))
                yield body, pod


def _kubernetes(body: dict[str, Any], pod: dict[str, Any]) -> LaunchCommand:
    notes = [f"read from the Kubernetes container `{body.get('name', '?')}`"]
    if body.get("envFrom"):
        notes.append("variables of envFrom are not known here")
    env = {
        str(item["name"]): str(item["value"]) if item.get("value") is not None else f"${{node:{item['name']}}}"
        for item in _list(body.get("env"))
        if isinstance(item, dict) and "name" in item
    }
    volumes = {str(item.get("name")): item for item in _list(pod.get("volumes")) if isinstance(item, dict)}
    mounts: list[MountSpec] = []
    shm: int | None = None
    for item in _list(body.get("volumeMounts")):
        if not isinstance(item, dict) or "mountPath" not in item:
            continue
        source = volumes.get(str(item.get("name")), {})
        empty = source.get("emptyDir")
        if item["mountPath"] == _SHM:
            limit = _dict(empty).get("sizeLimit")
            shm = size_bytes(str(limit)) if limit is not None else shm
            if limit is None:
                notes.append(f"{_SHM} is an emptyDir without a size limit")
            continue
        path = _dict(source.get("hostPath")).get("path")
        mounts.append(
            MountSpec(
                str(path or f"volume:{item.get('name', '')}"), str(item["mountPath"]), item.get("readOnly") is True
            )
        )
    limits = _dict(_dict(body.get("resources")).get("limits"))
    gpus = next((str(count) for key, count in limits.items() if _GPU_RESOURCE.fullmatch(str(key))), None)
    security = _dict(body.get("securityContext"))
    container = ContainerSpec(
        shm_size_bytes=shm,
        ipc_mode="host" if pod.get("hostIPC") is True else None,
        network_mode="host" if pod.get("hostNetwork") is True else None,
        pid_mode="host" if pod.get("hostPID") is True else None,
        runtime=_text(pod.get("runtimeClassName")),
        entrypoint=_words(body["command"]) if body.get("command") is not None else None,
        memory_limit_bytes=size_bytes(str(limits["memory"])) if "memory" in limits else None,
        gpus=gpus,
        privileged=security.get("privileged") is True,
    )
    return engine_words.in_container(
        LaunchCommand(
            CommandKind.KUBERNETES,
            _words(body.get("args")),
            image=_text(body.get("image")),
            env=env,
            mounts=tuple(mounts),
            container=container,
            notes=tuple(notes),
        )
    )


# ---- values of documents


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _words(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            raise InvalidCommand(f"expected balanced quotes in the command, found {str(error).lower()}") from error
    return tuple(_text(item) or "" for item in _list(value))
