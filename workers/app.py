"""Wiring of a node's worker: settings to adapters to jobs to the Celery app. The only place that knows them all."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playbooks.catalog import load_catalogue
from playbooks.messages import queue_of
from playbooks.vocabulary import JobKind
from workers.adapters import process_table, queue_processes
from workers.adapters.bot_client import BotClient
from workers.adapters.clocks import SystemClock
from workers.adapters.docker_gateway import DockerGateway
from workers.adapters.engine_http import HttpxEngineHttp
from workers.adapters.host_reader import RootHostReader
from workers.adapters.inside_reader import ProbeInsideReader
from workers.adapters.lifetime import die_with_parent, only_worker
from workers.adapters.nvml_reader import NvmlReader
from workers.adapters.process_engine import ProcessEngine
from workers.adapters.scene_reader import LiveSceneReader
from workers.adapters.spool import FileSpool
from workers.adapters.supervisor import Ended, Supervisor
from workers.jobs.deps import Deps
from workers.jobs.running import Delivered, run_delivery
from workers.journal import Journal
from workers.policy import load_policy
from workers.ports import Engine
from workers.settings import NodeKey, NodeSettings, read_key, read_settings

if TYPE_CHECKING:  # takes seconds to import, and only the queue processes need it
    from celery import Celery

VISIBILITY_TIMEOUT_S = 12 * 3600
"""Longer than the longest job, always: else a running job is delivered a second time."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node's worker, wired."""

    settings: NodeSettings
    key: NodeKey
    deps: Deps


def wire(node: str, settings: NodeSettings | None = None) -> Node:
    """Build everything one process of the worker needs.

    Raises:
        InvalidNodeSettings: environment or key file cannot be used.
        InvalidPolicy: the policy file cannot be read; then nothing is started at all.
    """
    settings = settings or read_settings()
    key = read_key(settings.node_key, node=node)
    policy, policy_sha256 = load_policy(settings.node_policy)
    home = settings.home(node)
    journal = Journal(home / "journal.db")
    gateway = DockerGateway()
    engines: dict[str, Engine] = {"process": ProcessEngine(worker=journal.instance)}
    if policy is not None and "docker" in policy.engines:
        from workers.adapters.docker_engine import DockerEngine

        engines["docker"] = DockerEngine(gateway, worker=journal.instance)
    deps = Deps(
        node=node,
        version=importlib.metadata.version("baseline-bot"),
        home=home,
        policy=policy,
        policy_sha256=policy_sha256,
        journal=journal,
        spool=FileSpool(home / "spool", journal),
        bot=BotClient(settings.bot_url, key),
        engines=engines,
        http=HttpxEngineHttp(),
        gpus=NvmlReader(),
        host=RootHostReader(data_dir=home, docker=gateway),
        inside=ProbeInsideReader(gateway, worker=journal.instance),
        scenes=LiveSceneReader(gateway),
        clock=SystemClock(),
        catalogue=load_catalogue,
        owner=lambda: process_table.identity(os.getpid()),
        is_alive=process_table.is_alive,
    )
    return Node(settings, key, deps)


def celery_app(broker_url: str, run: Callable[[dict[str, Any]], Delivered], *, folder: Path) -> Celery:
    """Build the Celery app: a broker, no results, no remote control, one job at a time.

    folder: where Celery's own files would go.
    """
    from celery import Celery

    from workers import tasks

    app = Celery("baseline", broker=broker_url, set_as_current=False)
    app.conf.update(
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=False,
        worker_prefetch_multiplier=1,
        worker_concurrency=1,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_hijack_root_logger=False,
        worker_state_db=None,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "visibility_timeout": VISIBILITY_TIMEOUT_S,
            "unacked_restore_interval": 10,
            "unacked_restore_throttle": 1,
            "socket_timeout": 10,
            "socket_connect_timeout": 2,
            "socket_keepalive": True,
            "health_check_interval": 25,
        },
    )
    tasks.register(app, run)
    folder.mkdir(parents=True, exist_ok=True)
    return app


def take_queue(node: str, queue: str) -> None:
    """Take jobs from one queue, one at a time, until told to end; call it in a process of its own."""
    from celery.signals import worker_process_init, worker_ready

    from workers.adapters import queue_stall

    wired = wire(node)
    main_pid = os.getpid()

    def started(**_: Any) -> None:
        die_with_parent(main_pid)

    worker_process_init.connect(started, weak=False)
    app = celery_app(
        wired.settings.broker_url.get_secret_value(),
        lambda envelope: run_delivery(envelope, wired.deps, bot=wired.key.bot),
        folder=wired.deps.home,
    )
    worker_ready.connect(
        lambda **_: queue_stall.watch(wired.settings.broker_url.get_secret_value(), queue, wired.deps.journal),
        weak=False,
    )
    app.worker_main(
        [
            "--quiet",
            "worker",
            f"--queues={queue}",
            f"--hostname={queue}@%h",
            "--concurrency=1",
            "--pool=prefork",
            "--loglevel=WARNING",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
        ]
    )


def run_worker(node: str, *, parent: int | None, stop_held: bool) -> bool:
    """Run a node's worker until it is told to end; True when it is to be started anew.

    Raises:
        InvalidNodeSettings: environment, key file or data folder cannot be used, or another worker has the folder.
        InvalidPolicy: the policy file cannot be read.
    """
    wired = wire(node)
    with only_worker(wired.deps.home, node) as lock:
        _import_celery()

        def take(queue: str) -> None:
            lock.close()
            take_queue(node, queue)

        queues = (queue_of(node, JobKind.LAUNCH), queue_of(node, JobKind.STOP))
        pid = queue_processes.start(queues, take)
        supervisor = Supervisor(wired.deps, queues=pid, parent=parent, stop_held=stop_held)
        return supervisor.run() is Ended.START_AGAIN


def _import_celery() -> None:
    """Import what the queue processes need before they are forked: seconds once instead of seconds each."""
    for name in ("celery.bin.worker", "celery.apps.worker", "celery.concurrency.prefork", "kombu.transport.redis"):
        importlib.import_module(name)
