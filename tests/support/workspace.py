"""Drives the sandbox's workspace by HTTP as a person would: commands, presses, modals, dropped files.

    with standin(bot_url=...) as ws:                      # a stand-in in this process, or Workspace("http://127.0.0.1:8899")
        olga = ws.as_user("olga")
        olga.slash("/baseline open")
        olga.submit({"Title": "K3 does not start"})
        thread = ws.thread("INC-0001")
        olga.drop("bad-model-path-1", thread=thread)      # a sample's id, a path, or (name, bytes)
        olga.press("Review decision", thread=thread)

Everything that is looked for is waited for, so a story reads without sleeps.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
import uvicorn

from bot.sandbox.keeping import free_port
from bot.sandbox.standin.app import Standin, build
from bot.sandbox.standin.gate import Credentials
from bot.sandbox.standin.payloads import elements_of, options_of
from bot.sandbox.standin.table import Table

Json = dict[str, Any]
T = TypeVar("T")
PEOPLE = {"olga": "U01OLGA", "ana": "U02ANA", "otto": "U03OTTO"}
CHANNELS = {"gpu-incidents": "C01INCIDENTS", "general": "C02GENERAL"}
WAIT_S = 20.0
_LOOK_S = 0.05


class NotThereError(AssertionError):
    """What was looked for did not come in time."""


def words_of(message: Json) -> str:
    """All text of a message: what is shown, and what a notification says."""
    found = [str(message.get("text", ""))]

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            if isinstance(part.get("text"), str):
                found.append(part["text"])
            for child in part.values():
                walk(child)
        elif isinstance(part, list):
            for child in part:
                walk(child)

    walk(message.get("blocks"))
    return "\n".join(found)


def label_of(element: Json) -> str:
    """What stands on a button or in a menu."""
    return str((element.get("text") or element.get("placeholder") or {}).get("text", ""))


@dataclass
class Workspace:
    """A running stand-in, seen from outside."""

    url: str
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.http = httpx.Client(base_url=self.url, timeout=30, trust_env=False)

    def as_user(self, name: str) -> Person:
        return Person(self, PEOPLE[name])

    def state(self, user: str = "U01OLGA") -> Json:
        return self.http.get("/page/state", params={"user": user}).raise_for_status().json()

    def until(self, look: Callable[[], T | None], what: str, within_s: float = WAIT_S) -> T:
        """Look until something is there."""
        deadline = time.monotonic() + within_s
        while True:
            found = look()
            if found:
                return found
            if time.monotonic() > deadline:
                raise NotThereError(f"expected {what} within {within_s:g} s")
            time.sleep(_LOOK_S)

    def ready(self, within_s: float = 60) -> Workspace:
        """Wait until the sandbox says that all its parts run."""
        self.until(self._ready, "a ready sandbox", within_s)
        return self

    def _ready(self) -> bool:
        try:
            return bool(self.http.get("/page/status").json().get("ready"))
        except httpx.HTTPError:
            return False

    def messages(self, channel: str = "gpu-incidents") -> list[Json]:
        """What stands in a channel or direct conversation, threads left out."""
        place = CHANNELS.get(channel, channel)
        user = next((one for one in PEOPLE.values() if place == f"D{one[1:]}"), "U01OLGA")
        return [m for m in self.state(user)["messages"][place] if m.get("thread_ts") in {None, m["ts"]}]

    def thread(self, incident: str, channel: str = "gpu-incidents") -> str:
        """The thread of an incident: the ts of the parent message that names it."""

        def look() -> str | None:
            return next((m["ts"] for m in self.messages(channel) if m.get("bot_id") and incident in words_of(m)), None)

        return self.until(look, f"a parent message of {incident}")

    def replies(self, thread: str, channel: str = "gpu-incidents") -> list[Json]:
        """The replies of a thread, oldest first, without the parent."""
        place = CHANNELS.get(channel, channel)
        user = next((one for one in PEOPLE.values() if place == f"D{one[1:]}"), "U01OLGA")
        return [m for m in self.state(user)["messages"][place] if m.get("thread_ts") == thread and m["ts"] != thread]

    def reply(self, thread: str, containing: str, channel: str = "gpu-incidents", within_s: float = WAIT_S) -> Json:
        """The newest reply that says so."""

        def look() -> Json | None:
            return next((m for m in reversed(self.replies(thread, channel)) if containing in words_of(m)), None)

        return self.until(look, f"a reply with {containing!r}", within_s)

    def parent(
        self, thread: str, containing: str = "", channel: str = "gpu-incidents", within_s: float = WAIT_S
    ) -> Json:
        """The parent message, once it says so."""

        def look() -> Json | None:
            return next((m for m in self.messages(channel) if m["ts"] == thread and containing in words_of(m)), None)

        return self.until(look, f"a parent message with {containing!r}", within_s)

    def file(self, file_id: str) -> bytes:
        return self.http.get(f"/page/file/{file_id}").raise_for_status().content

    def faults(self, **switches: Any) -> None:
        self.http.post("/page/faults", json=switches).raise_for_status()

    def close(self) -> None:
        self.http.close()


@dataclass
class Person:
    """One person at the page."""

    ws: Workspace
    id: str

    @property
    def dm(self) -> str:
        return f"D{self.id[1:]}"

    def _post(self, path: str, **body: Any) -> Json:
        return self.ws.http.post(f"/page/{path}", json={"user": self.id, **body}).json()

    def slash(self, text: str, channel: str = "gpu-incidents") -> Json:
        return self._post("say", channel=CHANNELS.get(channel, channel), text=text)

    def say(self, text: str, *, thread: str | None = None, channel: str = "gpu-incidents") -> Json:
        return self._post("say", channel=CHANNELS.get(channel, channel), text=text, thread_ts=thread)

    def mention(self, text: str, thread: str | None = None, channel: str = "gpu-incidents") -> Json:
        return self.say(f"@Baseline {text}", thread=thread, channel=channel)

    def drop(
        self,
        what: str | Path | tuple[str, bytes],
        *,
        thread: str | None = None,
        channel: str = "gpu-incidents",
        text: str = "",
    ) -> Json:
        """Drop a sample (by id), a file, or `(name, bytes)`."""
        place = {"channel": CHANNELS.get(channel, channel), "thread_ts": thread, "text": text}
        if isinstance(what, str):
            return self._post("drop", sample=what, **place)
        name, data = (what.name, what.read_bytes()) if isinstance(what, Path) else what
        return self._post("say", files=[self.upload(name, data)], **place)

    def upload(self, name: str, data: bytes) -> str:
        answer = self.ws.http.post("/page/upload", params={"user": self.id, "name": name}, content=data)
        return str(answer.json()["data"]["file"])

    def ephemerals(self) -> list[Json]:
        return list(self.ws.state(self.id)["ephemerals"])

    def told(self, containing: str, within_s: float = WAIT_S) -> Json:
        """The newest message that only this person sees and that says so."""
        return self.ws.until(
            lambda: next((m for m in reversed(self.ephemerals()) if containing in words_of(m)), None),
            f"an ephemeral message with {containing!r}",
            within_s,
        )

    def modal(self, within_s: float = WAIT_S) -> Json:
        """The modal on top."""
        return self.ws.until(lambda: (self.ws.state(self.id)["views"] or [None])[-1], "an open modal", within_s)

    def home(self) -> Json:
        self._post("home")
        return self.ws.until(lambda: self.ws.state(self.id)["home"], "a Home tab")

    def press(
        self,
        label: str,
        *,
        thread: str | None = None,
        option: str | None = None,
        within_s: float = WAIT_S,
        values: Json | None = None,
    ) -> Json:
        """Press the newest button (or menu entry) that reads so: in the modal, else in what this person sees."""
        where, block, element, value = self.ws.until(
            lambda: self._find(label, thread, option), f"a button {label!r} for {self.id}", within_s
        )
        return self._post(
            "press", where=where, block_id=block, action_id=element["action_id"], value=value, values=values or {}
        )

    def can_press(self, label: str, *, thread: str | None = None) -> bool:
        return self._find(label, thread, None) is not None

    def _find(self, label: str, thread: str | None, option: str | None) -> tuple[Json, str, Json, Any] | None:
        state = self.ws.state(self.id)
        holders: list[tuple[Json, Json]] = [({"view": v["id"]}, v) for v in reversed(state["views"])]
        shown = [
            (channel, m)
            for channel, messages in state["messages"].items()
            for m in messages
            if m.get("bot_id") and (thread is None or thread in {m["ts"], m.get("thread_ts")})
        ]
        shown += [(m["channel"], m) for m in state["ephemerals"]]
        shown.sort(key=lambda one: one[1]["ts"], reverse=True)
        holders += [({"channel": channel, "ts": m["ts"]}, m) for channel, m in shown]
        if state["home"]:
            holders.append(({"view": state["home"]["id"]}, state["home"]))
        for where, holder in holders:
            blocks = [b for b in holder.get("blocks") or [] if b["type"] != "rich_text"]
            for block, element in elements_of(blocks):
                if element["type"] == "button" and label_of(element) == label:
                    return where, block, element, None
                for choice in options_of(element):
                    name = choice["text"]["text"]
                    if element["type"] == "overflow" and name == label:
                        return where, block, element, choice["value"]
                    if option is not None and name == option and label in {label_of(element), element["action_id"]}:
                        return where, block, element, choice["value"]
        return None

    def submit(self, values: Json | None = None) -> Json:
        """Fill in the modal on top by labels (or block ids, or action ids) and submit it. Choices by their text."""
        view = self.modal()
        filled: Json = {}
        for name, value in (values or {}).items():
            block = next(
                (
                    b
                    for b in view["blocks"]
                    if b["type"] == "input" and name in {b["label"]["text"], b["block_id"], b["element"]["action_id"]}
                ),
                None,
            )
            if block is None:
                there = [b["label"]["text"] for b in view["blocks"] if b["type"] == "input"]
                raise NotThereError(f"expected an input {name!r} in {view['title']['text']!r}, found {there}")
            filled[block["block_id"]] = {block["element"]["action_id"]: _value(block["element"], value)}
        return self._post("submit", view=view["id"], values=filled)

    def close_modal(self) -> Json:
        return self._post("close", view=self.modal()["id"])

    def shortcut(self, name: str, ts: str, channel: str = "gpu-incidents") -> Json:
        found = next(one for one in self.ws.state(self.id)["shortcuts"] if one["name"] == name)
        return self._post("shortcut", channel=CHANNELS.get(channel, channel), ts=ts, callback_id=found["callback_id"])

    def delete(self, ts: str, channel: str = "gpu-incidents") -> Json:
        return self._post("delete", channel=CHANNELS.get(channel, channel), ts=ts)


def _value(element: Json, value: Any) -> Any:
    by_text = {one["text"]["text"]: one["value"] for one in options_of(element)}
    if isinstance(value, list):
        return [by_text.get(one, one) for one in value]
    return by_text.get(value, value) if isinstance(value, str) else value


@dataclass
class Running:
    """A stand-in served in this process."""

    ws: Workspace
    standin: Standin
    credentials: Credentials
    url: str
    bot_url: str = "http://127.0.0.1:1"

    @property
    def api_url(self) -> str:
        return f"{self.url}/api/"


@contextmanager
def standin(
    data: Path, *, bot_url: str = "http://127.0.0.1:1", table: Table | None = None, port: int | None = None
) -> Iterator[Running]:
    """Serve a stand-in on a free port in a thread; `running.bot_url` may be set later."""
    port = port or free_port()
    credentials = Credentials.fresh()
    holder: list[Running] = []
    built = build(
        port=port,
        data=data,
        credentials=credentials,
        bot_url=lambda: holder[0].bot_url if holder else bot_url,
        table=table,
        in_memory=True,
    )
    url = f"http://127.0.0.1:{port}"
    ws = Workspace(url)
    with served(built.asgi, port):
        try:
            running = Running(ws, built, credentials, url, bot_url)
            holder.append(running)
            yield running
        finally:
            ws.close()


class _Server(uvicorn.Server):
    """Leaves no connection open behind it, however late the other side lets go."""

    async def shutdown(self, sockets: list[Any] | None = None) -> None:
        await super().shutdown(sockets)
        for one in list(self.server_state.connections):
            if one.transport is not None:
                one.transport.abort()
        await asyncio.sleep(0.05)


@contextmanager
def served(asgi: Any, port: int) -> Iterator[str]:
    """Serve an application on loopback in a thread."""
    config = uvicorn.Config(
        asgi, host="127.0.0.1", port=port, log_config=None, ws="websockets-sansio", timeout_graceful_shutdown=1
    )
    server = _Server(config)
    thread = threading.Thread(target=server.run, name=f"server-{port}")
    thread.start()
    try:
        deadline = time.monotonic() + WAIT_S
        while not server.started:
            if time.monotonic() > deadline or not thread.is_alive():
                raise NotThereError(f"expected a server on port {port}")
            time.sleep(_LOOK_S)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)
