"""The page's own interface: what a person sees, live, and what a person does. Served to this machine only."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel
from sse_starlette import EventSourceResponse

from bot.sandbox.samples import Samples
from bot.sandbox.standin.acting import Acting, Done
from bot.sandbox.standin.delivery import Delivery
from bot.sandbox.standin.methods_files import new_file
from bot.sandbox.standin.refusal import RefusedError
from bot.sandbox.standin.table import Json
from bot.sandbox.standin.web import file_answer, save_stream
from bot.sandbox.standin.workspace import Workspace

PAGE = Path(str(files("bot.sandbox").joinpath("page")))


class Who(BaseModel):
    """A person."""

    user: str


class Say(BaseModel):
    """A message or a command."""

    user: str
    channel: str
    text: str = ""
    thread_ts: str | None = None
    files: list[str] = []


class Press(BaseModel):
    """A press or a choice; `where` is `{channel, ts}` or `{view}`."""

    user: str
    where: Json
    block_id: str
    action_id: str
    value: Any = None
    values: Json = {}


class Form(BaseModel):
    """A modal, filled in or closed."""

    user: str
    view: str
    values: Json = {}


class OnMessage(BaseModel):
    """Something done with a message."""

    user: str
    channel: str
    ts: str
    callback_id: str = ""


class Drop(BaseModel):
    """A sample case dropped into a conversation."""

    user: str
    channel: str
    sample: str
    text: str = ""
    thread_ts: str | None = None


class ChannelChange(BaseModel):
    """A channel archived or restored, the bot removed or invited."""

    channel: str
    archived: bool | None = None
    bot_member: bool | None = None


def _told(done: Done) -> Response:
    return JSONResponse(asdict(done), 200 if done.ok else 409)


async def _tried(work: Awaitable[Done]) -> Response:
    try:
        return _told(await work)
    except RefusedError as refused:
        return _told(Done(ok=False, error=refused.error))


class _Page:
    """The routes; each does one thing and says how it went."""

    def __init__(
        self, ws: Workspace, acting: Acting, delivery: Delivery, samples: Samples, status: Callable[[], Json]
    ) -> None:
        self._ws = ws
        self._acting = acting
        self._delivery = delivery
        self._samples = samples
        self._status = status

    async def page(self) -> Response:
        return FileResponse(PAGE / "index.html", headers={"cache-control": "no-cache"})

    async def state(self, user: str) -> Response:
        """Return all that a person may see."""
        ws = self._ws
        if user not in ws.people:
            return JSONResponse({"ok": False, "error": "user_not_found"}, 404)
        seen = {one["id"]: one for one in ws.channels.values() if user in one["members"]}
        return JSONResponse(
            {
                "me": user,
                "mark": ws.feed.mark(),
                "team": ws.team,
                "app": ws.app,
                "people": list(ws.people.values()),
                "groups": ws.table.workspace["groups"],
                "channels": list(seen.values()),
                "messages": {channel: [one for _, one in sorted(ws.messages[channel].items())] for channel in seen},
                "ephemerals": list(ws.ephemerals[user]),
                "views": ws.open_views(user),
                "home": ws.homes.get(user),
                "commands": ws.table.installation.commands,
                "shortcuts": ws.table.installation.shortcuts,
                "faults": ws.faults.as_dict(),
                "scopes": sorted(ws.table.installation.scopes),
                "limits": {name: ws.table.limits[name] for name in ("paste_chars", "typed_chars", "file_bytes")},
                "samples": self._samples.listing(),
                "status": self._status(),
            }
        )

    async def stream(self, user: str) -> Response:
        """Tell a page what changes, as server-sent events."""
        ws = self._ws
        if user not in ws.people:
            return JSONResponse({"ok": False, "error": "user_not_found"}, 404)

        async def lines() -> AsyncIterator[dict[str, str]]:
            with ws.feed.reading(user) as queue:
                hello = {"kind": "hello", "mark": ws.feed.mark(), "status": self._status()}
                yield {"data": json.dumps(hello)}
                while (item := await queue.get()) is not None:
                    yield {"data": json.dumps(item)}

        return EventSourceResponse(lines(), ping=15)

    async def status(self) -> Json:
        return {**self._status(), "events": self._delivery.delivered[-20:], "sockets": self._delivery.sockets.count}

    async def say(self, body: Say) -> Response:
        return await _tried(
            self._acting.say(body.user, body.channel, body.text, thread_ts=body.thread_ts, files=body.files)
        )

    async def press(self, body: Press) -> Response:
        raw = ... if body.value is None else body.value
        return await _tried(
            self._acting.press(body.user, body.where, body.block_id, body.action_id, raw=raw, values=body.values)
        )

    async def submit(self, body: Form) -> Response:
        return await _tried(self._acting.submit(body.user, body.view, body.values))

    async def close(self, body: Form) -> Response:
        return await _tried(self._acting.close(body.user, body.view))

    async def home(self, body: Who) -> Response:
        return await _tried(_now(lambda: self._acting.home(body.user)))

    async def shortcut(self, body: OnMessage) -> Response:
        return await _tried(self._acting.shortcut(body.user, body.channel, body.ts, body.callback_id))

    async def delete(self, body: OnMessage) -> Response:
        return await _tried(_now(lambda: self._acting.delete(body.user, body.channel, body.ts)))

    async def upload(self, user: str, name: str, request: Request) -> Response:
        """Take a file's bytes as they come; a message or a form then names it."""

        async def take() -> Done:
            self._ws.person(user)
            file = new_file(self._ws, name=Path(name).name[:200] or "file.txt", user=user, size=0)
            await save_stream(self._ws, file, request.stream())
            return Done(data={"file": file["id"]})

        return await _tried(take())

    async def drop(self, body: Drop) -> Response:
        async def give() -> Done:
            self._ws.person(body.user)
            sample = self._samples.get(body.sample)
            if sample is None:
                return Done(ok=False, error=f"There is no sample {body.sample}.")
            file = new_file(self._ws, name=sample.file_name, user=body.user, size=0)
            await save_stream(self._ws, file, _bytes_of(sample.read()))
            return await self._acting.say(
                body.user, body.channel, body.text, thread_ts=body.thread_ts, files=[file["id"]]
            )

        return await _tried(give())

    async def channel(self, body: ChannelChange) -> Response:
        async def change() -> Done:
            self._ws.channel(body.channel)
            if body.archived is not None:
                self._ws.set_archived(body.channel, archived=body.archived)
            if body.bot_member is not None:
                self._ws.set_membership(body.channel, self._ws.bot_user, member=body.bot_member)
            return Done()

        return await _tried(change())

    async def faults(self, body: dict[str, Any]) -> Response:
        try:
            self._ws.faults.change(body)
        except ValueError as wrong:
            return JSONResponse({"ok": False, "error": str(wrong)}, 400)
        self._ws.feed.publish({"kind": "faults", "faults": self._ws.faults.as_dict()})
        return JSONResponse({"ok": True, "faults": self._ws.faults.as_dict()})

    async def sample(self, sample: str) -> Response:
        """Show a sample as it is."""
        found = self._samples.get(sample)
        if found is None:
            return JSONResponse({"ok": False, "error": "no_such_sample"}, 404)
        return PlainTextResponse(found.read(), headers={"content-security-policy": "sandbox; default-src 'none'"})

    async def file(self, file_id: str, *, download: bool = False) -> Response:
        file = self._ws.files.get(file_id)
        if file is None or not self._ws.file_path(file_id).is_file():
            return JSONResponse({"ok": False, "error": "file_not_found"}, 404)
        return file_answer(self._ws.file_path(file_id), file, download=download)


def page_routes(
    ws: Workspace, acting: Acting, delivery: Delivery, samples: Samples, status: Callable[[], Json]
) -> APIRouter:
    """Return the page and its interface."""
    page = _Page(ws, acting, delivery, samples, status)
    router = APIRouter(include_in_schema=False)
    reads: dict[str, Callable[..., Any]] = {
        "/": page.page,
        "/archives/{channel}/{ts}": page.page,
        "/page/state": page.state,
        "/page/stream": page.stream,
        "/page/status": page.status,
        "/page/file/{file_id}": page.file,
        "/page/sample/{sample}": page.sample,
    }
    acts: dict[str, Callable[..., Any]] = {
        "say": page.say,
        "press": page.press,
        "submit": page.submit,
        "close": page.close,
        "home": page.home,
        "shortcut": page.shortcut,
        "delete": page.delete,
        "upload": page.upload,
        "drop": page.drop,
        "channel": page.channel,
        "faults": page.faults,
    }
    for path, read in reads.items():
        router.add_api_route(path, read, methods=["GET"])
    for name, act in acts.items():
        router.add_api_route(f"/page/{name}", act, methods=["POST"])
    router.mount("/page/static", StaticFiles(directory=PAGE), name="static")
    return router


async def _now(work: Callable[[], Done]) -> Done:
    return work()


async def _bytes_of(data: bytes) -> AsyncIterator[bytes]:
    yield data
