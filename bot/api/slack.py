"""`POST /slack/events`: what Bolt answers with a 500 is answered here, before Bolt sees it.

Signature first, then form: a body that nobody signed is not parsed. Bolt verifies once more.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter
from slack_sdk.signature import SignatureVerifier
from starlette.requests import Request
from starlette.responses import Response

from bot.api.refusals import refusal
from bot.api.state import Api

_WINDOW_S = 300
_TIMESTAMP_DIGITS = 12


def slack_routes(api: Api) -> APIRouter:
    """Return Slack's route; in socket mode it says that nobody listens here."""
    router = APIRouter()

    @router.post("/slack/events")
    async def events(request: Request) -> Response:
        """Commands, interactivity and events."""
        if api.slack is None:
            return refusal(
                404, "not_found", "this bot does not take Slack's requests over HTTP (socket mode, or no workspace)"
            )
        body = await request.body()
        if not _is_signed(request, body, api.slack.signing_secret, now=api.services.clock.now().timestamp()):
            return refusal(401, "bad_signature", "expected a request signed by Slack within the last five minutes")
        why = why_malformed(request.headers.get("content-type", ""), body)
        if why is not None:
            return refusal(400, "malformed", why)
        return await api.slack.handle(request)

    return router


def _is_signed(request: Request, body: bytes, secret: str, *, now: float) -> bool:
    stamp = request.headers.get("x-slack-request-timestamp", "")
    signature = request.headers.get("x-slack-signature", "")
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= _TIMESTAMP_DIGITS and signature.isascii()):
        return False
    if abs(now - int(stamp)) > _WINDOW_S:
        return False
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return False
    expected = SignatureVerifier(secret).generate_signature(timestamp=stamp, body=text)
    return expected is not None and _equal(expected, signature)


def _equal(expected: str, found: str) -> bool:
    import hmac

    return hmac.compare_digest(expected.encode(), found.encode())


def why_malformed(content_type: str, body: bytes) -> str | None:
    """Say what is wrong with the form of a signed body; None when Bolt can work with it."""
    try:
        if content_type.partition(";")[0].strip().lower() == "application/json":
            return _event(json.loads(body))
        fields = parse_qs(body.decode(), keep_blank_values=True)
        if "payload" in fields:
            return _interaction(json.loads(fields["payload"][0]))
    except (ValueError, RecursionError):
        return "expected JSON, found something else"
    return None if "command" in fields or "ssl_check" in fields else "expected a command, a payload or an event"


def _event(content: Any) -> str | None:
    if not isinstance(content, dict):
        return "expected a JSON object"
    if content.get("type") != "event_callback":
        return None
    event = content.get("event")
    return (
        None
        if isinstance(event, dict) and isinstance(event.get("type"), str)
        else "event: expected an object with a type"
    )


def _interaction(payload: Any) -> str | None:
    if not isinstance(payload, dict) or not isinstance(payload.get("type"), str):
        return "payload: expected an object with a type"
    user = payload.get("user")
    if not isinstance(user, dict) or not isinstance(user.get("id"), str):
        return "user: expected an object with an id"
    match payload["type"]:
        case "block_actions":
            actions = payload.get("actions")
            fine = isinstance(actions, list) and actions and all(isinstance(a, dict) for a in actions)
            return None if fine else "actions: expected a list with at least one object"
        case "view_submission" | "view_closed":
            view = payload.get("view")
            if not isinstance(view, dict) or not isinstance(view.get("callback_id"), str):
                return "view: expected an object with a callback_id"
            state = view.get("state")
            fine = payload["type"] == "view_closed" or (isinstance(state, dict) and _values(state.get("values")))
            return None if fine else "view.state.values: expected objects"
        case _:
            return None


def _values(values: Any) -> bool:
    return isinstance(values, dict) and all(
        isinstance(block, dict) and all(isinstance(element, dict) for element in block.values())
        for block in values.values()
    )
