"""Evidence replies of phases, decisions, bundle and closing."""

from __future__ import annotations

from bot.blocks.elements import Block, Ref, button
from bot.blocks.reply import Reply
from bot.blocks.terms import DECISIONS, PHASES
from bot.blocks.texts import Mrkdwn, Translate, cut, esc, joined, person, short
from playbooks.evidence import entries as e
from playbooks.guiding import seen
from playbooks.guiding.case import Case
from playbooks.vocabulary import DecisionKind


def phase(payload: e.PhaseEntered, _case: Case, _: Translate) -> Reply:
    """Say that the next phase is open, or that an approver skipped a gate."""
    name = _(PHASES[payload.phase])
    if payload.skipped:
        return Reply(
            _("Gate skipped: {phase} opened by an approver", phase=name), (_("Reason: {why}", why=payload.reason),)
        )
    return Reply(_("Phase {phase} opened", phase=name), (esc(payload.reason),) if payload.reason else ())


def proposed(payload: e.DecisionProposed, case: Case, _: Translate) -> Reply:
    """Give the proposal with reasons, what would change it, and what it does not conclude."""
    lines = [
        _("Kind: {kind} · rule {rule}", kind=_(DECISIONS[payload.kind]), rule=payload.rule),
        _("Because: {why}", why=_several(payload.reasons, _)) if payload.reasons else Mrkdwn(""),
        _("Evidence: {numbers}", numbers=", ".join(f"#{n}" for n in payload.evidence))
        if payload.evidence
        else Mrkdwn(""),
        _("Missing: {what}", what=_several(payload.missing, _)) if payload.missing else Mrkdwn(""),
        _("Would change it: {what}", what=_several(payload.would_change, _)) if payload.would_change else Mrkdwn(""),
        _("Not concluded: {what}", what=_several(payload.not_concluded, _)) if payload.not_concluded else Mrkdwn(""),
        esc(payload.note),
    ]
    number = case.head_seq
    proposer = case.proposals[-1].actor if case.proposals else "bot"
    buttons: tuple[Block, ...] = ()
    if payload.kind is not DecisionKind.HOLD:
        lines.append(
            _(
                "Needs an approver who is neither {proposer} nor the owner. Void if a newer report arrives.",
                proposer=person(proposer),
            )
        )
        step = Ref(case.incident, str(number))
        buttons = (
            button(_.plain("Approve"), "approve", step, style="primary"),
            button(_.plain("Reject with reason"), "reject", step, style="danger"),
            button(_.plain("Ask"), "ask", step),
        )
    is_hold = payload.kind is DecisionKind.HOLD  # whose headline says so itself, and proposes nothing
    return Reply(
        _.told(payload.headline) if is_hold else _("Proposed: {headline}", headline=_.told(payload.headline)),
        tuple(lines),
        buttons=buttons,
        shows_head=True,
    )


def approved(payload: e.DecisionApproved, case: Case, _: Translate) -> Reply:
    """Say who approved what."""
    lines = (esc(payload.reason),) if payload.reason else ()
    return Reply(_("Approved: {headline}", headline=_headline(payload, case, _)), lines, shows_head=True)


def rejected(payload: e.DecisionRejected, case: Case, _: Translate) -> Reply:
    """Say who rejected what and why."""
    return Reply(
        _("Rejected: {headline}", headline=_headline(payload, case, _)),
        (_("Reason: {why}", why=payload.reason),),
        shows_head=True,
    )


def bundle(payload: e.BundleExported, _case: Case, _: Translate) -> Reply:
    """Say what the bundle covers and how it is verified."""
    return Reply(
        _("Reproduction bundle exported: record #1-#{upto}", upto=payload.upto),
        (_("Verify it anywhere, without this bot: {command}", command=Mrkdwn("`baseline verify BUNDLE.zip`")),),
        footer=(_("sha256 {digest}", digest=short(payload.sha256)),),
        shows_head=True,
    )


def lease_taken(payload: e.LeaseTaken, _case: Case, _: Translate) -> Reply:
    """Say that an approver ended a silent node's lease."""
    return Reply(
        _("Lease of {node} taken by an approver", node=payload.node), (_("Reason: {why}", why=payload.reason),)
    )


def closed(payload: e.IncidentClosed, case: Case, _: Translate) -> Reply:
    """Say how the incident ended."""
    lines = [esc(payload.reason)]
    decided = seen.approved_proposal(case)
    if payload.decision is not None and decided is not None:
        lines.append(_("Decided: {kind} (#{seq}).", kind=_(DECISIONS[payload.decision]), seq=decided.seq))
    return Reply(_("Closed"), tuple(lines), shows_head=True)


def _headline(payload: e.DecisionJudged, case: Case, _: Translate) -> Mrkdwn:
    for noted in case.proposals:
        if noted.seq == payload.proposal:
            return _("{headline} (#{seq})", headline=_.told(noted.payload.headline), seq=payload.proposal)
    return _("the proposal of #{seq}", seq=payload.proposal)


def _several(parts: list[str], _: Translate) -> Mrkdwn:
    return joined([esc(cut(_.reason(part), 400)) for part in parts[:6]], " · ")
