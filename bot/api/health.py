"""Is it alive, may it be sent work, and what does it count?"""

from __future__ import annotations

import asyncio
import hmac
from importlib.metadata import version

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from bot.api.incidents import bearer
from bot.api.metrics import CONTENT_TYPE, render
from bot.api.refusals import refusal
from bot.api.state import Api
from bot.errors import QueueError, StoreError

_BROKER_S = 3.0


def health_routes(api: Api) -> APIRouter:
    """Return health, readiness and metrics."""
    router = APIRouter()
    services = api.services

    @router.get("/healthz")
    async def healthz() -> Response:
        """The process answers."""
        return JSONResponse({"ok": True, "version": version("baseline-bot")})

    @router.get("/readyz")
    async def readyz() -> Response:
        """The store answers; a broker that does not delays jobs and loses none, so it is told and no reason to refuse."""
        checks = {"store": "ok", "broker": "ok", "bot_key": services.signing_key.public_text}
        try:
            await services.run(services.store.check)
        except StoreError as error:
            checks["store"] = str(error)
        try:
            async with asyncio.timeout(_BROKER_S):
                await asyncio.to_thread(api.check_broker)
        except QueueError as error:
            checks["broker"] = f"delayed: {error}"
        except TimeoutError:
            checks["broker"] = f"delayed: no answer within {_BROKER_S:g} s"
        ready = checks["store"] == "ok"
        return JSONResponse({"ready": ready, "checks": checks}, status_code=200 if ready else 503)

    @router.get("/metrics")
    async def metrics(request: Request) -> Response:
        """What Prometheus reads."""
        allowed = api.metrics_open or (
            bool(api.metrics_token) and hmac.compare_digest(bearer(request).encode(), api.metrics_token.encode())
        )
        if not allowed:
            return refusal(
                401,
                "unauthorized",
                "expected the bearer token of BASELINE_METRICS_TOKEN",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return Response(await services.run(render, api.metrics, services), media_type=CONTENT_TYPE)

    return router
