"""The jobs' half of the outbox: publish each wanted job, again and again, until it has begun or its time is over.

A broker may forget, so a publication is no proof of anything; a worker that is heard of is. A row is put off before it is published. Of
several bots one publishes, by lease; the job's id makes a second delivery harmless all the same.
"""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

import structlog

from bot.errors import BotError, BrokerUnavailable, StoreError
from bot.flows.claim_job import is_forgotten
from bot.flows.give_up_job import give_up_job
from bot.ports import JobState, OutboxRow, OutboxState
from playbooks.evidence.signing import sign

if TYPE_CHECKING:
    from bot.flows.services import Services
    from bot.ports import Job
    from playbooks.evidence.signing import Envelope
    from playbooks.messages import JobRequest

AGAIN_AFTER = (timedelta(seconds=5), timedelta(seconds=15), timedelta(seconds=30))
"""When an unclaimed job is published again; the last one repeats."""
BROKER_DOWN = timedelta(seconds=2)
POLL_S = 1.0
LEASE = "jobs"
LEASE_S = 15
_ERROR_PAUSE_S = 1.0
_GATHER_S = 0.02
"""What is committed within so short a time is looked at in one turn."""
_BATCH = 100
log = structlog.get_logger(__name__)


class Queue(Protocol):
    """What carries jobs; the adapter is `bot.adapters.celery_queue`."""

    def publish(self, request: JobRequest, envelope: Envelope, *, now: datetime) -> None:
        """Publish a job. Raises: BrokerUnavailable."""
        ...


class Dispatcher:
    """Publishes jobs from a thread of its own; `nudge` wakes it after a commit."""

    def __init__(self, services: Services, queue: Queue, *, holder: str) -> None:
        self._services = services
        self._queue = queue
        self._holder = holder
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to publish."""
        self._thread = threading.Thread(target=self._loop, name="dispatcher", daemon=True)
        self._thread.start()

    def nudge(self) -> None:
        """Say that there may be something to publish."""
        self._wake.set()

    def stop(self, *, timeout_s: float = 5.0) -> None:
        """End the thread; what is not published stays in the outbox."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=timeout_s)
        try:
            self._services.store.end_sender_lease(LEASE, self._holder, now=self._services.clock.now())
        except StoreError as error:
            log.info("right to publish not given back", why=str(error))

    def turn(self) -> int:
        """Publish what is due now; returns how many were published. Nothing, while another bot holds the right to."""
        services = self._services
        now = services.clock.now()
        with services.store.read() as reading:
            if not reading.due_jobs(now=now, limit=1):
                return 0
        if not services.store.sender_lease(LEASE, self._holder, now=now, ttl_s=LEASE_S):
            return 0
        published = 0
        for row, job in self._put_off(now):
            if now > job.not_after:
                give_up_job(services, job.id)
            else:
                published += self._publish(row, job, now)
        return published

    def _put_off(self, now: datetime) -> list[tuple[OutboxRow, Job]]:
        """Take what is due for this turn, before anything is published; rows of jobs that need no sending are done."""
        taken: list[tuple[OutboxRow, Job]] = []
        with self._services.store.write() as tx:
            for row in tx.due_jobs(now=now, limit=_BATCH):
                job = tx.job(str(row.payload["job_id"]))
                if job is None or _has_begun(job):
                    tx.update_outbox(row.id, state=OutboxState.DONE, error=None)
                    continue
                wait = AGAIN_AFTER[min(row.attempts, len(AGAIN_AFTER) - 1)]
                until = now + wait if now > job.not_after else min(now + wait, _just_after(job))
                tx.update_outbox(row.id, attempts=row.attempts + 1, not_before=until)
                if job.state is JobState.WANTED or is_forgotten(job, now):
                    taken.append((row, job))
        return taken

    def _publish(self, row: OutboxRow, job: Job, now: datetime) -> int:
        envelope = sign(job.request, self._services.signing_key, "bot")
        try:
            self._queue.publish(job.request, envelope, now=now)
        except BrokerUnavailable as error:
            with self._services.store.write() as tx:
                tx.update_outbox(
                    row.id, not_before=min(now + BROKER_DOWN, _just_after(job)), error=str(error), attempts=row.attempts
                )
            log.warning("job not published", job_id=job.id, node=job.node, why=str(error))
            return 0
        log.info("job published", job_id=job.id, incident=job.incident, node=job.node, kind=job.kind.value)
        return 1

    def _loop(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(timeout=POLL_S)
            if self._stop.wait(_GATHER_S):
                return
            self._wake.clear()
            try:
                self.turn()
            except StoreError as error:
                log.warning("outbox not read", why=str(error))
                self._stop.wait(_ERROR_PAUSE_S)
            except BotError:
                log.exception("dispatcher")
                self._stop.wait(_ERROR_PAUSE_S)


def _has_begun(job: Job) -> bool:
    """Whether a worker was heard of after its claim, or the job has ended: nothing is left to send."""
    if job.state is JobState.CLAIMED:
        return job.last_heard_at != job.claimed_at
    return job.state is not JobState.WANTED


def _just_after(job: Job) -> datetime:
    return job.not_after + timedelta(milliseconds=1)
