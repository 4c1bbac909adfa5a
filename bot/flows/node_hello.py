"""Take a node's hello: it is alive, what it may do, what it holds - and what it no longer holds."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from bot.errors import JobNotAsked, Replayed
from bot.flows.held_engines import nodes_of_attempt, still_held
from bot.flows.node_jobs import collect_wish, fingerprint_wish
from bot.flows.request_job import add_job
from bot.flows.stop_engines import stop_engines
from playbooks.evidence.entries import HeldEnded
from playbooks.guiding import seen
from playbooks.messages import HelloReply

if TYPE_CHECKING:
    from bot.flows.services import Services
    from bot.ports import Writing
    from playbooks.messages import HeldEngine, NodeHello

_SETTLED = timedelta(seconds=45)
"""A hello may have been written before the launch's report was recorded; only an older entry is judged by it."""
How = Literal["stopped", "expired", "replaced", "died"]


def node_hello(services: Services, hello: NodeHello) -> HelloReply:
    """Remember a hello, and record engines that ended.

    Raises:
        Replayed: an older hello than the newest one.
    """
    now = services.clock.now()
    with services.store.write() as tx:
        known = tx.node(hello.node)
        if known is not None and known.hello is not None and hello.at < known.hello.at:
            raise Replayed(f"expected a hello after {known.hello.at.isoformat()}, found {hello.at.isoformat()}")
        tx.save_hello(hello, at=now)
        ended = _told_ends(tx, services, hello, now) + _missing_ends(tx, services, hello, now)
        if known is None or known.heard_at is None or now - known.heard_at > services.timing.node_silent_after:
            _save_waiting_scenes(tx, services, hello.node, now)
            _say_that_it_speaks(tx, hello.node)
    services.nudge()
    return HelloReply(node=hello.node, bot_time=now, detail="; ".join(ended))


def _save_waiting_scenes(tx: Writing, services: Services, node: str, now: datetime) -> None:
    """Ask for the scenes that could not be asked for while the node was silent."""
    for incident in tx.incidents(open_only=True):
        case = incident.case
        asked = any(noted.payload.node == node for noted in case.jobs.values())
        known = node in {noted.payload.node for noted in case.scenes} | {
            noted.payload.node for noted in case.fingerprints
        }
        if node not in seen.nodes_of(case) or asked or known:
            continue
        actor = f"user:{incident.owner}"
        try:
            add_job(tx, services, collect_wish(incident, node, actor), now=now)
            add_job(tx, services, fingerprint_wish(tx, incident, node, actor), now=now)
        except JobNotAsked:
            continue  # held or refused: the thread's next step asks again


def _say_that_it_speaks(tx: Writing, node: str) -> None:
    """Redraw the dashboards that say the node is silent."""
    for incident in tx.incidents(open_only=True):
        if node in seen.nodes_of(incident.case):
            tx.want_dashboard(incident.id)


def _told_ends(tx: Writing, services: Services, hello: NodeHello, now: datetime) -> list[str]:
    """Record what the node says has ended."""
    told: list[tuple[str, int, How, str]] = [
        (held.incident, held.attempt, "died", _death(held, hello.lost_because.get(held.job_id, "")))
        for held in hello.lost
    ]
    told += [(end.engine.incident, end.engine.attempt, end.how, end.detail) for end in hello.ended]
    return [
        f"{incident} attempt {attempt} {how}"
        for incident, attempt, how, detail in told
        if _end(tx, services, (incident, attempt), how, detail, node=hello.node, now=now)
    ]


def _death(held: HeldEngine, because: str) -> str:
    return f"{held.what} was found dead: {because}" if because else f"{held.what} was found dead"


def _missing_ends(tx: Writing, services: Services, hello: NodeHello, now: datetime) -> list[str]:
    """Record engines that the record says are held and the node does not name any more."""
    held = {(engine.incident, engine.attempt) for engine in hello.held}
    found: list[str] = []
    for incident in tx.incidents(open_only=True):
        for noted, until in tuple(still_held(incident.case, None)):
            key = (incident.id, noted.payload.attempt)
            if hello.node not in nodes_of_attempt(noted.payload) or key in held or hello.at - noted.at < _SETTLED:
                continue
            how: How = "expired" if until <= now else "died"
            if _end(tx, services, key, how, f"{hello.node} does not hold it any more", node=hello.node, now=now):
                found.append(f"{key[0]} attempt {key[1]} {how}")
    return found


def _end(
    tx: Writing, services: Services, key: tuple[str, int], how: How, detail: str, *, node: str, now: datetime
) -> bool:
    """Append that an engine ended, unless the record says so already or never held it; other nodes' parts of it end too.

    key: incident and attempt.
    """
    incident_id, attempt = key
    found = tx.incident(incident_id)
    if found is None or found.case.closed is not None:
        return False
    locked = tx.lock(incident_id)
    mine = [
        noted.payload
        for noted, _until in still_held(locked.case, None)
        if noted.payload.attempt == attempt and node in nodes_of_attempt(noted.payload)
    ]
    if not mine:
        return False
    if mine[0].ranks:
        detail = f"{node}: {detail}"
    tx.append(incident_id, HeldEnded(attempt=attempt, how=how, detail=detail), actor=f"node:{node}", at=now)
    stop_engines(tx, services, incident_id, attempt, nodes_of_attempt(mine[0]) - {node}, now=now)
    return True
