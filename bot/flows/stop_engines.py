"""End the held engines of an attempt on other nodes, when one node's part of it has ended."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from bot.errors import JobNotAsked
from bot.flows.held_engines import nodes_of_attempt
from bot.flows.request_job import Wish, add_job
from playbooks.messages import StopParams
from playbooks.vocabulary import JobKind

if TYPE_CHECKING:
    from datetime import datetime

    from bot.flows.services import Services
    from bot.ports import Writing


def stop_engines(
    tx: Writing, services: Services, incident: str, attempt: int, nodes: frozenset[str], *, now: datetime
) -> None:
    """Ask these nodes to end an attempt's held engines: the rest of a launch over several nodes that one of them left.

    A node that cannot be asked now ends its engine by itself when the time is over that it may hold it.
    """
    for node in sorted(nodes):
        params = StopParams(attempt=attempt).model_dump(mode="json")
        wish = Wish(incident=incident, kind=JobKind.STOP, node=node, requested_by="bot", params=params, post=False)
        with suppress(JobNotAsked):
            add_job(tx, services, wish, now=now)


def stop_the_rest(tx: Writing, services: Services, incident: str, attempt: int, *, but: str, now: datetime) -> None:
    """Ask every other node of an attempt to end its engine; for an attempt of one node there is none."""
    for noted in tx.lock(incident).case.attempts:
        if noted.payload.attempt == attempt and noted.payload.held_until is not None:
            stop_engines(tx, services, incident, attempt, nodes_of_attempt(noted.payload) - {but}, now=now)
