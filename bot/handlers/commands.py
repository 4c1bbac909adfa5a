"""`/baseline open|status|nodes|analyze|language|help`. Slash commands cannot be run in a thread; the channel is theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bot.blocks.elements import Message
from bot.flows import forms
from bot.flows import show_status as show
from bot.flows.analyse_log import analyse_log
from bot.flows.set_language import set_language
from bot.handlers.edge import Body, asker_of, open_view, outcome, turned_away
from bot.handlers.manifest import COMMAND

if TYPE_CHECKING:
    from slack_bolt.app.async_app import AsyncApp
    from slack_bolt.context.ack.async_ack import AsyncAck
    from slack_bolt.context.async_context import AsyncBoltContext
    from slack_sdk.web.async_client import AsyncWebClient

    from bot.flows.services import Services


def register(app: AsyncApp, services: Services) -> None:
    """Bind the slash command."""

    async def baseline(ack: AsyncAck, body: Body, client: AsyncWebClient, context: AsyncBoltContext) -> None:
        if await turned_away(body, context, ack, client):
            return
        word, _sep, rest = str(body.get("text", "")).strip().partition(" ")
        answer = await _answer(services, word.lower(), rest.strip(), body, client)
        if answer is None:
            await ack()
        else:
            await ack(response_type="ephemeral", **answer.payload())

    app.command(COMMAND)(baseline)


async def _answer(services: Services, word: str, rest: str, body: Body, client: AsyncWebClient) -> Message | None:
    asker = asker_of(body, key=f"trigger:{body.get('trigger_id', '')}")
    match word:
        case "open":
            found: Any = await outcome(services, forms.open_form, services, asker, title=rest)
        case "analyze" | "analyse" if not rest:
            found = await outcome(services, forms.analyse_form, services, asker)
        case "analyze" | "analyse":
            answered = await outcome(
                services, analyse_log, services, asker, name="pasted.log", chunks=[rest.encode() + b"\n"]
            )
            return answered if isinstance(answered, Message) else answered.message
        case "status":
            found = await outcome(services, show.show_cases, services, asker)
        case "language":
            found = await outcome(services, set_language, services, asker, rest)
        case "nodes":
            found = await outcome(services, show.show_nodes, services, asker)
        case _:
            found = await outcome(services, show.show_help, services, asker, f"{word} {rest}")
    if isinstance(found, Message):
        return found
    return await open_view(client, str(body.get("trigger_id", "")), found, body)
