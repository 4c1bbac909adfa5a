"""Files that nodes send, read piece by piece into a spool file and stored once their digest is right."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from bot.api.envelopes import from_header, same
from bot.api.refusals import refusal
from bot.api.state import MIB, Api
from bot.flows.store_artifact import is_wanted, store_artifact
from playbooks.errors import MalformedMessage
from playbooks.messages import ArtifactOffer

if TYPE_CHECKING:
    from bot.flows.services import Services

_PIECE = MIB


def artifact_routes(api: Api) -> APIRouter:
    """Return the route that takes files."""
    router = APIRouter()
    services = api.services

    @router.put("/artifacts/{sha256}")
    async def put(sha256: str, request: Request) -> Response:
        """Take a file under its digest; 204 when it is stored, now or before."""
        offer = from_header(request, services, ArtifactOffer)
        same(sha256, offer.sha256, "digest")
        if offer.size_bytes > api.limits.artifact_bytes:
            return too_large(api)
        if not await services.run(is_wanted, services, offer):
            async with asyncio.timeout(api.limits.json_s):
                async for _ in request.stream():  # read and let go: a sender that is cut off would send it all again
                    pass
            return Response(status_code=204)
        api.spool.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=api.spool) as file:
            try:
                size = await take_body(request, file, most=api.limits.artifact_bytes, idle_s=api.limits.artifact_idle_s)
            except TimeoutError:
                return refusal(408, "too_slow", f"nothing came for {api.limits.artifact_idle_s:g} s")
            if size is None:
                return too_large(api)
            if size != offer.size_bytes:
                raise MalformedMessage(f"expected {offer.size_bytes} bytes as offered, found {size}")
            file.seek(0)
            await api.run_slow(_store, services, offer, file)
        return Response(status_code=204)

    return router


async def take_body(request: Request, file: IO[bytes], *, most: int, idle_s: float) -> int | None:
    """Write the body to the file; returns its size, or None when it is larger than it may be."""
    size = 0
    waiting = bytearray()
    stream = request.stream().__aiter__()
    while True:
        async with asyncio.timeout(idle_s):
            chunk = await anext(stream, None)
        if chunk is not None:
            size += len(chunk)
            waiting += chunk
            if size > most:
                return None
        if waiting and (chunk is None or len(waiting) >= _PIECE):
            await asyncio.to_thread(file.write, bytes(waiting))
            waiting.clear()
        if chunk is None:
            return size


def _store(services: Services, offer: ArtifactOffer, file: IO[bytes]) -> None:
    store_artifact(services, offer, pieces(file))


def pieces(file: IO[bytes]) -> Iterator[bytes]:
    """Yield a spool file piece by piece."""
    while piece := file.read(_PIECE):
        yield piece


def too_large(api: Api) -> Response:
    """Return the refusal of a file that is larger than this bot takes."""
    return refusal(413, "too_large", f"expected at most {api.limits.artifact_bytes} bytes")
