"""Claims, reports and publications that race, on a real PostgreSQL and through a real Redis."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_client

from bot.adapters.celery_queue import CeleryQueue
from bot.adapters.dispatcher import Dispatcher
from bot.adapters.system import Ulids
from bot.flows.cancel_job import cancel_job
from bot.flows.claim_job import claim_job
from bot.flows.heartbeat import heartbeat
from bot.flows.record_report import record_report
from bot.flows.request_job import Wish, request_job
from bot.flows.request_ranks import add_launch
from bot.ports import Job
from playbooks.evidence.signing import open_envelope
from playbooks.messages import TASK_JOB, Claim, Heartbeat, JobReport, JobRequest
from playbooks.vocabulary import JobKind, JobOutcome, Stage
from tests.support.bot_services import NODE, TestBot, a_baseline, kinds, make_bot, open_case, say_hello
from tests.support.services import postgres, redis

pytestmark = pytest.mark.services
MANY = 8


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with postgres() as found:
        yield found


@pytest.fixture
def bot(tmp_path: Path, url: str) -> Iterator[TestBot]:
    bot = make_bot(tmp_path, url=url, ids=Ulids())
    yield bot
    with bot.store.read() as reading:
        lease = reading.lease(NODE)
    if lease is not None:
        with bot.store.write() as tx:
            tx.end_lease(NODE, fence=lease.fence)
    bot.store.close()


def asked(bot: TestBot, incident: str) -> Job:
    say_hello(bot)
    wish = Wish(
        incident=incident, kind=JobKind.LAUNCH, node=NODE, requested_by="user:U1", attempt=1, baseline=a_baseline()
    )
    return request_job(bot.services, wish)


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Run the calls at the same moment and return what came of them, in order; errors are raised here."""
    results: list[Any] = [None] * len(calls)
    start = threading.Barrier(len(calls))

    def run(place: int) -> None:
        start.wait()
        try:
            results[place] = calls[place]()
        except Exception as error:  # noqa: BLE001 - handed to the test
            results[place] = error

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


def test_of_claims_for_one_job_one_is_granted(bot: TestBot) -> None:
    job = asked(bot, open_case(bot))
    replies = at_once(
        *(
            lambda n=n: claim_job(bot.services, Claim(job_id=job.id, node=NODE, nonce=str(n), at=bot.clock.now()))
            for n in range(MANY)
        )
    )
    assert [reply.granted for reply in replies].count(True) == 1


def test_of_two_incidents_one_gets_the_node(bot: TestBot) -> None:
    jobs = [asked(bot, open_case(bot)) for _ in range(4)]
    replies = at_once(
        *(
            lambda job=job: claim_job(bot.services, Claim(job_id=job.id, node=NODE, nonce="n", at=bot.clock.now()))
            for job in jobs
        )
    )
    assert sorted(reply.reason for reply in replies) == ["granted", "held", "held", "held"]


def test_a_report_delivered_many_times_at_once_is_recorded_once(bot: TestBot) -> None:
    incident = open_case(bot)
    job = asked(bot, incident)
    now = bot.clock.now()
    reply = claim_job(bot.services, Claim(job_id=job.id, node=NODE, at=now))
    report = JobReport(
        job_id=job.id,
        node=NODE,
        kind=job.kind,
        outcome=JobOutcome.LOST,
        error="worker restarted",
        started_at=now,
        ended_at=now,
        duration_ms=1,
        fence=reply.fence,
        worker_version="1",
    )
    replies = at_once(*(lambda: record_report(bot.services, report) for _ in range(MANY)))
    assert all(reply.recorded for reply in replies)
    assert kinds(bot, incident).count("job:ended") == 1


def test_cancel_heartbeats_and_claims_do_not_lock_each_other_out(bot: TestBot) -> None:
    incident = open_case(bot)
    job = asked(bot, incident)
    fence = claim_job(bot.services, Claim(job_id=job.id, node=NODE, nonce="n", at=bot.clock.now())).fence
    stages = [Stage.CONTAINER_INIT, Stage.DEVICE_RECOGNITION, Stage.WEIGHT_LOADING]

    def beat(stage: Stage) -> Any:
        return heartbeat(
            bot.services, Heartbeat(job_id=job.id, node=NODE, fence=fence, stage=stage, at=bot.clock.now())
        )

    def claim() -> Any:
        return claim_job(bot.services, Claim(job_id=job.id, node=NODE, nonce="n", at=bot.clock.now()))

    at_once(*(lambda s=s: beat(s) for s in stages), claim, lambda: cancel_job(bot.services, job.id, by="user:U2"))
    assert beat(Stage.WEIGHT_LOADING).cancel


def test_a_published_job_is_one_signed_message_on_its_nodes_queue(bot: TestBot) -> None:
    with redis(password="let-me-in") as broker:
        job = asked(bot, open_case(bot))
        queue = CeleryQueue(broker)
        queue.check()
        Dispatcher(bot.services, queue, holder="this bot").turn()
        client = redis_client.Redis.from_url(broker)
        messages = [json.loads(raw) for raw in client.lrange(f"node.{NODE}", 0, -1)]  # type: ignore[union-attr]
        client.close()
        queue.close()
    mine = [message for message in messages if job.id in _body(message)]
    assert [message["headers"]["task"] for message in mine] == [TASK_JOB]
    (arguments, _kwargs, _embed) = json.loads(_body(mine[0]))
    assert open_envelope(arguments[0], {"bot": bot.services.signing_key.public}, JobRequest) == job.request


def _body(message: dict[str, Any]) -> str:
    import base64

    return base64.b64decode(message["body"]).decode()


def test_of_two_groups_at_once_one_runs_and_the_other_waits_fifty_times(tmp_path: Path, url: str) -> None:
    nodes = ("gpu-g1", "gpu-g2")
    bot = make_bot(tmp_path, url=url, ids=Ulids(), nodes=nodes)
    for node in nodes:
        say_hello(bot, node=node, policy={"address": "10.0.0.1"})

    def group() -> tuple[Job, ...]:
        incident = open_case(bot, node=nodes[0], nodes=list(nodes))
        wish = Wish(
            incident=incident,
            kind=JobKind.LAUNCH,
            node=nodes[0],
            requested_by="user:U1",
            attempt=1,
            baseline=a_baseline(nodes=nodes),
        )
        with bot.services.store.write() as tx:
            tx.lock(incident)
            return add_launch(tx, bot.services, wish, now=bot.clock.now())

    def claim(job: Job) -> Any:
        return claim_job(bot.services, Claim(job_id=job.id, node=job.node, nonce="n", at=bot.clock.now()))

    halves = 0
    for _ in range(50):
        one, two = group(), group()
        replies = at_once(*(lambda job=job: claim(job) for job in (one[0], two[1], one[1], two[0])))
        won = [reply.job_id for reply in replies if reply.granted]
        halves += sorted(won) not in (sorted(job.id for job in one), sorted(job.id for job in two))
        for job in (*one, *two):
            cancel_job(bot.services, job.id, by="user:U2")
        for job in (*one, *two):
            with bot.store.read() as reading:
                row = reading.job(job.id)
            if row is not None and row.id in won:
                record_report(bot.services, _cancelled(bot, row))
        with bot.store.read() as reading:
            assert [reading.lease(node) for node in nodes] == [None, None]
    bot.store.close()
    assert halves == 0


def _cancelled(bot: TestBot, job: Job) -> JobReport:
    now = bot.clock.now()
    return JobReport(
        job_id=job.id,
        node=job.node,
        kind=job.kind,
        outcome=JobOutcome.CANCELLED,
        error="called off",
        started_at=now,
        ended_at=now,
        duration_ms=1,
        fence=job.fence,
        worker_version="1",
    )
