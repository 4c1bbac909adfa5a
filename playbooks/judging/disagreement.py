"""What a rule over a fingerprint found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from playbooks.reading.fields import Facts

_LONGEST = 120


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A rule that found something: which one, over which fields, in words, with the values it rests on.

    severity: `finding`, or `note` for what is worth knowing and stops nothing.
    """

    rule: str
    fields: tuple[str, ...]
    text: str
    severity: Literal["finding", "note"] = "finding"
    evidence: tuple[str, ...] = ()


Rule = Callable[[Facts, Facts], Iterator[Disagreement]]
"""(host, container) to what was found; it speaks only of fields that were read."""


def shown(value: Any) -> str:
    """Return a value for a reader, cut to a line."""
    if value is None:
        return "not there"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
