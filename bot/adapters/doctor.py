"""What `baseline doctor` looks at: each check says what it found, and what to do when that is not enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import URLError

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError

from bot.adapters.celery_queue import CeleryQueue
from bot.adapters.definitions import PackagedDefinitions
from bot.adapters.keys import NodeKeys, bot_key_path
from bot.adapters.store import open_store
from bot.errors import InvalidSettings, QueueError, StoreError
from bot.ports import OutboxState
from playbooks.errors import InputError
from playbooks.evidence.signing import SigningKey

if TYPE_CHECKING:
    from bot.ports import Node
    from bot.settings import Settings

SCOPES = (
    "app_mentions:read",
    "channels:history",
    "channels:read",
    "chat:write",
    "commands",
    "files:read",
    "files:write",
    "groups:history",
    "groups:read",
    "users:read",
)
"""Bot scopes without which something a person can press does not work."""
_SLACK_S = 10
_SILENT = timedelta(seconds=90)
_CLOCK = timedelta(seconds=60)


class Grade(StrEnum):
    """How a check came out."""

    OK = "ok"
    NOTE = "note"
    """Works, with something the operator should know."""
    MISSING = "missing"
    """A setting, key or file is not there or not usable."""
    UNREACHABLE = "unreachable"
    """Could not be found out: it does not answer."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the report."""

    check: str
    grade: Grade
    found: str
    do: str = ""


def examine(settings: Settings, *, now: datetime) -> Iterator[Line]:
    """Look at everything the bot needs, one after the other; never raises for what is wrong."""
    yield _data_dir(settings.data_dir)
    yield _key(settings.data_dir)
    yield from _store(settings, now)
    yield _broker(settings)
    yield _people(settings)
    yield from _slack(settings)


def _data_dir(folder: Path) -> Line:
    if not folder.is_dir():
        return Line(
            "data folder", Grade.MISSING, f"{folder} is not there", "set BASELINE_DATA_DIR, or start the bot once"
        )
    probe = folder / ".doctor"
    try:
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        return Line("data folder", Grade.MISSING, f"{folder}: {error.strerror}", "let the bot's user write there")
    return Line("data folder", Grade.OK, str(folder))


def _key(folder: Path) -> Line:
    path = bot_key_path(folder)
    try:
        key = SigningKey.from_text(path.read_text())
    except FileNotFoundError:
        return Line("bot key", Grade.MISSING, f"{path} is not there", "start the bot once: it makes the key")
    except (OSError, InputError) as error:
        return Line(
            "bot key", Grade.MISSING, f"{path}: {error}", "restore it from the backup; nodes know its public half"
        )
    if path.stat().st_mode & 0o077:
        return Line("bot key", Grade.NOTE, f"{path} is readable by others", f"chmod 600 {path}")
    return Line("bot key", Grade.OK, f"public half {key.public_text}")


def _store(settings: Settings, now: datetime) -> Iterator[Line]:
    kind = settings.store_url.partition(":")[0]
    try:
        store = open_store(settings.store_url)
        store.check()
        with store.read() as reading:
            nodes = {node.name: node for node in reading.nodes()}
            undeliverable = len(reading.outbox(states=[OutboxState.UNDELIVERABLE]))
            waiting = len(reading.outbox(states=[OutboxState.WAITING]))
    except StoreError as error:
        yield Line("store", Grade.UNREACHABLE, str(error), "check BASELINE_DATABASE_URL and that the database is up")
        return
    yield Line("store", Grade.OK, f"{kind}, schema up to date")
    if undeliverable:
        yield Line(
            "outbox",
            Grade.NOTE,
            f"{undeliverable} message(s) refused by Slack for good",
            "see the bot's log; `baseline repost INC` sends again",
        )
    else:
        yield Line("outbox", Grade.OK, f"{waiting} waiting, none undeliverable")
    yield from _nodes(settings, nodes, now)
    store.close()


def _nodes(settings: Settings, known: dict[str, Node], now: datetime) -> Iterator[Line]:
    try:
        keys = NodeKeys(settings.nodes, settings.data_dir)
    except InvalidSettings as error:
        yield Line("nodes", Grade.MISSING, str(error), "take the line that `baseline node-key NAME` prints")
        return
    if not keys.names:
        yield Line(
            "nodes", Grade.MISSING, "BASELINE_NODES names none", "`baseline node-key NAME`, then set BASELINE_NODES"
        )
    mine = PackagedDefinitions().signatures().digest
    for name in keys.names:
        yield _node(name, known.get(name), has_key=name in keys, catalogue=mine, now=now)


def _node(name: str, node: Node | None, *, has_key: bool, catalogue: str, now: datetime) -> Line:
    what = f"node {name}"
    if not has_key:
        return Line(what, Grade.MISSING, "no public key", f"`baseline node-key {name}`, and take its file to the node")
    if node is None or node.hello is None or node.heard_at is None:
        return Line(what, Grade.UNREACHABLE, "has never reported", f"start `baseline worker --node {name}` there")
    ago = int((now - node.heard_at).total_seconds())
    if now - node.heard_at > _SILENT:
        return Line(what, Grade.UNREACHABLE, f"last heard of {ago} s ago", "look at its worker and its way to the bot")
    apart = abs(node.heard_at - node.hello.at)
    said = f"worker {node.hello.version}, heard of {ago} s ago, {len(node.hello.gpus)} GPU(s)"
    if apart > _CLOCK / 2:
        return Line(
            what, Grade.NOTE, f"{said}; clock {int(apart.total_seconds())} s apart", "set the node's clock (NTP)"
        )
    if node.hello.catalogue != catalogue:
        return Line(
            what,
            Grade.NOTE,
            f"{said}; other signatures than the bot's",
            "works: the bot reads its logs again; update it",
        )
    return Line(what, Grade.OK, said)


def _broker(settings: Settings) -> Line:
    queue = CeleryQueue(settings.broker_url.get_secret_value())
    try:
        queue.check()
    except QueueError as error:
        return Line("broker", Grade.UNREACHABLE, str(error), "check BASELINE_BROKER_URL; jobs wait until it is back")
    finally:
        queue.close()
    return Line("broker", Grade.OK, "answers")


def _people(settings: Settings) -> Line:
    if not settings.responders and not settings.approvers:
        return Line("people", Grade.MISSING, "nobody may do anything", "set BASELINE_RESPONDERS and BASELINE_APPROVERS")
    if not settings.approvers:
        return Line("people", Grade.MISSING, "nobody may approve a decision", "set BASELINE_APPROVERS")
    found = f"{len(settings.responders)} responder(s), {len(settings.approvers)} approver(s)"
    if len({*settings.responders, *settings.approvers}) == 1:
        return Line("people", Grade.NOTE, found, "one person alone cannot approve their own decision: name a second")
    return Line("people", Grade.OK, found)


def _slack(settings: Settings) -> Iterator[Line]:
    if not settings.has_slack:
        yield Line(
            "slack",
            Grade.MISSING,
            "no bot token",
            "install the app from slack/manifest.yaml, set BASELINE_SLACK_BOT_TOKEN",
        )
        return
    client = WebClient(settings.slack_bot_token.get_secret_value(), base_url=settings.slack_api_url, timeout=_SLACK_S)
    answer = _asked("slack", client.auth_test, "reinstall the app and take its bot token")
    if isinstance(answer, Line):
        yield answer
        return
    yield Line("slack", Grade.OK, f"{answer.get('team')} as {answer.get('user')}, {settings.slack_mode} mode")
    granted = {scope.strip() for scope in str(_header(answer, "x-oauth-scopes")).split(",")} - {""}
    lacking = sorted(set(SCOPES) - granted)
    if not granted:
        yield Line("slack scopes", Grade.NOTE, "Slack does not say which are granted")
    elif lacking:
        yield Line(
            "slack scopes", Grade.MISSING, f"lacks {', '.join(lacking)}", "add them in the manifest, reinstall the app"
        )
    else:
        yield Line("slack scopes", Grade.OK, f"{len(granted)} granted, none lacking")
    if settings.slack_mode == "socket":
        app_token = settings.slack_app_token.get_secret_value()
        opened = _asked(
            "socket mode",
            lambda: client.apps_connections_open(app_token=app_token),
            "make an app-level token with connections:write",
        )
        yield opened if isinstance(opened, Line) else Line("socket mode", Grade.OK, "a connection may be opened")


def _asked(check: str, call: Callable[[], Any], do: str) -> Any:
    """Return Slack's answer, or the line that says why there is none."""
    try:
        return call()
    except SlackApiError as error:
        return Line(check, Grade.MISSING, f"Slack refuses: {error.response.get('error')}", do)
    except (SlackClientError, URLError, OSError, ValueError) as error:
        return Line(
            check, Grade.UNREACHABLE, f"{type(error).__name__}: {error}", "check BASELINE_SLACK_API_URL and the way out"
        )


def _header(answer: Any, name: str) -> str:
    """Read a header of Slack's answer, whatever its case; a list's values are joined."""
    for key, value in (answer.headers or {}).items():
        if key.lower() == name:
            return ",".join(value) if isinstance(value, list) else str(value)
    return ""
