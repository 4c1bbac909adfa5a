"""The stand-in's state: people, channels, messages, files, open views; who may see what. No HTTP.

Objects are Slack's JSON shapes. Everything runs on one event loop, so nothing here waits or locks.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bot.sandbox.standin.faults import Faults
from bot.sandbox.standin.feed import Feed
from bot.sandbox.standin.records import Records
from bot.sandbox.standin.refusal import RefusedError
from bot.sandbox.standin.table import Json, Table
from bot.sandbox.standin.tickets import Tickets

EPHEMERALS_KEPT = 40


class Workspace:
    """One workspace with one app installed."""

    def __init__(
        self,
        table: Table,
        *,
        records: Records,
        files_dir: Path,
        base_url: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.table = table
        self.base_url = base_url
        self.files_dir = files_dir
        self.clock = clock
        self.records = records
        self.faults = Faults()
        self.feed = Feed()
        self.tickets = Tickets(table.limits, clock)
        self.events: list[Callable[[Json], None]] = []
        """Who hears of events for the app."""
        self.team: Json = table.workspace["team"]
        self.app: Json = table.workspace["app"]
        self.people: dict[str, Json] = {one["id"]: self._person(one) for one in table.workspace["people"]}
        self.channels: dict[str, Json] = {one["id"]: self._channel(one) for one in table.workspace["channels"]}
        self.messages: dict[str, dict[str, Json]] = {channel: {} for channel in self.channels}
        self.ephemerals: dict[str, deque[Json]] = {user: deque(maxlen=EPHEMERALS_KEPT) for user in self.people}
        self.views: dict[str, Json] = {}
        self.stacks: dict[str, list[str]] = {user: [] for user in self.people}
        self.homes: dict[str, Json] = {}
        self.files: dict[str, Json] = {}
        self.pins: set[tuple[str, str]] = set()
        self.bookmarks: dict[str, list[Json]] = {}
        self.later: set[asyncio.Task[None]] = set()
        """File shares under way."""
        self._last_us = 0
        self._counter = itertools.count(1)
        self._restore()

    # -- people and channels ---------------------------------------------------------------------------------------

    @property
    def bot_user(self) -> str:
        """Id of the app's user."""
        return str(self.app["bot_user"])

    def person(self, user: str) -> Json:
        """Return a person or the bot's user. Raises: RefusedError user_not_found."""
        if user == self.bot_user:
            name = self.app["name"]
            return {
                "id": user,
                "name": name.lower(),
                "real_name": name,
                "is_bot": True,
                "tz": "Etc/UTC",
                "tz_offset": 0,
                "locale": "en-US",
            }
        if user not in self.people:
            raise RefusedError("user_not_found")
        return self.people[user]

    def channel(self, channel: Any, *, member: str | None = None, writable: bool = False) -> Json:
        """Return the channel if it is there, `member` is in it and (`writable`) it is not archived. Raises: RefusedError."""
        found = self.channels.get(str(channel))
        if found is None:
            raise RefusedError("channel_not_found")
        if member is not None and member not in found["members"]:
            raise RefusedError("channel_not_found" if found["is_im"] else "not_in_channel")
        if writable and found["is_archived"]:
            raise RefusedError("is_archived")
        return found

    def dm_of(self, user: str) -> Json:
        """Return the person's direct conversation with the app."""
        return next(one for one in self.channels.values() if one.get("user") == user)

    def set_membership(self, channel: str, user: str, *, member: bool) -> None:
        """Let a user join or leave."""
        members: list[str] = self.channels[channel]["members"]
        if member and user not in members:
            members.append(user)
        elif not member and user in members:
            members.remove(user)
        self._save_channel(channel)

    def set_archived(self, channel: str, *, archived: bool) -> None:
        """Archive or restore a channel."""
        self.channels[channel]["is_archived"] = archived
        self._save_channel(channel)

    def _save_channel(self, channel: str) -> None:
        self.records.put("channel", channel, self.channels[channel])
        self.feed.publish({"kind": "channel", "channel": self.channels[channel]})

    # -- messages --------------------------------------------------------------------------------------------------

    def new_ts(self) -> str:
        """Return a message id later than all before it."""
        self._last_us = max(int(self.clock() * 1_000_000), self._last_us + 1)
        return f"{self._last_us // 1_000_000}.{self._last_us % 1_000_000:06d}"

    def new_id(self, prefix: str) -> str:
        """Return a fresh id such as `V…`, `F…`, `Ev…`."""
        return f"{prefix}{next(self._counter):04d}{secrets.token_hex(4).upper()}"

    def message(self, channel: str, ts: str) -> Json:
        """Return a message. Raises: RefusedError message_not_found."""
        found = self.messages.get(channel, {}).get(str(ts))
        if found is None or found.get("subtype") == "tombstone":
            raise RefusedError("message_not_found")
        return found

    def keep_message(self, channel: str, message: Json) -> None:
        """Store a new or changed message and show it on the page."""
        self.messages[channel][message["ts"]] = message
        self.records.put("message", f"{channel}/{message['ts']}", message)
        self.feed.publish(
            {"kind": "message", "channel": channel, "message": message}, readers=self.channels[channel]["members"]
        )

    def forget_message(self, channel: str, ts: str) -> None:
        """Remove a message; a parent with replies stays as a tombstone, as in Slack."""
        message = self.messages[channel][ts]
        if message.get("reply_count"):
            self.keep_message(
                channel,
                {
                    "type": "message",
                    "subtype": "tombstone",
                    "text": "This message was deleted.",
                    "user": "USLACKBOT",
                    "ts": ts,
                    "thread_ts": ts,
                    "reply_count": message["reply_count"],
                    "hidden": True,
                },
            )
            return
        del self.messages[channel][ts]
        self.records.drop("message", f"{channel}/{ts}")
        self.feed.publish(
            {"kind": "message_gone", "channel": channel, "ts": ts}, readers=self.channels[channel]["members"]
        )
        parent = self.messages[channel].get(str(message.get("thread_ts")))
        if parent is not None and parent["ts"] != ts:
            parent["reply_count"] = max(0, parent.get("reply_count", 1) - 1)
            self.keep_message(channel, parent)

    def replies(self, channel: str, thread_ts: str) -> Iterator[Json]:
        """Yield the parent and its replies, oldest first."""
        yield from (
            one
            for ts, one in sorted(self.messages[channel].items())
            if ts == thread_ts or one.get("thread_ts") == thread_ts
        )

    def timeline(self, channel: str) -> list[Json]:
        """Return what stands in the channel itself, oldest first."""
        return [
            one
            for _, one in sorted(self.messages[channel].items())
            if one.get("thread_ts") in {None, one["ts"]} or one.get("subtype") == "thread_broadcast"
        ]

    def keep_ephemeral(self, user: str, message: Json) -> None:
        """Show a message to one person only. Such messages are never stored."""
        self.ephemerals[user].append(message)
        self.feed.publish({"kind": "ephemeral", "message": message}, readers=[user])

    def forget_ephemeral(self, user: str, ts: str) -> None:
        """Take an ephemeral message away."""
        kept = [one for one in self.ephemerals[user] if one["ts"] != ts]
        self.ephemerals[user] = deque(kept, maxlen=EPHEMERALS_KEPT)
        self.feed.publish({"kind": "ephemeral_gone", "ts": ts}, readers=[user])

    def tell(self, event: Json) -> None:
        """Send the app an event, if its installation subscribes to it."""
        for hear in self.events:
            hear(event)

    # -- views -----------------------------------------------------------------------------------------------------

    def show_views(self, user: str) -> None:
        """Tell the page which modals the person has open."""
        self.feed.publish({"kind": "views", "views": self.open_views(user)}, readers=[user])

    def open_views(self, user: str) -> list[Json]:
        """Return the person's open modals, root first."""
        return [self.views[view] for view in self.stacks[user]]

    def close_views(self, user: str, *, leave: int = 0) -> None:
        """Close the person's modals down to `leave` of them."""
        for view in self.stacks[user][leave:]:
            self.views.pop(view, None)
        del self.stacks[user][leave:]
        self.show_views(user)

    def keep_home(self, user: str, view: Json) -> None:
        """Show a person's Home tab."""
        self.homes[user] = view
        self.records.put("home", user, view)
        self.feed.publish({"kind": "home", "view": view}, readers=[user])

    # -- files -----------------------------------------------------------------------------------------------------

    def file(self, file_id: Any) -> Json:
        """Return a file. Raises: RefusedError file_not_found."""
        found = self.files.get(str(file_id))
        if found is None:
            raise RefusedError("file_not_found")
        return found

    def file_path(self, file_id: str) -> Path:
        """Return where the file's bytes are."""
        return self.files_dir / file_id

    def keep_file(self, file: Json) -> None:
        """Store a new or changed file."""
        self.files[file["id"]] = file
        self.records.put("file", file["id"], file)

    def _person(self, one: Json) -> Json:
        return {
            **one,
            "team_id": self.table.workspace["team"]["id"],
            "deleted": False,
            "is_bot": False,
            "is_app_user": False,
            "is_restricted": False,
            "is_ultra_restricted": False,
            "profile": {"real_name": one["real_name"], "display_name": one["name"], "title": one["title"]},
        }

    def _channel(self, one: Json) -> Json:
        is_im = "im_of" in one
        return {
            "id": one["id"],
            "name": one.get("name", ""),
            "is_channel": not is_im,
            "is_group": False,
            "is_im": is_im,
            "is_mpim": False,
            "is_private": is_im,
            "is_archived": False,
            "members": list(one["members"]),
            "topic": {"value": one.get("topic", ""), "creator": "", "last_set": 0},
            **({"user": one["im_of"]} if is_im else {}),
        }

    def _restore(self) -> None:
        for key, body in self.records.all("channel"):
            if key in self.channels:
                self.channels[key] = body
        for key, body in self.records.all("message"):
            channel, ts = key.split("/")
            if channel in self.messages:
                self.messages[channel][ts] = body
                self._last_us = max(self._last_us, int(ts.replace(".", "")))
        self.files = dict(self.records.all("file"))
        self.homes = dict(self.records.all("home"))
        self._counter = itertools.count(len(self.files) + 1)
