"""Reads the definitions that ship with the package: playbooks, signatures, error classes, boundaries.

The only IO of the core beside its command line; nothing is read at import time, and each definition once per process.
What a definition means is decided by the parser of its own package.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING

from playbooks.errors import InvalidDefinition, UnreadableInput

if TYPE_CHECKING:
    from playbooks.guiding.playbook import Playbook
    from playbooks.judging.boundary import Boundaries
    from playbooks.judging.signature_catalogue import Catalogue

_NOT_PLAYBOOKS = frozenset({"error-classes", "benign"})


def _definitions() -> Traversable:
    return resources.files("playbooks") / "definitions"


def _texts(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, str]]:
    for item in sorted(folder.iterdir(), key=lambda found: found.name):
        if item.is_file() and item.name.endswith(".yaml"):
            yield f"{prefix}{item.name}", item.read_text(encoding="utf-8")


@cache
def load_catalogue() -> Catalogue:
    """Return the signature catalogue: signatures, benign lines and error classes, validated.

    Raises:
        InvalidDefinition: a definition breaks its form; the message holds file and place.
    """
    from playbooks.judging.signature_catalogue import parse

    root = _definitions()
    files = {name: text for name, text in _texts(root) if name.removesuffix(".yaml") in _NOT_PLAYBOOKS}
    return parse(files | dict(_texts(root / "signatures", "signatures/")))


@cache
def load_boundaries() -> Boundaries:
    """Return the boundary data that ships with the package: a model's, the driver vendor's, the engine's options.

    Raises:
        InvalidDefinition: a definition breaks its form; the message holds file and place.
    """
    from playbooks.judging.boundary import parse_boundaries

    return parse_boundaries(dict(_texts(_definitions() / "boundaries")))


@cache
def playbook_names() -> tuple[str, ...]:
    """Return the names of the playbooks that ship with the package."""
    names = (name.removesuffix(".yaml") for name, _ in _texts(_definitions()))
    return tuple(name for name in names if name not in _NOT_PLAYBOOKS)


def playbook_bytes(name: str) -> bytes:
    """Return a playbook as it ships: what an incident keeps as an artifact.

    Raises:
        InvalidDefinition: there is no playbook of that name.
    """
    if name not in playbook_names():
        raise InvalidDefinition(f"no playbook {name!r}; there are: {', '.join(playbook_names())}")
    return (_definitions() / f"{name}.yaml").read_bytes()


@cache
def load_playbook(name: str) -> Playbook:
    """Return a playbook that ships with the package, validated.

    Raises:
        InvalidDefinition: there is no playbook of that name, or it breaks its form.
    """
    from playbooks.guiding.playbook import parse_playbook

    return parse_playbook(playbook_bytes(name), file=f"{name}.yaml")


def read_input(path: Path) -> bytes:
    """Return what a person handed in: a file, or standard input for `-`.

    Raises:
        UnreadableInput: there is no such file, or it may not be read.
    """
    if str(path) == "-":
        return sys.stdin.buffer.read()
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnreadableInput(f"{path}: {error.strerror or error}") from error
