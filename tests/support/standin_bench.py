"""A stand-in without sockets: calls go in by ASGI, deliveries go to a recording app or a Bolt app, the clock is ours."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from bot.sandbox.standin.app import Standin, build
from bot.sandbox.standin.gate import Credentials
from bot.sandbox.standin.table import Table, load_table

Json = dict[str, Any]
HOST = "http://127.0.0.1:8899"
CHANNEL, OLGA, ANA, OTTO = "C01INCIDENTS", "U01OLGA", "U02ANA", "U03OTTO"
NOW = 1_796_083_200.0


@dataclass
class Recorder:
    """An app that keeps what it was sent and answers what it is told to."""

    answer: Callable[[Json], Response] = field(default=lambda _body: Response(status_code=200))
    got: list[Json] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        body = await request.body()
        if request.headers["content-type"].startswith("application/json"):
            payload = json.loads(body)
        else:
            form = dict(parse_qsl(body.decode(), keep_blank_values=True))
            payload = json.loads(form["payload"]) if "payload" in form else form
        self.raw.append(body)
        self.headers.append(dict(request.headers))
        self.got.append(payload)
        await self.answer(payload)(scope, receive, send)

    def events(self, kind: str) -> list[Json]:
        return [
            one["event"] for one in self.got if one.get("type") == "event_callback" and one["event"]["type"] == kind
        ]


@dataclass
class Bench:
    """The stand-in and everything around it."""

    standin: Standin
    credentials: Credentials
    http: httpx.AsyncClient
    app: Recorder
    now: list[float]

    async def api(self, method: str, *, token: str | None = None, **args: Any) -> Json:
        """Call the Web API as the SDK does, with JSON."""
        return (await self.call(method, token=token, **args)).json()

    async def call(self, method: str, *, token: str | None = None, **args: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token or self.credentials.bot_token}"}
        return await self.http.post(f"/api/{method}", json=args, headers=headers)

    async def page(self, path: str, **body: Any) -> Json:
        """Do what the page does."""
        return (await self.http.post(f"/page/{path}", json=body)).json()

    async def state(self, user: str = OLGA) -> Json:
        return (await self.http.get("/page/state", params={"user": user})).json()

    async def settle(self) -> None:
        """Wait until everything under way is delivered."""
        import asyncio

        while pending := [*self.standin.delivery._tasks, *self.standin.ws.later]:
            await asyncio.gather(*pending)

    async def trigger(self, user: str = OLGA) -> str:
        """A fresh trigger id, as an interaction brings it."""
        return self.standin.ws.tickets.trigger(user)

    async def close(self) -> None:
        await self.standin.delivery.close()
        await self.standin.delivery._http.close()
        await self.http.aclose()
        self.standin.ws.records.close()


def bench(
    data: Path, *, table: Table | None = None, app: Callable[..., Awaitable[None]] | None = None, hold: bool = False
) -> Bench:
    """Make a bench; `app` takes the deliveries (a Bolt app behind an ASGI route), else a recorder does."""
    credentials = Credentials.fresh()
    table = table or load_table()
    table = replace(table, limits=dict(table.limits))
    now = [NOW]
    built = build(
        port=8899,
        data=data,
        credentials=credentials,
        bot_url=lambda: "http://bot",
        table=table,
        in_memory=True,
        hold=hold,
        clock=lambda: now[0],
    )
    recorder = Recorder()
    line = built.delivery._http
    line.__dict__["client"] = httpx.AsyncClient(transport=httpx.ASGITransport(app or recorder))
    http = httpx.AsyncClient(transport=httpx.ASGITransport(built.asgi), base_url=HOST)
    return Bench(built, credentials, http, recorder, now)


def accepts(body: Json | str = "") -> Callable[[Json], Response]:
    """An app that answers everything with this."""
    return lambda _payload: JSONResponse(body) if isinstance(body, dict) else Response(body, media_type="text/plain")
