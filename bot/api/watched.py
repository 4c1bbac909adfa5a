"""Logs of launches that others started, as `baseline watch` hands them over."""

from __future__ import annotations

import tempfile
from typing import IO, TYPE_CHECKING

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from bot.api.artifacts import pieces, take_body, too_large
from bot.api.envelopes import from_header, same, signed
from bot.api.refusals import refusal
from bot.api.state import Api
from bot.flows.record_watched import record_watched
from playbooks.errors import MalformedMessage
from playbooks.messages import WatchedOffer, WatchedReply

if TYPE_CHECKING:
    from bot.flows.services import Services


def watched_routes(api: Api) -> APIRouter:
    """Return the route that takes them."""
    router = APIRouter()
    services = api.services

    @router.put("/watched/{incident_id}")
    async def put(incident_id: str, request: Request) -> Response:
        """Record a launch that was looked on, once."""
        offer = from_header(request, services, WatchedOffer)
        same(incident_id, offer.incident, "incident")
        if offer.size_bytes > api.limits.artifact_bytes:
            return too_large(api)
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
            return signed(services, await api.run_slow(_record, services, offer, file))

    return router


def _record(services: Services, offer: WatchedOffer, file: IO[bytes]) -> WatchedReply:
    return record_watched(services, offer, pieces(file))
