"""Reads YAML of any origin: the safe loader on libyaml, which is fast and refuses deep nesting at once.

The loader in Python takes seconds to give up on a thousand open brackets, and a pasted file must not take the bot's time.
"""

from __future__ import annotations

from typing import Any

import yaml

SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
YamlFaults = (yaml.YAMLError, ValueError, RecursionError)


def load(text: str | bytes) -> Any:
    """Return the one document of a text. Raises: one of `YamlFaults`."""
    return yaml.load(text, Loader=SafeLoader)  # noqa: S506 - either loader is a safe one


def load_all(text: str | bytes) -> list[Any]:
    """Return all documents of a text. Raises: one of `YamlFaults`."""
    return list(yaml.load_all(text, Loader=SafeLoader))
