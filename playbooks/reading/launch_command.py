"""A pasted launch command to a value: `docker run`, `vllm serve`, a module call, compose, Kubernetes, `docker inspect`, JSON words.

What cannot be taken over is said in the notes, never dropped in silence; secrets do not survive the reading. Whether
the command is a good one is judged elsewhere.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

from playbooks.errors import InvalidCommand
from playbooks.reading import command_documents, docker_run, engine_words, shell_words
from playbooks.reading.command_secrets import without_secrets
from playbooks.reading.command_values import CommandKind, ContainerSpec, LaunchCommand, MountSpec
from playbooks.reading.shell_words import SimpleCommand

__all__ = ["CommandKind", "ContainerSpec", "LaunchCommand", "MountSpec", "read", "read_words"]

_MOST_CHARACTERS = 100_000
_VARIABLE = re.compile(r"(?<!\\)\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_EXPORTING = frozenset({"export", "declare", "typeset"})
_SILENT = frozenset({"set", "cd", "echo", "sleep", "wait", "true", "clear", "#!/bin/bash", "#!/bin/sh"})
_OTHER_VERB = re.compile(r"\bvllm\s+(bench|chat|complete|collect-env|run-batch)\b")


def read(text: str) -> LaunchCommand:
    """Read a pasted launch command.

    Raises:
        InvalidCommand: no launch command was found; the message says what was expected and found.
    """
    stripped = text.strip().strip("\ufeff")
    if not stripped:
        raise InvalidCommand("expected a launch command, found nothing")
    if len(stripped) > _MOST_CHARACTERS:
        raise InvalidCommand(f"expected a command of at most {_MOST_CHARACTERS} characters, found {len(stripped)}")
    return _with_open_ends(without_secrets(command_documents.read(stripped) or _of_shell(stripped)))


def read_words(words: tuple[str, ...] | list[str]) -> LaunchCommand:
    """Read a list of words, as a process table or an inspected container holds them.

    Raises:
        InvalidCommand: a `docker run` among them is broken.
    """
    listed = tuple(words)
    return without_secrets(_launch(SimpleCommand((), listed)) or LaunchCommand(CommandKind.ARGV, listed))


def _of_shell(text: str) -> LaunchCommand:
    script = shell_words.read(text)
    shell: dict[str, str] = {}
    exported: dict[str, str] = {}
    aside: list[str] = []
    found: LaunchCommand | None = None
    for command in script.commands:
        expanded = _expanded(command, shell)
        if not expanded.words:
            shell.update(expanded.assignments)
            exported.update((name, value) for name, value in expanded.assignments if name in exported)
        elif expanded.words[0] in _EXPORTING:
            assigned = _assigned(expanded.words[1:])
            shell.update(assigned)
            exported.update(assigned)
            exported.update((name, shell[name]) for name in expanded.words[1:] if name in shell)
        elif found is None and (launch := _launch(expanded, shell)) is not None:
            found = launch
        elif expanded.words[0] not in _SILENT:
            where = "before" if found is None else "after"
            shown = expanded.words[:2] if "login" in expanded.words else expanded.words  # a password may be any word
            aside.append(f"{where} the launch, not taken over: {shlex.join(shown)}")
    if found is None:
        raise InvalidCommand(_refusal(text))
    outside = sorted(name for name in exported if found.kind.in_container and name not in found.env)
    if outside:
        aside.append(f"set in the shell, not in the container: {', '.join(outside)}")
    env = found.env if found.kind.in_container else {**exported, **found.env}
    return found.having(env=env, notes=tuple(dict.fromkeys((*script.notes, *found.notes, *aside))))


def _with_open_ends(command: LaunchCommand) -> LaunchCommand:
    """Note what a shell or compose would still fill in; what holds a secret is a reference already."""
    words = (command.image or "", *command.argv, *command.env.values(), *(mount.source for mount in command.mounts))
    left = shell_words.expansions(words)
    if not left:
        return command
    return command.having(notes=(*command.notes, f"not known here is the value of {', '.join(left[:6])}"))


def _launch(command: SimpleCommand, shell: dict[str, str] | None = None) -> LaunchCommand | None:
    """Read one simple command; None when it launches nothing."""
    start = docker_run.is_run(command.words)
    if start is not None:
        found = engine_words.in_container(docker_run.read(command.words[start:]))
        handed = {
            name: (shell or {}).get(name, value) if value == f"${{node:{name}}}" else value
            for name, value in found.env.items()
        }
        return found.having(env=handed)
    engine = engine_words.find(command.words)
    if engine is None:
        return None
    return LaunchCommand(
        CommandKind.VLLM_SERVE,
        engine.argv,
        env={**dict(command.assignments), **engine.env},
        program=engine.program,
        wrapper=engine.wrapper,
        notes=engine.notes,
    )


def _expanded(command: SimpleCommand, shell: dict[str, str]) -> SimpleCommand:
    """Put in the variables that the text itself sets; what it does not set stays as written."""

    def value(match: re.Match[str]) -> str:
        return shell.get(match[1] or match[2], match[0])

    assignments = tuple((name, _VARIABLE.sub(value, text)) for name, text in command.assignments)
    return replace(command, assignments=assignments, words=tuple(_VARIABLE.sub(value, word) for word in command.words))


def _assigned(words: tuple[str, ...]) -> dict[str, str]:
    return {
        name: value
        for name, equals, value in (word.partition("=") for word in words)
        if equals and not name.startswith("-")
    }


def _refusal(text: str) -> str:
    expected = "`docker run …`, `vllm serve …`, a vLLM module call, a compose or Kubernetes snippet, `docker inspect`, or a JSON list of words"
    other = _OTHER_VERB.search(text)
    found = f"`vllm {other[1]}`, which starts no server" if other else f"`{text.splitlines()[0][:80]}`"
    return f"expected {expected}; found {found}"
