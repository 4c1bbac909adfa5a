"""What becomes of the app's answers: to a command, to a submitted modal, and by a response URL."""

from __future__ import annotations

from typing import Any

from bot.sandbox.standin.blockcheck import check_message_blocks
from bot.sandbox.standin.methods_views import checked_view, push_onto, replace_view
from bot.sandbox.standin.posting import announce, bot_message, with_ids
from bot.sandbox.standin.refusal import RefusedError
from bot.sandbox.standin.table import Json
from bot.sandbox.standin.workspace import Workspace

_TROUBLE = "We had some trouble connecting. Try again?"
_GONE = "This form is not open any more: it was submitted or closed meanwhile."


def slackbot_says(ws: Workspace, user: str, channel: str, text: str, thread_ts: str | None) -> None:
    """Show a person a line by Slack itself."""
    message: Json = {
        "type": "message",
        "user": "USLACKBOT",
        "ts": ws.new_ts(),
        "text": text,
        "channel": channel,
        "is_ephemeral": True,
    }
    if thread_ts is not None:
        message["thread_ts"] = thread_ts
    ws.keep_ephemeral(user, message)


def _as_message(ws: Workspace, body: Json, thread_ts: str | None) -> Json:
    blocks = body.get("blocks")
    if blocks is not None:
        check_message_blocks(ws.table, blocks)
        blocks = with_ids(ws, blocks)
    text = body.get("text") or ""
    if not text and not blocks:
        raise RefusedError("no_text")
    return bot_message(ws, text=str(text), blocks=blocks, thread_ts=thread_ts, metadata=None)


def apply_command_answer(ws: Workspace, user: str, channel: str, body: Any) -> Json:
    """Show what a command was answered with; an empty answer shows nothing."""
    if not body:
        return {}
    answer = body if isinstance(body, dict) else {"text": str(body)}
    if not answer.get("text") and not answer.get("blocks"):
        return {}
    try:
        message = _as_message(ws, answer, None)
    except RefusedError as refused:
        slackbot_says(
            ws, user, channel, f"The app's answer was refused: {refused.error} {refused.extra.get('errors', '')}", None
        )
        return {"refused": refused.body()}
    if answer.get("response_type") == "in_channel":
        announce(ws, channel, message)
    else:
        ws.keep_ephemeral(user, message | {"channel": channel, "is_ephemeral": True})
    return {"ts": message["ts"]}


def apply_submission(ws: Workspace, user: str, view_id: str, body: Any) -> dict[str, str]:
    """Do what the answer to a submission says; return messages by block, under "" those that belong to none."""
    answer = body if isinstance(body, dict) else {}
    stack = ws.stacks[user]
    if view_id not in stack and answer.get("response_action") in {"errors", "update", "push"}:
        return {"": _GONE}
    match answer.get("response_action"):
        case None:
            if view_id in stack:
                ws.close_views(user, leave=stack.index(view_id))
        case "clear":
            ws.close_views(user)
        case "errors":
            errors = answer.get("errors")
            inputs = {one["block_id"] for one in ws.views[view_id]["blocks"] if one["type"] == "input"}
            if not isinstance(errors, dict) or not errors or not set(errors) <= inputs:
                return {"": f"{_TROUBLE} (the app named errors for blocks that are no inputs: {errors})"}
            return {str(block): str(text) for block, text in errors.items()}
        case "update" | "push" as how:
            try:
                view = checked_view(ws, answer.get("view"))
                if how == "update":
                    replace_view(ws, view_id, view)
                else:
                    push_onto(ws, view, user)
            except RefusedError as refused:
                return {"": f"{_TROUBLE} ({refused.error}: {refused.extra.get('errors', '')})"}
        case other:
            return {"": f"{_TROUBLE} (unknown response_action {other!r})"}
    return {}


def respond(ws: Workspace, name: str, body: Json) -> None:
    """Answer by a response URL. Raises: RefusedError."""
    ticket = ws.tickets.spend_response(name)
    user, channel, original = ticket.user, ticket.channel, ticket.message
    if body.get("delete_original"):
        if original is not None and ticket.ephemeral:
            ws.forget_ephemeral(user, original["ts"])
        elif original is not None and original["ts"] in ws.messages[channel]:
            ws.forget_message(channel, original["ts"])
        return
    thread_ts = body.get("thread_ts") or (original or {}).get("thread_ts")
    message = _as_message(ws, body, thread_ts)
    if body.get("replace_original") and original is not None:
        message["ts"] = original["ts"]
        if ticket.ephemeral:
            ws.forget_ephemeral(user, original["ts"])
            ws.keep_ephemeral(user, message | {"channel": channel, "is_ephemeral": True})
        else:
            kept = ws.message(channel, original["ts"])
            ws.keep_message(channel, {**kept, "text": message["text"], "blocks": message.get("blocks", [])})
        return
    if body.get("response_type") == "in_channel":
        announce(ws, channel, message)
    else:
        ws.keep_ephemeral(user, message | {"channel": channel, "is_ephemeral": True})
