"""Answer what is asked about cases and nodes: status, next, score, list of cases, nodes, home. Reading only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.blocks import overview
from bot.blocks.elements import Block, Message
from bot.blocks.notices import run_again
from bot.flows.case_playbook import case_playbook
from bot.flows.freeze_baseline import runnable
from bot.flows.held_engines import nodes_of_attempt, still_held
from bot.flows.showing import Asker, dashboard_of, known, language_for
from playbooks.guiding import seen
from playbooks.guiding.checklist import items, next_step
from playbooks.guiding.gate import evaluate
from playbooks.vocabulary import Phase

if TYPE_CHECKING:
    from datetime import datetime

    from bot.flows.services import Services
    from bot.ports import Incident, Node, Reading

ABOUT_A_CASE = frozenset({"run", "score", "probe", "withdraw", "decide", "propose", "export", "close"})
"""Words that mean nothing outside a case's thread."""


def show_status(services: Services, asker: Asker, incident_id: str) -> Message:
    """Say where a case stands and what is open.

    Raises:
        UnknownIncident: no incident of that id.
    """
    with services.store.read() as reading:
        incident = known(reading, incident_id)
        view = dashboard_of(services, reading, incident, services.clock.now())
        _ = language_for(reading, asker, incident)
    playbook = case_playbook(services, incident.case)
    gate = evaluate(incident.case, playbook) if incident.case.phase is Phase.LAUNCH else None
    still_open = [item.text for item in gate.items if not item.closed] if gate is not None else []
    return overview.status(view, items(incident.case, playbook), still_open, _)


def show_next(services: Services, asker: Asker, incident_id: str) -> Message:
    """Say what to do now.

    Raises:
        UnknownIncident: no incident of that id.
    """
    with services.store.read() as reading:
        incident = known(reading, incident_id)
        view = dashboard_of(services, reading, incident, services.clock.now())
        return overview.step(view, language_for(reading, asker, incident))


def show_run(services: Services, asker: Asker, incident_id: str) -> Message:
    """Offer the form that runs attempts; in a closed case say that it is closed.

    Raises:
        UnknownIncident: no incident of that id.
    """
    with services.store.read() as reading:
        incident = known(reading, incident_id)
        _ = language_for(reading, asker, incident)
        if incident.case.closed is not None:
            return overview.step(dashboard_of(services, reading, incident, services.clock.now()), _)
        has_node = incident.case.opened.payload.node is not None
        return run_again(incident_id, _, has_node=has_node, frozen=runnable(incident.case))


def show_score(services: Services, asker: Asker, incident_id: str) -> Message:
    """Say the newest score in words.

    Raises:
        UnknownIncident: no incident of that id.
    """
    with services.store.read() as reading:
        incident = known(reading, incident_id)
        view = dashboard_of(services, reading, incident, services.clock.now())
        return overview.score(view, language_for(reading, asker, incident))


def show_cases(services: Services, asker: Asker) -> Message:
    """List the open cases of the asker's channel."""
    with services.store.read() as reading:
        found = reading.incidents(channel=asker.channel or None)
        lines = [_line(services, incident) for incident in found[: overview.MOST_LISTED]]
        return overview.cases(lines, len(found), language_for(reading, asker))


def show_nodes(services: Services, asker: Asker) -> Message:
    """List the nodes."""
    now = services.clock.now()
    with services.store.read() as reading:
        return overview.nodes(_nodes(services, reading, now), language_for(reading, asker))


def show_help(services: Services, asker: Asker, said: str = "", *, in_case: bool = False) -> Message:
    """Say what can be done, and first what of it was not understood or needs a case."""
    word = said.split(maxsplit=1)[0].lower().strip(" :,.!?") if said.strip() else ""
    unknown = "" if word in {"", "help"} else said
    needs_case = word in ABOUT_A_CASE and not in_case
    with services.store.read() as reading:
        _ = language_for(reading, asker)
    return overview.help_text(_, unknown=word if needs_case else unknown, needs_case=needs_case)


def show_home(services: Services, asker: Asker) -> Block:
    """Return the home view of a person."""
    now = services.clock.now()
    with services.store.read() as reading:
        found = reading.incidents()
        mine = [_line(services, incident) for incident in found if incident.owner == asker.user]
        waiting = [_line(services, i) for i in found if seen.standing_proposal(i.case) is not None]
        return overview.home(mine, waiting, _nodes(services, reading, now), language_for(reading, asker))


def _line(services: Services, incident: Incident) -> overview.OpenCase:
    step = next_step(incident.case, case_playbook(services, incident.case))
    return overview.OpenCase(
        incident=incident.id,
        title=incident.case.opened.payload.title,
        phase=incident.case.phase,
        waiting=step.text,
        channel=incident.channel,
    )


def _nodes(services: Services, reading: Reading, now: datetime) -> list[overview.NodeLine]:
    return [_node(services, reading, name, reading.node(name), now) for name in services.nodes]


def _node(services: Services, reading: Reading, name: str, node: Node | None, now: datetime) -> overview.NodeLine:
    heard = node.heard_at if node is not None else None
    hello = node.hello if node is not None else None
    lease = reading.lease(name)
    held = [f"{h.incident}, attempt {h.attempt}, {h.until:%H:%M} UTC" for h in (hello.held if hello else ())]
    if not held:
        held = [
            f"{incident.id}, attempt {noted.payload.attempt}, {until:%H:%M} UTC"
            for incident in reading.incidents()
            for noted, until in still_held(incident.case, now)
            if name in nodes_of_attempt(noted.payload)
        ]
    return overview.NodeLine(
        name=name,
        heard_at=heard,
        silent=heard is None or now - heard > services.timing.node_silent_after,
        version=hello.version if hello else "",
        gpus=len(hello.gpus) if hello else 0,
        engines=tuple(str(engine) for engine in (hello.policy.get("engines") or ())) if hello else (),
        held=tuple(held),
        holder=lease.incident if lease is not None else None,
    )
