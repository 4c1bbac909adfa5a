"""Answers to help, status, next, nodes and the home tab."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from bot.blocks.dashboard import Dashboard, dashboard, next_buttons, step_text
from bot.blocks.elements import Block, Message, actions, sections
from bot.blocks.limits import fit
from bot.blocks.terms import PHASES
from bot.blocks.texts import Mrkdwn, Translate, bold, code, cut, cut_marked, esc, joined, when
from playbooks.vocabulary import Phase

if TYPE_CHECKING:
    from playbooks.guiding.checklist import Item

MOST_LISTED = 15
"""Cases of a list; more is not read on a phone."""


@dataclass(frozen=True, slots=True)
class OpenCase:
    """One line of a list of cases."""

    incident: str
    title: str
    phase: Phase
    waiting: str
    channel: str = ""


@dataclass(frozen=True, slots=True)
class NodeLine:
    """One line of the list of nodes."""

    name: str
    heard_at: datetime | None
    silent: bool
    version: str = ""
    gpus: int = 0
    engines: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    holder: str | None = None


def help_text(_: Translate, *, unknown: str = "", needs_case: bool = False) -> Message:
    """Say what can be done here, the quick win first; and before it what was not understood, or said in the wrong place."""
    said = code(unknown, limit=60)
    lines = [
        _(
            "*Drop or paste a log* here, in a thread, or in a direct message: I answer with the first failure, why, and the next step. No case needed."
        ),
        _("`/baseline open` opens a case and its thread · `status` · `nodes` · `analyze` · `language` · `help`"),
        _(
            "In the thread, mention me with `status`, `next`, `run`, `score`, `probe`, `decide`, `export`, `close` or `help`, drop the logs of attempts, or press the buttons."
        ),
        _("A log dropped into a case's thread is a recorded attempt; two attempts of one baseline get a score."),
    ]
    return fit(
        Message(
            _("What I can do: analyse a dropped log, or lead a failing launch to one stable first failure."),
            tuple(
                sections(
                    [
                        _("{word} is about one case: say it to me in that case's thread.", word=said)
                        if needs_case
                        else _("I do not know {word}. This is what I can do:", word=said)
                        if unknown
                        else Mrkdwn(""),
                        _(
                            "*Baseline* leads a failing vLLM launch to one stable first failure, and from there to a decision."
                        ),
                        *lines,
                    ]
                )
            ),
        )
    )


def cases(found: Sequence[OpenCase], count: int, _: Translate) -> Message:
    """List the open cases, `MOST_LISTED` of them; `count` is how many there are."""
    if not found:
        return fit(
            Message(
                _("No open case here."),
                tuple(
                    sections(
                        [
                            _("*No open case here.*"),
                            _("Open one with `/baseline open`, or drop a log to have it looked at."),
                        ]
                    )
                ),
            )
        )
    title = _("Open cases: {n}", n=count)
    lines = [_case_line(one, _) for one in found[:MOST_LISTED]]
    return fit(Message(title, tuple(sections([bold(title), *lines]))))


def _case_line(one: OpenCase, _: Translate) -> Mrkdwn:
    name = Mrkdwn(f"{one.incident} (<#{one.channel}>)") if one.channel else Mrkdwn(one.incident)
    return _(
        "{name} · {title} - {phase}: {waiting}",
        name=name,
        title=cut(one.title, 80),
        phase=_(PHASES[one.phase]),
        waiting=cut_marked(_.told(one.waiting), 300),
    )


def status(view: Dashboard, items: Sequence[Item], gate_open: Sequence[str], _: Translate) -> Message:
    """Say where the case stands, and what is open in this phase."""
    base = dashboard(view, _)
    open_items = [item for item in items if item.state == "open" and item.phase == view.case.phase]
    lines = [_item_line(item, _) for item in open_items[:8]]
    if lines:
        lines.insert(0, _("*Open in this phase:*"))
    if gate_open:
        lines.append(_("*Open at the gate:* {items}", items=joined([_.told(text) for text in gate_open[:10]], "; ")))
    blocks = [block for block in base.blocks if block["type"] != "actions"]
    return fit(Message(base.text, (*blocks, *sections(lines), *actions(next_buttons(view, _)))))


def _item_line(item: Item, _: Translate) -> Mrkdwn:
    how = _(" - {how}", how=_.told(item.how)) if item.how else Mrkdwn("")
    return Mrkdwn(f"• {_.told(item.label)}{how}")


def nodes(found: Sequence[NodeLine], _: Translate) -> Message:
    """List the nodes: heard when, what they have, who holds them."""
    if not found:
        return fit(
            Message(
                _("No node is set up."),
                tuple(
                    sections(
                        [
                            _("*No node is set up.*"),
                            _(
                                "The operator names nodes in BASELINE_NODES and starts `baseline worker --node NAME` there. Logs can be analysed without a node."
                            ),
                        ]
                    )
                ),
            )
        )
    title = _("Nodes: {n}", n=len(found))
    return fit(Message(title, tuple(sections([bold(title), *(_node_line(one, _) for one in found[:20])]))))


def _node_line(one: NodeLine, _: Translate) -> Mrkdwn:
    if one.heard_at is None:
        return _("*{name}*: never heard of - is its worker running?", name=cut(one.name, 80))
    state = _("silent since {when}", when=when(one.heard_at)) if one.silent else _("answers")
    parts = [
        _("*{name}*: {state}", name=cut(one.name, 80), state=state),
        _("worker {version}", version=cut(one.version, 40)) if one.version else Mrkdwn(""),
        _("{n} GPUs", n=one.gpus) if one.gpus else _("no GPU"),
        _("engines: {engines}", engines=cut(", ".join(one.engines), 200)) if one.engines else Mrkdwn(""),
        _("held: {held}", held=cut("; ".join(one.held), 300)) if one.held else Mrkdwn(""),
        _("in use by {incident}", incident=one.holder) if one.holder else Mrkdwn(""),
    ]
    return joined(parts, " · ")


def home(mine: Sequence[OpenCase], waiting: Sequence[OpenCase], found: Sequence[NodeLine], _: Translate) -> Block:
    """Return the home view: my cases, approvals that wait, nodes."""
    blocks: list[Block] = []
    for title, listed in ((_("*My open cases*"), mine), (_("*Decisions waiting for an approver*"), waiting)):
        blocks += sections([title, *([_case_line(one, _) for one in listed[:10]] or [_("None.")])])
    blocks += sections([_("*Nodes*"), *([_node_line(one, _) for one in found[:10]] or [_("None.")])])
    blocks += sections(
        [_("Drop a log into a direct message with me: I answer with the first failure and the next step.")]
    )
    return {"type": "home", "blocks": blocks}


def step(view: Dashboard, _: Translate) -> Message:
    """Answer "what now?"."""
    text = step_text(view.step, view.step_label, _)
    title = text if view.case.closed is not None else _("Next: {step}", step=text)
    lines = [
        bold(title),
        _("Why: {why}", why=_.reason(view.step.why)) if view.step.why else Mrkdwn(""),
        _("How: {how}", how=_.told(view.step.how)) if view.step.how else Mrkdwn(""),
    ]
    return fit(Message(title, (*sections(lines), *actions(next_buttons(view, _)))))


def score(view: Dashboard, _: Translate) -> Message:
    """Answer "score": the newest one in words, or what it needs."""
    if not view.case.scores:
        return fit(
            Message(
                _("No score yet."),
                tuple(
                    sections(
                        [
                            _(
                                "*No score yet.* It needs two attempts of one baseline; there are {n}.",
                                n=len(view.case.attempts),
                            )
                        ]
                    )
                ),
            )
        )
    last = view.case.scores[-1]
    title = _(
        "Score {score} for attempts {a} and {b} (#{seq})",
        score=last.payload.score if last.payload.score is not None else _("none"),
        a=last.payload.earlier,
        b=last.payload.later,
        seq=last.seq,
    )
    return fit(Message(title, tuple(sections([bold(title), esc(_.reason(last.payload.why))]))))
