"""A bot's HTTP interface in process: real envelopes through the real application, no socket."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
from fastapi import FastAPI

from bot.api.server import create_api
from bot.api.state import Api
from playbooks.evidence.signing import SigningKey, open_envelope, sign
from playbooks.messages import Message
from tests.support.bot_services import NODE, TestBot, run_here

M = TypeVar("M", bound=Message)


@dataclass
class Http:
    """A client that signs as a node and opens what the bot signed."""

    bot: TestBot
    app: FastAPI
    client: httpx.AsyncClient

    async def say(
        self, path: str, body: Message | dict[str, Any], *, key: SigningKey | None = None, key_id: str = f"node:{NODE}"
    ) -> httpx.Response:
        """Post a signed message."""
        return await self.client.post(path, json=self.envelope(body, key=key, key_id=key_id))

    def envelope(
        self, body: Message | dict[str, Any], *, key: SigningKey | None = None, key_id: str = f"node:{NODE}"
    ) -> dict[str, Any]:
        """Sign a message as the node."""
        signed = sign(body, key or self.bot.node_key, key_id)
        return signed.model_dump(mode="json", by_alias=True)

    def header(self, body: Message) -> dict[str, str]:
        """Sign a message into the header `Baseline-Envelope`."""
        text = sign(body, self.bot.node_key, f"node:{NODE}").model_dump_json(by_alias=True)
        return {"Baseline-Envelope": base64.b64encode(text.encode()).decode()}

    def read(self, response: httpx.Response, kind: type[M]) -> M:
        """Open the bot's signed answer."""
        assert response.status_code == 200, response.text
        return open_envelope(response.json(), {"bot": self.bot.services.signing_key.public}, kind)


def api_of(bot: TestBot, folder: Path, **changes: Any) -> FastAPI:
    """Return the bot's application; `changes` replace parts of its interface."""
    check: Callable[[], None] = lambda: None  # noqa: E731
    return create_api(
        Api(
            **{
                "services": bot.services,
                "run_slow": run_here,
                "check_broker": check,
                "spool": folder / "spool",
                **changes,
            }
        )
    )


@asynccontextmanager
async def serving(bot: TestBot, folder: Path, **changes: Any) -> AsyncIterator[Http]:
    """Serve in process."""
    app = api_of(bot, folder, **changes)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://bot") as client:
        yield Http(bot, app, client)
