"""The manifest asks for exactly what the app listens to and calls, inside Slack's limits."""

from __future__ import annotations

import re
from pathlib import Path

from bot.handlers.manifest import EVENTS, SCOPES, manifest, manifest_text

ROOT = Path(__file__).parents[2]
METHOD_SCOPE = {
    "chat.postMessage": "chat:write",
    "chat.update": "chat:write",
    "chat.postEphemeral": "chat:write",
    "files.getUploadURLExternal": "files:write",
    "files.completeUploadExternal": "files:write",
    "files.info": "files:read",
    "conversations.replies": "channels:history",
    "conversations.history": "channels:history",
}


def test_the_file_is_the_generated_text(update_golden: bool) -> None:
    path = ROOT / "slack" / "manifest.yaml"
    if update_golden:
        path.write_text(manifest_text())
    assert path.read_text() == manifest_text()


def test_every_method_that_is_called_has_its_scope() -> None:
    source = "".join(path.read_text() for path in (ROOT / "bot" / "adapters").glob("slack_*.py"))
    called = set(re.findall(r'"((?:chat|files|conversations|users|pins|reactions|bookmarks)\.\w+)"', source))
    assert {method for method in called if METHOD_SCOPE.get(method) not in SCOPES} == set()


def test_http_mode_names_the_request_url_everywhere() -> None:
    url = "https://bot.example.com/slack/events"
    found = manifest(request_url=url)
    assert found["settings"]["socket_mode_enabled"] is False
    assert found["settings"]["event_subscriptions"]["request_url"] == url
    assert found["settings"]["interactivity"]["request_url"] == url
    assert found["features"]["slash_commands"][0]["url"] == url


def test_the_manifest_is_inside_slacks_limits() -> None:
    found = manifest()
    assert len(found["display_information"]["name"]) <= 35
    assert len(found["display_information"]["description"]) <= 140
    assert all(len(shortcut["name"]) <= 24 for shortcut in found["features"]["shortcuts"])
    assert len(EVENTS) <= 100


def test_the_setup_page_lists_every_scope_with_its_use() -> None:
    page = (ROOT / "docs" / "slack-setup.md").read_text()
    assert [f"| `{scope}` | {use} |" in page for scope, use in SCOPES.items()] == [True] * len(SCOPES)
