"""Reads one YAML text of the catalogue into entries that know their file and line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

import yaml

from playbooks import safe_yaml
from playbooks.errors import InvalidDefinition

T = TypeVar("T", bound=StrEnum)
_LINE = "__line__"


class _Lines(safe_yaml.SafeLoader):  # type: ignore[misc, valid-type, unused-ignore]
    """Notes on which line each mapping starts."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        found: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        found[_LINE] = node.start_mark.line + 1
        return found


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a definitions file, with typed access that names file and line when it refuses."""

    file: str
    line: int
    values: Mapping[str, Any]

    @property
    def place(self) -> str:
        """File and line, as in messages."""
        return f"{self.file}:{self.line}"

    def text(self, key: str) -> str:
        """Return a text that must be there."""
        value = self.values.get(key)
        if not isinstance(value, str) or not value.strip():
            raise InvalidDefinition(f"{self.place}: expected a text under {key!r}, found {_shown(value)}")
        return value

    def optional(self, key: str) -> str:
        """Return a text, empty when absent."""
        return self.text(key) if key in self.values else ""

    def texts(self, key: str) -> tuple[str, ...]:
        """Return one text or a list of them as a tuple; empty when absent."""
        value = self.values.get(key, ())
        found = [value] if isinstance(value, str) else value
        if not isinstance(found, list | tuple) or not all(isinstance(item, str) for item in found):
            raise InvalidDefinition(
                f"{self.place}: expected a text or a list of texts under {key!r}, found {_shown(value)}"
            )
        return tuple(found)

    def flag(self, key: str) -> bool:
        """Return a truth value, false when absent."""
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise InvalidDefinition(f"{self.place}: expected true or false under {key!r}, found {_shown(value)}")
        return value

    def number(self, key: str, default: int) -> int:
        """Return a whole number from 1."""
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InvalidDefinition(
                f"{self.place}: expected a whole number from 1 under {key!r}, found {_shown(value)}"
            )
        return value

    def choice(self, key: str, allowed: tuple[str, ...], default: str) -> str:
        """Return one of the allowed words."""
        value = self.values.get(key, default)
        if value not in allowed:
            raise InvalidDefinition(
                f"{self.place}: expected one of {', '.join(allowed)} under {key!r}, found {_shown(value)}"
            )
        return str(value)

    def member(self, key: str, kind: type[T]) -> T:
        """Return a member of a closed set."""
        value = self.values.get(key)
        try:
            return kind(value)  # type: ignore[arg-type]
        except ValueError:
            raise InvalidDefinition(
                f"{self.place}: expected a {kind.__name__} under {key!r}, found {_shown(value)}"
            ) from None

    def members(self, key: str, kind: type[StrEnum]) -> tuple[str, ...]:
        """Return the members named, one text or a list."""
        for item in self.texts(key):
            if item not in set(kind):
                raise InvalidDefinition(f"{self.place}: expected {kind.__name__}s under {key!r}, found {item!r}")
        return self.texts(key)


def load(name: str, text: str, *, schemas: Mapping[str, str]) -> tuple[str, list[Entry]]:
    """Read one file: its kind by `schema`, and its entries; `source` and `seen_in` of the file hold for entries without.

    Raises:
        InvalidDefinition: no YAML, an unknown schema, or entries that are no mappings.
    """
    try:
        document = yaml.load(text, Loader=_Lines)  # noqa: S506 - a safe loader that notes lines
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{name}:{mark.line + 1}" if mark else name
        raise InvalidDefinition(f"{place}: no YAML: {getattr(error, 'problem', error)}") from error
    if not isinstance(document, dict) or document.get("schema") not in schemas:
        found = document.get("schema") if isinstance(document, dict) else document
        raise InvalidDefinition(f"{name}:1: expected schema {' or '.join(schemas)}, found {_shown(found)}")
    kind = schemas[document["schema"]]
    listed = document.get(kind)
    if not isinstance(listed, list):
        raise InvalidDefinition(f"{name}:1: expected a list under {kind!r}, found {_shown(listed)}")
    shared = {key: document[key] for key in ("source", "seen_in") if key in document}
    entries = []
    for number, item in enumerate(listed, start=1):
        if not isinstance(item, dict):
            raise InvalidDefinition(f"{name}: entry {number} of {kind!r}: expected a mapping, found {_shown(item)}")
        own = _without_lines(item)
        entries.append(Entry(name, item[_LINE], own if kind == "classes" else shared | own))
    return kind, entries


def only(entry: Entry, allowed: frozenset[str]) -> None:
    """Refuse a key that nobody reads.

    Raises:
        InvalidDefinition: a key is not among the allowed ones.
    """
    if unknown := sorted(set(entry.values) - allowed):
        raise InvalidDefinition(
            f"{entry.place}: expected keys {', '.join(sorted(allowed))}; found {', '.join(unknown)}"
        )


def _without_lines(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_lines(item) for key, item in value.items() if key != _LINE}
    if isinstance(value, list):
        return [_without_lines(item) for item in value]
    return value


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    return f"{type(value).__name__} {str(_without_lines(value))[:60]!r}"
