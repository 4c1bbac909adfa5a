"""Signed requests as Slack sends them, through the real Bolt app in process."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from slack_bolt import BoltResponse
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.async_app import AsyncBoltRequest
from slack_sdk.signature import SignatureVerifier

from bot.handlers import edge
from bot.handlers.slack_app import slack_app
from tests.support.bot_services import RESPONDER, TestBot
from tests.support.fake_slack import FakeSlack
from tests.support.people import CHANNEL

SECRET = "s3cret"
TEAM = "T0HOME"


@dataclass
class Door:
    """The app behind `POST /slack/events`."""

    app: AsyncApp
    slack: FakeSlack
    bot: TestBot
    presses: int = 0

    async def send(self, body: str, content_type: str, headers: dict[str, str] | None = None) -> BoltResponse:
        stamp = str(int(time.time()))
        signed = SignatureVerifier(SECRET).generate_signature(timestamp=stamp, body=body)
        found = {
            "content-type": [content_type],
            "x-slack-request-timestamp": [stamp],
            "x-slack-signature": [signed or ""],
        }
        found |= {name: [value] for name, value in (headers or {}).items()}
        response = await self.app.async_dispatch(AsyncBoltRequest(body=body, headers=found))
        await asyncio.gather(*edge.background())
        return response

    async def command(
        self, text: str, *, user: str = RESPONDER, trigger: str = "trigger-1", **more: Any
    ) -> BoltResponse:
        fields = {
            "command": "/baseline",
            "text": text,
            "user_id": user,
            "channel_id": CHANNEL,
            "team_id": TEAM,
            "trigger_id": trigger,
            "response_url": f"{self.slack.url}respond",
            **more,
        }
        return await self.send(urlencode(fields), "application/x-www-form-urlencoded")

    async def interact(self, payload: dict[str, Any]) -> BoltResponse:
        return await self.send(urlencode({"payload": json.dumps(payload)}), "application/x-www-form-urlencoded")

    async def press(
        self, action_id: str, value: str = "", *, user: str = RESPONDER, team: str = TEAM, at: str = "", **more: Any
    ) -> BoltResponse:
        """Press a button of the parent message; each press has a time of its own unless `at` says so."""
        self.presses += 1
        action = {
            "type": "button",
            "action_id": action_id,
            "block_id": "b",
            "value": value,
            "action_ts": at or f"{self.presses}.0",
        }
        payload = {
            "type": "block_actions",
            "user": {"id": user, "team_id": team},
            "team": {"id": TEAM},
            "channel": {"id": CHANNEL},
            "container": {"type": "message", "message_ts": "1.1", "channel_id": CHANNEL, "thread_ts": "1.1"},
            "message": {"ts": "1.1", "thread_ts": "1.1"},
            "trigger_id": f"trigger-{self.presses}",
            "response_url": f"{self.slack.url}respond",
            "actions": [{**action, **more}],
        }
        return await self.interact(payload)

    async def submit(
        self, callback: str, metadata: str, fields: dict[str, str], *, user: str = RESPONDER, view: str = "V1"
    ) -> BoltResponse:
        values = {block: {"value": {"type": "plain_text_input", "value": value}} for block, value in fields.items()}
        payload = {
            "type": "view_submission",
            "user": {"id": user, "team_id": TEAM},
            "team": {"id": TEAM},
            "trigger_id": "t",
            "view": {
                "id": view,
                "type": "modal",
                "hash": "h",
                "callback_id": callback,
                "private_metadata": metadata,
                "state": {"values": values},
            },
        }
        return await self.interact(payload)

    async def event(
        self, event: dict[str, Any], *, event_id: str = "Ev1", team: str = TEAM, retry: int = 0
    ) -> BoltResponse:
        payload = {
            "type": "event_callback",
            "team_id": TEAM,
            "event_id": event_id,
            "event": {"user_team": team, **event},
        }
        headers = {"x-slack-retry-num": str(retry)} if retry else {}
        return await self.send(json.dumps(payload), "application/json", headers)

    def views(self) -> list[dict[str, Any]]:
        """Return the modals that were opened."""
        return [
            found["view"] if isinstance(found["view"], dict) else json.loads(found["view"])
            for found in self.slack.named("views.open")
        ]


def door(bot: TestBot, slack: FakeSlack) -> Door:
    """Return the app in front of a bot, with its Slack."""
    app = slack_app(bot.services, token="xoxb-test", api_url=f"{slack.url}api", signing_secret=SECRET)
    return Door(app, slack, bot)
