"""Files: upload in three steps, shared a moment later, read back with the token only."""

from __future__ import annotations

import asyncio
import mimetypes
from typing import Any

from bot.sandbox.standin.call import Call, Method
from bot.sandbox.standin.faults import LATE_SHARE_MS
from bot.sandbox.standin.posting import announce, bot_message, channel_type
from bot.sandbox.standin.refusal import RefusedError
from bot.sandbox.standin.table import Json
from bot.sandbox.standin.workspace import Workspace


def new_file(ws: Workspace, *, name: str, user: str, size: int, title: str = "", alt: str = "") -> Json:
    """Return a file's object; its bytes follow."""
    file_id = ws.new_id("F")
    kind = name.rsplit(".", 1)[-1].lower() if "." in name else "text"
    address = f"{ws.base_url}/files-pri/{ws.team['id']}-{file_id}"
    safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in name).lower()
    return {
        "id": file_id,
        "created": int(ws.clock()),
        "timestamp": int(ws.clock()),
        "name": name,
        "title": title or name,
        "mimetype": mimetypes.guess_type(name)[0] or "text/plain",
        "filetype": "text" if kind in {"txt", "log"} else kind,
        "size": size,
        "mode": "hosted",
        "is_external": False,
        "is_public": True,
        "user": user,
        "user_team": ws.team["id"],
        "alt_txt": alt,
        "file_access": "visible",
        "url_private": f"{address}/{safe}",
        "url_private_download": f"{address}/download/{safe}",
        "permalink": f"{ws.base_url}/files/{user}/{file_id}/{safe}",
        "shares": {},
        "channels": [],
        "ims": [],
    }


def shown_file(file: Json) -> Json:
    """Return a file's object as it stands inside a message."""
    return {
        name: part for name, part in file.items() if name not in {"shares", "channels", "ims", "complete", "uploaded"}
    }


def note_share(ws: Workspace, file: Json, channel: str, message: Json) -> None:
    """Remember where a file was shared and tell the app."""
    share: Json = {"ts": message["ts"], "reply_users": [], "reply_count": 0}
    if "thread_ts" in message:
        share["thread_ts"] = message["thread_ts"]
    place = ws.channels[channel]
    file["shares"].setdefault("private" if place["is_private"] else "public", {}).setdefault(channel, []).append(share)
    file["ims" if place["is_im"] else "channels"].append(channel)
    ws.keep_file(file)
    ws.tell(
        {
            "type": "file_shared",
            "file_id": file["id"],
            "file": {"id": file["id"]},
            "user_id": file["user"],
            "channel_id": channel,
            "channel_type": channel_type(place),
            "event_ts": message["ts"],
        }
    )


def get_upload_url(ws: Workspace, call: Call) -> Json:
    """Announce a file."""
    length = call.number("length", -1)
    if length < 0:
        raise RefusedError("invalid_arguments")
    if length > ws.table.limits["file_bytes"]:
        raise RefusedError("file_upload_size_restricted")
    file = new_file(ws, name=call.text("filename"), user=ws.bot_user, size=length, alt=call.optional("alt_txt") or "")
    ws.keep_file({**file, "complete": False, "uploaded": False})
    return {"ok": True, "upload_url": f"{ws.base_url}{ws.tickets.upload_url(file['id'])}", "file_id": file["id"]}


def complete_upload(ws: Workspace, call: Call) -> Json:
    """Complete uploads; the share comes later, as in Slack."""
    asked: list[Any] = call.parsed("files", list, error="invalid_arguments") or []
    channel = call.optional("channel_id")
    if channel is not None:
        ws.channel(channel, member=ws.bot_user, writable=True)
    done = []
    for one in asked:
        file = ws.file(one.get("id") if isinstance(one, dict) else None)
        if not file.get("uploaded") or file.get("complete"):
            raise RefusedError("file_not_found")
        file |= {"complete": True, "title": one.get("title") or file["name"]}
        ws.keep_file(file)
        done.append(file)
    if not done:
        raise RefusedError("invalid_arguments")
    if channel is not None and ws.faults.share != "never":
        wait_ms = LATE_SHARE_MS if ws.faults.share == "late" else ws.table.limits["share_after_ms"]
        _share_later(ws, done, channel, call, wait_ms)
    return {"ok": True, "files": [{**shown_file(one), "shares": one["shares"]} for one in done]}


def _share_later(ws: Workspace, done: list[Json], channel: str, call: Call, wait_ms: int) -> None:
    thread_ts, comment = call.optional("thread_ts"), call.optional("initial_comment") or ""

    async def share() -> None:
        await asyncio.sleep(wait_ms / 1000)
        message = bot_message(ws, text=comment, blocks=None, thread_ts=thread_ts, metadata=None)
        message |= {"files": [shown_file(one) for one in done], "upload": False}
        announce(ws, channel, message)
        for one in done:
            note_share(ws, one, channel, message)

    task = asyncio.get_running_loop().create_task(share())
    ws.later.add(task)
    task.add_done_callback(ws.later.discard)


def files_info(ws: Workspace, call: Call) -> Json:
    """Return a file with its shares."""
    file = ws.file(call.text("file"))
    return {
        "ok": True,
        "file": {**shown_file(file), "shares": file["shares"], "channels": file["channels"], "ims": file["ims"]},
    }


METHODS: dict[str, Method] = {
    "files.completeUploadExternal": complete_upload,
    "files.getUploadURLExternal": get_upload_url,
    "files.info": files_info,
}
