"""The parent message: where the case stands, who is waited for, and the two or three buttons that go on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from bot.blocks.elements import Block, Message, Ref, actions, button, context, menu, sections
from bot.blocks.limits import fit
from bot.blocks.terms import CACHE_VERDICTS, DECISIONS, DRIVER_VERDICTS, JOBS, PHASES, REQUEST_VERDICTS, STAGES
from bot.blocks.texts import N_, Mrkdwn, Translate, bold, cut, esc, joined, person, when
from playbooks.guiding import seen
from playbooks.guiding.case import Case
from playbooks.guiding.features import BRING
from playbooks.vocabulary import JobKind, Phase, Stage

if TYPE_CHECKING:
    from playbooks.guiding.checklist import NextStep


_DROPPED = frozenset({"two-attempts", "stability"})
"""Items that a dropped log answers, so no form does."""
_JOB_BUTTONS = {
    JobKind.COLLECT: N_("Save the scene"),
    JobKind.FINGERPRINT: N_("Read the fingerprint"),
    JobKind.LAUNCH: N_("Run an attempt"),
    JobKind.REQUEST: N_("Send the fixed request"),
    JobKind.LADDER: N_("Run the pressure ladder"),
    JobKind.CACHE_PROBE: N_("Run the cache probe"),
}


@dataclass(frozen=True, slots=True)
class Running:
    """A job on its way or at work."""

    kind: JobKind
    node: str
    claimed: bool
    since: datetime
    stage: Stage | None = None
    note: str = ""
    attempt: int | None = None
    held_by: str = ""
    """Of a job on its way: the case whose job or engine holds the node."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """What the parent message shows."""

    incident: str
    owner: str
    opened_at: datetime
    case: Case
    head_seq: int
    head_hash: str
    phases: tuple[Phase, ...]
    """Phases of the playbook, in order."""
    step: NextStep
    step_label: str = ""
    """Label of the open item, when the step is an answer."""
    running: tuple[Running, ...] = ()
    silent_node: str | None = None
    held: tuple[tuple[int, datetime], ...] = ()
    """Attempts whose engine is held, and until when."""
    undeliverable: int = 0


def dashboard(view: Dashboard, _: Translate) -> Message:
    """Render the dashboard: phase, what is waited for, progress, decision, owner and head."""
    title = _title(view, _)
    lines = [
        Mrkdwn(f"{bold(title)} - {_phase(view, _)}"),
        _waiting(view, _),
        *(_running(job, _) for job in view.running[:3]),
        _("*Node {node} is silent:* nothing is sent to it until it speaks again.", node=view.silent_node)
        if view.silent_node
        else Mrkdwn(""),
        _progress(view.case, _),
        _decision(view.case, _),
        *(
            _("The engine of attempt {n} is held until {until} for requests.", n=number, until=when(until))
            for number, until in view.held
        ),
    ]
    footer = [
        _("Owner {owner}", owner=person(f"user:{view.owner}")),
        _("opened {when}", when=when(view.opened_at)),
        _("record head {head} at #{seq}", head=Mrkdwn(f"`{esc(view.head_hash[:8])}…`"), seq=view.head_seq),
        _("messages not delivered: {n}", n=view.undeliverable) if view.undeliverable else Mrkdwn(""),
    ]
    blocks = [*sections(lines), context(joined(footer, " · ")), *actions(_buttons(view, _))]
    return fit(Message(joined([title, _waiting(view, _)], " - "), tuple(blocks)))


def _title(view: Dashboard, _: Translate) -> Mrkdwn:
    opened = view.case.opened.payload
    parts = [Mrkdwn(view.incident), esc(cut(opened.title, 120))]
    if opened.node:
        several = len(opened.nodes) > 1
        parts.append(
            _("nodes {nodes}", nodes=", ".join(opened.nodes)) if several else _("node {node}", node=opened.node)
        )
    return joined(parts, " · ")


def _phase(view: Dashboard, _: Translate) -> Mrkdwn:
    name = _(PHASES[view.case.phase])
    if view.case.phase not in view.phases:
        return name
    return _("{phase}, {n} of {of}", phase=name, n=view.phases.index(view.case.phase) + 1, of=len(view.phases))


def _waiting(view: Dashboard, _: Translate) -> Mrkdwn:
    if view.case.closed is not None:
        return _("*Closed:* {reason}", reason=cut(view.case.closed.payload.reason, 200))
    text = step_text(view.step, view.step_label, _)
    match view.step.kind:
        case "wait":
            return _("*Waiting for the node:* {text}", text=text)
        case "approve":
            return _("*Waiting for an approver:* {text}", text=text)
        case _:
            return _("*Waiting for you:* {text}", text=text)


def step_text(step: NextStep, label: str, _: Translate) -> Mrkdwn:
    """Say the next step in words; the text comes from the playbook and is looked up like any other."""
    text = _.told(step.text)
    return _("{text} {label}", text=text, label=_.told(label)) if label and label not in step.text else text


def _running(job: Running, _: Translate) -> Mrkdwn:
    what = _(JOBS[job.kind])
    if job.attempt is not None:
        what = _("{what} {n}", what=what, n=job.attempt)
    if not job.claimed and job.held_by:
        return _(
            "Waiting for {node}: {what}, since {when}; {case} holds it",
            node=job.node,
            what=what,
            when=when(job.since),
            case=job.held_by,
        )
    if not job.claimed:
        return _("On its way to {node}: {what}, since {when}", node=job.node, what=what, when=when(job.since))
    stage = _(" - {stage}", stage=_(STAGES[job.stage])) if job.stage not in {None, Stage.NONE} else Mrkdwn("")
    note = esc(f" ({cut(job.note, 120)})") if job.note else Mrkdwn("")
    return _(
        "Running on {node}: {what}{stage}{note}, since {when}",
        node=job.node,
        what=what,
        stage=stage,
        note=note,
        when=when(job.since),
    )


def _progress(case: Case, _: Translate) -> Mrkdwn:
    parts: list[Mrkdwn] = []
    if case.scenes:
        parts.append(_("scene saved #{seq}", seq=case.scenes[-1].seq))
    if case.fingerprints:
        parts.append(_("fingerprint #{seq}", seq=case.fingerprints[-1].seq))
    if case.boundary is not None:
        verdict = _(DRIVER_VERDICTS[case.boundary.payload.verdict])
        parts.append(_("boundary *{verdict}* #{seq}", verdict=verdict, seq=case.boundary.seq))
    if case.attempts:
        recorded = sum(1 for noted in case.attempts if noted.payload.origin == "recorded")
        said = _("attempts {n}", n=len(case.attempts))
        parts.append(_("{said} ({m} recorded elsewhere)", said=said, m=recorded) if recorded else said)
    if case.scores:
        last = case.scores[-1]
        value = last.payload.score if last.payload.score is not None else _("none")
        parts.append(_("score *{score}* #{seq}", score=value, seq=last.seq))
    if case.requests:
        last_request = case.requests[-1]
        verdict = _(REQUEST_VERDICTS[last_request.payload.verdict])
        parts.append(_("fixed request {verdict} #{seq}", verdict=verdict, seq=last_request.seq))
    if case.cache_probes:
        last_probe = case.cache_probes[-1]
        parts.append(
            _(
                "prefix cache: {verdict} #{seq}",
                verdict=_(CACHE_VERDICTS[last_probe.payload.verdict]),
                seq=last_probe.seq,
            )
        )
    return joined(parts, " · ")


def _decision(case: Case, _: Translate) -> Mrkdwn:
    if not case.proposals:
        return Mrkdwn("")
    proposal = case.proposals[-1] if case.closed is None else seen.approved_proposal(case)
    if proposal is None:
        return _("Decision: none was approved")
    said = {"headline": cut(_.told_plain(proposal.payload.headline), 200), "seq": proposal.seq}
    approved = [noted for noted in case.approvals if noted.payload.proposal == proposal.seq]
    if approved:
        return _("Decision: approved _{headline}_ #{seq} by {who}", **said, who=person(approved[-1].actor))
    if any(noted.payload.proposal == proposal.seq for noted in case.rejections):
        return _("Decision: _{headline}_ #{seq} was rejected", **said)
    if proposal.payload.missing:
        return _("Decision: {kind} - _{headline}_ #{seq}", **said, kind=_(DECISIONS[proposal.payload.kind]))
    return _("Decision: proposed _{headline}_ #{seq} - waits for an approver", **said)


def _buttons(view: Dashboard, _: Translate) -> list[Block]:
    incident = view.incident
    shown = next_buttons(view, _)
    if view.case.closed is not None:
        return shown
    if view.running and not any(block["action_id"].startswith("cancel") for block in shown):
        shown.append(button(_.plain("Stop the running job"), "cancel", Ref(incident), style="danger"))
    more = [
        (_.plain("What is open?"), Ref(incident, "status")),
        (_.plain("Propose a decision"), Ref(incident, "propose")),
        (_.plain("Export bundle"), Ref(incident, "export")),
        (_.plain("Hand over"), Ref(incident, "hand_over")),
        (_.plain("Skip this phase"), Ref(incident, "skip")),
    ]
    return [*shown[:2], menu("more", more)]


def next_buttons(view: Dashboard, _: Translate) -> list[Block]:
    """Return the button of the next step; in a closed case its bundle is what is left to take."""
    if view.case.closed is not None:
        return [button(_.plain("Export bundle"), "export", Ref(view.incident))]
    return step_buttons(view.incident, view.step, view.step_label, _)


def step_buttons(incident: str, step: NextStep, label: str, _: Translate) -> list[Block]:
    """Return the button that does the next step, if a person can."""
    match step.kind:
        case "answer" if step.item in _DROPPED:
            return []
        case "answer":
            name = _.plain("Answer: {label}", label=_.told_plain(label)) if label else _.plain("Answer")
            return [button(name, "answer", Ref(incident, step.item or ""), style="primary")]
        case "job" if step.job is JobKind.FEATURE_PROBE:
            return [button(_.plain("Probe it"), "probe", Ref(incident, step.item or ""), style="primary")]
        case "job" | "request":
            kind = step.job or JobKind.REQUEST
            return [
                button(_.plain(_JOB_BUTTONS.get(kind, "Run it")), "job", Ref(incident, kind.value), style="primary")
            ]
        case "add_back":
            said = (
                _.plain("Bring prefix caching back")
                if step.item == BRING
                else _.plain("Bring it back")
                if (step.item or "").startswith(BRING)
                else _.plain("Put the stable baseline back")
            )
            return [button(said, "add_back", Ref(incident, step.item or ""), style="primary")]
        case "decide":
            return [button(_.plain("Propose a decision"), "propose", Ref(incident), style="primary")]
        case "approve":
            return [button(_.plain("Review decision"), "review", Ref(incident), style="primary")]
        case "close":
            return [button(_.plain("Close the case"), "close", Ref(incident), style="primary")]
        case "wait":
            return []
