"""Evidence replies: one message per ledger entry, numbered, never edited.

Rendered from the entry and the case as it was at that entry, so a reply reads the same whenever it is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bot.blocks import evidence_decisions, evidence_facts, evidence_launches, evidence_probes
from bot.blocks.elements import Message, actions, context, sections
from bot.blocks.limits import fit
from bot.blocks.reply import Reply
from bot.blocks.texts import Mrkdwn, Translate, bold, joined, person, short, when
from playbooks.evidence import entries as e
from playbooks.guiding.case import Case


@dataclass(frozen=True, slots=True)
class Recorded:
    """A ledger entry with the case folded up to it."""

    seq: int
    kind: str
    actor: str
    at: datetime
    payload: dict[str, Any]
    head: str
    """Head of the ledger at this entry."""
    case: Case
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the playbook's items by id."""


_RENDER: dict[str, Callable[[Any, Case, Translate], Reply]] = {
    e.IncidentOpened.KIND: evidence_facts.opened,
    e.AnswerRecorded.KIND: evidence_facts.answered,
    e.JobRequested.KIND: evidence_facts.job_requested,
    e.JobEnded.KIND: evidence_facts.job_ended,
    e.SceneCollected.KIND: evidence_facts.scene,
    e.FingerprintRecorded.KIND: evidence_facts.fingerprint,
    e.BoundaryJudged.KIND: evidence_facts.boundary,
    e.BaselineFrozen.KIND: evidence_launches.baseline,
    e.AttemptRecorded.KIND: evidence_launches.attempt,
    e.AttemptWithdrawn.KIND: evidence_launches.withdrawn,
    e.ScoreGiven.KIND: evidence_launches.score,
    e.RequestRecorded.KIND: evidence_launches.requests,
    e.CacheProbed.KIND: evidence_probes.cache,
    e.FeatureProbed.KIND: evidence_probes.feature,
    e.LadderClimbed.KIND: evidence_probes.ladder,
    e.HeldEnded.KIND: evidence_launches.held_ended,
    e.LogAnalysed.KIND: evidence_launches.log_analysed,
    e.PhaseEntered.KIND: evidence_decisions.phase,
    e.DecisionProposed.KIND: evidence_decisions.proposed,
    e.DecisionApproved.KIND: evidence_decisions.approved,
    e.DecisionRejected.KIND: evidence_decisions.rejected,
    e.BundleExported.KIND: evidence_decisions.bundle,
    e.LeaseTaken.KIND: evidence_decisions.lease_taken,
    e.IncidentClosed.KIND: evidence_decisions.closed,
}


def evidence(entry: Recorded, _: Translate) -> Message:
    """Render one entry: verdict first, three to six facts, where it comes from, buttons if a person is to act."""
    render = _RENDER.get(entry.kind)
    if render is None:
        reply = Reply(_("A record of kind {kind}, written by a newer version", kind=entry.kind))
    else:
        payload = e.PAYLOADS[entry.kind].model_validate(entry.payload)
        if isinstance(payload, e.AnswerRecorded):
            payload = payload.model_copy(update={"item": _.told(entry.labels.get(payload.item, payload.item))})
        reply = render(payload, entry.case, _)
    title = Mrkdwn(f"#{entry.seq} · {reply.title}")
    footer = [*reply.footer, _by(entry, _)]
    if reply.shows_head:
        footer.append(_("record head {head} at #{seq}", head=short(entry.head), seq=entry.seq))
    blocks = [
        *sections([bold(title), *reply.lines]),
        context(joined(footer, " · ")),
        *actions(reply.buttons),
    ]
    first = next((line for line in reply.lines if line), Mrkdwn(""))
    return fit(Message(joined([title, first], " - "), tuple(blocks)))


def kinds() -> frozenset[str]:
    """Return the kinds that have a rendering of their own."""
    return frozenset(_RENDER)


def _by(entry: Recorded, _: Translate) -> Mrkdwn:
    asked = entry.case.jobs.get(str(entry.payload.get("job_id", "")))
    if asked is not None and asked.seq != entry.seq and asked.actor.startswith("user:"):
        return _(
            "asked by {who} at {then}, run by {node}, recorded {when}",
            who=person(asked.actor),
            then=Mrkdwn(f"{asked.at:%H:%M} UTC"),
            node=asked.payload.node,
            when=when(entry.at),
        )
    return _("{who} · {when}", who=person(entry.actor), when=when(entry.at))
