"""Bring prefix caching back on the stable baseline, or put that baseline back: frozen and launched in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bot.blocks.elements import Message
from bot.blocks.notices import notice, refusal
from bot.blocks.texts import short, translator
from bot.errors import JobNotAsked
from bot.flows.case_playbook import case_playbook
from bot.flows.node_jobs import node_of
from bot.flows.once import lock_open, once, refuse
from bot.flows.permission import Action, require
from bot.flows.request_attempts import HOLD_S
from bot.flows.request_job import Wish
from bot.flows.request_ranks import add_launch, check_launch
from bot.flows.showing import Asker, known, language_for
from bot.ports import OutboxKind
from playbooks.evidence.entries import BaselineFrozen
from playbooks.guiding.add_back import PREFIX_CACHING, AddBack, add_back_of
from playbooks.guiding.features import BACK, BRING, OF
from playbooks.judging.baseline import Baseline, Change
from playbooks.judging.baseline_diff import one_change, with_feature
from playbooks.messages import LaunchParams, Limits
from playbooks.vocabulary import JobKind

if TYPE_CHECKING:
    from datetime import datetime

    from bot.flows.services import Services
    from bot.ports import Incident, Writing


def add_back(services: Services, asker: Asker, incident_id: str, what: str) -> Message:
    """Do the next step of an add-back. what: `bring`, `bring.FEATURE` or `back`.

    Raises:
        Repeated: this press was taken already.
        Refused: the asker may not, or the case is not at that step (any more).
        JobNotAsked: the node cannot take it up now; nothing was recorded.
    """
    now = services.clock.now()
    with services.store.read() as reading:
        _ = language_for(reading, asker, known(reading, incident_id))
    require(services, asker, Action.LAUNCH, _)
    with once(services, asker) as tx:
        incident = lock_open(tx, incident_id)
        node = node_of(incident.case, _)
        found = add_back_of(incident.case)
        verb, _dot, name = what.partition(OF)
        feature = case_playbook(services, incident.case).feature(name) if name else None
        steps = {(BRING, "done")} if name else {(BRING, "none"), (BRING, "done"), (BACK, "roll_back")}
        at_that_step = found is not None and (verb, found.state) in steps
        if found is None or not at_that_step or (name and feature is None):
            raise refuse(
                refusal(_("Not started"), _("The case is not at this step any more; `next` says what comes now."))
            )
        options = {PREFIX_CACHING: "on"} if feature is None else feature.options
        baseline, number = _frozen_and_asked(
            tx, services, incident, found, options if verb == BRING else None, node=node, actor=asker.actor, now=now
        )
    return notice(
        _("Attempt {a} is on its way to {node}.", a=number, node=node),
        _("Baseline {digest}. The first fatal line is named as soon as it is seen.", digest=short(baseline.digest)),
    )


def roll_back_a_failed_cache(tx: Writing, services: Services, incident_id: str, *, now: datetime) -> None:
    """Put the stable baseline back by itself when prefix caching moved the result (R9.5); any other feature waits for a person."""
    incident = tx.lock(incident_id)
    found = add_back_of(incident.case)
    if found is None or found.state != "roll_back" or not (found.moved and found.of_the_cache):
        return
    node = incident.case.opened.payload.node
    if node is None or incident.case.closed is not None:
        return
    _ = translator(incident.language)
    try:
        _baseline, number = _frozen_and_asked(tx, services, incident, found, None, node=node, actor="bot", now=now)
        said = notice(
            _(
                "Prefix caching moved the result: it is off again, and the stable baseline is re-verified as attempt {n}",
                n=number,
            ),
            _("{moved}. Another result is not a fix; nothing more is brought on top of it.", moved=found.moved),
        )
    except JobNotAsked as error:
        said = notice(_("The stable baseline was not started again"), _("{why}.", why=str(error)))
    tx.enqueue(OutboxKind.NOTE, said.payload(), incident=incident_id, at=now)


def _frozen_and_asked(
    tx: Writing,
    services: Services,
    incident: Incident,
    found: AddBack,
    options: Mapping[str, str] | None,
    *,
    node: str,
    actor: str,
    now: datetime,
) -> tuple[Baseline, int]:
    """Freeze the one change (options None: the stable baseline again) and ask for an attempt of it; a node that cannot take it up leaves nothing frozen."""
    case = incident.case
    stable = Baseline.model_validate(found.stable.payload.baseline)
    if options is not None:
        cached = PREFIX_CACHING in options
        expected = (
            "ready, the fixed request stable, cache hits"
            if cached
            else "ready, the fixed request stable, the feature works"
        )
        baseline, change = with_feature(stable, options, reason="one feature comes back", expected=expected)
    else:
        baseline = stable
        newest = Baseline.model_validate(case.baselines[-1].payload.baseline)
        change = one_change(newest, stable, reason="rolled back", expected="the stable baseline is seen again")
    number = case.next_attempt
    limits = case_playbook(services, case).limits
    wish = Wish(
        incident=incident.id,
        kind=JobKind.LAUNCH,
        node=node,
        requested_by=actor,
        attempt=number,
        baseline=baseline,
        change=change,
        params=LaunchParams(hold_s=HOLD_S).model_dump(mode="json"),
        limits=Limits.model_validate(limits.model_dump(mode="json")),
        post=False,
    )
    frozen = BaselineFrozen(
        digest=baseline.digest,
        baseline=baseline.model_dump(mode="json"),
        change=None if change is None else Change.model_validate(change).model_dump(mode="json"),
        derived_from="an add-back" if options is not None else "the last stable baseline",
    )
    check_launch(tx, services, wish, now=now)
    tx.append(incident.id, frozen, actor=actor, at=now)
    add_launch(tx, services, wish, now=now)
    return baseline, number
