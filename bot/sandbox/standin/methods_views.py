"""`views.*`: modals on a trigger that lives 3 s and works once, and the Home tab."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from bot.sandbox.standin.blockcheck import check_view
from bot.sandbox.standin.call import Call, Method
from bot.sandbox.standin.posting import with_ids
from bot.sandbox.standin.refusal import RefusedError
from bot.sandbox.standin.table import Json
from bot.sandbox.standin.workspace import Workspace


def checked_view(ws: Workspace, view: Any) -> Json:
    """Return the view with ids, as Slack keeps it. Raises: RefusedError."""
    if not isinstance(view, dict):
        raise RefusedError(
            "invalid_arguments", response_metadata={"messages": ["[ERROR] must be an object [json-pointer:/view]"]}
        )
    check_view(ws.table, view)
    external = view.get("external_id")
    if external and any(one.get("external_id") == external for one in ws.views.values()):
        raise RefusedError("duplicate_external_id")
    kept = {
        "private_metadata": "",
        "callback_id": "",
        "external_id": "",
        "clear_on_close": False,
        "notify_on_close": False,
        "submit": None,
        "close": None,
        **view,
        "blocks": with_ids(ws, view["blocks"]),
    }
    kept["hash"] = f"{int(ws.clock())}.{hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:8]}"
    return kept


def place_view(ws: Workspace, view: Json, user: str, *, root: str | None = None, previous: str | None = None) -> Json:
    """Put a new modal on the person's screen."""
    view_id = ws.new_id("V")
    placed = {
        **view,
        "id": view_id,
        "team_id": ws.team["id"],
        "state": {"values": {}},
        "app_id": ws.app["id"],
        "bot_id": ws.app["bot_id"],
        "root_view_id": root or view_id,
        "previous_view_id": previous,
        "app_installed_team_id": ws.team["id"],
    }
    ws.views[view_id] = placed
    ws.stacks[user].append(view_id)
    ws.show_views(user)
    return placed


def replace_view(ws: Workspace, view_id: str, view: Json) -> Json:
    """Change an open modal; what was typed into inputs of the same ids stays with the page."""
    old = ws.views[view_id]
    placed = {
        **old,
        **view,
        "id": view_id,
        "root_view_id": old["root_view_id"],
        "previous_view_id": old["previous_view_id"],
    }
    ws.views[view_id] = placed
    owner = owner_of(ws, view_id)
    ws.show_views(owner)
    return placed


def owner_of(ws: Workspace, view_id: str) -> str:
    """Return who has the modal open. Raises: RefusedError not_found."""
    for user, stack in ws.stacks.items():
        if view_id in stack:
            return user
    raise RefusedError("not_found")


def _view_of(ws: Workspace, call: Call) -> Json:
    """Read the view first and spend the trigger after, so that a malformed view is told apart from a spent trigger."""
    return checked_view(ws, call.parsed("view", dict, error="invalid_arguments"))


def view_open(ws: Workspace, call: Call) -> Json:
    """Open a modal."""
    view = _view_of(ws, call)
    user = ws.tickets.spend_trigger(call.text("trigger_id"))
    if view["type"] != "modal":
        raise RefusedError("invalid_arguments")
    ws.close_views(user)
    return {"ok": True, "view": place_view(ws, view, user)}


def view_push(ws: Workspace, call: Call) -> Json:
    """Push a modal onto the open ones."""
    view = _view_of(ws, call)
    user = ws.tickets.spend_trigger(call.text("trigger_id"))
    stack = ws.stacks[user]
    if not stack:
        raise RefusedError("not_found")
    return {"ok": True, "view": push_onto(ws, view, user)}


def push_onto(ws: Workspace, view: Json, user: str) -> Json:
    """Push a view onto a person's stack. Raises: RefusedError push_limit_reached."""
    stack = ws.stacks[user]
    if len(stack) >= ws.table.limits["view_stack"]:
        raise RefusedError("push_limit_reached")
    return place_view(ws, view, user, root=ws.views[stack[0]]["root_view_id"], previous=stack[-1])


def view_update(ws: Workspace, call: Call) -> Json:
    """Change an open modal, with `hash` only if nobody else did."""
    view_id, external = call.optional("view_id"), call.optional("external_id")
    if external is not None:
        view_id = next((name for name, one in ws.views.items() if one["external_id"] == external), None)
    if view_id is None or view_id not in ws.views:
        raise RefusedError("not_found")
    asked = call.optional("hash")
    if asked is not None and asked != ws.views[view_id]["hash"]:
        raise RefusedError("hash_conflict")
    return {"ok": True, "view": replace_view(ws, view_id, _view_of(ws, call))}


def view_publish(ws: Workspace, call: Call) -> Json:
    """Publish a person's Home tab."""
    user = call.text("user_id")
    if user not in ws.people:
        raise RefusedError("user_not_found")
    if not ws.table.installation.home_tab:
        raise RefusedError("not_enabled")
    view = _view_of(ws, call)
    if view["type"] != "home":
        raise RefusedError("invalid_arguments")
    asked = call.optional("hash")
    old = ws.homes.get(user)
    if asked is not None and old is not None and asked != old["hash"]:
        raise RefusedError("hash_conflict")
    placed = {
        **view,
        "id": old["id"] if old else ws.new_id("V"),
        "team_id": ws.team["id"],
        "app_id": ws.app["id"],
        "bot_id": ws.app["bot_id"],
        "state": {"values": {}},
        "root_view_id": None,
        "previous_view_id": None,
    }
    ws.keep_home(user, placed)
    return {"ok": True, "view": placed}


METHODS: dict[str, Method] = {
    "views.open": view_open,
    "views.publish": view_publish,
    "views.push": view_push,
    "views.update": view_update,
}
