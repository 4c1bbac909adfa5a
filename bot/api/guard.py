"""In front of every route: a body may not be too large, nor come too slowly; and each request is counted.

The server alone goes on reading a body that arrives a byte a second. Uploads of artifacts pass through here unread, for
their route reads them piece by piece under limits of its own.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect

from bot.api.refusals import refusal

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from bot.api.metrics import Metrics
    from bot.api.state import Limits

UPLOADS = ("/artifacts/", "/watched/")
SLACK = "/slack/events"


class TooLarge(Exception):  # noqa: N818 - says the condition; ends as status 413 here
    """More bytes than this route takes."""


class RequestGuard:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, *, limits: Limits, metrics: Metrics) -> None:
        self._app = app
        self._limits = limits
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take the body in, within its limits, then hand the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        path: str = scope["path"]
        is_slack = path == SLACK
        most = self._limits.slack_bytes if is_slack else self._limits.json_bytes
        within_s = self._limits.slack_s if is_slack else self._limits.json_s
        try:
            if path.startswith(UPLOADS):
                await self._app(scope, receive, counted)
            else:
                body = await self._body(scope, receive, most=most, within_s=within_s)
                await self._app(scope, _replay(body, receive), counted)
        except TooLarge:
            await refusal(413, "too_large", f"expected at most {most} bytes")(scope, receive, counted)
        except TimeoutError:
            await refusal(408, "too_slow", f"expected the body within {within_s:g} s")(scope, receive, counted)
        except ClientDisconnect:
            status = status or 499
        finally:
            route = getattr(scope.get("route"), "path", "unknown")
            self._metrics.request(scope["method"], route, status or 500)

    async def _body(self, scope: Scope, receive: Receive, *, most: int, within_s: float) -> bytes:
        announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if announced.isdigit() and len(announced) < 20 and int(announced) > most:
            raise TooLarge
        parts: list[bytes] = []
        size = 0
        async with asyncio.timeout(within_s):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > most:
                    raise TooLarge
                if not message.get("more_body", False):
                    return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Give the body out once, then whatever the server says (a disconnect)."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
