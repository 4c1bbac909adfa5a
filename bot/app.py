"""Wiring: settings in, a bot out. The only module that knows every adapter."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog
from fastapi import FastAPI

from bot.adapters.artifact_store import FsspecArtifacts
from bot.adapters.celery_queue import CeleryQueue
from bot.adapters.charts import PillowCharts
from bot.adapters.deadline import GuardedStore
from bot.adapters.definitions import PackagedDefinitions
from bot.adapters.dispatcher import Dispatcher
from bot.adapters.flow_pool import Breaker, FlowPool
from bot.adapters.housekeeping import Housekeeping
from bot.adapters.keys import NodeKeys, bot_key
from bot.adapters.leased_sender import LeasedSender
from bot.adapters.store import SqlStore, migrate, open_store
from bot.adapters.system import SystemClock, Ulids
from bot.api.metrics import Metrics
from bot.api.server import create_api
from bot.api.state import MIB, Api, Limits, SlackEntry
from bot.flows.services import People, Services, Timing, is_group

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp

    from bot.adapters.slack_groups import SlackGroups
    from bot.settings import Settings

_REPORT_S = 60.0
"""A report's log may be long; judging it has its own pool, so that nobody waits behind it."""
_RECONNECT_S = (1, 2, 5, 15, 30)
log = structlog.get_logger(__name__)


class Nudges:
    """Wakes everybody who waits for a commit."""

    def __init__(self) -> None:
        self._woken: list[Callable[[], None]] = []

    def add(self, wake: Callable[[], None]) -> None:
        """Wake this one too."""
        self._woken.append(wake)

    def __call__(self) -> None:
        """Wake all."""
        for wake in self._woken:
            wake()


@dataclass(slots=True)
class Bot:
    """A bot, wired and not yet running; `api` is the ASGI application, whose lifespan runs the rest."""

    settings: Settings
    services: Services
    store: SqlStore
    queue: CeleryQueue
    dispatcher: Dispatcher
    pools: tuple[FlowPool, ...]
    bolt: AsyncApp | None = None
    senders: tuple[LeasedSender, ...] = ()
    groups: SlackGroups | None = None
    api: FastAPI = field(default_factory=FastAPI)

    def close(self) -> None:
        """Let go of threads and connections."""
        for pool in self.pools:
            pool.close()
        self.queue.close()
        self.store.close()


def build_services(
    settings: Settings,
    *,
    nudge: Callable[[], None] = lambda: None,
    metrics: Metrics | None = None,
    groups: SlackGroups | None = None,
) -> tuple[Services, SqlStore, tuple[FlowPool, FlowPool]]:
    """Open store, artifacts and keys; brings the store's schema up to date.

    Raises:
        InvalidSettings: a setting or key cannot be used.
        StoreUnavailable: the store does not answer.
    """
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    keys = NodeKeys(settings.nodes, settings.data_dir)
    signing_key = bot_key(settings.data_dir)
    migrate(settings.store_url)
    store = open_store(settings.store_url)
    breaker = Breaker()
    observe = (metrics or Metrics()).flow
    quick = FlowPool(breaker=breaker, observe=observe)
    slow = FlowPool(threads=4, limit_s=_REPORT_S, observe=observe, name="report")
    services = Services(
        store=GuardedStore(store),
        artifacts=FsspecArtifacts(settings.artifacts_place),
        clock=SystemClock(),
        ids=Ulids(),
        definitions=PackagedDefinitions(settings.data_dir / "recipes"),
        signing_key=signing_key,
        node_keys=keys,
        nodes=keys.names,
        run=quick,
        nudge=nudge,
        people=People(frozenset(settings.responders), frozenset(settings.approvers), groups),
        timing=Timing(claim_within=timedelta(seconds=settings.claim_within_s)),
        playbook=settings.playbook,
        charts=PillowCharts(),
        slack_hosts=settings.slack_hosts,
    )
    with store.write() as tx:
        for name in keys.names:
            key = keys.get(name)
            tx.enrol_node(name, None if key is None else key.to_text())
    return services, store, (quick, slow)


def build(settings: Settings) -> Bot:
    """Wire a bot; raises as `build_services`."""
    nudges, metrics = Nudges(), Metrics()
    groups = _groups(settings)
    services, store, pools = build_services(settings, nudge=nudges, metrics=metrics, groups=groups)
    queue = CeleryQueue(settings.broker_url.get_secret_value())
    # The same name after a restart, so that a bot that was killed need not wait for its own lease to end.
    holder = f"{socket.gethostname()}:{settings.data_dir.absolute()}:{settings.port}"
    dispatcher = Dispatcher(services, queue, holder=holder)
    nudges.add(dispatcher.nudge)
    bot = Bot(settings, services, store, queue, dispatcher, pools, groups=groups)
    bot.senders = (LeasedSender(services, Housekeeping(services), name="housekeeping", holder=holder),)
    entry: SlackEntry | None = None
    if settings.has_slack:
        bot.bolt, senders = _slack(settings, services, holder)
        bot.senders += senders
        for sender in senders:
            nudges.add(sender.nudge)
        entry = _entry(settings, bot.bolt)
    token = settings.metrics_token.get_secret_value()
    bot.api = create_api(
        Api(
            services=services,
            run_slow=pools[1],
            check_broker=queue.check,
            spool=settings.data_dir / "spool",
            metrics=metrics,
            slack=entry,
            metrics_token=token,
            metrics_open=settings.on_loopback and not token,
            limits=Limits(artifact_bytes=settings.artifact_max_mb * MIB),
            api_docs=settings.api_docs,
        ),
        lifespan=lambda _app: _running(bot),
    )
    return bot


def _groups(settings: Settings) -> SlackGroups | None:
    """Return the reader of the user groups that roles are given to; None where there are none."""
    named = frozenset(name for name in (*settings.responders, *settings.approvers) if is_group(name))
    if not named or not settings.has_slack:
        return None
    from bot.adapters.slack_calls import SlackCalls, web_client
    from bot.adapters.slack_groups import SlackGroups
    from bot.adapters.slack_pace import Pace

    token = settings.slack_bot_token.get_secret_value()
    return SlackGroups(SlackCalls(web_client(token, settings.slack_api_url), Pace(time.monotonic)), named)


def _slack(settings: Settings, services: Services, holder: str) -> tuple[AsyncApp, tuple[LeasedSender, ...]]:
    """Wire the conversation: the Bolt app, the sender of what it says, and the reader of files that people drop."""
    from bot.adapters.slack_calls import SlackCalls, web_client
    from bot.adapters.slack_fetcher import SlackFetcher
    from bot.adapters.slack_files import SlackFiles
    from bot.adapters.slack_pace import Pace
    from bot.adapters.slack_sender import SlackSender
    from bot.handlers.slack_app import slack_app

    token = settings.slack_bot_token.get_secret_value()
    is_http = settings.slack_mode == "http"
    bolt = slack_app(
        services,
        token=token,
        api_url=settings.slack_api_url,
        signing_secret=settings.slack_signing_secret.get_secret_value() or "unused-in-socket-mode",
        verify=is_http,
    )
    calls = SlackCalls(web_client(token, settings.slack_api_url), Pace(time.monotonic))
    files = SlackFiles(calls, token=token, hosts=settings.slack_hosts)
    sender = SlackSender(services, calls, files, monotonic=time.monotonic)
    fetcher = SlackFetcher(services, files)
    return bolt, (
        LeasedSender(services, sender, name="slack", holder=holder),
        LeasedSender(services, fetcher, name="slack-files", holder=holder),
    )


def _entry(settings: Settings, bolt: AsyncApp) -> SlackEntry | None:
    if settings.slack_mode != "http":
        return None
    from slack_bolt.adapter.fastapi.async_handler import AsyncSlackRequestHandler

    return SlackEntry(
        handle=AsyncSlackRequestHandler(bolt).handle,
        signing_secret=settings.slack_signing_secret.get_secret_value(),
    )


@asynccontextmanager
async def _running(bot: Bot) -> AsyncIterator[None]:
    """Run what belongs to the bot for as long as its HTTP server does."""
    bot.dispatcher.start()
    for sender in bot.senders:
        sender.start()
    if bot.groups is not None:
        bot.groups.start()
    listening: asyncio.Task[None] | None = None
    if bot.bolt is not None and bot.settings.slack_mode == "socket":
        listening = asyncio.create_task(_listen(bot.bolt, bot.settings.slack_app_token.get_secret_value()))
    log.info("bot up", nodes=list(bot.services.nodes), slack=bot.settings.slack_mode if bot.bolt else "none")
    try:
        yield
    finally:
        if listening is not None:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
        if bot.groups is not None:
            await asyncio.to_thread(bot.groups.stop)
        await asyncio.to_thread(bot.dispatcher.stop)
        for sender in bot.senders:
            await asyncio.to_thread(sender.stop)
        bot.close()


async def _listen(bolt: AsyncApp, app_token: str) -> None:
    """Hold the Socket Mode connection; a Slack that cannot be reached is tried again, and said."""
    from aiohttp import ClientError
    from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
    from slack_sdk.errors import SlackClientError

    handler = AsyncSocketModeHandler(bolt, app_token)
    tries = 0
    try:
        while True:
            try:
                await handler.connect_async()  # type: ignore[no-untyped-call]
                break
            except (ClientError, SlackClientError, OSError) as error:
                pause = _RECONNECT_S[min(tries, len(_RECONNECT_S) - 1)]
                log.warning("slack not reached", why=str(error).splitlines()[0], again_in_s=pause)
                tries += 1
                await asyncio.sleep(pause)
        log.info("slack connected")
        await asyncio.Event().wait()
    finally:
        await handler.close_async()  # type: ignore[no-untyped-call]


def run(bot: Bot, *, on_listening: Callable[[int], None] | None = None) -> None:
    """Serve until a signal ends it; `on_listening` is told the port."""
    import uvicorn

    family = socket.AF_INET6 if ":" in bot.settings.host else socket.AF_INET
    # Named as TCP, so that asyncio sets TCP_NODELAY on what is accepted: without it an answer waits 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((bot.settings.host, bot.settings.port))
    if on_listening is not None:
        on_listening(listener.getsockname()[1])
    config = uvicorn.Config(
        bot.api, log_config=None, access_log=False, timeout_graceful_shutdown=5, server_header=False, date_header=True
    )
    uvicorn.Server(config).run(sockets=[listener])
