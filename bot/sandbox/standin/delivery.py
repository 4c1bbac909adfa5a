"""Sends the app what happens: signed HTTP with Slack's retries for events, or the open sockets of Socket Mode."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode

from bot.sandbox.standin import payloads
from bot.sandbox.standin.gate import Credentials
from bot.sandbox.standin.http_line import HttpLine
from bot.sandbox.standin.socket_mode import NoSocketError, Sockets
from bot.sandbox.standin.table import Json
from bot.sandbox.standin.workspace import Workspace

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the app answered: in time with a body, too late, or not with 200."""

    result: Literal["ok", "operation_timeout", "dispatch_failed"]
    body: Any = None


class Delivery:
    """The way from the workspace to the app."""

    def __init__(
        self,
        ws: Workspace,
        credentials: Credentials,
        events_url: str | Callable[[], str],
        http: HttpLine,
        *,
        hold: bool = False,
    ) -> None:
        self._ws = ws
        self._secret = credentials.signing_secret.encode()
        self._url = events_url
        self._http = http
        self._tasks: set[asyncio.Task[None]] = set()
        self.sockets = Sockets()
        self.delivered: list[Json] = []
        """Events sent lately with their number of tries, newest last; for the page and for tests."""
        self._up = asyncio.Event()
        if not hold:
            self._up.set()
        ws.events.append(self.event)

    def open(self) -> None:
        """Let deliveries go: the app has come up for the first time."""
        self._up.set()

    async def is_open(self) -> None:
        """Wait until the app has come up once; what is done while everything starts is not lost, and not late."""
        await self._up.wait()

    async def command(self, form: Json) -> Outcome:
        """Deliver a slash command."""
        return await self._interact("slash_commands", form, urlencode(form))

    async def interaction(self, payload: Json) -> Outcome:
        """Deliver a press, a choice, a submission or a shortcut."""
        return await self._interact("interactive", payload, urlencode({"payload": json.dumps(payload)}))

    def event(self, event: Json) -> None:
        """Deliver an event, if the app subscribes to it and is in the channel."""
        if not self._wanted(event):
            return
        envelope = payloads.event_callback(
            self._ws.team, self._ws.app, event, event_id=self._ws.new_id("Ev"), at=int(self._ws.clock())
        )
        for _ in range(3 if self._ws.faults.duplicate_events else 1):
            self._start(self._deliver_event(envelope))

    async def close(self) -> None:
        """Give up what is still under way."""
        for task in [*self._tasks, *self._ws.later]:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._ws.later, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _wanted(self, event: Json) -> bool:
        kinds = {"im": "message.im", "group": "message.groups", "channel": "message.channels"}
        channel = event.get("channel") or event.get("channel_id")
        if isinstance(channel, str) and channel in self._ws.channels:
            if self._ws.bot_user not in self._ws.channels[channel]["members"]:
                return False
            if self._ws.channels[channel]["is_im"]:
                event.setdefault("channel_type", "im")
        name = kinds[event.get("channel_type", "channel")] if event["type"] == "message" else event["type"]
        return name in self._ws.table.installation.events

    async def _deliver_event(self, envelope: Json) -> None:
        waits = self._ws.table.limits["event_retry_after_s"]
        note = {"event_id": envelope["event_id"], "type": envelope["event"]["type"], "tries": 0, "answered": False}
        self.delivered.append(note)
        del self.delivered[:-200]
        reason = ""
        await self.is_open()
        for attempt in range(len(waits) + 1):
            if attempt:
                await asyncio.sleep(waits[attempt - 1])
            note["tries"] = attempt + 1
            outcome, no_retry = await self._send_event(envelope, attempt, reason)
            if outcome.result == "ok":
                note["answered"] = True
                return
            if no_retry:
                return
            reason = "http_timeout" if outcome.result == "operation_timeout" else "http_error"

    async def _send_event(self, envelope: Json, attempt: int, reason: str) -> tuple[Outcome, bool]:
        try:
            return await self._by_socket("events_api", envelope, attempt, reason), False
        except NoSocketError:
            pass
        headers = {"X-Slack-Retry-Num": str(attempt), "X-Slack-Retry-Reason": reason} if attempt else {}
        outcome, answer = await self._post(json.dumps(envelope), "application/json", headers)
        return outcome, answer is not None and answer.headers.get("x-slack-no-retry") == "1"

    async def _interact(self, kind: str, payload: Json, form: str) -> Outcome:
        try:
            return await self._by_socket(kind, payload, 0, "")
        except NoSocketError:
            pass
        outcome, answer = await self._post(form, "application/x-www-form-urlencoded", {})
        if answer is None or outcome.result != "ok":
            return outcome
        if "json" in answer.headers.get("content-type", ""):
            try:
                return Outcome("ok", answer.json())
            except ValueError:
                return Outcome("dispatch_failed")
        return Outcome("ok", answer.text)

    async def _by_socket(self, kind: str, payload: Json, attempt: int, reason: str) -> Outcome:
        within = self._ws.table.limits["answer_within_s"]
        try:
            return Outcome("ok", await self.sockets.send(kind, payload, attempt, reason, within_s=within))
        except TimeoutError:
            return Outcome("operation_timeout")

    async def _post(
        self, body: str, content_type: str, headers: dict[str, str]
    ) -> tuple[Outcome, httpx.Response | None]:
        stamp = str(int(time.time()))
        signature = hmac.new(self._secret, f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()
        signed = {
            "Content-Type": content_type,
            "X-Slack-Request-Timestamp": stamp,
            "X-Slack-Signature": f"v0={signature}",
            "User-Agent": "Slackbot 1.0 (+https://api.slack.com/robots)",
            **headers,
        }
        import httpx

        url = self._url if isinstance(self._url, str) else self._url()
        try:
            async with asyncio.timeout(self._ws.table.limits["answer_within_s"]):
                answer = await self._http.client.post(url, content=body.encode(), headers=signed)
        except (TimeoutError, httpx.TimeoutException):
            return Outcome("operation_timeout"), None
        except httpx.HTTPError:
            return Outcome("dispatch_failed"), None
        return Outcome("ok" if answer.is_success else "dispatch_failed"), answer
