"""A bot's services on a real SQLite store in a test's folder, with a clock that is set and files in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bot.adapters.definitions import PackagedDefinitions
from bot.adapters.store import SqlStore, migrate, open_store
from bot.errors import DigestMismatch, UnknownArtifact
from bot.flows.services import People, Services
from playbooks.evidence.entries import IncidentOpened
from playbooks.evidence.signing import SigningKey
from playbooks.judging.baseline import Baseline
from playbooks.judging.finding import Finding
from playbooks.messages import NodeHello
from playbooks.vocabulary import ErrorClass, Stage

START = datetime(2026, 12, 1, 2, 41, tzinfo=UTC)
NODE = "gpu-a1"
RESPONDER = "U0RESPONDER"
APPROVER = "U0APPROVER"


class SetClock:
    """A clock that stands still until it is moved; implements `bot.ports.Clock`."""

    def __init__(self, at: datetime = START) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at

    def forward(self, **by: float) -> datetime:
        self.at += timedelta(**by)
        return self.at


class CountedIds:
    """`JOB-0001`, counted on; implements `bot.ports.Ids`."""

    def __init__(self) -> None:
        self._last = 0

    def job_id(self) -> str:
        self._last += 1
        return f"JOB-{self._last:04d}"


class MemoryArtifacts:
    """Files in memory; implements `bot.ports.ArtifactStore`."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def put(self, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        self.files[sha256] = data
        return sha256

    def put_stream(self, chunks: Iterable[bytes], *, expected: str) -> int:
        data = b"".join(chunks)
        found = hashlib.sha256(data).hexdigest()
        if found != expected:
            raise DigestMismatch(f"expected {expected}, found {found}")
        self.files[expected] = data
        return len(data)

    def forget_drafts(self, *, before: Any) -> int:
        return 0  # a file is there whole or not at all

    def get(self, sha256: str) -> bytes:
        if sha256 not in self.files:
            raise UnknownArtifact(sha256)
        return self.files[sha256]

    @contextmanager
    def open(self, sha256: str) -> Iterator[Iterator[bytes]]:
        yield iter([self.get(sha256)])

    def has(self, sha256: str) -> bool:
        return sha256 in self.files


async def run_here(flow: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Run a flow on the spot; implements `bot.flows.services.FlowRunner`."""
    return flow(*args, **kwargs)


@dataclass
class TestBot:
    """Services with what a test wants to look at or set."""

    __test__ = False
    services: Services
    store: SqlStore
    clock: SetClock
    artifacts: MemoryArtifacts
    node_key: SigningKey
    nudges: list[int] = field(default_factory=list)


def make_bot(folder: Path, *, url: str | None = None, **changes: Any) -> TestBot:
    """Return a bot that knows one node and two people; `changes` replace fields of its services."""
    url = url or f"sqlite:///{folder / 'baseline.db'}"
    migrate(url)
    store, clock, artifacts, node_key = open_store(url), SetClock(), MemoryArtifacts(), SigningKey.generate()
    nudges: list[int] = []
    services = Services(
        **{
            "store": store,
            "artifacts": artifacts,
            "clock": clock,
            "ids": CountedIds(),
            "definitions": PackagedDefinitions(),
            "signing_key": SigningKey.generate(),
            "node_keys": {NODE: node_key.public},
            "nodes": (NODE,),
            "run": run_here,
            "nudge": lambda: nudges.append(1),
            "people": People(frozenset({RESPONDER}), frozenset({APPROVER})),
            "playbook": "generic-vllm",
            **changes,
        }
    )
    return TestBot(services, store, clock, artifacts, node_key, nudges)


def open_case(bot: TestBot, *, node: str | None = NODE, channel: str = "C0ONCALL", **changes: Any) -> str:
    """Open an incident and return its id."""
    services = bot.services
    text = services.definitions.playbook_bytes(services.playbook)
    payload = IncidentOpened(
        **{
            "title": "K3 does not start",
            "node": node,
            "playbook": services.playbook,
            "playbook_sha256": services.artifacts.put(text),
            **changes,
        }
    )
    with services.store.write() as tx:
        opened = tx.open_incident(channel=channel, owner=RESPONDER, payload=payload, at=bot.clock.now(), language="en")
    return opened.id


def say_hello(bot: TestBot, *, node: str = NODE, **changes: Any) -> NodeHello:
    """Let the node be heard of now, without going through HTTP."""
    hello = NodeHello(
        **{
            "node": node,
            "version": "0.1.0",
            "catalogue": "c" * 64,
            "policy_sha256": "p" * 64,
            "at": bot.clock.now(),
            **changes,
        }
    )
    with bot.services.store.write() as tx:
        tx.save_hello(hello, at=bot.clock.now())
    return hello


def a_baseline(**changes: Any) -> Baseline:
    """Return a baseline of the process engine."""
    return Baseline(**{"engine": "process", "argv": ("serve", "tiny"), "nodes": (NODE,), **changes})


def a_finding(catalogue: str, **changes: Any) -> Finding:
    """Return a finding of a failed weight loading."""
    return Finding(
        **{
            "stage": Stage.WEIGHT_LOADING,
            "reached": Stage.DEVICE_RECOGNITION,
            "error_class": ErrorClass.MODEL_PATH_NOT_FOUND,
            "root_line": 7,
            "root_text": "OSError: no such model",
            "confidence": "certain",
            "input_kind": "engine_log",
            "decision": None,
            "catalogue": catalogue,
            **changes,
        }
    )


def kinds(bot: TestBot, incident: str) -> list[str]:
    """Return the kinds of an incident's entries, oldest first."""
    with bot.services.store.read() as reading:
        return [entry.kind for entry in reading.entries(incident)]


def payloads(bot: TestBot, incident: str, kind: str) -> list[dict[str, Any]]:
    """Return the payloads of an incident's entries of one kind, oldest first."""
    with bot.services.store.read() as reading:
        return [entry.payload for entry in reading.entries(incident) if entry.kind == kind]
