"""An unchanged Bolt app with Slack's SDK works against the stand-in, by signed HTTP and by Socket Mode."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from slack_bolt.adapter.fastapi.async_handler import AsyncSlackRequestHandler
from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient
from starlette.responses import Response

from bot.sandbox.keeping import free_port
from tests.support.block_kit import actions, button, modal, text_input
from tests.support.workspace import Running, served, standin

Json = dict[str, Any]


def bolt_app(running: Running) -> AsyncApp:
    """An app with one of each: command, modal, button, mention, file."""
    client = AsyncWebClient(token=running.credentials.bot_token, base_url=running.api_url)
    app = AsyncApp(
        signing_secret=running.credentials.signing_secret, client=client, token=running.credentials.bot_token
    )

    @app.command("/baseline")
    async def open_form(ack: Any, body: Json, client: AsyncWebClient) -> None:
        view = modal(text_input(), callback_id="open", private_metadata=body["channel_id"])
        await client.views_open(trigger_id=body["trigger_id"], view=view)
        await ack()

    @app.view("open")
    async def opened(ack: Any, view: Json, client: AsyncWebClient) -> None:
        await ack()
        title = next(iter(view["state"]["values"].values()))["t"]["value"]
        await client.chat_postMessage(
            channel=view["private_metadata"], text=f"INC-0001 {title}", blocks=[actions(button())]
        )

    @app.action("a0")
    async def pressed(ack: Any, body: Json, client: AsyncWebClient) -> None:
        await ack()
        await client.files_upload_v2(
            channel=body["channel"]["id"],
            thread_ts=body["message"]["ts"],
            content="line 1",
            filename="engine.log",
            title="Log",
        )

    @app.event("app_mention")
    async def mentioned(event: Json, client: AsyncWebClient) -> None:
        await client.chat_postMessage(
            channel=event["channel"], thread_ts=event.get("thread_ts", event["ts"]), text=f"you said {event['text']}"
        )

    @app.event("message")
    async def any_message() -> None: ...

    return app


@asynccontextmanager
async def by_socket(app: AsyncApp, running: Running) -> AsyncIterator[None]:
    handler = AsyncSocketModeHandler(app, running.credentials.app_token)
    await handler.connect_async()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        await handler.close_async()  # type: ignore[no-untyped-call]


@contextmanager
def listening(app: AsyncApp, running: Running) -> Iterator[None]:
    """Run the Socket Mode client on a loop of its own."""
    ready, done = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        async with by_socket(app, running):
            ready.set()
            await done.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()), name="socket-mode")
    thread.start()
    try:
        assert ready.wait(20)
        yield
    finally:
        loops[0].call_soon_threadsafe(done.set)
        thread.join(20)


@pytest.fixture(params=["http", "socket"])
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Running]:
    with standin(tmp_path) as made:
        app = bolt_app(made)
        if request.param == "socket":
            with listening(app, made):
                yield made
            return
        api = FastAPI()
        handler = AsyncSlackRequestHandler(app)

        @api.post("/slack/events")
        async def events(request: Request) -> Response:
            return await handler.handle(request)

        with served(api, free_port()) as url:
            made.bot_url = url
            yield made


def test_a_small_story(running: Running) -> None:
    ws = running.ws
    olga = ws.as_user("olga")
    assert olga.slash("/baseline open")["ok"]
    assert olga.submit({"L": "K3 does not start"})["ok"]
    thread = ws.thread("INC-0001")
    assert "K3 does not start" in ws.parent(thread)["text"]
    assert olga.press("Go", thread=thread)["ok"]
    shared = ws.until(lambda: next((m for m in ws.replies(thread) if m.get("files")), None), "the shared file")
    assert ws.file(shared["files"][0]["id"]) == b"line 1"
    olga.mention("next", thread)
    said = ws.until(
        lambda: next((m for m in ws.state()["messages"]["C01INCIDENTS"] if "you said" in m["text"]), None), "an answer"
    )
    assert "<@U00BASELINE> next" in said["text"]
