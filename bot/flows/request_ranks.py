"""Ask for a launch: of one node a job, of several one job per rank, in one group and one transaction.

What tells the ranks apart - their numbers, where they meet - is given by the product and is no part of the baseline; an
address or port that the command itself names is a variable like any other, and is left alone.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bot.errors import NodeUnfit
from bot.flows.request_job import Wish, add_job, check_node
from playbooks.judging.option_words import options_of
from playbooks.judging.ranks import RankOf

if TYPE_CHECKING:
    from datetime import datetime

    from bot.flows.services import Services
    from bot.ports import Job, Reading, Writing
    from playbooks.judging.baseline import Baseline


def add_launch(tx: Writing, services: Services, wish: Wish, *, now: datetime) -> tuple[Job, ...]:
    """Ask for one attempt of the wish's baseline, inside a transaction that holds the incident's lock; head first.

    Raises:
        NodeUnknown, NodeSilent, NodeHeld, NodeUnfit: a node could not take it up now; nothing may be recorded.
    """
    check_launch(tx, services, wish, now=now)
    nodes = nodes_of(wish)
    if len(nodes) == 1:
        return (add_job(tx, services, wish, now=now),)
    group = f"group-{services.ids.job_id()}"
    address, port = _meeting(tx, wish, group)
    return tuple(
        add_job(
            tx,
            services,
            replace(
                wish,
                node=node,
                rank=RankOf(group=group, rank=rank, nodes=nodes, master_addr=address, master_port=port),
            ),
            now=now,
        )
        for rank, node in enumerate(nodes)
    )


def check_launch(reading: Reading, services: Services, wish: Wish, *, now: datetime) -> None:
    """Say no when one of the nodes could not take its rank up now; raises as `add_launch`."""
    nodes = nodes_of(wish)
    for node in nodes:
        check_node(reading, services, replace(wish, node=node), now=now)
    if len(nodes) == 1 or wish.baseline is None:
        return
    for node in nodes:
        if "address" not in _policy(reading, node):
            raise NodeUnfit(
                f"the worker of {node} is too old for a launch over several nodes; install a newer one there"
            )
    container = wish.baseline.container
    if wish.baseline.engine == "docker" and (container is None or container.network_mode != "host"):
        raise NodeUnfit("containers of several nodes reach each other on the host's network only: add --network host")
    if _given(wish.baseline, "--master-addr") is None and not _policy(reading, nodes[0])["address"]:
        raise NodeUnfit(
            f"expected where the other nodes reach {nodes[0]}: `address` in its policy, or --master-addr in the command"
        )


def nodes_of(wish: Wish) -> tuple[str, ...]:
    """Return the nodes of a launch, head first."""
    several = wish.baseline is not None and len(wish.baseline.nodes) > 1
    return wish.baseline.nodes if several and wish.baseline is not None else (wish.node,)


def _meeting(reading: Reading, wish: Wish, group: str) -> tuple[str | None, int | None]:
    """Return where the ranks meet; None for what the baseline names itself.

    The port is drawn by the group's name from those that the head's policy opens: two groups seldom draw the same one.
    """
    if wish.baseline is None:
        return None, None
    policy = _policy(reading, nodes_of(wish)[0])
    address = None if _given(wish.baseline, "--master-addr") is not None else str(policy["address"])
    if _given(wish.baseline, "--master-port") is not None:
        return address, None
    first, last = policy.get("cluster_ports") or (29500, 29599)
    drawn = int.from_bytes(hashlib.sha256(group.encode()).digest()[:4])
    return address, int(first) + drawn % (int(last) - int(first) + 1)


def _policy(reading: Reading, node: str) -> dict[str, Any]:
    known = reading.node(node)
    return dict(known.hello.policy) if known is not None and known.hello is not None else {}


def _given(baseline: Baseline, name: str) -> str | None:
    return next((option.shown for option in options_of(baseline.argv) if option.name == name), None)
