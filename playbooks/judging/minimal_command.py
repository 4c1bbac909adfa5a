"""The minimal command (R4.2): what a launch needs to be judged by, derived from the command as it was given.

An option that nobody listed stays in: leaving out what is not understood would change the failure unnoticed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from playbooks.judging.baseline import Baseline, ContainerOptions, ImageRef, Interpreter, Mount
from playbooks.judging.option_words import Option, normalised, options_of
from playbooks.reading.command_values import CommandKind, LaunchCommand

if TYPE_CHECKING:
    from playbooks.judging.boundary import Boundaries

_REMOVED: Mapping[str, str] = {
    "--enable-prefix-caching": "caching is added back alone, first, once the fixed request completes (R8)",
    "--prefix-match-unit": "belongs to caching",
    "--prefix-cache-retention-interval": "belongs to caching",
    "--enable-auto-tool-choice": "tools come after a stable launch (R7.4)",
    "--tool-call-parser": "tools come after a stable launch (R7.4)",
    "--tool-parser-plugin": "tools come after a stable launch, and it loads code",
    "--tool-server": "tools come after a stable launch (R7.4)",
    "--reasoning-parser": "a parser changes answers, not the launch",
    "--reasoning-parser-plugin": "a parser changes answers, and it loads code",
    "--reasoning-config": "a parser changes answers, not the launch",
    "--speculative-config": "speculative decoding is added back alone (R8)",
    "--kv-transfer-config": "transfer between engines is no part of one launch",
    "--ec-transfer-config": "transfer between engines is no part of one launch",
    "--kv-offloading-size": "offloading is added back alone (R8)",
    "--kv-offloading-backend": "offloading is added back alone (R8)",
    "--enable-lora": "adapters come after a stable launch",
    "--lora-modules": "adapters come after a stable launch",
    "--chat-template": "a template changes prompts, not the launch",
    "--chat-template-content-format": "a template changes prompts, not the launch",
    "--middleware": "wraps the server in code of its own",
    "--data-parallel-hybrid-lb": "routing between engines is no part of one launch",
    "--data-parallel-external-lb": "routing between engines is no part of one launch",
    "--enable-log-requests": "logging of requests is optional",
    "--otlp-traces-endpoint": "tracing is optional",
}
_HYBRID_NAMES = re.compile(
    r"kimi[-_]?(?:k3|linear)|qwen3[-_]?next|granite|nemotron[-_]?h|jamba|mamba|bamba|falcon[-_]?h1|zamba|lfm2|minimax",
    re.IGNORECASE,
)
_CACHE_ON = ("--enable-prefix-caching",)
_CACHE_OFF = "--no-enable-prefix-caching"
_FIRST_ON = (0, 28)
"""Hybrid models cache by default from 0.28 (vLLM #50991); dense models always did in V1."""


@dataclass(frozen=True, slots=True)
class Removed:
    """An option taken out, and why."""

    option: str
    value: str | None
    why: str


@dataclass(frozen=True, slots=True)
class Added:
    """An option made explicit, and why."""

    option: str
    why: str


@dataclass(frozen=True, slots=True)
class Minimal:
    """The minimal baseline with what was taken out of the command and what was made explicit."""

    baseline: Baseline
    removed: tuple[Removed, ...]
    added: tuple[Added, ...]


def derive(
    command: LaunchCommand,
    *,
    engine_version: str | None,
    boundaries: Boundaries | None = None,
    keep: tuple[str, ...] = (),
) -> Minimal:
    """Derive the minimal baseline.

    engine_version: as read inside the container, None = not read.
    keep: options that an add-back has brought (R8); they stay.
    """
    del boundaries  # the required flags of a profile come with the recipe; a command as given already has its own
    kept: list[Option] = []
    removed: list[Removed] = []
    for option in options_of(command.argv):
        why = _REMOVED.get(option.name)
        if why is None or option.name in keep:
            kept.append(option)
        else:
            removed.append(Removed(option.name, option.shown, why))
    removed += [Removed(word, None, "a wrapper around the command") for word in command.wrapper]
    added = _cache_off(tuple(kept), engine_version, keep, _model_of(command))
    kept += [Option(item.option) for item in added]
    return Minimal(_baseline(command, normalised(tuple(kept))), tuple(removed), added)


def as_given(command: LaunchCommand) -> Baseline:
    """Return the command as it stands, only spelt and ordered in one way."""
    return _baseline(command, normalised(options_of(command.argv)))


def _cache_off(kept: tuple[Option, ...], version: str | None, keep: tuple[str, ...], model: str) -> tuple[Added, ...]:
    names = {option.name for option in kept}
    if _CACHE_OFF in names or names.intersection(_CACHE_ON) or set(keep).intersection(_CACHE_ON):
        return ()
    hybrid = _HYBRID_NAMES.search(model) is not None
    number = re.match(r"(\d+)\.(\d+)", version or "")
    branch_build = version is not None and re.match(r"0\.1\.dev", version) is not None
    if branch_build or number is None or not hybrid:
        return ()
    if (int(number[1]), int(number[2])) < _FIRST_ON:
        return ()
    return (
        Added(
            _CACHE_OFF, f"vLLM {version} caches by default for hybrid models; a baseline without cache has to say so"
        ),
    )


def _model_of(command: LaunchCommand) -> str:
    words = [option for option in options_of(command.argv) if option.name in {"", "--model", "--served-model-name"}]
    return " ".join(value for option in words for value in option.values)


def _baseline(command: LaunchCommand, argv: tuple[str, ...]) -> Baseline:
    mounts = tuple(
        sorted(
            (Mount(source=m.source, target=m.target, read_only=m.read_only) for m in command.mounts),
            key=lambda m: m.target,
        )
    )
    env = dict(sorted(command.env.items()))
    if command.image is None:
        interpreter = (
            Interpreter(python=command.program)
            if command.program and "python" in command.program.rsplit("/", 1)[-1]
            else None
        )
        return Baseline(engine="process", argv=argv, env=env, interpreter=interpreter)
    return Baseline(
        engine="docker", image=_image(command.image), argv=argv, env=env, mounts=mounts, container=_container(command)
    )


def _image(reference: str) -> ImageRef:
    name, at, digest = reference.partition("@")
    return ImageRef(reference=name if at else reference, digest=digest or None)


def _container(command: LaunchCommand) -> ContainerOptions | None:
    spec = command.container
    if spec is None or command.kind is CommandKind.ARGV:
        return None
    return ContainerOptions(
        shm_size_bytes=spec.shm_size_bytes,
        ipc_mode=spec.ipc_mode,
        network_mode=spec.network_mode,
        runtime=spec.runtime,
        ulimits=dict(sorted(spec.ulimits.items())),
        entrypoint=spec.entrypoint,
        memory_limit_bytes=spec.memory_limit_bytes,
    )
