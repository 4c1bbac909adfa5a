"""The words of `docker run …` (podman, nerdctl alike) to a launch command, and the values that options share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

from playbooks.errors import InvalidCommand
from playbooks.reading.command_values import CommandKind, ContainerSpec, LaunchCommand, MountSpec

_SWITCHES = frozenset(
    [
        "detach",
        "interactive",
        "tty",
        "rm",
        "privileged",
        "init",
        "read-only",
        "oom-kill-disable",
        "no-healthcheck",
        "publish-all",
        "sig-proxy",
        "quiet",
        "disable-content-trust",
        "help",
        "replace",
    ]
)
_SHORT = {
    "d": "detach", "i": "interactive", "t": "tty", "P": "publish-all", "q": "quiet",
    "e": "env", "v": "volume", "p": "publish", "m": "memory", "u": "user", "w": "workdir", "h": "hostname", "l": "label",
    "c": "cpu-shares", "a": "attach",
}  # fmt: skip
_IMMATERIAL = frozenset(
    [
        "detach",
        "interactive",
        "tty",
        "rm",
        "quiet",
        "name",
        "hostname",
        "label",
        "help",
        "sig-proxy",
        "disable-content-trust",
        "replace",
    ]
)
"""Options that say how the container is looked after, not how the engine starts."""
_UNITS = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", re.IGNORECASE)


@dataclass(slots=True)
class _Options:
    env: dict[str, str] = field(default_factory=dict)
    mounts: list[MountSpec] = field(default_factory=list)
    ulimits: dict[str, int] = field(default_factory=dict)
    single: dict[str, str] = field(default_factory=dict)
    others: list[tuple[str, str]] = field(default_factory=list)
    privileged: bool = False
    notes: list[str] = field(default_factory=list)


def is_run(words: tuple[str, ...]) -> int | None:
    """Return the index of the first option behind `docker run`, `docker container run`, `podman run` …; None if it is none."""
    for index, word in enumerate(words[:-1]):
        if word.rsplit("/", 1)[-1] in {"docker", "podman", "nerdctl", "nvidia-docker"}:
            rest = words[index + 1 :]
            verb = next((place for place, part in enumerate(rest) if part in {"run", "create"}), None)
            if verb is not None and all(part == "container" or part.startswith("-") for part in rest[:verb]):
                return index + 2 + verb
    return None


def read(words: tuple[str, ...]) -> LaunchCommand:
    """Read what follows `docker run`: options, image, command.

    Raises:
        InvalidCommand: an option has no value, or no image follows.
    """
    options = _Options()
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        _take_option(rest, options)
    if not rest:
        raise InvalidCommand("expected an image after the options of docker run, found the end of the command")
    image, *command = rest
    single = options.single
    entrypoint = single.get("entrypoint")
    container = ContainerSpec(
        shm_size_bytes=size_bytes(single["shm-size"]) if "shm-size" in single else None,
        ipc_mode=single.get("ipc"),
        network_mode=single.get("network"),
        pid_mode=single.get("pid"),
        runtime=single.get("runtime"),
        ulimits=options.ulimits,
        entrypoint=None if entrypoint is None else (entrypoint,) if entrypoint else (),
        memory_limit_bytes=size_bytes(single["memory"]) if "memory" in single else None,
        gpus=single["gpus"].strip("\"'") if "gpus" in single else None,
        privileged=options.privileged,
        others=tuple(options.others),
    )
    return LaunchCommand(
        CommandKind.DOCKER_RUN,
        argv=tuple(command),
        image=image,
        env=options.env,
        mounts=tuple(options.mounts),
        container=container,
        notes=tuple(options.notes),
    )


def size_bytes(text: str) -> int:
    """Return a size such as `16g`, `10.24gb`, `64Gi` or `1048576` in bytes; the units are powers of 1024, as docker reads them.

    Raises:
        InvalidCommand: it is no size.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise InvalidCommand(f"expected a size such as 16g, found {text!r}")
    try:
        return int(Decimal(match[1]) * _UNITS[match[2].lower()])
    except InvalidOperation as error:  # pragma: no cover  # the pattern admits plain numbers only
        raise InvalidCommand(f"expected a size such as 16g, found {text!r}") from error


def volume(text: str) -> MountSpec | None:
    """Return the mount of `source:target[:mode]`; None for an anonymous volume."""
    parts = re.split(r":(?!\\)", text)
    if len(parts) < 2:
        return None
    modes = parts[2].split(",") if len(parts) > 2 else []
    return MountSpec(parts[0], parts[1], "ro" in modes or "readonly" in modes)


def ulimit(text: str) -> int | None:
    """Return the soft limit of `-1:-1`, `65536:524288` or `unlimited`; None if it is no number."""
    soft = text.split(":", maxsplit=1)[0].strip()
    if soft == "unlimited":
        return -1
    return int(soft) if re.fullmatch(r"-?\d+", soft) else None


def environment(text: str) -> tuple[str, str]:
    """Return name and value of `NAME=value`; a name alone takes its value from the node."""
    name, equals, value = text.partition("=")
    return name, value if equals else f"${{node:{name}}}"


def _take_option(rest: list[str], options: _Options) -> None:
    word = rest.pop(0)
    for name, value in _spelled_out(word):
        if name in _SWITCHES:
            if name == "privileged":
                options.privileged = value not in {"false", "0"}
            elif name not in _IMMATERIAL:
                options.others.append((name, value or "true"))
            continue
        taken = value
        if taken is None:
            if not rest:
                raise InvalidCommand(f"expected a value after {word} of docker run, found the end of the command")
            taken = rest.pop(0)
        _apply(name, taken, options)


def _spelled_out(word: str) -> Iterator[tuple[str, str | None]]:
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        yield name, value if equals else None
        return
    letters = word[1:]
    for index, letter in enumerate(letters):
        name = _SHORT.get(letter, letter)
        if name not in _SWITCHES:
            value = letters[index + 1 :]
            yield name, value.removeprefix("=") if value else None
            return
        yield name, None


def _apply(name: str, value: str, options: _Options) -> None:
    match name:
        case "env":
            key, content = environment(value)
            options.env[key] = content
        case "env-file":
            options.notes.append(
                f"variables of --env-file {value} are not known here: paste them or list them in the node's policy"
            )
        case "volume" if (mount := volume(value)) is not None:
            options.mounts.append(mount)
        case "mount":
            _apply_mount(value, options)
        case "ulimit":
            limit_name, _, limit = value.partition("=")
            options.ulimits[limit_name] = _number(limit, value)
        case "net":
            options.single["network"] = value
        case "shm-size" | "ipc" | "network" | "pid" | "runtime" | "entrypoint" | "memory" | "gpus":
            options.single[name] = value
        case _:
            options.others += [(name, value)] if name not in _IMMATERIAL else []


def _number(limit: str, given: str) -> int:
    number = ulimit(limit)
    if number is None:
        raise InvalidCommand(f"expected --ulimit name=number[:number], found {given!r}")
    return number


def _apply_mount(value: str, options: _Options) -> None:
    parts = {key.strip(): item for key, _, item in (part.partition("=") for part in value.split(","))}
    source = parts.get("source", parts.get("src"))
    target = parts.get("target", parts.get("destination", parts.get("dst")))
    if parts.get("type") == "tmpfs" and target == "/dev/shm":  # noqa: S108  # a mount point of the container, no file of ours
        if size := parts.get("tmpfs-size"):
            options.single["shm-size"] = size
    elif source is None or target is None:
        options.others.append(("mount", value))
    else:
        read_only = "readonly" in parts or parts.get("ro", "false") in {"", "true", "1"}
        options.mounts.append(MountSpec(source, target, read_only))
