"""Slack's side over HTTP: `/api/METHOD`, file transfer, response URLs, and the socket of Socket Mode."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, WebSocket, WebSocketDisconnect
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response

from bot.sandbox.standin.answers import respond
from bot.sandbox.standin.delivery import Delivery
from bot.sandbox.standin.gate import Gate
from bot.sandbox.standin.refusal import RefusedError
from bot.sandbox.standin.table import Json
from bot.sandbox.standin.workspace import Workspace

_SIGN_IN = "<!DOCTYPE html><html><head><title>Slack</title></head><body><h1>Sign in to Sandbox</h1></body></html>"


async def _arguments(request: Request) -> tuple[Json, bool]:
    """Return a call's arguments and whether its body could be read."""
    args: Json = dict(request.query_params)
    kind = request.headers.get("content-type", "")
    if kind.startswith("application/json"):
        try:
            body = await request.json()
        except ValueError:
            return args, False
        if not isinstance(body, dict):
            return args, False
        return args | body, True
    if kind.startswith(("application/x-www-form-urlencoded", "multipart/form-data")):
        form = await request.form()
        return args | {name: part for name, part in form.items() if isinstance(part, str)}, True
    return args, True


def _token(request: Request, args: Json) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token:
        return token.strip()
    given = args.pop("token", None)
    return given if isinstance(given, str) else None


async def save_stream(ws: Workspace, file: Json, chunks: AsyncIterator[bytes]) -> int:
    """Write a file's bytes as they come. Raises: RefusedError when there are too many."""
    ws.files_dir.mkdir(parents=True, exist_ok=True)
    path, size, digest = ws.file_path(file["id"]), 0, hashlib.sha256()
    with path.open("wb") as out:
        async for chunk in chunks:
            size += len(chunk)
            if size > ws.table.limits["file_bytes"]:
                break
            digest.update(chunk)
            out.write(chunk)
    if size > ws.table.limits["file_bytes"]:
        path.unlink()
        raise RefusedError("file_upload_size_restricted")
    ws.keep_file({**file, "size": size, "uploaded": True})
    return size


def file_answer(path: Path, file: Json, *, download: bool) -> Response:
    """Return a file so that a browser shows text and pictures and runs nothing."""
    kind = file["mimetype"] if file["mimetype"].startswith("image/png") else "text/plain; charset=utf-8"
    return FileResponse(
        path,
        media_type=file["mimetype"] if download else kind,
        filename=file["name"],
        content_disposition_type="attachment" if download else "inline",
        headers={"content-security-policy": "sandbox; default-src 'none'"},
    )


class _Slack:
    """The routes."""

    def __init__(self, ws: Workspace, gate: Gate, delivery: Delivery) -> None:
        self._ws = ws
        self._gate = gate
        self._delivery = delivery

    async def call(self, method: str, request: Request) -> Response:
        """Answer a Web API call."""
        args, readable = await _arguments(request)
        token = _token(request, args)
        if not readable:
            return JSONResponse({"ok": False, "error": "invalid_json"})
        answer = await self._gate.answer(method, token, args)
        return JSONResponse(answer.body, answer.status, answer.headers)

    async def upload(self, name: str, request: Request) -> Response:
        """Take a file's bytes, once."""
        file_id = self._ws.tickets.spend_upload(name)
        if file_id is None:
            return PlainTextResponse("not found", 404)
        file = self._ws.file(file_id)
        announced = file["size"]
        chunks: AsyncIterator[bytes] = request.stream()
        if request.headers.get("content-type", "").startswith("multipart/form-data"):
            form = await request.form()
            part: Any = next((one for one in form.values() if not isinstance(one, str)), None)
            chunks = _once(await part.read() if part is not None else b"")
        size = await save_stream(self._ws, file, chunks)
        if size != announced:
            return PlainTextResponse(f"expected {announced} bytes, found {size}", 400)
        return PlainTextResponse(f"OK - {size}")

    async def private_file(self, key: str, rest: str, request: Request) -> Response:
        """Give a file to whoever holds the token and the scope, and the sign-in page, with status 200, to others."""
        file = self._ws.files.get(key.partition("-")[2])
        _, _, token = request.headers.get("authorization", "").partition(" ")
        if not self._gate.owns(token) or "files:read" not in self._gate.scopes():
            return HTMLResponse(_SIGN_IN)
        if file is None or not self._ws.file_path(file["id"]).is_file():
            return HTMLResponse("<html><body>File not found</body></html>", 404)
        return file_answer(self._ws.file_path(file["id"]), file, download=rest.startswith("download/"))

    async def response(self, name: str, request: Request) -> Response:
        """Take an answer by a response URL."""
        args, readable = await _arguments(request)
        try:
            if not readable:
                raise RefusedError("invalid_payload")
            respond(self._ws, name, args)
        except RefusedError as refused:
            return JSONResponse(refused.body(), 404 if refused.error in {"used_url", "invalid_url"} else 400)
        return PlainTextResponse("ok")

    async def link(self, socket: WebSocket, ticket: str = "") -> None:
        """Serve a socket of Socket Mode."""
        if not self._ws.tickets.spend_socket(ticket):
            await socket.close(1008, "expected a ticket of apps.connections.open")
            return
        await socket.accept()
        try:
            await self._delivery.sockets.serve(socket, self._ws.app["id"])
        except WebSocketDisconnect:
            return


def slack_routes(ws: Workspace, gate: Gate, delivery: Delivery) -> APIRouter:
    """Return the routes that Slack's SDK and Bolt speak to."""
    slack = _Slack(ws, gate, delivery)
    router = APIRouter(include_in_schema=False)
    router.add_api_route("/api/{method}", slack.call, methods=["GET", "POST"])
    router.add_api_route("/upload/v1/{name}", slack.upload, methods=["POST"])
    router.add_api_route("/files-pri/{key}/{rest:path}", slack.private_file, methods=["GET"])
    router.add_api_route("/actions/response/{name}", slack.response, methods=["POST"])
    router.add_api_websocket_route("/link", slack.link)
    return router


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
