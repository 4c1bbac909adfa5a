"""Events: mentions, messages, dropped files, the home tab.

A middleware, not listeners: Bolt acks an event before its listener runs, and an event that could not be stored must be
answered 503 (in Socket Mode: not acked), so that Slack sends it again.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import structlog
from slack_bolt import BoltResponse

from bot.errors import BotError, Repeated
from bot.flows.receive_message import Incoming, receive_message
from bot.flows.show_status import show_home
from bot.flows.showing import Asker
from bot.handlers.edge import SLACK_DOWN, Body, is_outsider, later

if TYPE_CHECKING:
    from slack_bolt.app.async_app import AsyncApp
    from slack_bolt.context.async_context import AsyncBoltContext
    from slack_sdk.web.async_client import AsyncWebClient

    from bot.flows.services import Services

_READ = {None, "", "file_share", "thread_broadcast"}
"""Message subtypes that people write; edits, deletions, joins and bots' messages are left alone."""
log = structlog.get_logger(__name__)


def register(app: AsyncApp, services: Services) -> None:
    """Bind the events."""

    async def events(
        body: Body,
        next_: Callable[[], Awaitable[Any]],
        client: AsyncWebClient,
        context: AsyncBoltContext,
    ) -> BoltResponse | None:
        if body.get("type") != "event_callback":
            await next_()
            return None
        event = body.get("event") or {}
        if event.get("type") == "app_home_opened":
            later(_home(services, client, event))
            return BoltResponse(status=200, body="")
        if event.get("type") in {"app_mention", "message"} and not is_outsider(body, context):
            return await _message(services, event, context)
        return BoltResponse(status=200, body="")

    app.use(events)


async def _message(services: Services, event: dict[str, Any], context: AsyncBoltContext) -> BoltResponse:
    found = incoming_of(event, context.bot_user_id)
    if found is None:
        return BoltResponse(status=200, body="")
    asker, incoming = found
    try:
        await services.run(receive_message, services, asker, incoming)
    except Repeated:
        pass
    except BotError as error:
        log.warning("event.not_stored", error=str(error), channel=asker.channel, ts=incoming.ts)
        return BoltResponse(status=503, body="not recorded, please send again")
    except Exception:
        log.exception("event.failed", channel=asker.channel, ts=incoming.ts)
    return BoltResponse(status=200, body="")


def incoming_of(event: dict[str, Any], bot_user: str | None) -> tuple[Asker, Incoming] | None:
    """Return who wrote what; None for what no person wrote.

    A mention in a channel arrives twice, as `app_mention` and as `message`, under one `ts`: the key is the message's.
    """
    if event.get("subtype") not in _READ or event.get("bot_id") or not event.get("user") or not event.get("ts"):
        return None
    channel, ts, text = str(event.get("channel", "")), str(event["ts"]), str(event.get("text") or "")
    mention = re.compile(rf"<@{re.escape(bot_user)}(?:\|[^>]*)?>") if bot_user else re.compile(r"(?!)")
    mentioned = event.get("type") == "app_mention" or mention.search(text) is not None
    said = mention.sub("", text) if bot_user else re.sub(r"^\s*<@[A-Z0-9]+(?:\|[^>]*)?>", "", text)
    incoming = Incoming(
        ts=ts,
        text=said,
        thread_ts=str(event["thread_ts"]) if event.get("thread_ts") else None,
        files=tuple(file for file in event.get("files") or () if isinstance(file, dict)),
        direct=event.get("channel_type") == "im" or channel.startswith("D"),
        mentioned=mentioned,
    )
    return Asker(user=str(event["user"]), channel=channel, key=f"message:{channel}:{ts}"), incoming


async def _home(services: Services, client: AsyncWebClient, event: dict[str, Any]) -> None:
    """Show the home tab; it is a view, so a failure loses nothing."""
    if event.get("tab") not in {None, "home"}:
        return
    try:
        view = await services.run(show_home, services, Asker(user=str(event.get("user", ""))))
        await client.views_publish(user_id=str(event.get("user", "")), view=view)
    except (BotError, *SLACK_DOWN) as error:
        log.warning("home.not_shown", error=str(error))
