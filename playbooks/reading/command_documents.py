"""Launch commands written as documents: compose services, Kubernetes containers, JSON lists."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any

import yaml

from playbooks.errors import InvalidCommand
from playbooks.reading.command_values import CommandKind, LaunchCommand
from playbooks.reading.docker_options import collect

OfWords = Callable[[list[str]], LaunchCommand | None]


def read(text: str, *, of_words: OfWords) -> LaunchCommand | None:
    """Read the document, None when the text is none."""
    if text.startswith("["):
        return _json_list(text, of_words)
    if "\n" not in text or not any(word in text for word in ("image:", "command:", "args:")):
        return None
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return None
    if not isinstance(value, dict | list):
        return None
    service = _service(value)
    if service is not None:
        return _compose(*service, of_words)
    container = _container(value)
    return None if container is None else _kubernetes(container, of_words)


def _json_list(text: str, of_words: OfWords) -> LaunchCommand | None:
    try:
        words = json.loads(text)
    except ValueError:
        return None
    if not isinstance(words, list) or not words or not all(isinstance(word, str | int) for word in words):
        return None
    listed = [str(word) for word in words]
    found = of_words(listed)
    return found.having(kind=CommandKind.ARGV) if found else LaunchCommand(kind=CommandKind.ARGV, argv=tuple(listed))


def _service(value: Any) -> tuple[str, dict[str, Any]] | None:
    """Find the compose service to launch: the one that names vLLM, else the only one."""
    if not isinstance(value, dict):
        return None
    services = value.get("services", value)
    if not isinstance(services, dict) or "containers" in services or "spec" in services or "kind" in value:
        return None
    if "image" in services and isinstance(services["image"], str):
        return ("service", services) if not isinstance(services.get("args"), list) else None
    named = {str(name): body for name, body in services.items() if isinstance(body, dict) and "image" in body}
    telling = {name: body for name, body in named.items() if "vllm" in json.dumps(body, default=str).lower()}
    chosen = telling or named
    if len(chosen) > 1:
        raise InvalidCommand(f"expected one service that launches the engine, found {', '.join(sorted(chosen))}")
    return next(iter(chosen.items()), None)


def _compose(name: str, body: dict[str, Any], of_words: OfWords) -> LaunchCommand:
    given: list[tuple[str, str]] = [("--env", f"{key}={text}") for key, text in _pairs(body.get("environment"))]
    given += [("--volume", _volume(item)) for item in body.get("volumes") or ()]
    for key, option in (
        ("shm_size", "--shm-size"),
        ("ipc", "--ipc"),
        ("network_mode", "--network"),
        ("runtime", "--runtime"),
        ("pid", "--pid"),
        ("mem_limit", "--memory"),
    ):
        if key in body:
            given.append((option, str(body[key])))
    for key, limit in (body.get("ulimits") or {}).items():
        given.append(("--ulimit", f"{key}={limit.get('soft', -1) if isinstance(limit, dict) else limit}"))
    if body.get("privileged"):
        given.append(("--privileged", "true"))
    if "devices" in json.dumps(body.get("deploy") or {}):
        given.append(("--gpus", "all"))
    options = collect(given)
    words = _words(body.get("command"))
    inner = of_words(words) if words else None
    container = options.container
    if "entrypoint" in body:
        container = type(container)(**{**_as_dict(container), "entrypoint": tuple(_words(body["entrypoint"]))})
    return LaunchCommand(
        kind=CommandKind.COMPOSE,
        argv=inner.argv if inner else tuple(words),
        image=str(body["image"]),
        env=options.env,
        mounts=options.mounts,
        container=container,
        notes=(*options.notes, f"read from the compose service `{name}`"),
    )


def _container(value: Any) -> dict[str, Any] | None:
    """Find the first Kubernetes container that holds an image and a command or arguments."""
    if isinstance(value, dict):
        if isinstance(value.get("image"), str) and ("args" in value or "command" in value):
            return value
        candidates = value.values()
    elif isinstance(value, list):
        candidates = value  # type: ignore[assignment]
    else:
        return None
    return next((found for item in candidates if (found := _container(item)) is not None), None)


def _kubernetes(body: dict[str, Any], of_words: OfWords) -> LaunchCommand:
    env: dict[str, str] = {}
    for item in body.get("env") or ():
        if isinstance(item, dict) and "name" in item:
            env[str(item["name"])] = str(item["value"]) if "value" in item else f"${{node:{item['name']}}}"
    words = [*_words(body.get("command")), *_words(body.get("args"))]
    inner = of_words(words) if words else None
    mounts = tuple(
        (str(item.get("name", "")), str(item["mountPath"]), bool(item.get("readOnly")))
        for item in body.get("volumeMounts") or ()
        if isinstance(item, dict) and "mountPath" in item
    )
    options = collect(
        [("--volume", f"{source}:{target}{':ro' if read_only else ''}") for source, target, read_only in mounts]
    )
    limits = (body.get("resources") or {}).get("limits") or {}
    gpus = next((str(count) for key, count in limits.items() if str(key).endswith("/gpu")), None)
    container = type(options.container)(**{**_as_dict(options.container), "gpus": gpus})
    return LaunchCommand(
        kind=CommandKind.KUBERNETES,
        argv=inner.argv if inner else tuple(words),
        image=str(body["image"]),
        env=env,
        mounts=options.mounts,
        container=container,
        notes=options.notes,
    )


def _as_dict(container: Any) -> dict[str, Any]:
    return {name: getattr(container, name) for name in container.__dataclass_fields__}


def _pairs(value: Any) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [(str(key), "" if text is None else str(text)) for key, text in value.items()]
    return [(str(item).partition("=")[0], str(item).partition("=")[2]) for item in value or ()]


def _words(value: Any) -> list[str]:
    if isinstance(value, str):
        try:
            return shlex.split(value)
        except ValueError as error:
            raise InvalidCommand(f"expected closed quotes in the command, found {error}") from error
    return [str(item) for item in value or ()]


def _volume(item: Any) -> str:
    if isinstance(item, dict):
        return f"{item.get('source', '')}:{item.get('target', '')}{':ro' if item.get('read_only') else ''}"
    return str(item)
