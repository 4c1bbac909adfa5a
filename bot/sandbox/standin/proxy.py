"""Passes the bot's own addresses through the sandbox's port, so that there is one address to know."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from bot.sandbox.standin.http_line import HttpLine

_PATHS = (
    "/slack/events",
    "/healthz",
    "/readyz",
    "/metrics",
    "/jobs/{rest:path}",
    "/nodes/{rest:path}",
    "/artifacts/{rest:path}",
    "/incidents/{rest:path}",
)
_NOT_PASSED = {"host", "content-length", "connection", "transfer-encoding", "content-encoding"}


def proxy_routes(bot_url: Callable[[], str], http: HttpLine) -> APIRouter:
    """Return the routes that answer with what the bot answers."""
    router = APIRouter()

    async def passed(request: Request) -> Response:
        headers = {name: value for name, value in request.headers.items() if name not in _NOT_PASSED}
        body = request.stream() if request.method in {"POST", "PUT"} else None
        if body is not None and "content-length" in request.headers:
            headers["content-length"] = request.headers["content-length"]
        import httpx

        try:
            answer = await http.client.request(
                request.method,
                f"{bot_url()}{request.url.path}",
                params=request.query_params,
                content=body,
                headers=headers,
                timeout=60,
            )
        except httpx.HTTPError as error:
            return PlainTextResponse(f"The bot does not answer ({type(error).__name__}).\n", 502)
        kept = {name: value for name, value in answer.headers.items() if name.lower() not in _NOT_PASSED}
        return Response(answer.content, answer.status_code, kept)

    for path in _PATHS:
        router.add_api_route(path, passed, methods=["GET", "POST", "PUT"], include_in_schema=False)
    return router
