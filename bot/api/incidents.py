"""Incidents as JSON, for people's programs and for nodes."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from bot.api.envelopes import HEADER, from_header, same
from bot.api.refusals import refusal
from bot.api.state import Api
from bot.flows.person_tokens import user_of_token
from bot.flows.show_incident import show_incident
from playbooks.messages import IncidentQuery


def incident_routes(api: Api) -> APIRouter:
    """Return the route that shows an incident."""
    router = APIRouter()
    services = api.services

    @router.get("/incidents/{incident_id}")
    async def show(incident_id: str, request: Request) -> Response:
        """Show an incident to the holder of a person's token, or to a node that signs its query."""
        node: str | None = None
        if HEADER in request.headers:
            query = from_header(request, services, IncidentQuery)
            same(incident_id, query.incident, "incident")
            node = query.node
        else:
            token = bearer(request)
            if not token or await services.run(user_of_token, services, token) is None:
                return refusal(
                    401,
                    "unauthorized",
                    "expected `Authorization: Bearer TOKEN` (baseline token create USER), or a node's signed query",
                    headers={"WWW-Authenticate": "Bearer"},
                )
        return JSONResponse(await services.run(show_incident, services, incident_id, to_node=node))

    return router


def bearer(request: Request) -> str:
    """Return the bearer token of a request, empty without one."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
