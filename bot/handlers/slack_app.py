"""The Bolt app: which workspace it belongs to, learnt once and remembered, so that answers do not wait for Slack.

Bolt's own single-team authorization asks `auth.test` before the first answers and fails with them when Slack does not
answer. Here the identity is remembered in the store; nobody acts until it was learnt once.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import structlog
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_sdk.web.async_client import AsyncWebClient

from bot.errors import BotError
from bot.handlers import actions, commands, events, shortcuts, views
from bot.handlers.edge import SLACK_DOWN

if TYPE_CHECKING:
    from bot.flows.services import Services

ASK_S = 1.0
"""An answer must be out within three seconds: `auth.test` gets one of them, once."""
AGAIN_S = 10.0
_FIELDS = ("team_id", "enterprise_id", "user_id", "bot_id", "url", "team")
log = structlog.get_logger(__name__)


def slack_app(services: Services, *, token: str, api_url: str, signing_secret: str, verify: bool = True) -> AsyncApp:
    """Return the app with every surface bound; `verify` is off in Socket Mode, where nothing is signed."""
    client = AsyncWebClient(base_url=f"{api_url.rstrip('/')}/", timeout=10)
    client.retry_handlers = []  # the SDK's own would post twice after a lost answer
    workspace = Workspace(services, token)

    async def authorize(client: AsyncWebClient) -> AuthorizeResult:
        return await workspace.authorize(client)  # Bolt fills arguments by name, also one called `self`

    # Every handler acks last and within its limit. Without `process_before_response` Bolt looks for the ack each millisecond,
    # which costs ten a request, and more the more are under way.
    app = AsyncApp(
        client=client,
        signing_secret=signing_secret,
        request_verification_enabled=verify,
        authorize=authorize,
        process_before_response=True,
    )
    register(app, services)
    return app


def register(app: AsyncApp, services: Services) -> None:
    """Bind every surface of the conversation to the app."""
    for surface in (events, commands, actions, views, shortcuts):
        surface.register(app, services)


class Workspace:
    """The installation's identity: asked of Slack at most every ten seconds until it is known."""

    def __init__(self, services: Services, token: str) -> None:
        self._services = services
        self._token = token
        self._known: dict[str, str] = {}
        self._fresh = False
        self._ask_at = 0.0

    async def authorize(self, client: AsyncWebClient) -> AuthorizeResult:
        """Return who the bot is here, as far as it is known."""
        if not self._fresh and time.monotonic() >= self._ask_at:
            self._ask_at = time.monotonic() + AGAIN_S
            await self._ask(client)
        known = self._known
        return AuthorizeResult(
            enterprise_id=known.get("enterprise_id"),
            team_id=known.get("team_id"),
            team=known.get("team"),
            url=known.get("url"),
            bot_user_id=known.get("user_id"),
            bot_id=known.get("bot_id"),
            bot_token=self._token,
        )

    async def _ask(self, client: AsyncWebClient) -> None:
        """Ask Slack; what it said last is remembered for the time it does not answer."""
        try:
            answer = await asyncio.wait_for(client.auth_test(token=self._token), ASK_S)
        except SLACK_DOWN as error:
            log.warning("workspace.unknown", error=str(error))
            if not self._known:
                self._known = await self._remembered()
            return
        data: dict[str, Any] = answer.data if isinstance(answer.data, dict) else {}
        self._known = {name: str(data[name]) for name in _FIELDS if data.get(name)}
        self._fresh = True
        try:
            await self._services.run(_remember, self._services, self._known)
        except BotError as error:
            log.warning("workspace.not_remembered", error=str(error))

    async def _remembered(self) -> dict[str, str]:
        try:
            return await self._services.run(_recall, self._services)
        except BotError:
            return {}


def _remember(services: Services, known: dict[str, str]) -> None:
    with services.store.write() as tx:
        tx.set_preference("workspace", "identity", json.dumps(known))


def _recall(services: Services) -> dict[str, str]:
    with services.store.read() as reading:
        found: dict[str, str] = json.loads(reading.preference("workspace", "identity") or "{}")
    return found
