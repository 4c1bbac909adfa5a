"""A launch command as read, before anything is derived from it: what was typed, less its secrets."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any


class CommandKind(StrEnum):
    """How the command was written down."""

    DOCKER_RUN = "docker_run"
    VLLM_SERVE = "vllm_serve"
    COMPOSE = "compose"
    KUBERNETES = "kubernetes"
    ARGV = "argv"
    INSPECT = "inspect"
    """Taken from `docker inspect` of a container."""

    @property
    def in_container(self) -> bool:
        """Whether the command starts a container."""
        return self not in {CommandKind.VLLM_SERVE, CommandKind.ARGV}


@dataclass(frozen=True, slots=True)
class MountSpec:
    """A mount as written; `source` may be a path, a named volume, or hold a variable."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """Options of the container as written; None = not said, so the runtime's default applies."""

    shm_size_bytes: int | None = None
    ipc_mode: str | None = None
    network_mode: str | None = None
    pid_mode: str | None = None
    runtime: str | None = None
    ulimits: dict[str, int] = field(default_factory=dict)
    entrypoint: tuple[str, ...] | None = None
    memory_limit_bytes: int | None = None
    gpus: str | None = None
    """`all`, a count, or `device=…` as written."""
    privileged: bool = False
    others: tuple[tuple[str, str], ...] = ()
    """(option, value) of every option that has no field here, in order."""


@dataclass(frozen=True, slots=True)
class LaunchCommand:
    """A launch command. `argv` starts with the program words that were typed (`vllm serve`), none when the image's own apply.

    wrapper: words around the engine's command (`bash -c`, `numactl …`, `nohup`) and commands before it.
    program: the interpreter or `vllm` executable when it was given by path.
    redactions: secrets that were replaced by references `${node:NAME}`.
    notes: what could not be taken over, in sentences for the reader.
    """

    kind: CommandKind
    argv: tuple[str, ...]
    image: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    mounts: tuple[MountSpec, ...] = ()
    container: ContainerSpec | None = None
    program: str | None = None
    wrapper: tuple[str, ...] = ()
    redactions: int = 0
    notes: tuple[str, ...] = ()

    def having(self, **changes: Any) -> LaunchCommand:
        """Return the command with some values set."""
        return replace(self, **changes)
