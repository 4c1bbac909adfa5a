"""Signed messages of nodes: open them, check whose they are and when, and sign the answers."""

from __future__ import annotations

import base64
import binascii
import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.responses import JSONResponse

from bot.errors import ClockApart, NotThatNode
from playbooks.errors import BadSignature, MalformedMessage
from playbooks.evidence.signing import open_envelope, sign
from playbooks.messages import Message

if TYPE_CHECKING:
    from starlette.requests import Request

    from bot.flows.services import Services

HEADER = "baseline-envelope"
M = TypeVar("M", bound=Message)


async def from_body(request: Request, services: Services, expect: type[M]) -> M:
    """Open the signed message that is the request's body; raises as `open_message`."""
    return open_message(services, _json(await request.body()), expect)


def from_header(request: Request, services: Services, expect: type[M]) -> M:
    """Open the signed message in the header `Baseline-Envelope` (base64 of its JSON); raises as `open_message`."""
    text = request.headers.get(HEADER, "")
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MalformedMessage("expected header Baseline-Envelope as base64, found something else") from error
    return open_message(services, _json(raw), expect)


def open_message(services: Services, raw: Any, expect: type[M]) -> M:
    """Open a node's message.

    Raises:
        MalformedMessage, UnknownSchema: not such a message.
        BadSignature: not signed by an enrolled node's key.
        NotThatNode: signed by one node, about another.
        ClockApart: written at another time than now.
    """
    if not isinstance(raw, dict):
        raise MalformedMessage("expected an envelope {schema, key_id, body, signature}")
    key_id = raw.get("key_id")
    name = key_id.removeprefix("node:") if isinstance(key_id, str) and key_id.startswith("node:") else ""
    key = services.node_keys.get(name)
    if key is None:
        raise BadSignature(f"expected the key of an enrolled node, found key id {str(key_id)[:80]!r}")
    message = open_envelope(raw, {f"node:{name}": key}, expect)
    about = getattr(message, "node", name)
    if about != name:
        raise NotThatNode(f"expected a message about {name}, whose key signed it; found {about}")
    at = getattr(message, "at", None)
    if at is not None:
        _check_clock(services, at)
    return message


def signed(services: Services, answer: Message) -> JSONResponse:
    """Return an answer under the bot's key."""
    envelope = sign(answer, services.signing_key, "bot")
    return JSONResponse(envelope.model_dump(mode="json", by_alias=True))


def same(path: str, body: str, what: str) -> None:
    """Hold the id in the address and the one that was signed together.

    Raises:
        MalformedMessage: they differ.
    """
    if path != body:
        raise MalformedMessage(f"expected {what} {path[:80]!r} as in the address, found {body[:80]!r}")


def _check_clock(services: Services, at: datetime) -> None:
    if at.utcoffset() is None:
        raise MalformedMessage("at: expected a time with a zone")
    now = services.clock.now()
    if abs(now - at) > services.timing.clock_window:
        window = int(services.timing.clock_window.total_seconds())
        raise ClockApart(
            f"expected a time within {window} s of the bot's {now:%Y-%m-%dT%H:%M:%SZ}, found "
            f"{at.isoformat(timespec='seconds')}: set the node's clock"
        )


def _json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise MalformedMessage("expected JSON in UTF-8, found something else") from error
