"""Ask a node for a job: the wish, its evidence entry and its outbox row in one transaction.

Says no before anything is recorded when the node is unknown, silent, or held by another job: a wish that cannot be met is
no wish. Whether the job may start is decided again when the node claims it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from bot.errors import NodeHeld, NodeSilent, NodeUnknown
from bot.flows.held_engines import holder_of
from playbooks.evidence.entries import JobRequested
from playbooks.messages import JobRequest, Limits
from playbooks.vocabulary import JobKind

if TYPE_CHECKING:
    from bot.flows.services import Services
    from bot.ports import Job, Reading, Writing
    from playbooks.judging.baseline import Baseline, Change
    from playbooks.judging.ranks import RankOf

_ENDS_THINGS = frozenset({JobKind.STOP, JobKind.SWEEP})
"""Kinds that free a node: never refused because it is held."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked of a node. `params` is a dump of the kind's params model."""

    incident: str
    kind: JobKind
    node: str
    requested_by: str
    """`user:U123`, or `bot` for what follows by itself."""
    attempt: int | None = None
    baseline: Baseline | None = None
    change: Change | None = None
    params: dict[str, Any] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    rank: RankOf | None = None
    post: bool = True
    """Whether the wish is shown as an evidence reply of its own."""


def request_job(services: Services, wish: Wish) -> Job:
    """Ask for a job.

    Raises:
        UnknownIncident: no incident of that id.
        NodeUnknown, NodeSilent, NodeHeld: the node could not take it up now; nothing was recorded.
    """
    now = services.clock.now()
    with services.store.write() as tx:
        tx.lock(wish.incident)
        job = add_job(tx, services, wish, now=now)
    services.nudge()
    return job


def add_job(tx: Writing, services: Services, wish: Wish, *, now: datetime) -> Job:
    """Ask for a job inside a transaction that holds the incident's lock; raises as `request_job`."""
    check_node(tx, services, wish, now=now)
    request = JobRequest(
        job_id=services.ids.job_id(),
        incident=wish.incident,
        kind=wish.kind,
        node=wish.node,
        attempt=wish.attempt,
        baseline=wish.baseline,
        change=wish.change,
        params=wish.params,
        limits=wish.limits,
        rank=wish.rank,
        requested_by=wish.requested_by,
        requested_at=now,
        not_after=now + services.timing.claim_within,
    )
    tx.append(
        wish.incident,
        JobRequested(
            job_id=request.job_id,
            job_kind=wish.kind,
            node=wish.node,
            attempt=wish.attempt,
            params=wish.params,
        ),
        actor=wish.requested_by,
        at=now,
        post=wish.post,
    )
    return tx.add_job(request)


def check_node(reading: Reading, services: Services, wish: Wish, *, now: datetime) -> None:
    """Say no when the node could not take the job up now.

    Raises:
        NodeUnknown, NodeSilent, NodeHeld: with the words for the thread.
    """
    if wish.node not in services.nodes:
        known = ", ".join(services.nodes) or "none"
        raise NodeUnknown(f"expected a node of BASELINE_NODES ({known}), found {wish.node}")
    node = reading.node(wish.node)
    if node is None or node.heard_at is None:
        raise NodeSilent(f"{wish.node} has never reported; start `baseline worker --node {wish.node}` there")
    if now - node.heard_at > services.timing.node_silent_after:
        raise NodeSilent(f"{wish.node} was last heard of at {node.heard_at:%H:%M:%S} UTC; look at its worker first")
    if wish.kind.loads_gpu and wish.kind not in _ENDS_THINGS:
        holder = holder_of(reading, wish.node, incident=wish.incident, now=now)
        if holder is not None:
            raise NodeHeld(f"{wish.node} {holder}")
