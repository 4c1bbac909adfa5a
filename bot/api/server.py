"""The HTTP application: routes, refusals, and the guard in front of them."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from bot.api.artifacts import artifact_routes
from bot.api.guard import RequestGuard
from bot.api.health import health_routes
from bot.api.incidents import incident_routes
from bot.api.nodes import node_routes
from bot.api.refusals import add_handlers
from bot.api.slack import slack_routes
from bot.api.watched import watched_routes

if TYPE_CHECKING:
    from bot.api.state import Api


def create_api(api: Api, *, lifespan: Any = None) -> FastAPI:
    """Return the application. The OpenAPI pages are off unless asked for."""
    app = FastAPI(
        title="Baseline",
        version=version("baseline-bot"),
        docs_url="/docs" if api.api_docs else None,
        redoc_url=None,
        openapi_url="/openapi.json" if api.api_docs else None,
        lifespan=lifespan,
    )
    add_handlers(app)
    for routes in (health_routes, slack_routes, node_routes, artifact_routes, watched_routes, incident_routes):
        app.include_router(routes(api))
    app.add_middleware(RequestGuard, limits=api.limits, metrics=api.metrics)
    return app
