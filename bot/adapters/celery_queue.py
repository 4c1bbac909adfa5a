"""Hand jobs to the nodes' queues through Celery: publisher only, no result backend, quick to say that the broker is down.

Settings as measured (docs/adr): with `ignore_result` and one short retry a dead broker costs 0.1 s, a frozen one the
socket time-out, and nothing but one exception class is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import kombu.exceptions
import redis.exceptions
from celery import Celery
from celery.exceptions import CeleryError

from bot.errors import BrokerUnavailable
from playbooks.messages import TASK_JOB, queue_of

if TYPE_CHECKING:
    from datetime import datetime

    from playbooks.evidence.signing import Envelope
    from playbooks.messages import JobRequest

_VISIBILITY_S = 12 * 3600
"""Longer than the longest job, always: a shorter one runs it twice."""
_SOCKET_S = 2
FAILURES: tuple[type[Exception], ...] = (
    kombu.exceptions.KombuError,
    redis.exceptions.RedisError,
    CeleryError,
    OSError,
    RuntimeError,  # Celery's own "retry limit exceeded"
)


class CeleryQueue:
    """Publishes jobs; safe to use from several threads."""

    def __init__(self, broker_url: str) -> None:
        self._app = Celery("baseline-bot", broker=broker_url, set_as_current=False)
        self._app.conf.update(
            task_serializer="json",
            accept_content=["json"],
            task_ignore_result=True,
            worker_enable_remote_control=False,
            broker_connection_timeout=_SOCKET_S,
            broker_transport_options={
                "visibility_timeout": _VISIBILITY_S,
                "socket_timeout": _SOCKET_S,
                "socket_connect_timeout": _SOCKET_S,
                "socket_keepalive": True,
                "health_check_interval": 25,
                "max_retries": 1,
                "interval_start": 0,
                "interval_step": 0.1,
                "interval_max": 0.1,
            },
        )

    def publish(self, request: JobRequest, envelope: Envelope, *, now: datetime) -> None:
        """Put a signed job on its node's queue.

        Raises:
            BrokerUnavailable: the broker does not take it; publish again later.
        """
        left_s = max((request.not_after - now).total_seconds(), 1.0)
        try:
            self._app.send_task(
                TASK_JOB,
                args=[envelope.model_dump(mode="json", by_alias=True)],
                queue=queue_of(request.node, request.kind),
                expires=left_s,
                ignore_result=True,
                retry=False,
            )
        except FAILURES as error:
            raise BrokerUnavailable(f"the broker does not take jobs: {_first_line(error)}") from error

    def check(self) -> None:
        """Say whether the broker answers.

        Raises:
            BrokerUnavailable: it does not.
        """
        try:
            with self._app.connection_for_write() as connection:
                connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0.1, timeout=_SOCKET_S)
                connection.default_channel.client.ping()
        except FAILURES as error:
            raise BrokerUnavailable(f"the broker does not answer: {_first_line(error)}") from error

    def close(self) -> None:
        """Close idle connections."""
        self._app.close()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
