"""`auth.test`, `users.info`, `usergroups.*`, `apps.connections.open`: who is who, and how to listen."""

from __future__ import annotations

from bot.sandbox.standin.call import Call, Method
from bot.sandbox.standin.refusal import RefusedError
from bot.sandbox.standin.table import Json
from bot.sandbox.standin.workspace import Workspace


def auth_test(ws: Workspace, _call: Call) -> Json:
    """Say whose token it is."""
    return {
        "ok": True,
        "url": f"{ws.base_url}/",
        "team": ws.team["name"],
        "user": ws.app["name"].lower(),
        "team_id": ws.team["id"],
        "user_id": ws.bot_user,
        "bot_id": ws.app["bot_id"],
        "is_enterprise_install": False,
    }


def users_info(ws: Workspace, call: Call) -> Json:
    """Return one person; the locale only when it is asked for."""
    person = ws.person(call.text("user"))
    if not call.flag("include_locale"):
        person = {name: part for name, part in person.items() if name != "locale"}
    return {"ok": True, "user": person}


def _groups(ws: Workspace) -> list[Json]:
    return list(ws.table.workspace["groups"])


def usergroups_list(ws: Workspace, call: Call) -> Json:
    """Return the user groups."""
    include = call.flag("include_users")
    groups = [
        {
            **{name: part for name, part in one.items() if include or name != "users"},
            "team_id": ws.team["id"],
            "is_usergroup": True,
            "date_delete": 0,
            "user_count": len(one["users"]),
        }
        for one in _groups(ws)
    ]
    return {"ok": True, "usergroups": groups}


def usergroup_users(ws: Workspace, call: Call) -> Json:
    """Return who is in a user group."""
    asked = call.text("usergroup")
    for one in _groups(ws):
        if one["id"] == asked:
            return {"ok": True, "users": list(one["users"])}
    raise RefusedError("no_such_subteam")


def connections_open(ws: Workspace, _call: Call) -> Json:
    """Return a one-time address for Socket Mode."""
    address = ws.base_url.replace("http://", "ws://", 1)
    return {"ok": True, "url": f"{address}/link?ticket={ws.tickets.socket()}&app_id={ws.app['id']}"}


METHODS: dict[str, Method] = {
    "apps.connections.open": connections_open,
    "auth.test": auth_test,
    "usergroups.list": usergroups_list,
    "usergroups.users.list": usergroup_users,
    "users.info": users_info,
}
