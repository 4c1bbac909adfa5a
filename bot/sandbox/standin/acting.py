"""What people do in the workspace: write, run a command, press, fill in a modal, drop a file, open the Home tab."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from bot.sandbox.standin import payloads
from bot.sandbox.standin.answers import apply_command_answer, apply_submission, slackbot_says
from bot.sandbox.standin.delivery import Delivery
from bot.sandbox.standin.methods_files import note_share, shown_file
from bot.sandbox.standin.methods_views import owner_of
from bot.sandbox.standin.posting import announce, person_message
from bot.sandbox.standin.refusal import RefusedError
from bot.sandbox.standin.table import Json
from bot.sandbox.standin.workspace import Workspace

_REAL_TOKEN = re.compile(r"\bxox[a-z]-[0-9A-Za-z-]{10,}|\bxapp-[0-9A-Za-z-]{10,}")
_REQUIRED = "Please complete this required field."


@dataclass(frozen=True, slots=True)
class Done:
    """How it went for the person: `ok`, or words for what did not happen; `errors` by block of a modal."""

    ok: bool = True
    error: str = ""
    errors: dict[str, str] = field(default_factory=dict)
    data: Json = field(default_factory=dict)


class Acting:
    """Everything a person can do."""

    def __init__(self, ws: Workspace, delivery: Delivery) -> None:
        self._ws = ws
        self._delivery = delivery

    async def say(
        self, user: str, channel: str, text: str, *, thread_ts: str | None = None, files: list[str] | None = None
    ) -> Done:
        """Write a message, or run it as a command when it starts with a slash."""
        ws = self._ws
        place = ws.channel(channel, member=user, writable=True)
        if _REAL_TOKEN.search(text):
            return Done(
                ok=False,
                error="Not sent: this looks like a real Slack token. The sandbox takes none; revoke it if it was shown.",
            )
        if text.startswith("/") and not files:
            return await self._command(user, place, text, thread_ts)
        if len(text) > ws.table.limits["typed_chars"]:
            return Done(
                ok=False,
                error=f"Too long for a message ({len(text)} of {ws.table.limits['typed_chars']} characters): send it as a file.",
            )
        if not text.strip() and not files:
            return Done(ok=False, error="Nothing to send.")
        kept = [ws.file(one) for one in files or []]
        if any(one["user"] != user for one in kept):
            raise RefusedError("file_not_found")
        message = person_message(
            ws, user, text=self._mentions(text), thread_ts=thread_ts, files=[shown_file(one) for one in kept]
        )
        announce(ws, channel, message)
        for one in kept:
            note_share(ws, one, channel, message)
        return Done(data={"ts": message["ts"]})

    async def _command(self, user: str, place: Json, text: str, thread_ts: str | None) -> Done:
        ws = self._ws
        command, _, rest = text.partition(" ")
        if command not in {one["command"] for one in ws.table.installation.commands}:
            slackbot_says(
                ws,
                user,
                place["id"],
                f"`{command}` is not a valid command. Available here: "
                + ", ".join(one["command"] for one in ws.table.installation.commands),
                thread_ts,
            )
            return Done(ok=False, error="invalid_command")
        if thread_ts is not None:
            slackbot_says(ws, user, place["id"], f"{command} is not supported in threads. Sorry!", thread_ts)
            return Done(ok=False, error="command_in_thread")
        await self._delivery.is_open()
        form = payloads.slash_form(
            ws.team,
            ws.app,
            ws.person(user),
            place,
            command=command,
            text=rest.strip(),
            trigger=ws.tickets.trigger(user),
            response_url=self._response_url(place["id"], user, None, ephemeral=True),
        )
        outcome = await self._delivery.command(form)
        if outcome.result != "ok":
            slackbot_says(ws, user, place["id"], f'{command} failed with the error "{outcome.result}"', None)
            return Done(ok=False, error=outcome.result)
        return Done(data=apply_command_answer(ws, user, place["id"], outcome.body))

    async def press(
        self, user: str, where: Json, block_id: str, action_id: str, *, raw: Any = ..., values: Json | None = None
    ) -> Done:
        """Press a button or choose in a menu of a message, an ephemeral message, a modal or the Home tab.

        Args:
            user: who.
            where: `{channel, ts}` or `{view}`.
            block_id: of the element's block.
            action_id: of the element.
            raw: the value chosen in a menu.
            values: what the other inputs of the same message or view hold.
        """
        ws = self._ws
        holder, container = self._holder(user, where)
        element = next(
            (
                one
                for block, one in payloads.elements_of(holder.get("blocks", []))
                if block == block_id and one["action_id"] == action_id
            ),
            None,
        )
        if element is None or user not in element.get("visible_to_user_ids", [user]):
            return Done(ok=False, error="This button is no longer there.")
        await self._delivery.is_open()
        try:
            action = payloads.action_of(block_id, element, raw, at=ws.new_ts(), files=ws.files)
            state = payloads.state_of(holder["blocks"], values or {}, ws.files, inputs_only=False)
        except ValueError as wrong:
            return Done(ok=False, error=str(wrong))
        payload: Json = {
            "type": "block_actions",
            **payloads.base(ws.team, ws.app, ws.person(user)),
            "container": container,
            "trigger_id": ws.tickets.trigger(user),
            "actions": [action],
            "state": {"values": state},
        }
        if container["type"] == "view":
            payload["view"] = {**holder, "state": {"values": state}}
        else:
            channel = ws.channels[container["channel_id"]]
            ephemeral = container["is_ephemeral"]
            payload["channel"] = {"id": channel["id"], "name": "directmessage" if channel["is_im"] else channel["name"]}
            payload["response_url"] = self._response_url(channel["id"], user, holder, ephemeral=ephemeral)
            if not ephemeral:
                payload["message"] = holder
        outcome = await self._delivery.interaction(payload)
        return (
            Done()
            if outcome.result == "ok"
            else Done(ok=False, error=f"The app did not answer this press ({outcome.result}).")
        )

    async def submit(self, user: str, view_id: str, values: Json) -> Done:
        """Submit a modal."""
        ws = self._ws
        view = self._open_view(user, view_id)
        try:
            state = payloads.state_of(view["blocks"], values, ws.files, inputs_only=True)
        except ValueError as wrong:
            return Done(ok=False, error=str(wrong))
        errors = _incomplete(view, state)
        if errors:
            return Done(ok=False, errors=errors)
        await self._delivery.is_open()
        filled = {**self._open_view(user, view_id), "state": {"values": state}}
        ws.views[view_id] = filled
        outcome = await self._delivery.interaction(
            {
                "type": "view_submission",
                **payloads.base(ws.team, ws.app, ws.person(user)),
                "trigger_id": ws.tickets.trigger(user),
                "view": filled,
                "response_urls": [],
            }
        )
        if outcome.result != "ok":
            return Done(ok=False, error="We had some trouble connecting. Try again?")
        errors = apply_submission(ws, user, view_id, outcome.body)
        return Done(ok=not errors, errors={one: text for one, text in errors.items() if one}, error=errors.get("", ""))

    async def close(self, user: str, view_id: str) -> Done:
        """Close a modal without submitting it."""
        ws = self._ws
        view = self._open_view(user, view_id)
        ws.close_views(user, leave=ws.stacks[user].index(view_id))
        if view["notify_on_close"]:
            await self._delivery.interaction(
                {
                    "type": "view_closed",
                    **payloads.base(ws.team, ws.app, ws.person(user)),
                    "view": view,
                    "is_cleared": False,
                }
            )
        return Done()

    def home(self, user: str) -> Done:
        """Open the app's Home tab."""
        ws = self._ws
        event: Json = {
            "type": "app_home_opened",
            "user": user,
            "channel": ws.dm_of(user)["id"],
            "tab": "home",
            "event_ts": ws.new_ts(),
        }
        if user in ws.homes:
            event["view"] = ws.homes[user]
        ws.tell(event)
        return Done()

    async def shortcut(self, user: str, channel: str, ts: str, callback_id: str) -> Done:
        """Use a message shortcut."""
        ws = self._ws
        place = ws.channel(channel, member=user)
        message = ws.message(channel, ts)
        if callback_id not in {
            one["callback_id"] for one in ws.table.installation.shortcuts if one["type"] == "message"
        }:
            return Done(ok=False, error="There is no such shortcut.")
        await self._delivery.is_open()
        outcome = await self._delivery.interaction(
            {
                "type": "message_action",
                **payloads.base(ws.team, ws.app, ws.person(user)),
                "callback_id": callback_id,
                "trigger_id": ws.tickets.trigger(user),
                "action_ts": ws.new_ts(),
                "message_ts": ts,
                "message": message,
                "channel": {"id": channel, "name": "directmessage" if place["is_im"] else place["name"]},
                "response_url": self._response_url(channel, user, message, ephemeral=False),
            }
        )
        return Done() if outcome.result == "ok" else Done(ok=False, error=f"The app did not answer ({outcome.result}).")

    def delete(self, user: str, channel: str, ts: str) -> Done:
        """Delete a message; whoever runs the sandbox may delete the app's messages too, as a workspace's admin may."""
        ws = self._ws
        ws.channel(channel, member=user)
        message = ws.message(channel, ts)
        if message["user"] not in {user, ws.bot_user}:
            return Done(ok=False, error="Only your own messages and the app's can be deleted.")
        ws.forget_message(channel, ts)
        ws.tell(
            {
                "type": "message",
                "subtype": "message_deleted",
                "channel": channel,
                "hidden": True,
                "deleted_ts": ts,
                "ts": ws.new_ts(),
                "previous_message": message,
            }
        )
        return Done()

    def _holder(self, user: str, where: Json) -> tuple[Json, Json]:
        """Return the message or view that is acted in, and Slack's `container` for it."""
        ws = self._ws
        if "view" in where:
            home = ws.homes.get(user)
            view = (
                home if home is not None and home["id"] == where["view"] else self._open_view(user, str(where["view"]))
            )
            return view, {"type": "view", "view_id": view["id"]}
        channel, ts = str(where["channel"]), str(where["ts"])
        ws.channel(channel, member=user)
        mine = next((one for one in ws.ephemerals[user] if one["ts"] == ts), None)
        message = mine or ws.message(channel, ts)
        container: Json = {"type": "message", "message_ts": ts, "channel_id": channel, "is_ephemeral": mine is not None}
        if "thread_ts" in message:
            container["thread_ts"] = message["thread_ts"]
        return message, container

    def _open_view(self, user: str, view_id: str) -> Json:
        if view_id not in self._ws.views or owner_of(self._ws, view_id) != user:
            raise RefusedError("not_found")
        return self._ws.views[view_id]

    def _response_url(self, channel: str, user: str, message: Json | None, *, ephemeral: bool) -> str:
        path = self._ws.tickets.response_url(channel=channel, user=user, message=message, ephemeral=ephemeral)
        return f"{self._ws.base_url}{path}"

    def _mentions(self, text: str) -> str:
        """Return the text as Slack stores it: escaped, with known names as mentions."""
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        names = {one["name"]: one["id"] for one in self._ws.people.values()} | {
            self._ws.app["name"].lower(): self._ws.bot_user
        }
        return re.sub(r"@(\w+)", lambda m: f"<@{names[m[1].lower()]}>" if m[1].lower() in names else m[0], escaped)


def _incomplete(view: Json, state: Json) -> dict[str, str]:
    """Return what Slack's client itself would object to, by block."""
    errors = {}
    for block in view["blocks"]:
        if block["type"] != "input":
            continue
        element = block["element"]
        value = next(
            (part for name, part in state[block["block_id"]][element["action_id"]].items() if name != "type"), None
        )
        if not value:
            if not block.get("optional"):
                errors[block["block_id"]] = _REQUIRED
        elif isinstance(value, str):
            most, least = element.get("max_length", 3000), element.get("min_length", 0)
            if len(value) > most:
                errors[block["block_id"]] = (
                    f"This holds {most} characters; yours has {len(value)}. Longer text comes as a file."
                )
            elif len(value) < least:
                errors[block["block_id"]] = f"At least {least} characters, please."
    return errors
