"""`chat.*`, `reactions.add`, `pins.add`, `bookmarks.add`: what the app says and marks."""

from __future__ import annotations

import json
from typing import Any

from bot.sandbox.standin.blockcheck import check_message_blocks
from bot.sandbox.standin.call import Call, Method
from bot.sandbox.standin.posting import announce, bot_message, with_ids
from bot.sandbox.standin.refusal import RefusedError
from bot.sandbox.standin.table import Json
from bot.sandbox.standin.workspace import Workspace

_MOST_ATTACHMENTS = 100
_MARKDOWN_TEXT = 12_000


def _blocks(ws: Workspace, call: Call) -> list[Any] | None:
    blocks = call.parsed("blocks", list, error="invalid_blocks_format")
    if blocks is not None:
        check_message_blocks(ws.table, blocks)
        return with_ids(ws, blocks)
    return None


def _metadata(ws: Workspace, call: Call) -> Json | None:
    metadata = call.parsed("metadata", dict, error="invalid_metadata_format")
    if not metadata:
        return None if metadata is None else {}
    if not isinstance(metadata.get("event_type"), str) or not isinstance(metadata.get("event_payload"), dict):
        raise RefusedError("invalid_metadata_schema")
    if len(json.dumps(metadata).encode()) > ws.table.limits["metadata_bytes"]:
        raise RefusedError("metadata_too_large")
    return dict(metadata)


def _checked_text(ws: Workspace, call: Call, blocks: list[Any] | None) -> tuple[str, Json]:
    """Return the text to post and the warnings that come with it."""
    text, markdown = call.optional("text"), call.optional("markdown_text")
    attachments = call.parsed("attachments", list, error="invalid_attachments") or []
    if len(attachments) > _MOST_ATTACHMENTS:
        raise RefusedError("too_many_attachments")
    if markdown is not None:
        if text is not None or blocks is not None:
            raise RefusedError("markdown_text_conflict")
        if len(markdown) > _MARKDOWN_TEXT:
            raise RefusedError("msg_too_long")
        text = markdown
    if text is None and not blocks and not attachments:
        raise RefusedError("no_text")
    text = text or ""
    most = ws.table.limits["text_cut"]
    if len(text) > most:
        warning = {"warning": "message_truncated", "response_metadata": {"warnings": ["message_truncated"]}}
        return text[:most], warning
    return text, {}


def _thread(ws: Workspace, channel: str, call: Call) -> str | None:
    """Return the thread to post in; only a parent's ts will do."""
    thread_ts = call.optional("thread_ts")
    if thread_ts is None:
        return None
    parent = ws.messages[channel].get(thread_ts)
    if parent is None:
        raise RefusedError("thread_not_found")
    if parent.get("thread_ts") not in {None, thread_ts}:
        raise RefusedError("cannot_reply_to_message")
    return thread_ts


def post_message(ws: Workspace, call: Call) -> Json:
    """Post a message or a reply."""
    channel = ws.channel(call.text("channel"), member=ws.bot_user, writable=True)["id"]
    blocks = _blocks(ws, call)
    text, warnings = _checked_text(ws, call, blocks)
    metadata = _metadata(ws, call)
    message = bot_message(ws, text=text, blocks=blocks, thread_ts=_thread(ws, channel, call), metadata=metadata)
    if call.flag("reply_broadcast") and "thread_ts" in message:
        message["subtype"] = "thread_broadcast"
    announce(ws, channel, message)
    return {"ok": True, "channel": channel, "ts": message["ts"], "message": message, **warnings}


def update(ws: Workspace, call: Call) -> Json:
    """Edit one of the app's own messages."""
    channel = ws.channel(call.text("channel"), member=ws.bot_user)["id"]
    message = ws.message(channel, call.text("ts"))
    if message.get("bot_id") != ws.app["bot_id"]:
        raise RefusedError("cant_update_message")
    blocks = _blocks(ws, call)
    text = call.optional("text")
    if text is None and blocks is None:
        raise RefusedError("no_text")
    if text is not None and len(text) > ws.table.limits["update_text"]:
        raise RefusedError("msg_too_long")
    metadata = _metadata(ws, call)
    before, changed = dict(message), dict(message)
    if text is not None:
        changed["text"] = text
    if blocks is not None:
        changed["blocks"] = blocks
    else:
        changed.pop("blocks", None)
        changed["edited"] = {"user": ws.bot_user, "ts": ws.new_ts()}
    if metadata == {}:
        changed.pop("metadata", None)
    elif metadata is not None:
        changed["metadata"] = metadata
    ws.keep_message(channel, changed)
    ws.tell(
        {
            "type": "message",
            "subtype": "message_changed",
            "channel": channel,
            "hidden": True,
            "ts": ws.new_ts(),
            "message": changed,
            "previous_message": before,
        }
    )
    return {"ok": True, "channel": channel, "ts": changed["ts"], "text": changed["text"], "message": changed}


def delete(ws: Workspace, call: Call) -> Json:
    """Delete one of the app's own messages."""
    channel = ws.channel(call.text("channel"), member=ws.bot_user)["id"]
    message = ws.message(channel, call.text("ts"))
    if message.get("bot_id") != ws.app["bot_id"]:
        raise RefusedError("cant_delete_message")
    ws.forget_message(channel, message["ts"])
    return {"ok": True, "channel": channel, "ts": message["ts"]}


def post_ephemeral(ws: Workspace, call: Call) -> Json:
    """Show a message to one member of the channel."""
    channel = ws.channel(call.text("channel"), member=ws.bot_user, writable=True)
    user = call.text("user")
    if user not in ws.people:
        raise RefusedError("user_not_found")
    if user not in channel["members"]:
        raise RefusedError("user_not_in_channel")
    blocks = _blocks(ws, call)
    text, warnings = _checked_text(ws, call, blocks)
    message = bot_message(ws, text=text, blocks=blocks, thread_ts=None, metadata=None)
    message |= {"channel": channel["id"], "is_ephemeral": True}
    thread_ts = call.optional("thread_ts")
    if thread_ts is not None:
        message["thread_ts"] = thread_ts
    # In a thread nobody has replied to yet, Slack takes an ephemeral message and shows it to nobody.
    if thread_ts is None or any(one["ts"] != thread_ts for one in ws.replies(channel["id"], thread_ts)):
        ws.keep_ephemeral(user, message)
    return {"ok": True, "message_ts": message["ts"], **warnings}


def permalink(ws: Workspace, call: Call) -> Json:
    """Return a message's address."""
    channel = ws.channel(call.text("channel"), member=ws.bot_user)["id"]
    message = ws.message(channel, call.text("message_ts"))
    link = f"{ws.base_url}/archives/{channel}/p{message['ts'].replace('.', '')}"
    if message.get("thread_ts", message["ts"]) != message["ts"]:
        link += f"?thread_ts={message['thread_ts']}&cid={channel}"
    return {"ok": True, "channel": channel, "permalink": link}


def add_reaction(ws: Workspace, call: Call) -> Json:
    """React to a message."""
    channel = ws.channel(call.text("channel"), member=ws.bot_user)["id"]
    name, message = call.text("name").strip(":"), ws.message(channel, call.text("timestamp"))
    if not name or not all(c.isalnum() or c in "_+-" for c in name):
        raise RefusedError("invalid_name")
    reactions: list[Json] = message.setdefault("reactions", [])
    mine = next((one for one in reactions if one["name"] == name), None)
    if mine is not None and ws.bot_user in mine["users"]:
        raise RefusedError("already_reacted")
    if len(reactions) >= ws.table.limits["reactions_per_message"]:
        raise RefusedError("too_many_reactions")
    if mine is None:
        reactions.append({"name": name, "users": [ws.bot_user], "count": 1})
    else:
        mine["users"].append(ws.bot_user)
        mine["count"] += 1
    ws.keep_message(channel, message)
    return {"ok": True}


def add_pin(ws: Workspace, call: Call) -> Json:
    """Pin a message."""
    channel = ws.channel(call.text("channel"), member=ws.bot_user)["id"]
    message = ws.message(channel, call.text("timestamp"))
    if (channel, message["ts"]) in ws.pins:
        raise RefusedError("already_pinned")
    if len(ws.pins) >= ws.table.limits["pins"]:
        raise RefusedError("too_many_pins")
    ws.pins.add((channel, message["ts"]))
    ws.keep_message(channel, {**message, "pinned_to": [channel]})
    return {"ok": True}


def add_bookmark(ws: Workspace, call: Call) -> Json:
    """Add a link to the channel's bar."""
    channel = ws.channel(call.text("channel_id"), member=ws.bot_user)["id"]
    title, link = call.text("title"), call.optional("link")
    if link is None or not link.startswith(("http://", "https://")):
        raise RefusedError("invalid_link")
    bookmarks = ws.bookmarks.setdefault(channel, [])
    if len(bookmarks) >= ws.table.limits["pins"]:
        raise RefusedError("too_many_bookmarks")
    bookmarks.append({"id": ws.new_id("Bk"), "channel_id": channel, "title": title, "link": link, "type": "link"})
    return {"ok": True, "bookmark": bookmarks[-1]}


METHODS: dict[str, Method] = {
    "bookmarks.add": add_bookmark,
    "chat.delete": delete,
    "chat.getPermalink": permalink,
    "chat.postEphemeral": post_ephemeral,
    "chat.postMessage": post_message,
    "chat.update": update,
    "pins.add": add_pin,
    "reactions.add": add_reaction,
}
