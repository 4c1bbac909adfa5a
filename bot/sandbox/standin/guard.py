"""Who may speak to the sandbox: this machine's own pages and programs, and no foreign web page.

A page elsewhere on the web can make a browser send requests to loopback addresses; pressing a button here starts a
process on this machine. So every request must name one of our own hosts, and no origin but ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_PAGE_HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; object-src 'none'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


def own_hosts(port: int) -> frozenset[str]:
    """Return the names under which the sandbox may be asked for."""
    return frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]"))


class Guard:
    """ASGI middleware in front of everything."""

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what may speak, refuse the rest."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        wrong = self._objection(scope)
        if wrong is None:
            await self._app(scope, receive, _with_headers(send) if scope["type"] == "http" else send)
        elif scope["type"] == "http":
            await PlainTextResponse(f"Refused: {wrong}\n", status_code=403)(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": wrong})

    def _objection(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return (
                f"expected the host to be one of {', '.join(sorted(self._hosts))}, found {', '.join(hosts) or 'none'}"
            )
        for origin in headers.getlist("origin"):
            parts = urlsplit(origin)
            if parts.scheme not in {"http", "ws"} or parts.netloc.lower() not in self._hosts:
                return f"expected no foreign web page, found origin {origin}"
        navigation = scope.get("method") == "GET" and headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site") in {"cross-site", "same-site"} and not navigation:
            return "expected no foreign web page, found a cross-site request"
        return None


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name for name, _ in message["headers"]}
            message["headers"] = [
                *message["headers"],
                *(
                    (name.encode(), value.encode())
                    for name, value in _PAGE_HEADERS.items()
                    if name.encode() not in given
                ),
            ]
        await send(message)

    return sending
