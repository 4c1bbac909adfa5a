"""Modals: open, answer, attempt with the diff, decision, and the ones that ask for a reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bot.blocks.elements import (
    Block,
    Ref,
    context,
    modal,
    multi_select_input,
    option,
    sections,
    select_input,
    text_input,
)
from bot.blocks.evidence_launches import change_line
from bot.blocks.texts import N_, Mrkdwn, Translate, bold, code_block, cut, esc, joined, short
from playbooks.evidence import entries as e
from playbooks.guiding.case import Noted

if TYPE_CHECKING:
    from playbooks.guiding.checklist import Item


def open_incident(
    channel: str,
    nodes: Sequence[str],
    playbooks: Sequence[str],
    _: Translate,
    *,
    playbook: str,
    log: str = "",
    title: str = "",
    what_fails: str = "",
) -> Block:
    """Ask for what is needed to open a case; everything but the title may be left open."""
    blocks = [
        text_input("title", _.plain("What is it about?"), initial=title, placeholder=_.plain("Kimi K3 does not start")),
    ]
    if not channel.startswith("C") and not channel.startswith("G"):
        blocks.append(_channel_input(_))
    if nodes:
        blocks.append(
            select_input("node", _.plain("Node"), [option(n, n) for n in nodes], initial=nodes[0], optional=True)
        )
    if len(nodes) > 1:
        blocks.append(
            multi_select_input(
                "more_nodes",
                _.plain("Further nodes of the launch"),
                [option(n, n) for n in nodes],
                hint=_.plain("Only for a launch over several nodes: the node above is its head and serves the API."),
            )
        )
    blocks += [
        text_input(
            "what_fails",
            _.plain("What fails, since when, how often?"),
            multiline=True,
            optional=True,
            initial=what_fails,
            placeholder=_.plain("In your words: last good start, what was changed since, by whom"),
        ),
        text_input(
            "command",
            _.plain("Launch command"),
            multiline=True,
            optional=True,
            hint=_.plain(
                "docker run …, vllm serve …, a compose service, or the container's argv as JSON. Secrets are removed before anything is stored."
            ),
        ),
    ]
    if len(playbooks) > 1:
        blocks.append(
            select_input("playbook", _.plain("Playbook"), [option(n, n) for n in playbooks], initial=playbook)
        )
    blocks.append(
        context(_("The log you analysed is recorded as the first attempt."))
        if log
        else context(
            _("Logs: drop the files into the thread once it is open. A paste field holds 3,000 characters only.")
        )
    )
    return modal(
        callback="open_incident",
        metadata=str(Ref(channel, log)),
        title=_.plain("Open a case"),
        blocks=blocks,
        submit=_.plain("Open"),
        close=_.plain("Cancel"),
    )


def _channel_input(_: Translate) -> Block:
    """Ask for the channel of the case: in a direct message nobody else would see it."""
    return {
        "type": "input",
        "block_id": "channel",
        "label": {"type": "plain_text", "text": _.plain("Channel of the case")},
        "element": {
            "type": "conversations_select",
            "action_id": "channel",
            "filter": {"include": ["public", "private"]},
        },
        "hint": {"type": "plain_text", "text": _.plain("Its thread appears there; I must be in it.")},
    }


def answer(incident: str, item: Item, _: Translate) -> Block:
    """Ask one checklist item, with why it matters and how to get the value."""
    lines = [
        bold(_.told(item.label)),
        _("Why: {why}", why=_.told(item.why)) if item.why else Mrkdwn(""),
        _("How: {how}", how=_.told(item.how)) if item.how else Mrkdwn(""),
    ]
    return modal(
        callback="answer",
        metadata=str(Ref(incident, item.id)),
        title=_.plain("Answer"),
        blocks=[
            *sections(lines),
            _value_input(item, _),
            text_input("note", _.plain("Note"), optional=True),
        ],
        submit=_.plain("Record"),
        close=_.plain("Cancel"),
    )


def _value_input(item: Item, _: Translate) -> Block:
    hint = _.plain("A value with your name goes into the record. “unknown” is an answer too.")
    before = item.value if item.state != "not_needed" else None
    if item.choices:
        offered = [option(_.told_plain(choice), choice) for choice in (*item.choices, N_("unknown"))]
        return select_input("value", _.plain("Your answer"), offered, initial=before, hint=hint)
    return text_input("value", _.plain("Your answer"), multiline=True, initial=before or "", hint=hint)


def attempt(
    incident: str,
    frozen: Noted[e.BaselineFrozen] | None,
    command: str,
    _: Translate,
    *,
    attempts_so_far: int,
    has_node: bool = True,
    nodes: Sequence[str] = (),
    chosen: Sequence[str] = (),
) -> Block:
    """Ask how to run: the frozen command as it is, or with one change.

    nodes, chosen: of a case with several nodes all of them, head first, and those that are offered first.
    """
    blocks: list[Block] = []
    if frozen is None:
        blocks += sections(
            [_("*No minimal command is frozen yet.* From this command I derive the minimal one and freeze it.")]
        )
        blocks.append(text_input("command", _.plain("Launch command"), multiline=True, initial=command))
    else:
        argv = " ".join(str(part) for part in frozen.payload.baseline.get("argv", []))
        lines = [
            _(
                "Baseline {digest} (#{seq}), attempts so far: {n}",
                digest=short(frozen.payload.digest),
                seq=frozen.seq,
                n=attempts_so_far,
            ),
            code_block(argv, max_lines=10, max_chars=1200),
            change_line(frozen.payload.change, _) if frozen.payload.change else Mrkdwn(""),
        ]
        blocks += sections(lines)
        blocks.append(
            text_input(
                "command",
                _.plain("Changed command - leave empty to repeat the baseline"),
                multiline=True,
                optional=True,
                hint=_.plain(
                    "At most one thing may differ from the baseline; I show the difference and refuse a second one."
                ),
            )
        )
        blocks.append(text_input("reason", _.plain("Why this change, and what do you expect?"), optional=True))
    if len(nodes) > 1:
        blocks.append(_nodes_input(nodes, chosen, _))
    if has_node:
        runs = [option(_.plain("2 attempts, one after the other"), "2"), option(_.plain("1 attempt"), "1")]
        hint = _.plain("A score needs two attempts of one baseline.")
        blocks.append(select_input("runs", _.plain("Attempts"), runs, initial="2", hint=hint))
        hint = _.plain(
            "Seconds a stage may take, such as weight_loading 5400, and behind a slash how long it may be silent: engine_init 3600/1800."
        )
        blocks.append(
            text_input("limits", _.plain("Limits - leave empty for the playbook's"), optional=True, hint=hint)
        )
    else:
        blocks.append(
            context(_("This case has no node: run it where you can, twice, and drop both complete logs here."))
        )
    return modal(
        callback="attempt",
        metadata=str(Ref(incident, "launch")),
        title=_.plain("Run attempts") if has_node else _.plain("Freeze the baseline"),
        blocks=blocks,
        submit=_.plain("Run") if has_node else _.plain("Freeze"),
        close=_.plain("Cancel"),
    )


def _nodes_input(nodes: Sequence[str], chosen: Sequence[str], _: Translate) -> Block:
    """Ask whether one node is launched, or all of the case's."""
    offered = [
        option(_.plain("{node} alone", node=nodes[0]), nodes[0]),
        option(_.plain("All {n}: {nodes}", n=len(nodes), nodes=", ".join(nodes)), ",".join(nodes)),
    ]
    hint = _.plain(
        "One node first: several are compared with it. Ranks, addresses and headless mode are added to the command by me."
    )
    return select_input("nodes", _.plain("Nodes"), offered, initial=",".join(chosen), hint=hint)


def review(incident: str, proposal: Noted[e.DecisionProposed], _: Translate) -> Block:
    """Show the whole proposal and take the decision."""
    said = proposal.payload
    lines = [
        bold(Mrkdwn(f"#{proposal.seq} · {esc(cut(_.told_plain(said.headline), 300))}")),
        *_list(_("Because"), said.reasons, _),
        *_list(_("Would change it"), said.would_change, _),
        *_list(_("Not concluded"), said.not_concluded, _),
        _("Rule {rule} · evidence {numbers}", rule=said.rule, numbers=", ".join(f"#{n}" for n in said.evidence) or "-"),
    ]
    choices = [option(_.plain("Approve"), "approve"), option(_.plain("Reject"), "reject")]
    return modal(
        callback="judge",
        metadata=str(Ref(incident, str(proposal.seq))),
        title=_.plain("Decision"),
        blocks=[
            *sections(lines),
            select_input("choice", _.plain("Your decision"), choices),
            text_input(
                "reason", _.plain("Reason"), multiline=True, optional=True, hint=_.plain("Needed for a rejection.")
            ),
        ],
        submit=_.plain("Record"),
        close=_.plain("Cancel"),
    )


def reason(callback: str, ref: Ref, title: str, explain: Mrkdwn, submit: str, _: Translate) -> Block:
    """Ask for the reason of a rejection, a skipped phase or a closing."""
    return modal(
        callback=callback,
        metadata=str(ref),
        title=title,
        blocks=[*sections([explain]), text_input("reason", _.plain("Reason"), multiline=True)],
        submit=submit,
        close=_.plain("Cancel"),
    )


def hand_over(incident: str, _: Translate) -> Block:
    """Ask for the next owner."""
    pick: Block = {
        "type": "input",
        "block_id": "owner",
        "optional": False,
        "label": {"type": "plain_text", "text": _.plain("New owner")},
        "element": {"type": "users_select", "action_id": "owner"},
    }
    return modal(
        callback="hand_over",
        metadata=str(Ref(incident, "owner")),
        title=_.plain("Hand over"),
        blocks=[pick],
        submit=_.plain("Hand over"),
        close=_.plain("Cancel"),
    )


def analyse(channel: str, _: Translate) -> Block:
    """Ask for a pasted log."""
    return modal(
        callback="analyse",
        metadata=str(Ref(channel, "analyse")),
        title=_.plain("Analyse a log"),
        blocks=[
            text_input(
                "log",
                _.plain("Log"),
                multiline=True,
                hint=_.plain(
                    "3,000 characters at most. Longer logs: drop the file into a channel I am in, or a direct message."
                ),
            )
        ],
        submit=_.plain("Analyse"),
        close=_.plain("Cancel"),
    )


def message(title: str, text: Mrkdwn, _: Translate) -> Block:
    """Show a text where a modal was expected: what went wrong, in words."""
    return modal(
        callback="closed", metadata="", title=title, blocks=sections([text]), submit=None, close=_.plain("Close")
    )


def _list(title: Mrkdwn, parts: Sequence[str], _: Translate) -> list[Mrkdwn]:
    shown = [Mrkdwn(f"• {esc(cut(_.reason(part), 400))}") for part in parts[:8]]
    return [joined([bold(title), *shown])] if parts else []
