"""Short messages beside the evidence: questions, refusals, confirmations, progress. Most are seen by one person only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bot.blocks.dashboard import step_buttons, step_text
from bot.blocks.elements import Block, Message, Ref, actions, button, sections
from bot.blocks.limits import fit
from bot.blocks.texts import Mrkdwn, Translate, bold, code, cut, esc, joined, person

if TYPE_CHECKING:
    from playbooks.guiding.checklist import Item, NextStep
    from playbooks.judging.baseline_diff import Variable


def notice(title: Mrkdwn, *lines: Mrkdwn, buttons: Sequence[Block] = ()) -> Message:
    """Return a short message: what happened, then why and what next."""
    shown = [bold(title), *lines]
    return fit(Message(joined([title, *lines[:1]], " "), (*sections(shown), *actions(list(buttons)))))


def refusal(what: Mrkdwn, why: Mrkdwn, *nexts: Mrkdwn, buttons: Sequence[Block] = ()) -> Message:
    """Say that nothing was done, why, and who or what could."""
    return notice(what, why, *nexts, buttons=buttons)


def needs_role(why: Mrkdwn, who: Sequence[str], _: Translate) -> Message:
    """Refuse for lack of a role, naming who could; an empty list fails closed and says so."""
    names = joined([person(f"user:{user}") for user in list(who)[:6]], ", ")
    could = (
        _("Could do it: {names}.", names=names)
        if names
        else _("Nobody is set up for it: the operator names people in BASELINE_RESPONDERS and BASELINE_APPROVERS.")
    )
    return refusal(_("Not done"), why, could)


def outsider(_: Translate) -> Message:
    """Refuse people of other organisations."""
    return refusal(
        _("Not done"), _("Only members of this workspace may act here, not people of a connected organisation.")
    )


def not_recorded(_: Translate) -> Message:
    """Say that the store did not take it."""
    return refusal(
        _("Not recorded, please press again"), _("The incident store does not answer right now. Nothing was half done.")
    )


def question(incident: str, step: NextStep, item: Item | None, _: Translate) -> Message:
    """Ask the next open thing: what, why it matters, how to get it, and the button for it."""
    label = item.label if item is not None else ""
    title = _("Next: {step}", step=step_text(step, label, _))
    lines = [
        _("Why: {why}", why=_.reason(step.why)) if step.why else Mrkdwn(""),
        _("How: {how}", how=_.told(step.how)) if step.how else Mrkdwn(""),
    ]
    return notice(title, *lines, buttons=step_buttons(incident, step, label, _))


def two_changes(incident: str, variables: Sequence[Variable], _: Translate) -> Message:
    """Refuse a second variable and let the presser keep one."""
    shown = [
        _("{name} ({before} → {after})", name=v.name, before=_value(v.before, _), after=_value(v.after, _))
        for v in variables[:6]
    ]
    changes = joined(shown, _(" and "))
    if len(variables) == 2:
        title = _("Not started: the attempt would change two things")
    else:
        title = _("Not started: the attempt would change {n} things", n=len(variables))
    buttons = [button(cut(v.name, 70), "keep", Ref(incident, str(number))) for number, v in enumerate(variables[:2])]
    buttons.append(button(_.plain("Neither"), "keep", Ref(incident, "none")))
    return refusal(title, changes, _("Keep one. Which?"), buttons=buttons)


def _value(value: str | None, _: Translate) -> Mrkdwn:
    return code(value, limit=60) if value is not None else _("not set")


def open_items(title: Mrkdwn, items: Sequence[str], _: Translate) -> Message:
    """Refuse with the list of what is still open."""
    shown = [Mrkdwn(f"• {_.told(item)}") for item in items[:10]]
    if len(items) > 10:
        shown.append(_("… and {n} more.", n=len(items) - 10))
    return refusal(title, _("Still open:"), *shown)


def already(what: Mrkdwn, who: str, at: Mrkdwn, _: Translate) -> Message:
    """Answer a double press: it was done, by whom and when."""
    return notice(_("Already {what} by {who} at {at}", what=what, who=person(who), at=at))


def run_again(incident: str, _: Translate, *, has_node: bool, frozen: bool) -> Message:
    """Offer what "run" means in this case: the form, or dropping logs."""
    if not has_node:
        return notice(
            _("This case has no node: its attempts run elsewhere."),
            _("Drop the complete logs of attempts that ran elsewhere."),
            buttons=[button(_.plain("Freeze the baseline"), "job", Ref(incident, "launch"))],
        )
    if not frozen:
        return notice(
            _("No minimal command is frozen yet."),
            _("The form takes the launch command, derives the minimal one, freezes it and runs it."),
            buttons=[button(_.plain("Run an attempt"), "job", Ref(incident, "launch"), style="primary")],
        )
    return notice(
        _("Run attempts of the frozen baseline, or with one change."),
        _("The form shows what is frozen and refuses a second change."),
        buttons=[button(_.plain("Run an attempt"), "job", Ref(incident, "launch"), style="primary")],
    )


def features(incident: str, names: Sequence[tuple[str, str]], _: Translate) -> Message:
    """Offer the features that can be probed. names: id and name of each."""
    shown = [Mrkdwn(f"• `{name}` - {_(label)}") for name, label in names]
    return notice(
        _("Which feature? Say `probe` and its name, or press"),
        joined(shown),
        _("Twenty tries of the held engine; what it was not started for is said to be untested."),
        buttons=[button(_.plain(label), "probe", Ref(incident, name)) for name, label in names[:2]],
    )


def unreadable(name: str, why: str, _: Translate) -> Message:
    """Say why a dropped or pasted text could not be used; nothing is lost."""
    return refusal(_("I could not use {name}", name=name), esc(why))
