"""`conversations.*`: reading channels and threads, joining, opening a direct conversation."""

from __future__ import annotations

import base64
from typing import Any

from bot.sandbox.standin.call import Call, Method
from bot.sandbox.standin.refusal import RefusedError
from bot.sandbox.standin.table import Json
from bot.sandbox.standin.workspace import Workspace

_MOST = 999


def _as_seen(ws: Workspace, channel: Json) -> Json:
    seen = {name: part for name, part in channel.items() if name != "members"}
    return {**seen, "is_member": ws.bot_user in channel["members"], "num_members": len(channel["members"])}


def _page(call: Call, items: list[Json], name: str) -> Json:
    """Return one page of items with the cursor to the next."""
    limit = min(max(call.number("limit", 100), 1), _MOST)
    start = 0
    cursor = call.optional("cursor")
    if cursor is not None:
        try:
            start = int(base64.b64decode(cursor, validate=True).decode().removeprefix("next:"))
        except ValueError:
            raise RefusedError("invalid_cursor") from None
    page, more = items[start : start + limit], start + limit < len(items)
    following = base64.b64encode(f"next:{start + limit}".encode()).decode() if more else ""
    return {"ok": True, name: page, "has_more": more, "response_metadata": {"next_cursor": following}}


def _readable(call: Call, messages: list[Json]) -> list[Json]:
    """Return the messages in the asked window; metadata only when it is asked for."""
    oldest, latest = call.optional("oldest") or "0", call.optional("latest") or "9999999999.999999"
    inclusive = call.flag("inclusive")
    inside = [
        one
        for one in messages
        if float(oldest) < float(one["ts"]) < float(latest) or (inclusive and one["ts"] in {oldest, latest})
    ]
    if call.flag("include_all_metadata"):
        return inside
    return [{name: part for name, part in one.items() if name != "metadata"} for one in inside]


def history(ws: Workspace, call: Call) -> Json:
    """Return what stands in the channel itself, newest first."""
    channel = ws.channel(call.text("channel"), member=ws.bot_user)["id"]
    return _page(call, _readable(call, ws.timeline(channel))[::-1], "messages")


def replies(ws: Workspace, call: Call) -> Json:
    """Return a thread, parent first."""
    channel = ws.channel(call.text("channel"), member=ws.bot_user)["id"]
    ts = call.text("ts")
    asked = ws.messages[channel].get(ts)
    if asked is None:
        raise RefusedError("thread_not_found")
    parent = str(asked.get("thread_ts", ts))
    thread = list(ws.replies(channel, parent))
    return _page(
        call, thread[:1] + _readable(call, thread[1:]) if not call.flag("include_all_metadata") else thread, "messages"
    )


def info(ws: Workspace, call: Call) -> Json:
    """Return one channel."""
    return {"ok": True, "channel": _as_seen(ws, ws.channel(call.text("channel")))}


def members(ws: Workspace, call: Call) -> Json:
    """Return who is in a channel."""
    found: list[Any] = ws.channel(call.text("channel"))["members"]
    return _page(call, found, "members")


def listing(ws: Workspace, call: Call) -> Json:
    """Return the channels of the asked kinds."""
    kinds = (call.optional("types") or "public_channel").split(",")
    wanted = [
        one
        for one in ws.channels.values()
        if ("im" in kinds and one["is_im"]) or ("public_channel" in kinds and one["is_channel"])
    ]
    if call.flag("exclude_archived"):
        wanted = [one for one in wanted if not one["is_archived"]]
    return _page(call, [_as_seen(ws, one) for one in wanted], "channels")


def join(ws: Workspace, call: Call) -> Json:
    """Join a public channel."""
    channel = ws.channel(call.text("channel"), writable=True)
    if channel["is_im"]:
        raise RefusedError("method_not_supported_for_channel_type")
    ws.set_membership(channel["id"], ws.bot_user, member=True)
    return {"ok": True, "channel": _as_seen(ws, channel)}


def opened(ws: Workspace, call: Call) -> Json:
    """Return the direct conversation with a person."""
    users = call.text("users").split(",")
    if len(users) > 1:
        raise RefusedError("method_not_supported_for_channel_type")
    if users[0] not in ws.people:
        raise RefusedError("user_not_found")
    return {"ok": True, "channel": {"id": ws.dm_of(users[0])["id"]}, "already_open": True, "no_op": True}


METHODS: dict[str, Method] = {
    "conversations.history": history,
    "conversations.info": info,
    "conversations.join": join,
    "conversations.list": listing,
    "conversations.members": members,
    "conversations.open": opened,
    "conversations.replies": replies,
}
