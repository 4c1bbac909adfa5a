"""What the app is sent: commands, interactions and events in Slack's shapes. Pure."""

from __future__ import annotations

from typing import Any

from bot.sandbox.standin.table import Json

_ONE_OF = {"static_select", "radio_buttons", "overflow"}
_SOME_OF = {"multi_static_select", "checkboxes"}
_PICKED = {
    "users_select": ("selected_user", "initial_user"),
    "multi_users_select": ("selected_users", "initial_users"),
    "conversations_select": ("selected_conversation", "initial_conversation"),
    "channels_select": ("selected_channel", "initial_channel"),
    "datepicker": ("selected_date", "initial_date"),
    "timepicker": ("selected_time", "initial_time"),
    "datetimepicker": ("selected_date_time", "initial_date_time"),
}


def options_of(element: Json) -> list[Json]:
    """Return all options of a menu, grouped or not."""
    grouped = [option for group in element.get("option_groups", []) for option in group["options"]]
    return [*element.get("options", []), *grouped]


def elements_of(blocks: list[Json]) -> list[tuple[str, Json]]:
    """Return every interactive element with the id of its block."""
    found = []
    for block in blocks:
        parts = [block.get("element"), block.get("accessory"), *(block.get("elements") or [])]
        found += [(block["block_id"], part) for part in parts if isinstance(part, dict) and "action_id" in part]
    return found


def state_value(element: Json, raw: Any, files: dict[str, Json]) -> Json:
    """Return an element's value as in `state.values`; `raw` is what the page sent, `...` when it sent nothing.

    Raises:
        ValueError: the value is none of the element's options.
    """
    kind = element["type"]
    untouched = raw is ...
    if kind in _ONE_OF:
        option = element.get("initial_option") if untouched else _chosen(element, raw)
        return {"type": kind, "selected_option": option}
    if kind in _SOME_OF:
        some = element.get("initial_options", []) if untouched else [_chosen(element, one) for one in raw or []]
        return {"type": kind, "selected_options": some}
    if kind in _PICKED:
        name, initial = _PICKED[kind]
        return {"type": kind, name: element.get(initial) if untouched else (raw or None)}
    if kind == "file_input":
        return {"type": kind, "files": [files[one] for one in ([] if untouched else raw or []) if one in files]}
    return {"type": kind, "value": element.get("initial_value") if untouched else (raw or None)}


def _chosen(element: Json, raw: Any) -> Json | None:
    if raw in {None, ""}:
        return None
    for option in options_of(element):
        if option["value"] == raw:
            return option
    raise ValueError(f"expected one of the options of {element.get('action_id')}, found {raw!r}")


def state_of(blocks: list[Json], values: Json, files: dict[str, Json], *, inputs_only: bool) -> Json:
    """Return `state.values` of a view or message."""
    state: Json = {}
    for block_id, element in elements_of(blocks):
        if element["type"] in {"button", "overflow"}:
            continue
        if inputs_only and not any(
            block["block_id"] == block_id and block["type"] in {"input", "section", "actions"} for block in blocks
        ):
            continue
        raw = values.get(block_id, {}).get(element["action_id"], ...)
        state.setdefault(block_id, {})[element["action_id"]] = state_value(element, raw, files)
    return state


def action_of(block_id: str, element: Json, raw: Any, *, at: str, files: dict[str, Json]) -> Json:
    """Return the one entry of `actions` for a press or a choice."""
    kind = element["type"]
    action: Json = {"type": kind, "action_id": element["action_id"], "block_id": block_id, "action_ts": at}
    if kind == "button":
        for name in ("text", "value", "style", "url"):
            if name in element:
                action[name] = element[name]
        return action
    return action | {name: part for name, part in state_value(element, raw, files).items() if name != "type"}


def base(team: Json, app: Json, person: Json) -> Json:
    """Return what every interaction carries."""
    return {
        "user": {"id": person["id"], "username": person["name"], "name": person["name"], "team_id": team["id"]},
        "api_app_id": app["id"],
        "token": "sandbox",
        "team": {"id": team["id"], "domain": team["domain"]},
        "enterprise": None,
        "is_enterprise_install": False,
    }


def slash_form(
    team: Json, app: Json, person: Json, channel: Json, *, command: str, text: str, trigger: str, response_url: str
) -> Json:
    """Return the form of a slash command."""
    return {
        "token": "sandbox",
        "team_id": team["id"],
        "team_domain": team["domain"],
        "channel_id": channel["id"],
        "channel_name": "directmessage" if channel["is_im"] else channel["name"],
        "user_id": person["id"],
        "user_name": person["name"],
        "command": command,
        "text": text,
        "api_app_id": app["id"],
        "is_enterprise_install": "false",
        "response_url": response_url,
        "trigger_id": trigger,
    }


def event_callback(team: Json, app: Json, event: Json, *, event_id: str, at: int) -> Json:
    """Return the envelope of an event."""
    return {
        "token": "sandbox",
        "team_id": team["id"],
        "api_app_id": app["id"],
        "event": event,
        "type": "event_callback",
        "event_id": event_id,
        "event_time": at,
        "authorizations": [
            {
                "enterprise_id": None,
                "team_id": team["id"],
                "user_id": app["bot_user"],
                "is_bot": True,
                "is_enterprise_install": False,
            }
        ],
        "is_ext_shared_channel": False,
        "event_context": f"4-{event_id}",
    }
