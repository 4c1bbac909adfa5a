"""Secrets out of a launch command: each becomes a reference `${node:NAME}` that only the node can fill in."""

from __future__ import annotations

import json
import re
from dataclasses import replace as _replace
from typing import Any

from playbooks.reading.command_values import LaunchCommand, MountSpec
from playbooks.secret_names import BEARER, USERINFO, VALUE_SHAPES, is_secret_name

_REFERENCE = re.compile(r"\$\{node:[A-Za-z_][A-Za-z0-9_]*\}")
_VARIABLE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-?+])[^}]*)?\}?")
_FLAG_NAMES = {"api-key": "VLLM_API_KEY", "hf-token": "HF_TOKEN"}
_SHAPE_NAMES = (("hf_", "HF_TOKEN"), ("nvapi-", "NVIDIA_API_KEY"), ("AKIA", "AWS_ACCESS_KEY_ID"))
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)=(.*)", re.DOTALL)
_INLINE_ASSIGNMENT = re.compile(
    r"(?<![\w.-])(?:([A-Za-z_][\w.-]*)(=|\s*:\s*)|(-{1,2}[A-Za-z_][\w.-]*)(=|\s+))(\"[^\"]*\"|'[^']*'|[^\s'\";&|]+)"
)
_ALREADY = re.compile(r"\[redacted[^\]]*\]")
"""What an earlier redaction put in its place: no secret is counted twice."""
_SCHEMES = frozenset({"bearer", "basic", "token"})


class Redactor:
    """Replaces secrets and counts them; one for each command."""

    def __init__(self) -> None:
        self.count = 0

    def value(self, name: str, value: str) -> str:
        """Return the value of a variable, with its secret replaced when the name or the value is one."""
        if not value or _REFERENCE.fullmatch(value):
            return value
        if is_secret_name(name):
            return self._by_name(name, value)
        return self.text(self._json(value))

    def text(self, text: str) -> str:
        """Return the text with every value replaced that has the shape of a secret."""
        text = USERINFO.sub(lambda match: match[1] + self._userinfo(match[2]) + "@", text)
        text = BEARER.sub(lambda match: f"{match[1]} {self._reference('AUTHORIZATION')}", text)
        for shape in VALUE_SHAPES:
            text = shape.sub(lambda match: self._reference(_name_of_shape(match[0])), text)
        return text

    def argv(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return the arguments, with secrets replaced by flag name, JSON key, assignment or shape."""
        cleaned: list[str] = []
        flag: str | None = None
        for word in argv:
            if word.startswith("-"):
                name, equals, value = word.partition("=")
                flag = name.lstrip("-")
                cleaned.append(f"{name}={self.value(flag, value)}" if equals else self.text(word))
                continue
            assigned = _ASSIGNMENT.fullmatch(word)
            if flag is not None and is_secret_name(flag):
                cleaned.append(self._by_name(flag, word))
                continue  # --api-key takes several values
            if assigned and is_secret_name(assigned[1]):
                cleaned.append(f"{assigned[1]}={self.value(assigned[1], assigned[2])}")
            else:
                cleaned.append(
                    self.script(word) if " " in word and not word.startswith(("{", "[")) else self.value("", word)
                )
            flag = None
        return tuple(cleaned)

    def script(self, text: str) -> str:
        """Return a shell line or other prose with secrets replaced by the name before them or by shape."""

        def replaced(match: re.Match[str]) -> str:
            name, sign, value = match[1] or match[3], match[2] or match[4], match[5]
            if not is_secret_name(name) or _REFERENCE.fullmatch(value) or value.lower() in _SCHEMES:
                return match[0]
            return name + sign + self._by_name(name, value.strip("'\""))

        return _INLINE_ASSIGNMENT.sub(replaced, self.text(text))

    def _by_name(self, name: str, value: str) -> str:
        if _REFERENCE.fullmatch(value):
            return value
        variable = _VARIABLE.fullmatch(value)
        if _ALREADY.fullmatch(value):
            return f"${{node:{_reference_name(_FLAG_NAMES.get(name.lower().replace('_', '-'), name))}}}"
        if variable and not variable[2]:
            return f"${{node:{variable[1]}}}"  # a variable of the shell holds the secret: nothing was written down
        return self._reference(_FLAG_NAMES.get(name.lower().replace("_", "-"), name))

    def _userinfo(self, userinfo: str) -> str:
        return userinfo if _REFERENCE.fullmatch(userinfo) else self._reference("URL_USERINFO")

    def _reference(self, name: str) -> str:
        self.count += 1
        return f"${{node:{_reference_name(name)}}}"

    def _json(self, text: str) -> str:
        if not text.lstrip().startswith(("{", "[")):
            return text
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            return self.script(text)
        before = self.count
        cleaned = self._tree(parsed)
        return text if self.count == before else json.dumps(cleaned, separators=(",", ":"), ensure_ascii=False)

    def _tree(self, node: Any) -> Any:
        match node:
            case dict():
                return {
                    key: self._by_name(key, value)
                    if isinstance(value, str) and value and is_secret_name(str(key))
                    else self._tree(value)
                    for key, value in node.items()
                }
            case list():
                return [self._tree(item) for item in node]
            case str():
                return self.text(node)
            case _:
                return node


def without_secrets(command: LaunchCommand) -> LaunchCommand:
    """Return the command with every secret replaced by a reference, and the count of what was replaced."""
    redactor = Redactor()
    container = command.container
    if container is not None:
        entrypoint = redactor.argv(container.entrypoint) if container.entrypoint is not None else None
        others = tuple((name, redactor.script(redactor.value(name, value))) for name, value in container.others)
        container = _replace(container, entrypoint=entrypoint, others=others)
    return command.having(
        argv=redactor.argv(command.argv),
        image=redactor.text(command.image) if command.image is not None else None,
        env={name: redactor.value(name, value) for name, value in command.env.items()},
        mounts=tuple(MountSpec(redactor.text(m.source), redactor.text(m.target), m.read_only) for m in command.mounts),
        container=container,
        wrapper=tuple(redactor.script(word) for word in redactor.argv(command.wrapper)),
        notes=tuple(redactor.script(note) for note in command.notes),
        redactions=command.redactions + redactor.count,
    )


def _reference_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper() or "SECRET"


def _name_of_shape(value: str) -> str:
    return next((name for start, name in _SHAPE_NAMES if value.startswith(start)), "SECRET")
