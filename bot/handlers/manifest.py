"""The app manifest of Slack, made from what the app listens to and calls; `slack/manifest.yaml` is its text.

Every scope stands beside the calls that need it, so that none is asked for in vain.
"""

from __future__ import annotations

from typing import Any

import yaml

COMMAND = "/baseline"
OPEN, ANALYSE = "open_from_message", "analyse_message"
SCOPES: dict[str, str] = {
    "app_mentions:read": "event app_mention",
    "channels:history": "event message.channels; conversations.replies and conversations.history after a crash",
    "channels:read": "names of public channels",
    "chat:write": "chat.postMessage, chat.update, chat.postEphemeral",
    "commands": "slash command and message shortcuts",
    "files:read": "reading dropped logs",
    "files:write": "logs and bundles into the thread",
    "groups:history": "event message.groups; the same look-ups in private channels",
    "groups:read": "names of private channels",
    "im:history": "event message.im: logs dropped in a direct message",
    "im:write": "telling the owner that the app is not in the channel",
    "usergroups:read": "usergroups.users.list: roles that are given to user groups",
    "users:read": "language and time zone of a reader",
}
EVENTS = ("app_home_opened", "app_mention", "message.channels", "message.groups", "message.im")
_URL = "https://baseline.example.com/slack/events"


def manifest(*, request_url: str | None = None) -> dict[str, Any]:
    """Return the manifest: Socket Mode, or HTTP to this URL."""
    socket_mode = request_url is None
    url = {} if socket_mode else {"request_url": request_url}
    command = {
        "command": COMMAND,
        "description": "Lead a failing vLLM launch to one stable first failure",
        "usage_hint": "open | status | nodes | analyze | language | help",
        "should_escape": False,
        **({} if socket_mode else {"url": request_url}),
    }
    return {
        "display_information": {
            "name": "Baseline",
            "description": "Takes a failing vLLM launch to one stable first failure and a decision.",
            "background_color": "#1f3a5f",
        },
        "features": {
            "app_home": {
                "home_tab_enabled": True,
                "messages_tab_enabled": True,
                "messages_tab_read_only_enabled": False,
            },
            "bot_user": {"display_name": "Baseline", "always_online": True},
            "slash_commands": [command],
            "shortcuts": [
                {
                    "name": "Start a baseline",
                    "type": "message",
                    "callback_id": OPEN,
                    "description": "Start a baseline from this message",
                },
                {
                    "name": "Analyse this log",
                    "type": "message",
                    "callback_id": ANALYSE,
                    "description": "First failure, why, next step",
                },
            ],
        },
        "oauth_config": {"scopes": {"bot": sorted(SCOPES)}},
        "settings": {
            "event_subscriptions": {**url, "bot_events": list(EVENTS)},
            "interactivity": {"is_enabled": True, **url},
            "org_deploy_enabled": False,
            "socket_mode_enabled": socket_mode,
            "token_rotation_enabled": False,
        },
    }


def manifest_text(*, request_url: str | None = None) -> str:
    """Return the manifest as YAML, as Slack's form takes it."""
    head = "# Generated from the app's listeners by bot.handlers.manifest; a test keeps the two equal.\n"
    return head + yaml.safe_dump(manifest(request_url=request_url), sort_keys=False, allow_unicode=True)
