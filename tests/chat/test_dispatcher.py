"""The jobs' half of the outbox: published until claimed, given up when its time is over, never in a hurry twice."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from bot.adapters.celery_queue import CeleryQueue
from bot.adapters.dispatcher import Dispatcher
from bot.errors import BrokerUnavailable
from bot.flows.cancel_job import cancel_job
from bot.flows.claim_job import claim_job
from bot.flows.heartbeat import heartbeat
from bot.flows.request_job import Wish, request_job
from bot.ports import Job, OutboxKind, OutboxState
from playbooks.evidence.signing import open_envelope, sign
from playbooks.messages import Claim, Heartbeat, JobRequest
from playbooks.vocabulary import JobKind
from tests.support.bot_services import NODE, TestBot, kinds, make_bot, open_case, say_hello


class ListQueue:
    """Keeps what is published; implements `bot.adapters.dispatcher.Queue`."""

    def __init__(self) -> None:
        self.sent: list[tuple[JobRequest, Any]] = []
        self.down = False

    def publish(self, request: JobRequest, envelope: Any, *, now: Any) -> None:
        if self.down:
            raise BrokerUnavailable("the broker does not take jobs: connection refused")
        self.sent.append((request, envelope))


@pytest.fixture
def bot(tmp_path: Path) -> TestBot:
    return make_bot(tmp_path)


@pytest.fixture
def queue() -> ListQueue:
    return ListQueue()


@pytest.fixture
def dispatcher(bot: TestBot, queue: ListQueue) -> Dispatcher:
    return Dispatcher(bot.services, queue, holder="this bot")


@pytest.fixture
def job(bot: TestBot) -> Job:
    say_hello(bot)
    return request_job(
        bot.services,
        Wish(incident=open_case(bot), kind=JobKind.FINGERPRINT, node=NODE, requested_by="user:U0RESPONDER"),
    )


def open_rows(bot: TestBot) -> list[str]:
    with bot.store.read() as reading:
        return [row.kind.value for row in reading.outbox(states=[OutboxState.WAITING], kinds=[OutboxKind.JOB])]


def test_a_wanted_job_is_published_under_the_bots_signature(
    bot: TestBot, queue: ListQueue, dispatcher: Dispatcher, job: Job
) -> None:
    assert dispatcher.turn() == 1
    ((request, envelope),) = queue.sent
    assert request == job.request
    assert open_envelope(envelope, {"bot": bot.services.signing_key.public}, JobRequest) == job.request


def test_it_is_published_again_until_it_is_claimed(
    bot: TestBot, queue: ListQueue, dispatcher: Dispatcher, job: Job
) -> None:
    sent = []
    for _ in range(70):
        dispatcher.turn()
        sent.append(len(queue.sent))
        bot.clock.forward(seconds=1)
    assert [sent[0], sent[4], sent[5], sent[19], sent[20], sent[49], sent[50]] == [1, 1, 2, 2, 3, 3, 4]
    claim_job(bot.services, Claim(job_id=job.id, node=NODE, at=bot.clock.now()))
    bot.clock.forward(seconds=3)
    heartbeat(bot.services, Heartbeat(job_id=job.id, node=NODE, at=bot.clock.now()))
    bot.clock.forward(minutes=5)
    dispatcher.turn()
    assert (len(queue.sent), open_rows(bot)) == (4, [])


def test_a_job_whose_worker_never_got_the_yes_is_published_and_claimed_again(
    bot: TestBot, queue: ListQueue, dispatcher: Dispatcher, job: Job
) -> None:
    dispatcher.turn()
    lost = claim_job(bot.services, Claim(job_id=job.id, node=NODE, nonce="lost", at=bot.clock.now()))
    for _ in range(9):
        bot.clock.forward(seconds=5)
        dispatcher.turn()
    assert (lost.granted, len(queue.sent)) == (True, 1)
    bot.clock.forward(seconds=30)
    dispatcher.turn()
    again = claim_job(bot.services, Claim(job_id=job.id, node=NODE, nonce="again", at=bot.clock.now()))
    assert (again.granted, len(queue.sent)) == (True, 2)


def test_a_cancelled_job_is_not_published(bot: TestBot, queue: ListQueue, dispatcher: Dispatcher, job: Job) -> None:
    cancel_job(bot.services, job.id, by="user:U0RESPONDER")
    assert dispatcher.turn() == 0
    assert (queue.sent, open_rows(bot)) == ([], [])


def test_a_broker_that_is_down_delays_a_job_and_loses_none(
    bot: TestBot, queue: ListQueue, dispatcher: Dispatcher, job: Job
) -> None:
    queue.down = True
    assert dispatcher.turn() == 0
    with bot.store.read() as reading:
        (row,) = reading.outbox(states=[OutboxState.WAITING], kinds=[OutboxKind.JOB])
    assert row.error == "the broker does not take jobs: connection refused"
    queue.down = False
    bot.clock.forward(seconds=2)
    assert dispatcher.turn() == 1


def test_a_job_whose_time_is_over_is_given_up_and_said(
    bot: TestBot, queue: ListQueue, dispatcher: Dispatcher, job: Job
) -> None:
    queue.down = True
    for _ in range(62):
        dispatcher.turn()
        bot.clock.forward(seconds=10)
    assert kinds(bot, job.incident)[-1] == "job:ended"
    dispatcher.turn()
    assert open_rows(bot) == []


def test_of_two_bots_one_publishes(bot: TestBot, queue: ListQueue, dispatcher: Dispatcher, job: Job) -> None:
    other = Dispatcher(bot.services, queue, holder="another bot")
    assert (dispatcher.turn(), other.turn()) == (1, 0)
    bot.clock.forward(seconds=6)
    assert other.turn() == 0, "the right to publish is still the first one's"
    bot.clock.forward(seconds=10)
    assert other.turn() == 1
    dispatcher.stop()


def test_a_thread_of_its_own_publishes_on_a_nudge(
    bot: TestBot, queue: ListQueue, dispatcher: Dispatcher, job: Job
) -> None:
    import threading

    published = threading.Event()
    publish = queue.publish

    def told(*args: Any, **kwargs: Any) -> None:
        publish(*args, **kwargs)
        published.set()

    queue.publish = told  # type: ignore[method-assign]
    dispatcher.start()
    dispatcher.nudge()
    assert published.wait(10)
    dispatcher.stop()


def test_the_real_queue_says_in_one_error_class_that_its_broker_is_down(bot: TestBot, job: Job) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        queue = CeleryQueue(f"redis://127.0.0.1:{probe.getsockname()[1]}/0")
        with pytest.raises(BrokerUnavailable):
            queue.publish(job.request, sign(job.request, bot.services.signing_key, "bot"), now=bot.clock.now())
        with pytest.raises(BrokerUnavailable):
            queue.check()
        queue.close()
