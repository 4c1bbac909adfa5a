"""What the bot publishes is what a worker takes: task name, queues, and the envelope, through an in-memory broker."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from celery.contrib.testing.worker import TestWorkController, start_worker

from bot.adapters.celery_queue import CeleryQueue
from playbooks.evidence.signing import SigningKey, open_envelope, sign
from playbooks.messages import TASK_JOB, JobRequest, queue_of
from playbooks.vocabulary import JobKind
from workers.app import celery_app
from workers.jobs.running import Delivered

NODE = "gpu-a1"


@pytest.fixture
def taken() -> SimpleQueue[dict[str, Any]]:
    return SimpleQueue()


@pytest.fixture
def worker_app(tmp_path: Path, taken: SimpleQueue[dict[str, Any]]) -> Any:
    def run(envelope: dict[str, Any]) -> Delivered:
        taken.put(envelope)
        return Delivered.RAN

    return celery_app("memory://", run, folder=tmp_path)


def a_request(kind: JobKind) -> JobRequest:
    now = datetime.now(UTC)
    return JobRequest(
        job_id=f"JOB-{kind.value}",
        incident="INC-0001",
        kind=kind,
        node=NODE,
        requested_by="user:U1",
        requested_at=now,
        not_after=now + timedelta(minutes=10),
    )


def test_the_workers_app_registers_the_task_that_the_bot_names(worker_app: Any) -> None:
    assert TASK_JOB in worker_app.tasks


@pytest.mark.parametrize("kind", JobKind)
def test_what_loads_the_gpu_never_shares_a_queue_with_what_ends_it(kind: JobKind) -> None:
    expected = f"node.{NODE}" if kind.loads_gpu else f"node.{NODE}.ctl"
    assert queue_of(NODE, kind) == expected


@pytest.fixture
def running(worker_app: Any) -> Iterator[TestWorkController]:
    queues = [queue_of(NODE, JobKind.LAUNCH), queue_of(NODE, JobKind.STOP)]
    with start_worker(worker_app, pool="solo", queues=queues, perform_ping_check=False, shutdown_timeout=10) as worker:
        yield worker


def test_an_envelope_arrives_as_it_was_signed(running: TestWorkController, taken: SimpleQueue[dict[str, Any]]) -> None:
    key = SigningKey.generate()
    queue = CeleryQueue("memory://")
    requests = [a_request(JobKind.LAUNCH), a_request(JobKind.FINGERPRINT)]
    for request in requests:
        queue.publish(request, sign(request, key, "bot"), now=datetime.now(UTC))
    envelopes = [taken.get(timeout=30) for _ in requests]
    opened = [open_envelope(envelope, {"bot": key.public}, JobRequest) for envelope in envelopes]
    assert sorted(request.job_id for request in opened) == ["JOB-fingerprint", "JOB-launch"]
    assert all(request in requests for request in opened)
    queue.close()
