"""What the routes are given, made once by `bot.app`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from bot.api.metrics import Metrics

if TYPE_CHECKING:
    from bot.flows.services import FlowRunner, Services

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SlackEntry:
    """The Bolt app behind `POST /slack/events`."""

    handle: Callable[[Request], Awaitable[Response]]
    signing_secret: str


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request may cost."""

    slack_bytes: int = MIB
    slack_s: float = 5.0
    json_bytes: int = 16 * MIB
    json_s: float = 30.0
    artifact_bytes: int = 256 * MIB
    artifact_idle_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Api:
    """The interface's own parts beside the services."""

    services: Services
    run_slow: FlowRunner
    """For flows that may judge a long log; `services.run` answers within two seconds."""
    check_broker: Callable[[], None]
    spool: Path
    """Folder for uploads until their digest is known."""
    metrics: Metrics = field(default_factory=Metrics)
    slack: SlackEntry | None = None
    """None: socket mode, or no workspace."""
    metrics_token: str = ""
    metrics_open: bool = False
    """Whether metrics need no token: bound to loopback, and none was set."""
    limits: Limits = Limits()
    api_docs: bool = False
