"""Where in a list of words the engine starts: `vllm serve …` or a module call, and what stands around it.

What stands before it is a wrapper (`numactl …`, `nohup`, `bash -c`) or environment; both are kept apart, not lost.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from playbooks.errors import InvalidCommand
from playbooks.reading import shell_words
from playbooks.reading.command_values import LaunchCommand

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_MODULE = re.compile(r"vllm\.entrypoints\.(?:openai\.)?api_server|vllm\.entrypoints\.cli\.main|vllm")
_SHELL = frozenset({"sh", "bash", "zsh", "dash", "ash"})
_SHELL_SCRIPT = re.compile(r"-[a-z]*c")
_DEEPEST = 3
"""A shell in a shell in a shell; deeper ones are no launch command of a person."""


@dataclass(frozen=True, slots=True)
class EngineWords:
    """The engine's own words. `argv` starts with the program words, `program` is the path when one was given."""

    argv: tuple[str, ...]
    program: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    wrapper: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def find(words: tuple[str, ...], depth: int = 0) -> EngineWords | None:
    """Find the engine in the words of one command; None when they start no engine."""
    for index, word in enumerate(words):
        name = word.rsplit("/", 1)[-1]
        following = words[index + 1] if index + 1 < len(words) else ""
        if name == "vllm" and following == "serve":
            return _found(words[:index], ("vllm", *words[index + 1 :]), word)
        if word == "-m" and _MODULE.fullmatch(following):
            python = words[index - 1] if index else "python3"
            if re.fullmatch(r"python[\d.]*", python.rsplit("/", 1)[-1]):
                return _found(words[: max(0, index - 1)], ("python3", *words[index:]), python)
        if name in _SHELL and depth < _DEEPEST and (inner := _script(words[index:], depth)) is not None:
            return replace(
                inner[0],
                env={**_split(words[:index])[0], **inner[0].env},
                wrapper=(*_split(words[:index])[1], *words[index : index + inner[1]], *inner[0].wrapper),
            )
    return None


def in_container(command: LaunchCommand) -> LaunchCommand:
    """Find the engine in entrypoint and arguments of a container; without one the image's own entrypoint starts it."""
    entrypoint = command.container.entrypoint if command.container is not None else None
    found = find((*(entrypoint or ()), *command.argv))
    if found is None:
        return command
    container = replace(command.container, entrypoint=None) if command.container is not None else None
    return command.having(
        argv=found.argv,
        program=found.program,
        env={**command.env, **found.env},
        wrapper=(*command.wrapper, *found.wrapper),
        container=container,
        notes=(*command.notes, *found.notes),
    )


def _found(before: tuple[str, ...], argv: tuple[str, ...], program: str) -> EngineWords:
    env, wrapper = _split(before)
    return EngineWords(argv, program if "/" in program else None, env, wrapper)


def _split(before: tuple[str, ...]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Split words before the engine into environment and wrapper; `env` itself is neither."""
    env: dict[str, str] = {}
    wrapper: list[str] = []
    for word in before:
        if match := _ASSIGNMENT.fullmatch(word):
            env[match[1]] = match[2]
        else:
            wrapper.append(word)
    return env, tuple(word for word in wrapper if word not in {"env", "exec", "command", "--"})


def _script(words: tuple[str, ...], depth: int) -> tuple[EngineWords, int] | None:
    """Read `bash -c SCRIPT`; returns the engine in it and how many words the shell itself takes."""
    for index, word in enumerate(words[1:], start=1):
        if not word.startswith("-"):
            return None
        if _SHELL_SCRIPT.fullmatch(word) and index + 1 < len(words):
            break
    else:
        return None
    try:
        script = shell_words.read(words[index + 1])
    except InvalidCommand:
        return None
    env: dict[str, str] = {}
    aside: list[str] = []
    found: EngineWords | None = None
    for command in script.commands:
        exported = command.words[1:] if command.words[:1] == ("export",) else ()
        if not command.words or exported:
            env.update(command.assignments)
            env.update(_split(exported)[0])
        elif found is None and (inner := find(command.words, depth + 1)) is not None:
            found = replace(inner, env={**env, **dict(command.assignments), **inner.env})
        else:
            aside.append(" ".join(command.words))
    if found is None:
        return None
    notes = tuple(f"beside the engine the script runs: {line}" for line in aside)
    return replace(found, wrapper=(*found.wrapper, *aside), notes=(*found.notes, *notes)), index + 1
