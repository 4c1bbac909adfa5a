"""Freeze the baseline of the following attempts: the minimal command at first, one change at a time from then on.

A second changed variable is refused with the difference; the presser may keep one of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.blocks.elements import Message
from bot.blocks.notices import notice, refusal, two_changes
from bot.blocks.texts import esc, short
from bot.flows.advance_phase import advance_phase
from bot.flows.ask_next import ask_next
from bot.flows.case_playbook import case_playbook
from bot.flows.once import lock_open, once, refuse
from bot.flows.permission import Action, require
from bot.flows.showing import Asker, known, language_for
from playbooks.errors import InvalidCommand
from playbooks.evidence.entries import BaselineFrozen
from playbooks.evidence.redaction import redact_text
from playbooks.guiding import seen
from playbooks.judging import baseline_diff, minimal_command
from playbooks.judging.baseline import Baseline, Change, Interpreter
from playbooks.judging.first_baseline import bad_first_baseline
from playbooks.judging.minimal_command import model_of
from playbooks.judging.option_words import options_of
from playbooks.judging.ranks import without_rank
from playbooks.reading import launch_command

if TYPE_CHECKING:
    from datetime import datetime

    from bot.blocks.texts import Translate
    from bot.flows.services import Services
    from bot.ports import Incident, Writing
    from playbooks.guiding.case import Case
    from playbooks.judging.baseline_diff import Variable
    from playbooks.judging.minimal_command import Minimal


@dataclass(frozen=True, slots=True)
class Wanted:
    """The command as it was pasted, and what is expected of the change."""

    command: str
    reason: str = ""
    expected: str = ""
    nodes: tuple[str, ...] = ()
    """Of a case with several nodes those of the launch, head first; () = as frozen, else one node."""
    limits: str = ""
    """Limits of stages as typed; empty = the playbook's."""


def freeze_baseline(services: Services, asker: Asker, incident_id: str, wanted: Wanted) -> Message:
    """Freeze from a pasted command.

    Raises:
        Repeated: this form was sent already.
        Refused: the asker may not, the command cannot be read, or more than one variable would change.
    """
    now = services.clock.now()
    _ = prepare(services, asker, incident_id, wanted)
    with once(services, asker) as tx:
        incident = lock_open(tx, incident_id)
        baseline, _changed = freeze(tx, services, incident, wanted, asker=asker, now=now, _=_)
        advance_phase(tx, services, incident_id, now=now)
        ask_next(tx, services, incident_id, now=now)
    return notice(_("Baseline {digest} is frozen.", digest=short(baseline.digest)))


def prepare(services: Services, asker: Asker, incident_id: str, wanted: Wanted) -> Translate:
    """Check role and change before the transaction; a refused pair of changes is kept, so that one may be chosen.

    Raises:
        Refused: as `freeze_baseline`.
    """
    with services.store.read() as reading:
        incident = known(reading, incident_id)
        _ = language_for(reading, asker, incident)
    require(services, asker, Action.FREEZE_BASELINE, _)
    if wanted.command.strip() and runnable(incident.case):
        variables = _variables(services, incident.case, wanted, _)
        if len(variables) > 1:
            draft = {
                "command": redact_text(wanted.command).text,
                "reason": wanted.reason,
                "expected": wanted.expected,
                "nodes": ",".join(wanted.nodes),
            }
            with services.store.write() as tx:
                tx.set_preference(f"incident:{incident_id}", f"draft:{asker.user}", json.dumps(draft))
            raise refuse(two_changes(incident_id, variables, _))
    return _


def keep_one(services: Services, asker: Asker, incident_id: str, choice: str) -> Message:
    """Freeze the one change that the presser chose of those refused before.

    Raises:
        Refused: nothing is waiting to be chosen from, or the case moved on since.
    """
    now = services.clock.now()
    with services.store.read() as reading:
        incident = known(reading, incident_id)
        _ = language_for(reading, asker, incident)
        draft = reading.preference(f"incident:{incident_id}", f"draft:{asker.user}")
    require(services, asker, Action.FREEZE_BASELINE, _)
    if choice == "none":
        return notice(_("Nothing was changed."))
    if not draft:
        raise refuse(refusal(_("Not frozen"), _("There is no pair of changes of yours to choose from; run again.")))
    kept = json.loads(draft)
    with once(services, asker) as tx:
        incident = lock_open(tx, incident_id)
        nodes = tuple(filter(None, kept.get("nodes", "").split(",")))
        variables = _variables(services, incident.case, Wanted(kept["command"], nodes=nodes), _)
        number = int(choice) if choice.isdecimal() else len(variables)
        if number >= len(variables):
            raise refuse(refusal(_("Not frozen"), _("The case moved on since; run again.")))
        chosen = variables[number]
        change = Change(
            variable=chosen.name,
            before=chosen.before,
            after=chosen.after,
            reason=kept["reason"],
            expected=kept["expected"],
        )
        baseline = baseline_diff.apply(_newest(incident.case), change)
        _append(tx, incident, baseline, change=change, source="one of two changes", asker=asker, now=now)
        tx.set_preference(f"incident:{incident_id}", f"draft:{asker.user}", "")
        advance_phase(tx, services, incident_id, now=now)
        ask_next(tx, services, incident_id, now=now)
    return notice(
        _("Baseline {digest} is frozen: only {name} changed.", digest=short(baseline.digest), name=chosen.name)
    )


def freeze(
    tx: Writing, services: Services, incident: Incident, wanted: Wanted, *, asker: Asker, now: datetime, _: Translate
) -> tuple[Baseline, bool]:
    """Freeze inside a transaction; returns the baseline and whether it is a new one.

    Raises:
        Refused: the command cannot be read, is missing, or changes more than one variable.
    """
    case = incident.case
    if not wanted.command.strip() and not runnable(case):
        raise refuse(refusal(_("Not started"), _("No baseline is frozen, and no launch command was given.")))
    nodes = nodes_wanted(case, wanted.nodes)
    if not runnable(case):
        command = read_command(wanted.command, _)
        minimal = _minimal(services, case, _of_the_launch(case, command, nodes, _))
        baseline = _whole(services, case, minimal.baseline, nodes)
        _refuse_a_bad_first(services, case, baseline, _)
        _append(tx, incident, baseline, minimal=minimal, source=wanted.command, asker=asker, now=now)
        return baseline, True
    variables = _variables(services, case, wanted, _)
    if not variables:
        return _newest(case), False
    if len(variables) > 1:
        raise refuse(two_changes(incident.id, variables, _))
    one = variables[0]
    change = Change(
        variable=one.name, before=one.before, after=one.after, reason=wanted.reason, expected=wanted.expected
    )
    changed = baseline_diff.apply(_newest(case), change)
    if len(changed.nodes) > 1:
        _refuse_several_nodes_first(services, case, changed, _)
    _append(tx, incident, changed, change=change, source=wanted.command, asker=asker, now=now)
    return changed, True


def _refuse_a_bad_first(services: Services, case: Case, baseline: Baseline, _: Translate) -> None:
    """Refuse a first baseline that would prove nothing, with its names (R2.3).

    Raises:
        Refused: the message names what speaks against it.
    """
    found = bad_first_baseline(
        baseline,
        boundaries=services.definitions.boundaries(),
        verdict=None if case.boundary is None else case.boundary.payload.verdict,
        one_node_clean=seen.one_node_clean(case),
    )
    blocking = tuple(one.text for one in found if one.severity == "blocking")
    if blocking:
        raise refuse(
            refusal(_("Not frozen: this first baseline would prove nothing"), *(_.told(text) for text in blocking))
        )


def _refuse_several_nodes_first(services: Services, case: Case, baseline: Baseline, _: Translate) -> None:
    """Refuse to go from one node to several before one is clean (R2.3, R8).

    Raises:
        Refused: the message says what comes first.
    """
    found = bad_first_baseline(
        Baseline(engine=baseline.engine, nodes=baseline.nodes),
        boundaries=services.definitions.boundaries(),
        one_node_clean=seen.one_node_clean(case),
    )
    if found:
        raise refuse(refusal(_("Not frozen: several nodes come after one"), *(_.told(one.text) for one in found)))


def nodes_wanted(case: Case, chosen: tuple[str, ...]) -> tuple[str, ...]:
    """Return the nodes of the next launch: those chosen, else as frozen, else the case's first alone.

    Only the case's own nodes count, in its order: what a form says of others is passed over.
    """
    mine = seen.nodes_of(case)
    picked = tuple(node for node in mine if node in chosen)
    if picked:
        return picked
    frozen = _newest(case).nodes if runnable(case) else ()
    return tuple(node for node in frozen if node in mine) or mine[:1]


def _of_the_launch(
    case: Case, command: launch_command.LaunchCommand, nodes: tuple[str, ...], _: Translate
) -> launch_command.LaunchCommand:
    """Return the command without what says which rank it is for, in a case with several nodes.

    Raises:
        Refused: it is for another number of nodes than are chosen.
    """
    if len(seen.nodes_of(case)) < 2:
        return command
    argv, taken = without_rank(tuple(command.argv), alone=len(nodes) == 1)
    said = next((option.shown for option in taken if option.name == "--nnodes"), None)
    if len(nodes) > 1 and said is not None and said != str(len(nodes)):
        why = _("The command says --nnodes {said}, and {n} nodes are chosen.", said=said, n=len(nodes))
        raise refuse(refusal(_("Not frozen"), why))
    return command.having(argv=argv) if taken else command


def read_command(text: str, _: Translate) -> launch_command.LaunchCommand:
    """Read a pasted command.

    Raises:
        Refused: it is none; the message says what was expected.
    """
    try:
        return launch_command.read(text)
    except InvalidCommand as error:
        raise refuse(refusal(_("I could not read the launch command"), esc(str(error)))) from error


def _minimal(
    services: Services, case: Case, command: launch_command.LaunchCommand, keep: tuple[str, ...] = ()
) -> Minimal:
    version = seen.value(case, "container", "vllm.version")
    return minimal_command.derive(
        command,
        engine_version=str(version) if version else None,
        boundaries=services.definitions.recipe_for(model_of(options_of(command.argv)))
        or services.definitions.boundaries(),
        keep=keep,
    )


def _variables(services: Services, case: Case, wanted: Wanted, _: Translate) -> tuple[Variable, ...]:
    """Name what a pasted command, or another choice of nodes, changes against the newest baseline.

    What the minimal command leaves out is no change; only when nothing else differs is the command taken as it stands,
    so that one feature may be added back.
    """
    newest = _newest(case)
    nodes = nodes_wanted(case, wanted.nodes)
    if not wanted.command.strip():
        return tuple(baseline_diff.diff(newest, newest.model_copy(update={"nodes": nodes})))
    command = _with_what_was_added(case, _of_the_launch(case, read_command(wanted.command, _), nodes, _))
    options = tuple(part for part in newest.argv if part.startswith("-"))
    minimal = _whole(services, case, _minimal(services, case, command, keep=options).baseline, nodes)
    variables = tuple(baseline_diff.diff(newest, minimal))
    if variables:
        return variables
    return tuple(baseline_diff.diff(newest, _whole(services, case, minimal_command.as_given(command), nodes)))


def _with_what_was_added(case: Case, command: launch_command.LaunchCommand) -> launch_command.LaunchCommand:
    """Return the command with what the minimal one made explicit, unless it says something of it: leaving it out is no change."""
    added = {item["option"] for noted in case.baselines for item in noted.payload.added}
    said = {option.key for option in options_of(command.argv)}
    kept = [o for o in options_of(_newest(case).argv) if o.name in added and o.key not in said]
    return (
        command.having(argv=(*command.argv, *(word for option in kept for word in option.words))) if kept else command
    )


def _whole(services: Services, case: Case, baseline: Baseline, nodes: tuple[str, ...]) -> Baseline:
    """Add what the command itself does not say: the fixed request and the nodes."""
    update: dict[str, object] = {"sample": case_playbook(services, case).fixed_sample(served_model(baseline))}
    if nodes:
        update["nodes"] = nodes
    python = seen.value(case, "container", "python.executable")
    if baseline.engine == "process" and baseline.interpreter is None and python:
        update["interpreter"] = Interpreter(python=str(python))
    return baseline.model_copy(update=update)


def served_model(baseline: Baseline) -> str | None:
    """Return the name under which the engine serves its model, when the command says it."""
    argv = baseline.argv
    if "--served-model-name" in argv and argv.index("--served-model-name") + 1 < len(argv):
        return argv[argv.index("--served-model-name") + 1]
    if "--model" in argv and argv.index("--model") + 1 < len(argv):
        return argv[argv.index("--model") + 1]
    return baseline.model.path if baseline.model is not None else None


def runnable(case: Case) -> bool:
    """Whether a baseline is frozen that may be run here; what recorded attempts ran with elsewhere is none."""
    return bool(case.baselines) and case.baselines[-1].payload.baseline.get("engine") != "recorded"


def _newest(case: Case) -> Baseline:
    return Baseline.model_validate(case.baselines[-1].payload.baseline)


def _append(
    tx: Writing,
    incident: Incident,
    baseline: Baseline,
    *,
    change: Change | None = None,
    minimal: Minimal | None = None,
    source: str,
    asker: Asker,
    now: datetime,
) -> None:
    payload = BaselineFrozen(
        digest=baseline.digest,
        baseline=baseline.model_dump(mode="json"),
        removed=[{"option": gone.option, "why": gone.why} for gone in minimal.removed] if minimal else [],
        added=[{"option": made.option, "why": made.why} for made in minimal.added] if minimal else [],
        change=None if change is None else change.model_dump(mode="json"),
        derived_from=redact_text(source[:4000]).text,
    )
    tx.append(incident.id, payload, actor=asker.actor, at=now)
