"""What every Slack surface does alike: who asks, run a flow, say what came of it, and say it only to the asker.

The outermost layer of the conversation: an unexpected error is logged here and answered in words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import structlog
from aiohttp import ClientError
from slack_sdk.errors import SlackApiError, SlackClientError

from bot.blocks import modals
from bot.blocks.elements import Block, Message
from bot.blocks.limits import fit
from bot.blocks.notices import not_recorded, outsider, refusal
from bot.blocks.texts import Mrkdwn, translator
from bot.errors import Repeated, StoreError
from bot.flows.refusing import EXPECTED, in_words, words_of
from bot.flows.showing import Asker

if TYPE_CHECKING:
    from slack_bolt.context.ack.async_ack import AsyncAck
    from slack_bolt.context.async_context import AsyncBoltContext
    from slack_sdk.web.async_client import AsyncWebClient

    from bot.flows.services import Services

P = ParamSpec("P")
T = TypeVar("T")
Body = dict[str, Any]
SLACK_DOWN = (SlackApiError, SlackClientError, ClientError, OSError, asyncio.TimeoutError)
_FORM_S = 2.0
"""A trigger lives three seconds."""
log = structlog.get_logger(__name__)
_background: set[asyncio.Task[None]] = set()


def asker_of(body: Body, *, key: str = "") -> Asker:
    """Return who asks and where, from a command, press, form or shortcut."""
    user = body.get("user")
    user_id = str(user.get("id", "")) if isinstance(user, dict) else str(body.get("user_id", ""))
    channel = body.get("channel")
    channel_id = str(channel.get("id", "")) if isinstance(channel, dict) else str(body.get("channel_id", ""))
    return Asker(user=user_id, channel=channel_id or str((body.get("container") or {}).get("channel_id", "")), key=key)


def is_outsider(body: Body, context: AsyncBoltContext) -> bool:
    """Whether the person belongs to another organisation than the installation (Slack Connect)."""
    result = context.authorize_result
    home = (result.team_id, result.enterprise_id) if result is not None else (context.team_id, context.enterprise_id)
    user = body.get("user") if isinstance(body.get("user"), dict) else {}
    event = body.get("event") if isinstance(body.get("event"), dict) else {}
    theirs = (user or {}).get("team_id") or (event or {}).get("user_team") or (event or {}).get("source_team")
    theirs = theirs or context.actor_team_id or body.get("team_id")
    return bool(theirs and home[0] and theirs not in home)


async def outcome(services: Services, flow: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | Message:
    """Run a flow; every expected failure comes back as the message for the asker."""
    try:
        return await services.run(flow, *args, **kwargs)
    except (*EXPECTED, Repeated) as error:
        return await _in_words(services, args, error)
    except StoreError as error:
        log.warning("handler.store", flow=flow.__name__, error=str(error))
        return not_recorded(translator("en"))
    except Exception:
        log.exception("handler.failed", flow=flow.__name__)
        _ = translator("en")
        return refusal(
            _("That did not work"), _("An error of mine, not yours; it is in my log. Nothing was half done.")
        )


async def _in_words(services: Services, args: tuple[Any, ...], error: Exception) -> Message:
    """Say an expected failure in the asker's language; in English when even that cannot be read."""
    asker = next((part for part in args if isinstance(part, Asker)), None)
    if asker is None:
        return words_of(error)
    try:
        return await services.run(in_words, services, asker, error)
    except StoreError:
        return words_of(error)


async def tell(body: Body, client: AsyncWebClient, message: Message) -> None:
    """Show a message to the asker only: in the open modal, else where the button was pressed. Never raises."""
    view = body.get("view")
    try:
        if isinstance(view, dict) and view.get("type") == "modal":
            await client.views_update(view_id=str(view["id"]), view=shown_in_modal(message))
            return
        asker = asker_of(body)
        thread = (body.get("message") or {}).get("thread_ts") or (body.get("container") or {}).get("thread_ts")
        if body.get("response_url"):
            await respond(body, message, thread_ts=thread)
        elif asker.channel:
            await client.chat_postEphemeral(
                channel=asker.channel, user=asker.user, thread_ts=thread, **message.payload()
            )
        else:
            await client.chat_postMessage(channel=asker.user, **message.payload())
    except SLACK_DOWN as error:
        log.warning("handler.not_told", error=str(error))


async def respond(body: Body, message: Message, *, thread_ts: str | None) -> None:
    """Answer through the response URL: only the asker sees it, also where the bot is no member."""
    from slack_sdk.webhook.async_client import AsyncWebhookClient

    webhook = AsyncWebhookClient(str(body["response_url"]), timeout=10)
    webhook.retry_handlers = []
    extra = {"thread_ts": thread_ts} if thread_ts else {}
    answer = await webhook.send_dict(
        {"response_type": "ephemeral", "replace_original": False, **message.payload(), **extra}
    )
    if answer.status_code != 200:
        log.warning("handler.respond", status=answer.status_code, error=answer.body[:200])


def later(work: Any) -> None:
    """Do something after the answer went out; kept alive until it is through."""
    task = asyncio.ensure_future(work)
    _background.add(task)
    task.add_done_callback(_background.discard)


def background() -> tuple[asyncio.Task[None], ...]:
    """Return what is still being done after answers went out."""
    return tuple(_background)


def shown_in_modal(message: Message) -> Block:
    """Return a message as a modal: what was refused, with its buttons."""
    _ = translator("en")
    view = modals.message(_.plain("Not done"), Mrkdwn(message.text), _)
    return {**view, "blocks": list(fit(message).blocks)}


async def open_view(client: AsyncWebClient, trigger_id: str, view: Block, body: Body) -> Message | None:
    """Open a modal; returns what to tell the asker when its trigger ran out or Slack does not answer."""
    method = client.views_push if (body.get("view") or {}).get("type") == "modal" else client.views_open
    try:
        await asyncio.wait_for(method(trigger_id=trigger_id, view=view), _FORM_S)
    except SLACK_DOWN as error:
        log.warning("handler.view", error=str(error))
        _ = translator("en")
        return refusal(
            _("The form could not be opened, please press again"),
            _("Slack gives a form three seconds; nothing was recorded."),
        )
    return None


async def turned_away(body: Body, context: AsyncBoltContext, ack: AsyncAck, client: AsyncWebClient) -> bool:
    """Refuse people of other organisations; returns whether that happened."""
    if not is_outsider(body, context):
        return False
    message = outsider(translator("en"))
    if "command" in body:
        await ack(response_type="ephemeral", **message.payload())
    else:
        await ack()
        later(tell(body, client, message))
    return True
