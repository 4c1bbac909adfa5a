"""One call of the Web API: its arguments, as sent in a form, a query or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bot.sandbox.standin.refusal import RefusedError
from bot.sandbox.standin.table import Json
from bot.sandbox.standin.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Call:
    """A method and its arguments."""

    method: str
    args: Mapping[str, Any]

    def text(self, name: str) -> str:
        """Return a required argument. Raises: RefusedError invalid_arguments."""
        value = self.args.get(name)
        if value is None or value == "":
            raise RefusedError(
                "invalid_arguments", response_metadata={"messages": [f"[ERROR] missing required field: {name}"]}
            )
        return str(value)

    def optional(self, name: str) -> str | None:
        """Return an argument, or None when it is missing or empty."""
        value = self.args.get(name)
        return None if value is None or value == "" else str(value)

    def flag(self, name: str) -> bool:
        """Return a boolean argument; forms send it as text."""
        return str(self.args.get(name, "")).lower() in {"1", "true"}

    def number(self, name: str, default: int) -> int:
        """Return a whole number. Raises: RefusedError invalid_arguments."""
        value = self.args.get(name)
        if value in {None, ""}:
            return default
        try:
            return int(str(value))
        except ValueError:
            raise RefusedError("invalid_arguments") from None

    def parsed(self, name: str, kind: type, *, error: str) -> Any:
        """Return an argument that is JSON in a form and an object or list in JSON; None when missing. Raises: RefusedError."""
        value = self.args.get(name)
        if value is None or value == "":
            return None
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                raise RefusedError(error) from None
        if not isinstance(value, kind):
            raise RefusedError(error)
        return value


Method = Callable[[Workspace, Call], Json]
