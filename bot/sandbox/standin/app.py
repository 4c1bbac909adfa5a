"""Puts the stand-in together: workspace, gate, delivery, page, and the guard in front of all of it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI

from bot.sandbox.samples import Samples
from bot.sandbox.standin.acting import Acting
from bot.sandbox.standin.delivery import Delivery
from bot.sandbox.standin.gate import Credentials, Gate
from bot.sandbox.standin.guard import Guard, own_hosts
from bot.sandbox.standin.http_line import HttpLine
from bot.sandbox.standin.page_routes import page_routes
from bot.sandbox.standin.proxy import proxy_routes
from bot.sandbox.standin.records import Records
from bot.sandbox.standin.table import Json, Table, load_table
from bot.sandbox.standin.web import slack_routes
from bot.sandbox.standin.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Standin:
    """A stand-in ready to be served; `asgi` is the application."""

    asgi: FastAPI
    ws: Workspace
    gate: Gate
    delivery: Delivery
    acting: Acting


def build(
    *,
    port: int,
    data: Path,
    credentials: Credentials,
    bot_url: Callable[[], str],
    table: Table | None = None,
    status: Callable[[], Json] = lambda: {"ready": True},
    in_memory: bool = False,
    hold: bool = False,
    clock: Callable[[], float] = time.time,
) -> Standin:
    """Wire a stand-in workspace.

    Args:
        port: where it will be served on loopback.
        data: folder for the workspace's messages and files.
        credentials: the only tokens it takes.
        bot_url: address of the bot's HTTP server, as it is now.
        table: what Slack allows, and the app's installation.
        status: what the page shows of the parts around it.
        in_memory: keep no messages on disk.
        hold: deliver nothing until `delivery.open()` is called.
        clock: seconds since the epoch.
    """
    ws = Workspace(
        table or load_table(),
        records=Records(None if in_memory else data / "workspace.db"),
        files_dir=data / "files",
        base_url=f"http://127.0.0.1:{port}",
        clock=clock,
    )
    http = HttpLine()
    gate = Gate(ws, credentials)
    delivery = Delivery(ws, credentials, lambda: f"{bot_url()}/slack/events", http, hold=hold)
    acting = Acting(ws, delivery)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        ws.feed.close()
        await delivery.close()
        await http.close()
        ws.records.close()

    app = FastAPI(title="Baseline sandbox", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.include_router(slack_routes(ws, gate, delivery))
    app.include_router(page_routes(ws, acting, delivery, Samples(), status))
    app.include_router(proxy_routes(bot_url, http))
    app.add_middleware(Guard, hosts=own_hosts(port))
    return Standin(app, ws, gate, delivery, acting)
