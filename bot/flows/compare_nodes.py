"""Before a launch over several nodes: are they alike in what its ranks run on? A difference is named and refused.

An approver may let the named differences stand; that goes into the record, and another difference is refused again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.blocks.elements import Message, Ref, button
from bot.blocks.notices import notice, refusal
from bot.blocks.texts import Mrkdwn
from bot.flows.once import lock_open, once, refuse
from bot.flows.permission import Action, require
from bot.flows.showing import Asker, known, language_for
from playbooks.errors import SecondPersonNeeded
from playbooks.evidence.entries import AnswerRecorded
from playbooks.guiding import roles
from playbooks.judging import consistency
from playbooks.messages import FingerprintFacts
from playbooks.vocabulary import JobKind

if TYPE_CHECKING:
    from bot.blocks.texts import Translate
    from bot.flows.services import Services
    from playbooks.guiding.case import Case
    from playbooks.reading.fields import Facts

ITEM = "nodes-differ"
"""The answer that lets differences stand; its value is what differed."""


def require_alike(case: Case, nodes: tuple[str, ...], _: Translate) -> None:
    """Let only nodes pass that are alike, or whose differences an approver has let stand.

    Raises:
        Refused: a node has no fingerprint, or one differs from the head; the message names node and field.
    """
    if len(nodes) < 2:
        return
    sides = _sides(case)
    unread = [node for node in nodes if node not in sides]
    if unread:
        raise refuse(
            refusal(
                _("Not started: {nodes} cannot be compared yet", nodes=", ".join(unread)),
                _("Read the fingerprint of every node first."),
                buttons=[button(_.plain("Read the fingerprint"), "job", Ref(case.incident, JobKind.FINGERPRINT.value))],
            )
        )
    found = differences(case, nodes)
    let_stand = case.answers.get(ITEM)
    if not found or (let_stand is not None and let_stand.payload.value == _value(found)):
        return
    raise refuse(
        refusal(
            _("Not started: the nodes differ, so their ranks would not run the same thing"),
            *(Mrkdwn(f"• {_.reason(text)}") for text in found[:6]),
            _("Make them alike and read the fingerprints again. An approver may let the difference stand."),
            buttons=[button(_.plain("Let it stand"), "nodes_differ", Ref(case.incident))],
        )
    )


def let_differences_stand(services: Services, asker: Asker, incident_id: str) -> Message:
    """Record that the nodes may differ as they do now.

    Raises:
        Repeated: this press was taken already.
        Refused: the asker is no approver, or nothing differs (any more).
    """
    with services.store.read() as reading:
        _ = language_for(reading, asker, known(reading, incident_id))
    require(services, asker, Action.SKIP_GATE, _)
    with once(services, asker) as tx:
        incident = lock_open(tx, incident_id)
        case = incident.case
        try:
            roles.second_person(asker.actor, Action.SKIP_GATE, proposer=None, owner=f"user:{incident.owner}")
        except SecondPersonNeeded as error:
            raise refuse(refusal(_("Not recorded"), _("{why}.", why=str(error)))) from error
        found = differences(case, tuple(case.opened.payload.nodes))
        if not found:
            raise refuse(refusal(_("Not recorded"), _("The nodes do not differ in anything that bars a launch.")))
        payload = AnswerRecorded(item=ITEM, value=_value(found))
        entry = tx.append(incident_id, payload, actor=asker.actor, at=services.clock.now())
    return notice(_("Recorded as #{seq}: the nodes may differ in this. Run the attempt again.", seq=entry.seq))


def differences(case: Case, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Name what bars one launch over these nodes: each node against the head, by their newest fingerprints."""
    sides = _sides(case)
    head, *others = (node for node in nodes if node in sides) if sides else ("",)
    return tuple(
        found.text
        for node in others
        for found in consistency.between_nodes(sides[head], sides[node], names=(head, node))
        if consistency.bars_a_launch(found)
    )


def _sides(case: Case) -> dict[str, Facts]:
    """Return host and container fields by node, of the newest fingerprint of each."""
    newest = {noted.payload.node: FingerprintFacts.model_validate(noted.payload.facts) for noted in case.fingerprints}
    return {node: {**facts.container, **facts.host} for node, facts in newest.items()}


def _value(found: tuple[str, ...]) -> str:
    return "; ".join(found)
