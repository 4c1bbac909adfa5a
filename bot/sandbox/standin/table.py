"""Reads `table.yaml`: what Slack allows, and who and what is in the stand-in's workspace."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Installation:
    """The app as installed: its scopes, events, commands and shortcuts."""

    scopes: frozenset[str]
    events: frozenset[str]
    commands: tuple[Json, ...]
    shortcuts: tuple[Json, ...]
    home_tab: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """The table, read once. `methods`, `blocks` … are as in the file."""

    workspace: Json
    installation: Installation
    tiers: Json
    tier_burst: Json
    post_per_channel: Json
    methods: Json
    limits: dict[str, Any]
    objects: Json
    elements: Json
    element_groups: Json
    blocks: Json
    view: Json = field(default_factory=dict)

    def with_manifest(self, manifest: Json) -> Table:
        """Return the table with the installation that an app manifest asks for."""
        return replace(self, installation=installation_of(manifest))


def installation_of(manifest: Json) -> Installation:
    """Read an app manifest (https://docs.slack.dev/reference/app-manifest) as Slack does when the app is installed."""
    features = manifest.get("features", {})
    settings = manifest.get("settings", {})
    return Installation(
        scopes=frozenset(manifest.get("oauth_config", {}).get("scopes", {}).get("bot", [])),
        events=frozenset(settings.get("event_subscriptions", {}).get("bot_events", [])),
        commands=tuple(features.get("slash_commands", [])),
        shortcuts=tuple(features.get("shortcuts", [])),
        home_tab=bool(features.get("app_home", {}).get("home_tab_enabled", False)),
    )


@cache
def load_table() -> Table:
    """Return the packaged table."""
    raw: Json = yaml.safe_load(files(__package__).joinpath("table.yaml").read_text(encoding="utf-8"))
    installed = raw["installation"]
    return Table(
        workspace=raw["workspace"],
        installation=Installation(
            scopes=frozenset(installed["scopes"]),
            events=frozenset(installed["events"]),
            commands=tuple(installed["commands"]),
            shortcuts=tuple(installed["shortcuts"]),
            home_tab=installed["home_tab"],
        ),
        tiers=raw["tiers"],
        tier_burst=raw["tier_burst"],
        post_per_channel=raw["post_per_channel"],
        methods=raw["methods"],
        limits=raw["limits"],
        objects=raw["objects"],
        elements=raw["elements"],
        element_groups=raw["element_groups"],
        blocks=raw["blocks"],
        view=raw["view"],
    )
