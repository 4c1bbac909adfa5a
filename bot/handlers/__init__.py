"""One module per Slack surface: decode, call a flow, ack. No rule and no block is made here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.handlers import actions, commands, events, shortcuts, views

if TYPE_CHECKING:
    from slack_bolt.app.async_app import AsyncApp

    from bot.flows.services import Services


def register(app: AsyncApp, services: Services) -> None:
    """Bind every surface of the conversation to the app."""
    events.register(app, services)
    commands.register(app, services)
    actions.register(app, services)
    views.register(app, services)
    shortcuts.register(app, services)
