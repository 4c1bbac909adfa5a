"""A pasted launch command into a value: `docker run`, `vllm serve`, a module call, compose, Kubernetes, or a list of words.

What cannot be taken over is said in the notes, never dropped in silence; secrets do not survive the reading.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable

from playbooks.errors import InvalidCommand
from playbooks.reading import command_documents
from playbooks.reading.command_secrets import without_secrets
from playbooks.reading.command_values import CommandKind, ContainerSpec, LaunchCommand, MountSpec
from playbooks.reading.docker_options import read_run_options

__all__ = ["CommandKind", "ContainerSpec", "LaunchCommand", "MountSpec", "read"]

_MOST_CHARACTERS = 100_000
_MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server", "vllm.entrypoints.cli.main")
_RUNNERS = frozenset({"docker", "podman", "nerdctl"})
_WRAPPERS = {
    "sudo": 0,
    "nohup": 0,
    "exec": 0,
    "env": 0,
    "time": 0,
    "setsid": 0,
    "command": 0,
    "stdbuf": -1,
    "numactl": -1,
    "nice": -1,
    "timeout": 1,
}
"""Words around a command, with how many plain words of their own follow; -1 = options only."""
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_PROMPT = re.compile(r"^\s*(?:\([\w.-]+\) )?(?:[\w.@:~/-]+ ?)?[$#>] (?=\S)")
_SEPARATORS = frozenset({";", "&&", "||", "|", "&"})


def read(text: str) -> LaunchCommand:
    """Read a pasted launch command.

    Raises:
        InvalidCommand: no launch command was found; the message says what was expected and found.
    """
    if not text.strip():
        raise InvalidCommand("expected a launch command, found nothing")
    if len(text) > _MOST_CHARACTERS:
        raise InvalidCommand(f"expected a command of at most {_MOST_CHARACTERS} characters, found {len(text)}")
    stripped = text.strip()
    found = command_documents.read(stripped, of_words=_of_words) or _of_shell(stripped)
    return without_secrets(found)


def _of_shell(text: str) -> LaunchCommand:
    """Read shell text: continuation lines joined, comments and prompts taken off, commands before the launch kept aside."""
    joined = re.sub(r"[\\^]\s*\r?\n\s*", " ", text.replace("\r\n", "\n"))
    lines = [_PROMPT.sub("", line).strip() for line in joined.split("\n")]
    exported: dict[str, str] = {}
    before: list[str] = []
    found: LaunchCommand | None = None
    for line in lines:
        if not line or line.startswith("#"):
            continue
        for words in _commands(line):
            if words[0] in {"export", "set"} and len(words) > 1:
                exported.update(_assignments(words[1:]))
                continue
            if found is not None:
                before.append(f"after the launch: {shlex.join(words)}")
                continue
            found = _launch(words)
            if found is None:
                if all(_ASSIGNMENT.fullmatch(word) for word in words):
                    exported.update(_assignments(words))
                else:
                    before.append(f"before the launch: {shlex.join(words)}")
    if found is None:
        first = next((line for line in lines if line), "")
        raise InvalidCommand(
            f"expected `docker run …`, `vllm serve …`, a vLLM module call, a compose or Kubernetes snippet, or a JSON list; found `{first[:80]}`"
        )
    env = {**exported, **found.env} if not found.kind.in_container else found.env
    notes = tuple(before)
    if exported and found.kind.in_container:
        notes += (f"set in the shell, not in the container: {', '.join(sorted(exported))}",)
    return found.having(env=env, notes=(*found.notes, *notes))


def _commands(line: str) -> list[list[str]]:
    """Split a line into the words of its commands."""
    line = re.sub(r"(?<=\s)&>", ">", re.sub(r"(?<=\s)\d?>&\d", "", line))
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
        lexer.whitespace_split = True
        lexer.commenters = ""
        words = list(lexer)
    except ValueError as error:
        raise InvalidCommand(f"expected closed quotes, found {error.args[0]} in `{line[:80]}`") from error
    commands: list[list[str]] = [[]]
    into_file = False
    for word in words:
        if into_file:
            into_file = False
        elif word in _SEPARATORS:
            commands.append([])
        elif match := re.fullmatch(r"\d?>{1,2}(.*)", word):
            into_file = not match[1]
        else:
            commands[-1].append(word)
    return [command for command in commands if command]


def _assignments(words: list[str]) -> dict[str, str]:
    return {match[1]: match[2] for word in words if (match := _ASSIGNMENT.fullmatch(word))}


def _launch(words: list[str]) -> LaunchCommand | None:
    """Read the words of one command; None when it launches nothing."""
    env: dict[str, str] = {}
    wrapper: list[str] = []
    rest = list(words)
    while rest:
        name = rest[0].rsplit("/", 1)[-1]
        if match := _ASSIGNMENT.fullmatch(rest[0]):
            env[match[1]] = match[2]
            rest.pop(0)
        elif name in _WRAPPERS:
            wrapper.append(rest.pop(0))
            while rest and rest[0].startswith("-"):
                wrapper.append(rest.pop(0))
            own = max(0, _WRAPPERS[name])
            wrapper += rest[:own]
            del rest[:own]
        else:
            break
    if not rest:
        return None
    found = _docker(rest) or _shell_in_shell(rest) or _of_words(rest)
    if found is None:
        return None
    return found.having(env={**env, **found.env}, wrapper=(*wrapper, *found.wrapper))


def _shell_in_shell(words: list[str]) -> LaunchCommand | None:
    if words[0].rsplit("/", 1)[-1] not in {"bash", "sh"}:
        return None
    options = [i for i, word in enumerate(words) if re.fullmatch(r"-[a-z]*c", word)]
    if not options or options[0] + 1 >= len(words):
        return None
    inner = _of_shell(words[options[0] + 1])
    return inner.having(wrapper=(*words[: options[0] + 1], *inner.wrapper))


def _docker(words: list[str]) -> LaunchCommand | None:
    name = words[0].rsplit("/", 1)[-1]
    if name not in _RUNNERS or len(words) < 2:
        return None
    verbs = [i for i, word in enumerate(words[1:4], 1) if word in {"run", "create"}]
    if not verbs:
        return None
    options, image, rest = read_run_options(words[verbs[0] + 1 :])
    if image is None:
        raise InvalidCommand(f"expected an image after the options of `{name} run`, found none")
    inner = (_launch(list(rest)) if rest else None) or LaunchCommand(kind=CommandKind.ARGV, argv=tuple(rest))
    return LaunchCommand(
        kind=CommandKind.DOCKER_RUN,
        argv=inner.argv,
        image=image,
        env={**options.env, **inner.env},
        mounts=options.mounts,
        container=options.container,
        program=inner.program,
        wrapper=inner.wrapper,
        notes=options.notes,
    )


def _of_words(words: Iterable[str]) -> LaunchCommand | None:
    """Read `vllm serve …` or a module call; None when it is neither."""
    rest = list(words)
    name = rest[0].rsplit("/", 1)[-1]
    path = rest[0] if "/" in rest[0] else None
    if name == "vllm" and len(rest) > 1 and rest[1] == "serve":
        return LaunchCommand(kind=CommandKind.VLLM_SERVE, argv=("vllm", "serve", *rest[2:]), program=path)
    if re.fullmatch(r"python[\d.]*", name) and "-m" in rest[:6]:
        at = rest.index("-m")
        if at + 1 < len(rest) and rest[at + 1] in _MODULES:
            return LaunchCommand(
                kind=CommandKind.VLLM_SERVE, argv=("python3", "-m", rest[at + 1], *rest[at + 2 :]), program=path
            )
    return None


def read_words(words: Iterable[str]) -> LaunchCommand:
    """Read a list of words, as an inspected container holds them."""
    listed = list(words)
    found = _launch(listed) if listed else None
    return without_secrets(found or LaunchCommand(kind=CommandKind.ARGV, argv=tuple(listed)))


def read_json_list(text: str) -> list[str] | None:
    """Return a JSON list of words, None when the text is none."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return (
        [str(item) for item in value]
        if isinstance(value, list) and all(isinstance(i, str | int) for i in value)
        else None
    )
