"""Rules for the engine's arguments: what loads code, names a file, points to a host, or opens a port.

vLLM's parser takes `--a_b` for `--a-b`, `--a.key value` for JSON, and may take a shortened option name; the rules read an
argument list in the same generous way, so that no spelling slips past.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from workers.errors import PolicyRefusal
from workers.policy.file import NodePolicy

CODE_OPTIONS = frozenset(
    {
        "--trust-remote-code",
        "--tool-parser-plugin",
        "--reasoning-parser-plugin",
        "--io-processor-plugin",
        "--logits-processors",
        "--logits-processor-pattern",
        "--middleware",
        "--worker-cls",
        "--worker-extension-cls",
        "--scheduler-cls",
        "--log-config-file",
        "--config",
    }
)
"""Options that import, evaluate or read further options from what they name."""
_CODE_KEYS = re.compile(r"(module_path|_cls|_class|_plugin|_plugins|_passes|_pass)$")
_DOTTED_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*){1,}")
_CODE_VALUE_OPTIONS = frozenset({"--distributed-executor-backend", "--kv-transfer-config", "--ec-transfer-config"})
"""Options whose value may be the dotted name of a class."""
_SHORT = {"-O": "--optimization-level", "-cc": "--compilation-config", "-tp": "--tensor-parallel-size"}
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


@dataclass(frozen=True, slots=True)
class Option:
    """An option as given; `name` in the parser's spelling, `key` what followed the first dot, `value` None for a flag."""

    name: str
    key: str
    value: str | None


def read_options(argv: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[Option, ...]]:
    """Return the positional words and the options of an argument list, less `vllm serve` or a module call."""
    words: list[str] = []
    options: list[Option] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-" or re.fullmatch(r"-\d+(\.\d+)?", word):
            words.append(word)
            continue
        name, equals, value = word.partition("=")
        following: str | None = value if equals else None
        if not equals and rest and (not rest[0].startswith("-") or re.fullmatch(r"-\d+(\.\d+)?", rest[0])):
            following = rest.pop(0)
        base, _, key = name.partition(".")
        base = _SHORT.get(base, base.replace("_", "-") if base.startswith("--") else base)
        options.append(Option(base, key, following))
    return tuple(words), tuple(options)


def check_arguments(argv: tuple[str, ...], policy: NodePolicy) -> None:
    """Refuse what the policy does not list.

    Raises:
        PolicyRefusal: rules `code-argument`, `path`, `model`, `endpoint`, `listen`, `port`.
    """
    words, options = read_options(argv)
    for word in words:
        _check_model(word, policy)
    for option in options:
        _check_code(option, policy)
        match option.name:
            case "--model":
                _check_model(option.value or "", policy)
            case "--host":
                if option.value not in policy.arguments.listen:
                    raise PolicyRefusal(
                        "listen", f"expected an address of {list(policy.arguments.listen)}, found {option.value}"
                    )
            case "--port":
                check_port(option.value, policy)
            case "--master-addr" | "--data-parallel-address":
                _check_peer(option, policy)
            case _:
                for value in _values(option.value):
                    _check_value(option.name, value, policy)


def port_in(argv: tuple[str, ...]) -> int | None:
    """Return the port that the arguments fix, or None: then the worker takes a free one."""
    _, options = read_options(argv)
    given = [option.value for option in options if option.name == "--port"]
    return int(given[-1]) if given and given[-1] and given[-1].isdigit() else None


def check_port(value: str | None, policy: NodePolicy) -> None:
    """Refuse a port outside the policy's range.

    Raises:
        PolicyRefusal: rule `port`.
    """
    first, last = policy.ports
    if value is None or not value.isdigit() or not first <= int(value) <= last:
        raise PolicyRefusal("port", f"expected a port from {first} to {last}, found {value}")


def is_within(path: str | Path, folders: tuple[Path, ...]) -> bool:
    """Whether a path lies in one of the folders (or is one), after links on both sides are resolved."""
    resolved = Path(path).expanduser().resolve()
    return any(resolved == folder.resolve() or folder.resolve() in resolved.parents for folder in folders)


def _check_code(option: Option, policy: NodePolicy) -> None:
    listed = {name.replace("_", "-") for name in policy.arguments.code}
    meant = {
        name for name in CODE_OPTIONS if name == option.name or (len(option.name) > 2 and name.startswith(option.name))
    }
    if refused := sorted(meant - listed):
        raise PolicyRefusal(
            "code-argument",
            f"{option.name} loads code or further options ({refused[0]}) and is not listed in arguments.code",
        )
    if option.name in listed:
        return
    for key, value in _leaves(option.key, option.value):
        dotted = option.name in _CODE_VALUE_OPTIONS or key.endswith("backend")
        if (key and _CODE_KEYS.search(key)) or (dotted and _DOTTED_NAME.fullmatch(value)):
            raise PolicyRefusal(
                "code-argument",
                f"{option.name} names code to load ({key or value}) and is not listed in arguments.code",
            )


def _check_model(word: str, policy: NodePolicy) -> None:
    if _is_url(word):
        _check_endpoint("the model", word, policy)
    elif _is_path(word) or not _HUB_NAME.fullmatch(word):
        if not is_within(word, policy.model_dirs):
            raise PolicyRefusal("model", f"expected a model within {_listed(policy.model_dirs)}, found {word}")
    elif not any(_matches(word, wanted) for wanted in policy.model_ids):
        raise PolicyRefusal("model", f"expected a hub model of {list(policy.model_ids)}, found {word}")


def _check_value(name: str, value: str, policy: NodePolicy) -> None:
    if _is_url(value):
        _check_endpoint(name, value, policy)
    elif _is_path(value) and not is_within(value, policy.model_dirs + policy.files):
        raise PolicyRefusal(
            "path", f"{name}: expected a path within {_listed(policy.model_dirs + policy.files)}, found {value}"
        )


def _check_endpoint(name: str, value: str, policy: NodePolicy) -> None:
    parts = urlsplit(value)
    host = parts.hostname or parts.netloc
    if parts.scheme == "file" or host not in policy.endpoints:
        raise PolicyRefusal(
            "endpoint", f"{name}: expected a host of {list(policy.endpoints)}, found {parts.scheme}://{host}"
        )


def _check_peer(option: Option, policy: NodePolicy) -> None:
    """Refuse an address that is neither this node's own nor listed: the engine would connect to it, or listen on it."""
    allowed = {*policy.endpoints, *((policy.address,) if policy.address else ())}
    if option.value not in allowed:
        raise PolicyRefusal(
            "endpoint", f"{option.name}: expected an address of {sorted(allowed)}, found {option.value}"
        )


def _values(value: str | None) -> Iterator[str]:
    if value is None:
        return
    for _, leaf in _leaves("", value):
        yield leaf
        yield from (part for part in re.split(r"[,=]", leaf) if part != leaf)


def _leaves(key: str, value: str | None) -> Iterator[tuple[str, str]]:
    if value is None:
        yield key, ""
        return
    try:
        content = json.loads(value) if value[:1] in "{[" and value else None
    except ValueError:
        content = None
    if content is None:
        yield key, value
    else:
        yield from _walk(key, content)


def _walk(key: str, content: Any) -> Iterator[tuple[str, str]]:
    match content:
        case dict():
            for name, inner in content.items():
                yield from _walk(str(name), inner)
        case list():
            for inner in content:
                yield from _walk(key, inner)
        case _:
            yield key, str(content)


def _is_path(value: str) -> bool:
    return value.startswith(("/", "./", "../", "~")) or value in {".", ".."} or "/../" in value


def _is_url(value: str) -> bool:
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", value) is not None


def _matches(name: str, wanted: str) -> bool:
    return name.startswith(wanted[:-1]) if wanted.endswith("*") else name == wanted


def _listed(folders: tuple[Path, ...]) -> str:
    return ", ".join(map(str, folders)) or "(none listed)"
