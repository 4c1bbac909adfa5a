"""Socket Mode: envelopes over WebSockets the app has opened; any one connection gets an envelope."""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import Any, Protocol

from bot.sandbox.standin.table import Json

MOST_CONNECTIONS = 10


class NoSocketError(Exception):
    """No socket is open, so the request URL is used."""


class _Socket(Protocol):
    async def send_text(self, data: str) -> None: ...
    async def receive_text(self) -> str: ...


class Sockets:
    """The open connections of the app."""

    def __init__(self) -> None:
        self._open: list[_Socket] = []
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._turn = 0

    @property
    def count(self) -> int:
        """How many are open."""
        return len(self._open)

    async def serve(self, socket: _Socket, app_id: str) -> None:
        """Greet a connection and read its answers until it ends (the reader's disconnect passes through)."""
        hello = {
            "type": "hello",
            "num_connections": len(self._open) + 1,
            "connection_info": {"app_id": app_id},
            "debug_info": {"host": "sandbox"},
        }
        await socket.send_text(json.dumps(hello))
        self._open.append(socket)
        try:
            while True:
                self._read(await socket.receive_text())
        finally:
            self._open.remove(socket)

    def _read(self, text: str) -> None:
        try:
            answer = json.loads(text)
        except ValueError:
            return
        waiting = self._waiting.pop(str(answer.get("envelope_id")), None) if isinstance(answer, dict) else None
        if waiting is not None and not waiting.done():
            waiting.set_result(answer.get("payload"))

    async def send(self, kind: str, payload: Json, attempt: int, reason: str, *, within_s: float) -> Any:
        """Send an envelope to one connection and return what it answered with.

        Raises:
            NoSocketError: none is open.
            TimeoutError: not answered in time.
        """
        if not self._open:
            raise NoSocketError
        self._turn += 1
        socket = self._open[self._turn % len(self._open)]
        envelope_id = secrets.token_hex(16)
        envelope: Json = {
            "envelope_id": envelope_id,
            "type": kind,
            "accepts_response_payload": kind != "events_api",
            "payload": payload,
        }
        if kind == "events_api":
            envelope |= {"retry_attempt": attempt, "retry_reason": reason}
        self._waiting[envelope_id] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(within_s):
                await socket.send_text(json.dumps(envelope))
                return await self._waiting[envelope_id]
        finally:
            self._waiting.pop(envelope_id, None)
