"""Starts everything, watches it, and ends it: broker, bot, worker, and the stand-in with its page in this process.

The page answers at once; the parts start behind it and the page says how far they are. A part that ends is started again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import tomllib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Literal

import uvicorn

from bot.errors import SandboxError
from bot.handlers.manifest import manifest
from bot.sandbox import broker
from bot.sandbox.keeping import Kept, load_kept, take_lock
from bot.sandbox.owned import Owned
from bot.sandbox.standin.app import Standin, build
from bot.sandbox.standin.table import Json, load_table
from bot.sandbox.this_machine import NODE, Engine, find_engine, lab_folder, make_key, write_policy

RESPONDERS, APPROVERS = "U01OLGA,U02ANA", "U02ANA"
_LOOK_S = 0.25
_ANSWERS_WITHIN_S = 60.0
_AGAIN_AFTER_S = (1, 2, 5, 10, 30)
_ENDS_WITHIN_S = {"worker": 20.0, "bot": 8.0, "broker": 5.0}
_BASELINE = (sys.executable, "-c", "from playbooks.cli import main; main()")


@dataclass(frozen=True, slots=True)
class Options:
    """What the command was given."""

    host: str
    port: int
    data: Path
    mode: Literal["http", "socket"] = "http"
    policy: Path | None = None


@dataclass(slots=True)
class Part:
    """A process the sandbox keeps running."""

    owned: Owned
    command: tuple[str, ...]
    env: dict[str, str]
    tether: bool = True
    state: str = "waiting"
    failures: int = 0
    started_at: float = 0.0
    up: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class Sandbox:
    """A sandbox, prepared and not yet running."""

    options: Options
    kept: Kept
    engine: Engine | None
    standin: Standin | None = None
    parts: dict[str, Part] = field(default_factory=dict)
    ending: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        """Address of the page."""
        return f"http://{self.options.host}:{self.options.port}"

    @property
    def bot_url(self) -> str:
        """Address of the bot's HTTP server."""
        return f"http://127.0.0.1:{self.kept.bot_port}"

    def status(self) -> Json:
        """Return what the page shows of the parts."""
        states = {name: part.state for name, part in self.parts.items()}
        waiting = [name for name in ("broker", "bot") if states.get(name) != "running"]
        detail = ""
        if waiting:
            name = waiting[0]
            part = self.parts.get(name)
            detail = f"The {name} is starting…"
            if part is not None and part.failures:
                detail = f"The {name} ended and is started again. {part.owned.last_words(1)}"
        return {
            "ready": not waiting,
            "detail": detail,
            "parts": states,
            "node": NODE,
            "engine": str(self.engine.vllm) if self.engine else "",
        }


def run(options: Options, *, say: Callable[[str], None], started: Callable[[], None]) -> None:
    """Run a sandbox until a signal ends it; `started` is told when the page answers.

    Raises:
        SandboxError: it cannot start; the message says what was expected.
    """
    if options.host not in {"127.0.0.1", "localhost", "::1"}:
        raise SandboxError(
            f"--host: expected a loopback address (127.0.0.1, localhost, ::1), found {options.host}: the page starts processes"
        )
    if options.policy is not None:
        _check_policy(options.policy)
    listener = _listener(options)
    home = options.data / "sandbox"
    with take_lock(home, f"http://{options.host}:{options.port}"):
        owned = {
            name: Owned(name, run_dir=home / "run", log_dir=options.data / "logs")
            for name in ("worker", "bot", "broker")
        }
        for name, one in owned.items():
            if one.end_leftover(within_s=_ENDS_WITHIN_S[name]):
                say(f"ended the {name} that an earlier sandbox left running")
        sandbox = _prepare(options, load_kept(home), owned)
        for name in os.environ:
            if name.startswith("BASELINE_SLACK_") and os.environ[name]:
                say(f"{name} is set and not used: the sandbox takes tokens of its own only")
        asyncio.run(_serve(sandbox, listener, say, started))


def _check_policy(path: Path) -> None:
    """Look at the file before a worker is started on it again and again; what the rules in it mean is the worker's to judge."""
    try:
        tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SandboxError(f"--policy {path}: {error.strerror}") from error
    except ValueError as error:
        raise SandboxError(f"--policy {path}: expected a TOML file: {error}") from error


def _listener(options: Options) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((options.host, options.port))
    except OSError as error:
        listener.close()
        raise SandboxError(
            f"port {options.port} on {options.host}: {error.strerror}; choose another with --port"
        ) from error
    return listener


def _prepare(options: Options, kept: Kept, owned: dict[str, Owned]) -> Sandbox:
    """Find what is needed and say how each part is started. Raises: SandboxError."""
    data = options.data
    server = broker.find_server()
    conf = broker.write_conf(data / "broker", port=kept.broker_port, password=kept.broker_password)
    lab = lab_folder()
    engine = find_engine(lab)
    key = make_key(data)
    policy = options.policy or write_policy(data, lab=lab, engine=engine)
    sandbox = Sandbox(options, kept, engine)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BASELINE_")}
    shared = inherited | {
        "BASELINE_DATA_DIR": str(data.absolute()),
        "BASELINE_BROKER_URL": broker.broker_url(port=kept.broker_port, password=kept.broker_password),
        "PYTHONUNBUFFERED": "1",
    }
    bot_env = shared | {
        "BASELINE_HOST": "127.0.0.1",
        "BASELINE_PORT": str(kept.bot_port),
        "BASELINE_SLACK_MODE": options.mode,
        "BASELINE_SLACK_BOT_TOKEN": kept.bot_token,
        "BASELINE_SLACK_APP_TOKEN": kept.app_token,
        "BASELINE_SLACK_SIGNING_SECRET": kept.signing_secret,
        "BASELINE_SLACK_API_URL": f"http://127.0.0.1:{options.port}/api/",
        "BASELINE_RESPONDERS": RESPONDERS,
        "BASELINE_APPROVERS": APPROVERS,
        "BASELINE_NODES": NODE,
    }
    node_env = shared | {
        "BASELINE_BOT_URL": sandbox.bot_url,
        "BASELINE_NODE_KEY": str(key.absolute()),
        "BASELINE_NODE_POLICY": str(policy.absolute()),
    }
    worker = (*_BASELINE, "worker", "--node", NODE, "--parent-pid", str(os.getpid()))
    sandbox.parts = {
        "broker": Part(owned["broker"], (str(server), str(conf)), inherited),
        "bot": Part(owned["bot"], (*_BASELINE, "bot", "--log-text"), bot_env),
    }
    # The worker watches this process itself, so that it can stop its engines before it ends.
    sandbox.parts["worker"] = Part(owned["worker"], worker, node_env, tether=False)
    url = None if options.mode == "socket" else f"{sandbox.bot_url}/slack/events"
    sandbox.standin = build(
        port=options.port,
        data=data / "sandbox",
        credentials=kept.credentials,
        bot_url=lambda: sandbox.bot_url,
        table=load_table().with_manifest(manifest(request_url=url)),
        status=sandbox.status,
        hold=True,
    )
    return sandbox


async def _serve(
    sandbox: Sandbox, listener: socket.socket, say: Callable[[str], None], started: Callable[[], None]
) -> None:
    assert sandbox.standin is not None  # noqa: S101 - set in `_prepare`
    config = uvicorn.Config(
        sandbox.standin.asgi,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=2,
        server_header=False,
        ws="websockets-sansio",
    )
    server = _Server(config, on_start=started, on_end=sandbox.standin.ws.feed.close)
    for name in ("SIGHUP", "SIGINT", "SIGTERM"):
        asyncio.get_running_loop().add_signal_handler(getattr(signal, name), server.end)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    keeping = [asyncio.create_task(_keep(sandbox, name, say)) for name in sandbox.parts]
    try:
        await serving
    finally:
        say("ending …")
        for task in keeping:
            task.cancel()
        await asyncio.gather(*keeping, return_exceptions=True)
        for name, within_s in _ENDS_WITHIN_S.items():
            if name in sandbox.parts:
                await asyncio.to_thread(sandbox.parts[name].owned.end, within_s=within_s)


class _Server(uvicorn.Server):
    """A server whose signals are the supervisor's, that says when it answers and ends the pages' streams first."""

    def __init__(self, config: uvicorn.Config, *, on_start: Callable[[], None], on_end: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start = on_start
        self._on_end = on_end

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        self._on_start()

    def end(self) -> None:
        """End gracefully; asked again, at once."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._on_end()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to the supervisor."""
        yield


async def _keep(sandbox: Sandbox, name: str, say: Callable[[str], None]) -> None:
    """Keep one part running: what it needs first, then itself, then again when it ends."""
    part = sandbox.parts[name]
    needs = {"bot": ("broker",), "worker": ("broker", "bot")}.get(name, ())
    loop = asyncio.get_running_loop()
    while True:
        for other in needs:
            await sandbox.parts[other].up.wait()
        _tell(sandbox, part, "starting")
        part.started_at = loop.time()
        part.owned.start(part.command, part.env, tether=part.tether)
        while part.owned.is_running:
            if part.state == "starting" and await _answers(sandbox, name):
                _tell(sandbox, part, "running")
                if name == "bot" and sandbox.standin is not None:
                    sandbox.standin.delivery.open()
            if part.state == "starting" and loop.time() - part.started_at > _ANSWERS_WITHIN_S:
                await asyncio.to_thread(part.owned.end, within_s=_ENDS_WITHIN_S[name])
                break
            if part.failures and loop.time() - part.started_at > _ANSWERS_WITHIN_S:
                part.failures = 0
            await asyncio.sleep(_LOOK_S)
        code = part.owned.exit_code
        part.failures += 1
        _tell(sandbox, part, "ended")
        pause = _AGAIN_AFTER_S[min(part.failures, len(_AGAIN_AFTER_S)) - 1]
        say(
            f"the {name} ended (status {code}), started again in {pause} s; {part.owned.log}:\n{part.owned.last_words()}"
        )
        await asyncio.sleep(pause)


def _tell(sandbox: Sandbox, part: Part, state: str) -> None:
    part.state = state
    if state == "running":
        part.up.set()
    else:
        part.up.clear()
    if sandbox.standin is not None:
        sandbox.standin.ws.feed.publish({"kind": "status", "status": sandbox.status()})


async def _answers(sandbox: Sandbox, name: str) -> bool:
    kept = sandbox.kept
    match name:
        case "broker":
            return await asyncio.to_thread(broker.answers, port=kept.broker_port, password=kept.broker_password)
        case "bot":
            return await asyncio.to_thread(_is_healthy, kept.bot_port)
        case _:
            return True


def _is_healthy(port: int) -> bool:
    line = HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        line.request("GET", "/healthz")
        return line.getresponse().status == HTTPStatus.OK
    except (OSError, HTTPException):
        return False
    finally:
        line.close()
