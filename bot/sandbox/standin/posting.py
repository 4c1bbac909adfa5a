"""How messages come to be: their Slack shape, thread counts, and the event the app gets."""

from __future__ import annotations

import copy
import secrets
from typing import Any

from bot.sandbox.standin.table import Json
from bot.sandbox.standin.workspace import Workspace


def with_ids(ws: Workspace, blocks: list[Any]) -> list[Any]:
    """Return the blocks as Slack keeps them: every block has a `block_id`, every element an `action_id`."""
    kept = copy.deepcopy(blocks)
    for block in kept:
        block.setdefault("block_id", secrets.token_urlsafe(4))
        elements = [*block.get("elements", []), block.get("accessory"), block.get("element")]
        for element in elements:
            kind = element.get("type") if isinstance(element, dict) else None
            if block["type"] != "rich_text" and kind in ws.table.elements and kind != "image":
                element.setdefault("action_id", secrets.token_urlsafe(4))
    return kept


def bot_message(
    ws: Workspace, *, text: str, blocks: list[Any] | None, thread_ts: str | None, metadata: Json | None
) -> Json:
    """Return a message of the app, not yet posted."""
    app = ws.app
    message: Json = {
        "type": "message",
        "user": app["bot_user"],
        "bot_id": app["bot_id"],
        "app_id": app["id"],
        "team": ws.team["id"],
        "ts": ws.new_ts(),
        "text": text,
        "bot_profile": {"id": app["bot_id"], "app_id": app["id"], "name": app["name"], "team_id": ws.team["id"]},
    }
    if blocks:
        message["blocks"] = blocks
    if thread_ts is not None:
        message["thread_ts"] = thread_ts
    if metadata:
        message["metadata"] = metadata
    return message


def person_message(
    ws: Workspace, user: str, *, text: str, thread_ts: str | None, files: list[Json] | None = None
) -> Json:
    """Return a message of a person, not yet posted."""
    message: Json = {
        "type": "message",
        "user": user,
        "team": ws.team["id"],
        "ts": ws.new_ts(),
        "text": text,
        "client_msg_id": secrets.token_hex(16),
    }
    if text:
        message["blocks"] = [
            {
                "type": "rich_text",
                "block_id": secrets.token_urlsafe(4),
                "elements": [{"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}],
            }
        ]
    if files:
        message |= {"subtype": "file_share", "files": files, "upload": True}
    if thread_ts is not None:
        message["thread_ts"] = thread_ts
    return message


def channel_type(channel: Json) -> str:
    """Return Slack's word for the kind of conversation."""
    if channel["is_im"]:
        return "im"
    return "group" if channel["is_private"] else "channel"


def announce(ws: Workspace, channel: str, message: Json) -> None:
    """Put a message into its channel or thread, count it at its parent, and tell the app."""
    ws.keep_message(channel, message)
    parent = ws.messages[channel].get(str(message.get("thread_ts")))
    if parent is not None and parent["ts"] != message["ts"]:
        parent["thread_ts"] = parent["ts"]
        parent["reply_count"] = parent.get("reply_count", 0) + 1
        parent["latest_reply"] = message["ts"]
        parent["reply_users"] = sorted({*parent.get("reply_users", []), message["user"]})
        ws.keep_message(channel, parent)
    place = ws.channels[channel]
    ws.tell({**message, "channel": channel, "channel_type": channel_type(place), "event_ts": message["ts"]})
    mention = f"<@{ws.bot_user}>"
    if mention in message["text"] and message["user"] != ws.bot_user and not place["is_im"]:
        ws.tell(
            {
                **{name: part for name, part in message.items() if name not in {"subtype", "upload"}},
                "type": "app_mention",
                "channel": channel,
                "event_ts": message["ts"],
            }
        )
