"""A whole node in a temporary folder: policy, journal, spool, process engine, fake bot; readers in memory."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from playbooks.catalog import load_catalogue
from playbooks.judging.baseline import Baseline, Interpreter
from playbooks.messages import JobRequest, Limits
from playbooks.reading.fields import read
from playbooks.vocabulary import JobKind
from tests.support.fake_bot import FakeBot
from workers.adapters import process_table
from workers.adapters.bot_client import BotClient
from workers.adapters.clocks import SystemClock
from workers.adapters.engine_http import HttpxEngineHttp
from workers.adapters.process_engine import ProcessEngine
from workers.adapters.spool import FileSpool
from workers.jobs.deps import Deps
from workers.jobs.running import Delivered, run_delivery
from workers.journal import Journal
from workers.policy import NodePolicy
from workers.policy.file import ArgumentRules, InterpreterRule
from workers.ports import Facts, MemoryWatch, Scene

ENGINE = Path(__file__).with_name("scripted_engine.py")
SOON = timedelta(minutes=10)


class NoWatch:
    """No GPU, no samples."""

    def samples(self) -> tuple[tuple[int, int], ...]:
        return ()

    def by_gpu(self) -> dict[str, tuple[tuple[int, int], ...]]:
        return {}

    def close(self) -> None:
        return


@dataclass(frozen=True)
class Watched:
    """Samples of each GPU that a test sets."""

    gpus: dict[str, tuple[tuple[int, int], ...]]

    def samples(self) -> tuple[tuple[int, int], ...]:
        at = [ms for ms, _used in next(iter(self.gpus.values()))]
        return tuple((ms, sum(dict(one).get(ms, 0) for one in self.gpus.values())) for ms in at)

    def by_gpu(self) -> dict[str, tuple[tuple[int, int], ...]]:
        return self.gpus

    def close(self) -> None:
        return


@dataclass
class FakeGpus:
    """GPU facts that a test sets; each read takes the next of `later` when there is one."""

    facts: Facts
    watched: MemoryWatch = field(default_factory=NoWatch)

    def read(self) -> Facts:
        return dict(self.facts)

    def watch(self) -> MemoryWatch:
        return self.watched


@dataclass
class FakeHost:
    """Host facts that a test sets."""

    facts: Facts

    def read(self, *, model_path: str | None = None) -> Facts:
        return dict(self.facts)

    def driver(self) -> Facts:
        return dict(self.facts)

    def model_files(self, path: str) -> Facts:
        return {"model.files": read([["config.json", 2]], path)}


class FakeInside:
    """The container's side that a test sets."""

    def __init__(self, facts: Facts | None = None) -> None:
        self.facts = facts or {"package.vllm": read("0.32.0", "metadata")}

    def in_python(self, python: str) -> Facts:
        return dict(self.facts)

    in_container = in_image = packages = image_facts = in_python

    def container_facts(self, inspection: dict[str, Any]) -> Facts:
        return {"container.id": read(inspection["Id"], "docker inspect")}


class FakeScenes:
    """A scene that a test sets."""

    def __init__(self, container: tuple[list[Scene], dict[str, Any] | None] = ([], None)) -> None:
        self._container = container

    def host(self) -> list[Scene]:
        return [Scene("uname", b"Linux", name="uname.txt"), Scene("nvidia-smi", None, why="no such command")]

    def container(self, name: str) -> tuple[list[Scene], dict[str, Any] | None]:
        return self._container


@dataclass
class TestNode:
    """A node's worker as one process sees it."""

    __test__ = False
    bot: FakeBot
    deps: Deps
    folder: Path

    def deliver(self, request: JobRequest) -> Delivered:
        return run_delivery(self.bot.envelope(request), self.deps, bot=self.bot.bot_key.public)

    def restarted(self) -> TestNode:
        """Return the node as a restarted worker would see it: same files, nothing in memory."""
        return make_node(self.folder, self.bot)


def policy(folder: Path, **changes: Any) -> NodePolicy:
    """Return a policy that allows the scripted engine and models below `folder/models`."""
    values: dict[str, Any] = {
        "schema": "baseline-node-policy/1",
        "engines": ("process",),
        "interpreters": (InterpreterRule(python=Path(sys.executable), vllm=folder / "bin" / "vllm"),),
        "model_dirs": (folder / "models",),
        "env": ("SCRIPT", "VLLM_*"),
        "ports": (21000, 29999),
        "arguments": ArgumentRules(),
        **changes,
    }
    return NodePolicy.model_validate(values)


def make_node(folder: Path, bot: FakeBot, **changes: Any) -> TestNode:
    """Build a node. The `vllm` executable of its policy is the scripted engine."""
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    (folder / "models" / "tiny").mkdir(parents=True, exist_ok=True)
    vllm = folder / "bin" / "vllm"
    if not vllm.exists():
        vllm.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ENGINE}" "$@"\n', encoding="utf-8")
        vllm.chmod(0o755)
    journal = Journal(folder / "journal.db")
    deps = Deps(
        node=bot.node,
        version="0.1.0",
        home=folder,
        policy=policy(folder),
        policy_sha256="p" * 64,
        journal=journal,
        spool=FileSpool(folder / "spool", journal),
        bot=BotClient(bot.url, bot.key, timeout_s=5),
        engines={"process": ProcessEngine(worker=journal.instance)},
        http=HttpxEngineHttp(),
        gpus=FakeGpus({"nvml.error": read(12, "nvmlInit")}),
        host=FakeHost({"driver.loaded": read(None, "/proc")}),
        inside=FakeInside(),
        scenes=FakeScenes(),
        clock=SystemClock(),
        catalogue=load_catalogue,
        owner=lambda: process_table.identity(os.getpid()),
        is_alive=process_table.is_alive,
    )
    return TestNode(bot, replace(deps, **changes), folder)


def script(folder: Path, name: str = "script", **what: Any) -> str:
    """Write what the scripted engine is to do; returns the path for the variable SCRIPT."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps(what), encoding="utf-8")
    return str(path)


def baseline(folder: Path, *, env: Mapping[str, str] = {}, argv: tuple[str, ...] = (), **changes: Any) -> Baseline:
    """Return a baseline of the scripted engine."""
    return Baseline(
        engine="process",
        interpreter=Interpreter(python=sys.executable),
        argv=(str(folder / "models" / "tiny"), *argv),
        env=dict(env),
        **changes,
    )


def job(kind: JobKind, *, job_id: str = "job-1", **changes: Any) -> JobRequest:
    """Return a job for the test node."""
    now = datetime.now(UTC)
    values: dict[str, Any] = {
        "job_id": job_id,
        "incident": "INC-0001",
        "kind": kind,
        "node": "gpu-a1",
        "requested_by": "U1",
        "requested_at": now,
        "not_after": now + SOON,
        "limits": Limits(total_s=60),
        **changes,
    }
    return JobRequest.model_validate(values)
