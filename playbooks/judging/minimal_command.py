"""The minimal command (R4.2): what a launch needs to be judged by, derived from the command as it was given.

What is left out is listed with its reason, and so is what has to be said aloud. An option that nobody listed stays in:
leaving out what is not understood would change the failure unnoticed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from playbooks.judging.baseline import Baseline, ContainerOptions, ImageRef, Interpreter, Mount
from playbooks.judging.boundary_data import Boundaries
from playbooks.judging.boundary_facts import numbers
from playbooks.judging.option_words import Option, normalised, options_of, overridden, program_of
from playbooks.reading.command_values import ContainerSpec, LaunchCommand

_NO_FIELD = "the worker starts containers without it"
_CONTAINER_WHY = {
    "publish": "the worker publishes the port it assigns, on loopback only",
    "publish-all": "the worker publishes the port it assigns, on loopback only",
    "gpus": "GPUs are chosen by UUID, from the fingerprint; an index names another GPU after a restart",
    "restart": "an attempt is one launch; it is not started again by itself",
}
_EVERY_GPU = frozenset({"all", "-1"})
_UUIDS = re.compile(r"(?:device=)?((?:GPU|MIG)-[0-9A-Za-z-]+(?:,(?:GPU|MIG)-[0-9A-Za-z-]+)*)")


@dataclass(frozen=True, slots=True)
class Removed:
    """An option, variable or wrapper taken out, and why."""

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
    command: LaunchCommand, *, engine_version: str | None, boundaries: Boundaries, keep: tuple[str, ...] = ()
) -> Minimal:
    """Derive the minimal baseline.

    engine_version: as read inside the container, None = not read; then no default can be made explicit.
    keep: options of the baseline so far; they stay (R8), and nothing is made explicit that it did not say.
    """
    reasons = boundaries.options.why_removed()
    given = options_of(command.argv)
    kept = [option for option in given if option.base not in reasons or option.name in keep or option.base in keep]
    removed = [Removed(o.name, o.shown, reasons[o.base]) for o in given if o not in kept]
    removed += [Removed(o.name, o.shown, "given again later; the last one counts") for o in overridden(kept)]
    variables = {entry.name: entry.why for entry in boundaries.options.removed_env}
    removed += [Removed(name, value, variables[name]) for name, value in command.env.items() if name in variables]
    removed += [Removed(word, None, "a wrapper around the engine's command") for word in command.wrapper]
    removed += _container_losses(command.container)
    added = () if keep else tuple(_made_explicit(kept, engine_version, boundaries))
    baseline = as_given(
        command.having(
            argv=(*program_of(command.argv), *normalised((*kept, *(Option(item.option) for item in added)))),
            env={name: value for name, value in command.env.items() if name not in variables},
        )
    )
    return Minimal(baseline, tuple(removed), added)


def as_given(command: LaunchCommand) -> Baseline:
    """Return the command as it stands, only spelt and ordered in one way."""
    argv = normalised(options_of(command.argv))
    env = dict(sorted(command.env.items()))
    if command.image is None:
        return Baseline(engine="process", argv=argv, env=env, interpreter=_interpreter(command.program))
    mounts = (Mount(source=m.source, target=m.target, read_only=m.read_only) for m in command.mounts)
    return Baseline(
        engine="docker",
        image=_image(command.image),
        argv=argv,
        env=env,
        mounts=tuple(sorted(mounts, key=lambda mount: (mount.target, mount.source))),
        gpus=_uuids(command.container),
        container=_container(command),
    )


def model_of(options: tuple[Option, ...] | list[Option]) -> str:
    """Return the model that a command names, with the names it is served under; empty when it names none."""
    named = [option for option in options if option.name in {"", "--model", "--served-model-name"}]
    return " ".join(value for option in named for value in option.values)


def _made_explicit(kept: list[Option], version: str | None, boundaries: Boundaries) -> Iterator[Added]:
    names = {option.name for option in kept}
    model = model_of(kept)
    required = boundaries.model.required_flags
    if required is not None and _is_model(model, boundaries):
        for flag in required.value:
            if flag not in names:
                yield Added(flag, f"the recipe requires it ({required.source})")
    caching = boundaries.options.caching
    if version is None or names & {caching.switch_on, caching.switch_off}:
        return
    if re.match(caching.off_builds, version) or not numbers(version):
        return
    hybrid = _is_hybrid(model, boundaries)
    since = caching.hybrid_on_from if hybrid else caching.dense_on_from
    if numbers(version) >= numbers(since):
        kind = "hybrid models" if hybrid else "this kind of model"
        why = f"vLLM {version} caches prefixes by default for {kind} ({caching.source}); a baseline without cache has to say so"
        yield Added(caching.switch_off, why)


def names_model(model: str, boundaries: Boundaries) -> str:
    """Return the longest model name of the boundaries that stands in a command's model; empty when none does."""
    names = {name.rpartition("/")[2].lower() for name in boundaries.model.ids.value}
    return max((name for name in names if name and name in model.lower()), key=len, default="")


def _is_model(model: str, boundaries: Boundaries) -> bool:
    return bool(names_model(model, boundaries))


def _is_hybrid(model: str, boundaries: Boundaries) -> bool:
    told = boundaries.model.hybrid
    if told is not None and told.value and _is_model(model, boundaries):
        return True
    return re.search(boundaries.options.caching.hybrid_names, model, re.IGNORECASE) is not None


def _interpreter(program: str | None) -> Interpreter | None:
    """Return the interpreter that a program's path names: the one beside `vllm`."""
    if program is None or "/" not in program:
        return None
    folder, _, name = program.rpartition("/")
    return Interpreter(python=program if name.startswith("python") else f"{folder}/python")


def _image(reference: str) -> ImageRef:
    name, at, digest = reference.partition("@")
    return ImageRef(reference=name, digest=digest if at else None)


def _uuids(spec: ContainerSpec | None) -> tuple[str, ...]:
    match = _UUIDS.fullmatch(spec.gpus) if spec is not None and spec.gpus is not None else None
    return tuple(sorted(match[1].split(","))) if match else ()


def _container(command: LaunchCommand) -> ContainerOptions:
    spec = command.container or ContainerSpec()
    program = program_of(command.argv)
    typed = (command.program or program[0], *program[1:]) if program else ()
    return ContainerOptions(
        shm_size_bytes=spec.shm_size_bytes,
        ipc_mode=spec.ipc_mode,
        network_mode=spec.network_mode,
        runtime=spec.runtime,
        ulimits=dict(sorted(spec.ulimits.items())),
        # program words that were typed behind the image are the entrypoint: the arguments stay comparable
        entrypoint=(*(spec.entrypoint or ()), *typed) or None,
        memory_limit_bytes=spec.memory_limit_bytes,
    )


def _container_losses(spec: ContainerSpec | None) -> list[Removed]:
    if spec is None:
        return []
    lost = [Removed(f"docker --{name}", value, _CONTAINER_WHY.get(name, _NO_FIELD)) for name, value in spec.others]
    if spec.gpus is not None and spec.gpus not in _EVERY_GPU and not _uuids(spec):
        lost.append(Removed("docker --gpus", spec.gpus, _CONTAINER_WHY["gpus"]))
    if spec.privileged:
        lost.append(Removed("docker --privileged", None, _NO_FIELD))
    if spec.pid_mode:
        lost.append(Removed("docker --pid", spec.pid_mode, _NO_FIELD))
    return lost
