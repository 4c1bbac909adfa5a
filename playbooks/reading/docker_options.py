"""Options of `docker run`, podman's and nerdctl's alike: what is a variable gets a field, everything else is kept by name."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from playbooks.reading.command_values import ContainerSpec, MountSpec

_FLAGS = frozenset(
    {
        "-d",
        "--detach",
        "-i",
        "--interactive",
        "-t",
        "--tty",
        "-it",
        "-ti",
        "-dit",
        "-itd",
        "-td",
        "-dt",
        "-id",
        "--rm",
        "--init",
    }
    | {
        "--privileged",
        "--read-only",
        "-P",
        "--publish-all",
        "--no-healthcheck",
        "--oom-kill-disable",
        "--sig-proxy",
        "-q",
        "--quiet",
    }
)
_SIZES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_NAMES = {
    "-e": "--env",
    "-v": "--volume",
    "-p": "--publish",
    "-m": "--memory",
    "-u": "--user",
    "-w": "--workdir",
    "--net": "--network",
    "-h": "--hostname",
    "-l": "--label",
}


@dataclass(slots=True)
class RunOptions:
    """The options read so far."""

    env: dict[str, str] = field(default_factory=dict)
    mounts: tuple[MountSpec, ...] = ()
    notes: tuple[str, ...] = ()
    container: ContainerSpec = field(default_factory=ContainerSpec)


def read_run_options(words: list[str]) -> tuple[RunOptions, str | None, list[str]]:
    """Return the options, the image (None when there is none) and the words after it."""
    given: list[tuple[str, str]] = []
    rest = list(words)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word in _FLAGS or re.fullmatch(r"-[ditqP]{1,4}", word):
            given.append((word, "true"))
        elif equals:
            given.append((_NAMES.get(name, name), value))
        elif re.fullmatch(r"-[evpmuwhl].+", word):
            given.append((_NAMES[word[:2]], word[2:]))
        elif rest:
            given.append((_NAMES.get(name, name), rest.pop(0)))
    image = rest.pop(0) if rest else None
    return collect(given), image, rest


def collect(given: list[tuple[str, str]]) -> RunOptions:  # noqa: C901, PLR0912 - one row for each option
    """Sort (option, value) pairs into fields; what has none is kept by name."""
    found = RunOptions()
    fields: dict[str, object] = {}
    others: list[tuple[str, str]] = []
    ulimits: dict[str, int] = {}
    for name, value in given:
        match name:
            case "--env":
                key, equals, text = value.partition("=")
                found.env[key] = text if equals else f"${{{key}}}"
            case "--volume" | "--mount":
                mount = _mount(name, value)
                if mount is None:
                    found.notes += (f"not taken over: {name} {value}",)
                else:
                    found.mounts += (mount,)
            case "--shm-size":
                fields["shm_size_bytes"] = size_bytes(value)
            case "--memory":
                fields["memory_limit_bytes"] = size_bytes(value)
            case "--ipc":
                fields["ipc_mode"] = value
            case "--network":
                fields["network_mode"] = value
            case "--pid":
                fields["pid_mode"] = value
            case "--runtime":
                fields["runtime"] = value
            case "--gpus":
                fields["gpus"] = value.strip("'\"")
            case "--privileged":
                fields["privileged"] = value != "false"
            case "--entrypoint":
                fields["entrypoint"] = (value,) if value else ()
            case "--ulimit":
                key, _, text = value.partition("=")
                number = text.split(":")[0]
                ulimits[key] = -1 if number in {"unlimited", "-1"} else int(number) if number.isdigit() else -1
            case _:
                others.append((name, value))
    found.container = ContainerSpec(ulimits=ulimits, others=tuple(others), **fields)  # type: ignore[arg-type]
    return found


def size_bytes(text: str) -> int | None:
    """Return a size such as `16g` or `64MiB` in bytes; None when it is none."""
    match = re.fullmatch(r"\s*(\d+)(?:\.(\d))?\s*([bkmgt]?)(?:i?b)?\s*", text.lower())
    if match is None:
        return None
    unit = _SIZES[match[3]]
    return int(match[1]) * unit + (int(match[2]) * unit // 10 if match[2] else 0)


def _mount(name: str, value: str) -> MountSpec | None:
    if name == "--mount":
        parts = dict(part.partition("=")[::2] for part in value.split(","))
        source = parts.get("source") or parts.get("src") or ""
        target = parts.get("target") or parts.get("dst") or parts.get("destination") or ""
        return MountSpec(source, target, "readonly" in parts or "ro" in parts) if target else None
    parts_list = value.split(":")
    if len(parts_list) < 2:
        return None
    return MountSpec(parts_list[0], parts_list[1], len(parts_list) > 2 and "ro" in parts_list[2].split(","))
