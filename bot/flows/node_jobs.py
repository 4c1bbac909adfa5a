"""Ask a node for one job from the thread: scene, fingerprint, or the fixed request; attempts have a flow of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bot.blocks.elements import Message
from bot.blocks.notices import notice, refusal
from bot.blocks.terms import JOBS
from bot.errors import JobNotAsked
from bot.flows.case_playbook import case_playbook
from bot.flows.once import lock_open, once, refuse
from bot.flows.permission import Action, require
from bot.flows.recorded_baseline import command_of
from bot.flows.request_job import Wish, add_job
from bot.flows.showing import Asker, known, language_for
from playbooks.errors import InvalidCommand
from playbooks.guiding import seen
from playbooks.judging.baseline import Baseline
from playbooks.judging.feature_facts import FEATURES
from playbooks.messages import (
    CacheProbeParams,
    CollectParams,
    FeatureProbeParams,
    FingerprintParams,
    LadderParams,
    RequestParams,
)
from playbooks.reading import launch_command
from playbooks.vocabulary import JobKind

if TYPE_CHECKING:
    from bot.blocks.texts import Translate
    from bot.flows.services import Services
    from bot.ports import Incident, Reading, Writing
    from playbooks.guiding.case import Case

_ACTIONS = {
    JobKind.COLLECT: Action.COLLECT,
    JobKind.FINGERPRINT: Action.FINGERPRINT,
    JobKind.REQUEST: Action.REQUEST,
    JobKind.CACHE_PROBE: Action.REQUEST,
    JobKind.LADDER: Action.REQUEST,
    JobKind.FEATURE_PROBE: Action.REQUEST,
}


_ON_EVERY_NODE = frozenset({JobKind.COLLECT, JobKind.FINGERPRINT})
"""Kinds that look at nodes; the others speak to the engine, which its head serves."""


def request_node_job(
    services: Services, asker: Asker, incident_id: str, kind: JobKind, *, feature: str = ""
) -> Message:
    """Ask the case's node for a job. feature: which one a feature probe tries.

    Raises:
        Repeated: this press was taken already.
        Refused: the asker may not, the case is closed, has no node, or holds no engine; or there is no such feature.
        JobNotAsked: the node cannot take it up now.
    """
    now = services.clock.now()
    with services.store.read() as reading:
        incident = known(reading, incident_id)
        _ = language_for(reading, asker, incident)
    if kind not in _ACTIONS:
        raise refuse(refusal(_("Not started"), _("This version does not carry out: {what}.", what=_(JOBS[kind]))))
    require(services, asker, _ACTIONS[kind], _)
    if kind is JobKind.FEATURE_PROBE and feature not in FEATURES:
        why = _("I can probe: {names}.", names=", ".join(FEATURES))
        raise refuse(refusal(_("Not started: no such feature"), why))
    with once(services, asker) as tx:
        incident = lock_open(tx, incident_id)
        node = node_of(incident.case, _)
        if kind in _ON_EVERY_NODE:
            return _ask_every_node(tx, services, incident, kind, asker.actor, _)
        match kind:
            case JobKind.CACHE_PROBE:
                wish = _cache_wish(services, incident, node, asker.actor, _)
            case JobKind.LADDER:
                wish = _ladder_wish(services, incident, node, asker.actor, _)
            case JobKind.FEATURE_PROBE:
                wish = _feature_wish(services, incident, node, asker.actor, feature, _)
            case _:
                wish = _request_wish(services, incident, node, asker.actor, _)
        add_job(tx, services, wish, now=now)
    return notice(_("Asked of {node}: {what}", node=node, what=_(JOBS[kind])), _("The answer comes into the thread."))


def _ask_every_node(
    tx: Writing, services: Services, incident: Incident, kind: JobKind, actor: str, _: Translate
) -> Message:
    """Ask all nodes of the case that can be asked now.

    Raises:
        JobNotAsked: none can.
    """
    asked: list[str] = []
    refused: list[JobNotAsked] = []
    for node in seen.nodes_of(incident.case):
        collect = kind is JobKind.COLLECT
        wish = collect_wish(incident, node, actor) if collect else fingerprint_wish(tx, incident, node, actor)
        try:
            add_job(tx, services, wish, now=services.clock.now())
            asked.append(node)
        except JobNotAsked as error:
            refused.append(error)
    if not asked:
        raise refused[0]
    return notice(
        _("Asked of {node}: {what}", node=", ".join(asked), what=_(JOBS[kind])),
        _("The answer comes into the thread."),
        *(_("{why}.", why=str(error)) for error in refused),
    )


def node_of(case: Case, _: Translate) -> str:
    """Return the case's node.

    Raises:
        Refused: the case has none.
    """
    node = case.opened.payload.node
    if node is None:
        raise refuse(
            refusal(
                _("Not started: this case has no node"), _("Drop the complete logs of attempts that ran elsewhere.")
            )
        )
    return node


def collect_wish(incident: Incident, node: str, actor: str) -> Wish:
    """Return the wish to save the scene, of the named container where the command names one."""
    command = command_facts(incident.case)
    options = dict(command.container.others) if command is not None and command.container is not None else {}
    params = CollectParams(container=options.get("--name") or options.get("name")).model_dump(mode="json")
    return Wish(incident=incident.id, kind=JobKind.COLLECT, node=node, requested_by=actor, params=params, post=False)


def fingerprint_wish(reading: Reading, incident: Incident, node: str, actor: str) -> Wish:
    """Return the wish to read host and container: the image of the command, else the node's only interpreter."""
    params = FingerprintParams().model_dump(mode="json")
    baseline = _newest(incident.case)
    command = command_facts(incident.case)
    image = baseline.image.reference if baseline is not None and baseline.image is not None else None
    if image is None and command is not None:
        image = command.image
    if image is not None:
        params["image"] = image
    else:
        params["python"] = _program(command) or _interpreter(reading, node)
    return Wish(
        incident=incident.id, kind=JobKind.FINGERPRINT, node=node, requested_by=actor, params=params, post=False
    )


def command_facts(case: Case) -> launch_command.LaunchCommand | None:
    """Return the launch command as far as it can be read."""
    text = command_of(case)
    try:
        return launch_command.read(text) if text.strip() else None
    except InvalidCommand:
        return None


def _program(command: launch_command.LaunchCommand | None) -> str | None:
    """Return the interpreter of a command that names its program by path."""
    if command is None or command.program is None or "/" not in command.program:
        return None
    folder, _slash, name = command.program.rpartition("/")
    return command.program if name.startswith("python") else f"{folder}/python"


def _interpreter(reading: Reading, node: str) -> str | None:
    known_node = reading.node(node)
    policy = known_node.hello.policy if known_node is not None and known_node.hello is not None else {}
    named: list[Any] = list(policy.get("interpreters") or [])
    return str(named[0]) if len(named) == 1 else None


def _newest(case: Case) -> Baseline | None:
    return Baseline.model_validate(case.baselines[-1].payload.baseline) if case.baselines else None


def _held(case: Case, _: Translate) -> int:
    """Return the attempt whose engine is held.

    Raises:
        Refused: none is.
    """
    attempt = seen.held_attempt(case)
    if attempt is None:
        raise refuse(
            refusal(
                _("Not started: no engine is held"), _("Run an attempt first; a ready engine is held for requests.")
            )
        )
    return attempt


def _cache_wish(services: Services, incident: Incident, node: str, actor: str, _: Translate) -> Wish:
    attempt = _held(incident.case, _)
    timeout_s = case_playbook(services, incident.case).sample.timeout_s
    return Wish(
        incident=incident.id,
        kind=JobKind.CACHE_PROBE,
        node=node,
        requested_by=actor,
        attempt=attempt,
        params=CacheProbeParams(target_attempt=attempt, timeout_s=timeout_s).model_dump(mode="json"),
        post=False,
    )


def _ladder_wish(services: Services, incident: Incident, node: str, actor: str, _: Translate) -> Wish:
    attempt = _held(incident.case, _)
    timeout_s = case_playbook(services, incident.case).sample.timeout_s
    return Wish(
        incident=incident.id,
        kind=JobKind.LADDER,
        node=node,
        requested_by=actor,
        attempt=attempt,
        params=LadderParams(target_attempt=attempt, timeout_s=timeout_s).model_dump(mode="json"),
        post=False,
    )


def _feature_wish(services: Services, incident: Incident, node: str, actor: str, feature: str, _: Translate) -> Wish:
    attempt = _held(incident.case, _)
    timeout_s = case_playbook(services, incident.case).sample.timeout_s
    params = FeatureProbeParams(target_attempt=attempt, feature=feature, timeout_s=timeout_s)
    return Wish(
        incident=incident.id,
        kind=JobKind.FEATURE_PROBE,
        node=node,
        requested_by=actor,
        attempt=attempt,
        params=params.model_dump(mode="json"),
        post=False,
    )


def _request_wish(services: Services, incident: Incident, node: str, actor: str, _: Translate) -> Wish:
    attempt = _held(incident.case, _)
    playbook = case_playbook(services, incident.case)
    baseline = _newest(incident.case)
    sample = baseline.sample if baseline is not None and baseline.sample is not None else playbook.fixed_sample()
    params = RequestParams(
        target_attempt=attempt, sample=sample, runs=playbook.sample.runs, timeout_s=playbook.sample.timeout_s
    )
    return Wish(
        incident=incident.id,
        kind=JobKind.REQUEST,
        node=node,
        requested_by=actor,
        attempt=attempt,
        params=params.model_dump(mode="json"),
        post=False,
    )
