"""What stands before every Web API method: token, scope, rate, and the faults that are switched on."""

from __future__ import annotations

import asyncio
import hmac
import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bot.sandbox.standin import methods_chat, methods_conversations, methods_files, methods_people, methods_views
from bot.sandbox.standin.call import Call, Method
from bot.sandbox.standin.faults import RETRY_AFTER_S, SLOW_BY_S
from bot.sandbox.standin.refusal import RefusedError
from bot.sandbox.standin.table import Json, Table
from bot.sandbox.standin.workspace import Workspace

METHODS: dict[str, Method] = {
    **methods_chat.METHODS,
    **methods_conversations.METHODS,
    **methods_files.METHODS,
    **methods_people.METHODS,
    **methods_views.METHODS,
}
_POSTS = {"chat.postMessage", "chat.update", "files.completeUploadExternal"}


@dataclass(frozen=True, slots=True)
class Credentials:
    """The sandbox's own tokens; no others are taken."""

    bot_token: str
    app_token: str
    signing_secret: str

    @classmethod
    def fresh(cls) -> Credentials:
        """Make new ones. They say what they are, so that none is taken for a real one."""
        return cls(
            f"xoxb-sandbox-{secrets.token_hex(16)}", f"xapp-sandbox-{secrets.token_hex(16)}", secrets.token_hex(16)
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer."""

    status: int
    body: Json
    headers: dict[str, str] = field(default_factory=dict)


class Rates:
    """One bucket per method, and one per channel for posts."""

    def __init__(self, table: Table, clock: Callable[[], float]) -> None:
        self._table = table
        self._clock = clock
        self._buckets: dict[tuple[str, str], tuple[float, float]] = {}

    def wait_s(self, method: str, channel: str) -> int:
        """Take one from the buckets, or return how many seconds to wait."""
        spec = self._table.methods[method]
        tier = spec["tier"]
        wait = self._take((method, ""), self._table.tier_burst[tier], self._table.tiers[tier] / 60)
        if not wait and spec.get("per_channel"):
            per = self._table.post_per_channel
            wait = self._take((method, channel), per["burst"], per["per_second"])
        return wait

    def _take(self, key: tuple[str, str], burst: float, per_second: float) -> int:
        now = self._clock()
        left, at = self._buckets.get(key, (burst, now))
        left = min(burst, left + (now - at) * per_second)
        if left < 1:
            self._buckets[key] = (left, now)
            return max(1, math.ceil((1 - left) / per_second))
        self._buckets[key] = (left - 1, now)
        return 0


class Gate:
    """Answers calls of the Web API."""

    def __init__(self, ws: Workspace, credentials: Credentials) -> None:
        self._ws = ws
        self._credentials = credentials
        self._rates = Rates(ws.table, ws.clock)

    async def answer(self, method: str, token: str | None, args: Mapping[str, Any]) -> Answer:
        """Answer one call as Slack would."""
        if self._ws.faults.slow:
            await asyncio.sleep(SLOW_BY_S)
        try:
            self._admit(method, token, args)
            wait = RETRY_AFTER_S if self._ws.faults.rate_limited else 0
            if not wait and self._ws.faults.rates:
                wait = self._rates.wait_s(method, str(args.get("channel", "")))
            if wait:
                return Answer(429, {"ok": False, "error": "ratelimited"}, {"Retry-After": str(wait)})
            body = METHODS[method](self._ws, Call(method, args))
        except RefusedError as refused:
            return Answer(200, refused.body())
        if self._ws.faults.lost_answer and method in _POSTS:
            return Answer(500, {"ok": False, "error": "internal_error"})
        return Answer(200, body, {"X-OAuth-Scopes": ",".join(sorted(self.scopes()))})

    def scopes(self) -> set[str]:
        """Return the scopes the installation has at the moment."""
        return set(self._ws.table.installation.scopes) - {self._ws.faults.missing_scope}

    def owns(self, token: str | None) -> bool:
        """Whether it is the bot token of this sandbox."""
        revoked = self._ws.faults.token_revoked
        return (
            token is not None
            and not revoked
            and hmac.compare_digest(token.encode(), self._credentials.bot_token.encode())
        )

    def _admit(self, method: str, token: str | None, args: Mapping[str, Any]) -> None:
        if method not in METHODS:
            raise RefusedError("unknown_method", req_method=method)
        if not token:
            raise RefusedError("not_authed")
        known = {self._credentials.bot_token: "bot", self._credentials.app_token: "app"}
        kind = known.get(token)
        if kind is None:
            # Whatever came is not kept or shown: it may be a real workspace's token sent here by mistake.
            raise RefusedError(
                "invalid_auth", warning="This is the Baseline sandbox: it takes only the token it made itself."
            )
        if kind == "bot" and self._ws.faults.token_revoked:
            raise RefusedError("token_revoked")
        if kind != self._ws.table.methods[method].get("token", "bot"):
            raise RefusedError("not_allowed_token_type")
        needed = self._needed(method, args)
        if needed - self.scopes():
            raise RefusedError(
                "missing_scope", needed=",".join(sorted(needed)), provided=",".join(sorted(self.scopes()))
            )

    def _needed(self, method: str, args: Mapping[str, Any]) -> set[str]:
        spec = self._ws.table.methods[method]
        if "scopes_by_channel" in spec:
            channel = self._ws.channels.get(str(args.get("channel")))
            return {spec["scopes_by_channel"]["im" if channel and channel["is_im"] else "channel"]}
        return set(spec.get("scopes", []))
