"""Message shortcuts: open a case from a message, or have the log in it analysed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bot.blocks.elements import Message
from bot.blocks.notices import notice
from bot.blocks.texts import cut
from bot.flows import forms
from bot.flows.analyse_log import analyse_log
from bot.flows.receive_message import Incoming, pasted_log, receive_message, unescaped
from bot.flows.showing import Asker, language_for
from bot.handlers.edge import Body, asker_of, later, open_view, outcome, tell, turned_away
from bot.handlers.manifest import ANALYSE, OPEN

if TYPE_CHECKING:
    from slack_bolt.app.async_app import AsyncApp
    from slack_bolt.context.ack.async_ack import AsyncAck
    from slack_bolt.context.async_context import AsyncBoltContext
    from slack_sdk.web.async_client import AsyncWebClient

    from bot.flows.services import Services


def register(app: AsyncApp, services: Services) -> None:
    """Bind the two shortcuts."""

    async def shortcut(ack: AsyncAck, body: Body, client: AsyncWebClient, context: AsyncBoltContext) -> None:
        if await turned_away(body, context, ack, client):
            return
        asker = asker_of(body, key=f"trigger:{body.get('trigger_id', '')}")
        message = body.get("message") or {}
        flow = form_from_message if body.get("callback_id") == OPEN else analyse_message
        done: Any = await outcome(services, flow, services, asker, message)
        said = (
            done if isinstance(done, Message) else await open_view(client, str(body.get("trigger_id", "")), done, body)
        )
        await ack()
        if said is not None:
            later(tell(body, client, said))

    app.shortcut(OPEN)(shortcut)
    app.shortcut(ANALYSE)(shortcut)


def form_from_message(services: Services, asker: Asker, message: dict[str, Any]) -> Any:
    """Return the opening form filled from a message; a log in its text is taken in."""
    text = unescaped(str(message.get("text") or "")).strip()
    log = pasted_log(text, at_once=True)
    sha256 = ""
    if log is not None:
        sha256 = analyse_log(services, asker, name="message.log", chunks=[log.encode() + b"\n"]).sha256
    title = cut(text.splitlines()[0], 120) if text and log is None else ""
    return forms.open_form(services, asker, log=sha256, title=title, what_fails=cut(text, 3000) if log is None else "")


def analyse_message(services: Services, asker: Asker, message: dict[str, Any]) -> Message:
    """Have the files or the text of a message analysed; the answer comes under it."""
    ts = str(message.get("ts", ""))
    thread = str(message.get("thread_ts") or ts)
    files = tuple(file for file in message.get("files") or () if isinstance(file, dict))
    text = unescaped(str(message.get("text") or "")).strip()
    with services.store.read() as reading:
        _ = language_for(reading, asker)
    if files:
        receive_message(services, asker, Incoming(ts=ts, text="", thread_ts=thread, files=files, mentioned=True))
    elif text:
        log = pasted_log(text, at_once=True) or text
        analyse_log(services, asker, name="message.log", chunks=[log.encode() + b"\n"], answer_in=(thread,))
    else:
        return notice(_("There is neither text nor a file in this message."))
    return notice(_("The answer comes under the message."))
