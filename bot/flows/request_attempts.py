"""Ask the node for attempts of one baseline: frozen first, the gate's items before an attempt checked, then the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.blocks.elements import Message
from bot.blocks.notices import notice, open_items, refusal
from bot.blocks.texts import Mrkdwn, esc, short
from bot.flows.advance_phase import advance_phase
from bot.flows.case_playbook import case_playbook
from bot.flows.compare_nodes import require_alike
from bot.flows.freeze_baseline import Wanted, freeze, freeze_baseline, prepare
from bot.flows.node_jobs import node_of
from bot.flows.once import lock_open, once, refuse
from bot.flows.permission import Action, require
from bot.flows.request_job import Wish
from bot.flows.request_ranks import add_launch
from bot.flows.showing import Asker, known
from playbooks.errors import InvalidCommand, PhaseClosed
from playbooks.guiding.gate import may_attempt, may_enter
from playbooks.guiding.limit_words import in_words, limits_with
from playbooks.judging.baseline import Change
from playbooks.messages import LaunchParams, Limits
from playbooks.vocabulary import JobKind, Phase

if TYPE_CHECKING:
    from bot.blocks.texts import Translate
    from bot.flows.services import Services
    from bot.ports import Incident
    from playbooks.guiding.playbook import LaunchLimits, Playbook

HOLD_S = 30 * 60
"""How long a ready engine is kept for requests and probes; the node's policy caps it."""


def freeze_or_run(services: Services, asker: Asker, incident_id: str, *, wanted: Wanted, runs: int) -> Message:
    """Freeze and run; a case without a node only freezes, for its attempts run elsewhere. Raises as the flow it calls."""
    with services.store.read() as reading:
        node = known(reading, incident_id).case.opened.payload.node
    if node is None:
        return freeze_baseline(services, asker, incident_id, wanted)
    return request_attempts(services, asker, incident_id, wanted=wanted, runs=runs)


def request_attempts(services: Services, asker: Asker, incident_id: str, *, wanted: Wanted, runs: int) -> Message:
    """Freeze what is to be run and ask for one or two attempts of it.

    Raises:
        Repeated: this form was sent already.
        Refused: role, command, second variable, or open items of the gate.
        JobNotAsked: the node cannot take it up now.
    """
    now = services.clock.now()
    _ = prepare(services, asker, incident_id, wanted)
    require(services, asker, Action.LAUNCH, _)
    with once(services, asker) as tx:
        incident = lock_open(tx, incident_id)
        node = node_of(incident.case, _)
        baseline, _new = freeze(tx, services, incident, wanted, asker=asker, now=now, _=_)
        require_alike(incident.case, baseline.nodes, _)
        advance_phase(tx, services, incident_id, now=now)
        incident = tx.lock(incident_id)
        playbook = case_playbook(services, incident.case)
        _check(incident, playbook, _)
        limits = _limits(playbook, wanted, _)
        number = incident.case.next_attempt
        change = incident.case.baselines[-1].payload.change
        wish = Wish(
            incident=incident_id,
            kind=JobKind.LAUNCH,
            node=next(iter(baseline.nodes), node),
            requested_by=asker.actor,
            attempt=number,
            baseline=baseline,
            change=Change.model_validate(change) if change else None,
            params=LaunchParams(hold_s=HOLD_S, repeat=max(runs, 1) - 1).model_dump(mode="json"),
            limits=Limits.model_validate(limits.model_dump(mode="json")),
            post=False,
        )
        jobs = add_launch(tx, services, wish, now=now)
    on = ", ".join(job.node for job in jobs)
    title = (
        _("Attempts {a} and {b} are on their way to {node}.", a=number, b=number + 1, node=on)
        if runs > 1
        else _("Attempt {a} is on its way to {node}.", a=number, node=on)
    )
    changed = in_words(limits, playbook.limits)
    return notice(
        title,
        _("Baseline {digest}. The first fatal line is named as soon as it is seen.", digest=short(baseline.digest)),
        _("Limits of stages, total/silent in seconds: {limits}", limits=changed) if changed else Mrkdwn(""),
    )


def _limits(playbook: Playbook, wanted: Wanted, _: Translate) -> LaunchLimits:
    """Return the limits of the launch.

    Raises:
        Refused: what was typed is none.
    """
    try:
        return limits_with(wanted.limits, playbook.limits)
    except InvalidCommand as error:
        raise refuse(refusal(_("Not started"), esc(str(error)))) from error


def _check(incident: Incident, playbook: Playbook, _: Translate) -> None:
    """Refuse while the launch phase or an item of the gate is open.

    Raises:
        Refused: the message lists what is open.
    """
    try:
        may_enter(incident.case, playbook, Phase.LAUNCH)
        may_attempt(incident.case, playbook)
    except PhaseClosed as error:
        title = _("Not started: no attempt before these are closed") if error.items else _("Not started")
        raise refuse(open_items(title, error.items or (str(error),), _)) from error
