"""Short-lived rights: trigger ids (3 s, once), response URLs (5 uses, 30 minutes), upload URLs, socket URLs."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bot.sandbox.standin.refusal import RefusedError
from bot.sandbox.standin.table import Json

KEPT = 5000


@dataclass(slots=True)
class _Trigger:
    user: str
    made_at: float
    used: bool = False


@dataclass(slots=True)
class ResponseUrl:
    """Where an interaction may still be answered."""

    channel: str
    user: str
    made_at: float
    message: Json | None
    """The message the interaction came from; None for a slash command."""
    ephemeral: bool
    uses: int = 0


class Tickets:
    """All rights given out and not yet forgotten."""

    def __init__(self, limits: dict[str, Any], clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._triggers: dict[str, _Trigger] = {}
        self._responses: dict[str, ResponseUrl] = {}
        self._uploads: dict[str, str] = {}
        self._sockets: set[str] = set()

    def trigger(self, user: str) -> str:
        """Return a trigger id for what the user just did."""
        name = f"{int(self._clock() * 1000)}.{secrets.randbelow(10**12):012d}.{secrets.token_hex(16)}"
        self._triggers[name] = _Trigger(user, self._clock())
        self._shorten(self._triggers)
        return name

    def spend_trigger(self, name: Any) -> str:
        """Use a trigger id and return whose it is. Raises: RefusedError with Slack's word for why not."""
        found = self._triggers.get(str(name))
        if found is None:
            raise RefusedError("invalid_trigger_id")
        if found.used:
            raise RefusedError("exchanged_trigger_id")
        if self._clock() - found.made_at > self._limits["trigger_life_s"]:
            raise RefusedError("expired_trigger_id")
        found.used = True
        return found.user

    def response_url(self, *, channel: str, user: str, message: Json | None, ephemeral: bool) -> str:
        """Return the path of a response URL."""
        name = secrets.token_urlsafe(24)
        self._responses[name] = ResponseUrl(channel, user, self._clock(), message, ephemeral)
        self._shorten(self._responses)
        return f"/actions/response/{name}"

    def spend_response(self, name: str) -> ResponseUrl:
        """Use a response URL once. Raises: RefusedError."""
        found = self._responses.get(name)
        if found is None:
            raise RefusedError("invalid_url")
        if (
            self._clock() - found.made_at > self._limits["response_url_life_s"]
            or found.uses >= self._limits["response_url_uses"]
        ):
            raise RefusedError("used_url")
        found.uses += 1
        return found

    def upload_url(self, file_id: str) -> str:
        """Return the path to which a file's bytes are posted."""
        name = secrets.token_urlsafe(24)
        self._uploads[name] = file_id
        return f"/upload/v1/{name}"

    def spend_upload(self, name: str) -> str | None:
        """Return the file the upload belongs to, once."""
        return self._uploads.pop(name, None)

    def socket(self) -> str:
        """Return a one-time right to open a socket."""
        name = secrets.token_urlsafe(24)
        self._sockets.add(name)
        return name

    def spend_socket(self, name: str) -> bool:
        """Use the right to open a socket."""
        if name not in self._sockets:
            return False
        self._sockets.remove(name)
        return True

    @staticmethod
    def _shorten(kept: dict[str, Any]) -> None:
        while len(kept) > KEPT:
            del kept[next(iter(kept))]
