"""Faults that can be switched on from the page, to see that nothing is lost."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

SLOW_BY_S = 2.5
LATE_SHARE_MS = 8000
RETRY_AFTER_S = 3


@dataclass(slots=True)
class Faults:
    """What is broken at the moment."""

    rate_limited: bool = False
    """Every call is answered 429 with Retry-After."""
    slow: bool = False
    """Every call takes 2.5 s longer."""
    missing_scope: str = ""
    """The scope the installation lacks; `files:read` makes a file read answer 200 with a HTML page."""
    share: str = "normal"
    """`normal`, `late` (8 s) or `never`: when an uploaded file appears in the thread."""
    lost_answer: bool = False
    """A post is done but its answer never arrives: HTTP 500 instead."""
    token_revoked: bool = False
    """The bot token is answered `token_revoked`."""
    duplicate_events: bool = False
    """Each event is delivered three times."""
    rates: bool = True
    """Slack's rate limits hold."""

    def change(self, wanted: dict[str, Any]) -> None:
        """Switch faults; unknown names and values of another type are refused. Raises: ValueError."""
        kinds = {one.name: type(getattr(self, one.name)) for one in fields(self)}
        for name, value in wanted.items():
            if name not in kinds or not isinstance(value, kinds[name]):
                raise ValueError(f"expected one of {', '.join(kinds)} with its own type, found {name}={value!r}")
            if name == "share" and value not in {"normal", "late", "never"}:
                raise ValueError(f"expected share to be normal, late or never, found {value!r}")
        for name, value in wanted.items():
            setattr(self, name, value)

    def as_dict(self) -> dict[str, Any]:
        """Return the switches by name."""
        return asdict(self)
