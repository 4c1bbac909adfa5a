"""How a finding of the analyser reads: headline, first failure, symptoms set aside, next."""

from __future__ import annotations

from collections.abc import Iterable

from bot.blocks.classes import HEADLINES, OOM_CLASSES
from bot.blocks.terms import DECISIONS, STAGES
from bot.blocks.texts import Mrkdwn, Translate, code, joined
from playbooks.judging.finding import Finding
from playbooks.vocabulary import ErrorClass, Stage


def headline(finding: Finding, _: Translate) -> Mrkdwn:
    """Say the verdict first, and what it is not where the last line would mislead."""
    if finding.error_class is ErrorClass.NONE and finding.is_a_state:
        return _("Nothing wrong is seen in this; it shows a state, a launch's own log tells more")
    if finding.error_class is ErrorClass.NONE and not came_up(finding):
        return _("No failure in this log, but it ends before the engine was ready")
    verdict = _(HEADLINES[finding.error_class])
    if shown_oom(finding):
        return _("{verdict} - not an out-of-memory problem", verdict=verdict)
    return verdict


def came_up(finding: Finding) -> bool:
    """Whether the log shows a ready engine."""
    return finding.reached.position >= Stage.ENDPOINT_READY.position


def shown_oom(finding: Finding) -> bool:
    """Whether an out-of-memory line stands in the log and is only a symptom."""
    return finding.error_class not in OOM_CLASSES and any(s.error_class in OOM_CLASSES for s in finding.symptoms)


def first_failure(finding: Finding, _: Translate, *, named: bool = False) -> Mrkdwn:
    """Say where the first failure stands: stage, line, text, ranks.

    named: whether the title named the stage already.
    """
    if finding.error_class is ErrorClass.NONE:
        return Mrkdwn("") if finding.is_a_state else _("Reached: {stage}.", stage=_(STAGES[finding.reached]))
    text = code(finding.root_text) if finding.root_text else Mrkdwn("")
    if finding.root_line is None and not text:
        return _("No line of this log says what failed first.")
    told = finding.stage is not Stage.NONE and finding.stage_is_told
    stage = _("First failure") if named or not told else _(STAGES[finding.stage])
    if not named and told:
        stage = _("{stage} failed", stage=stage)
    said = _("{what}: {where} {text}", what=_cap(stage), where=_line(finding, _), text=text)
    return joined([said, _("on {ranks}", ranks=ranks(finding.ranks)) if finding.ranks else Mrkdwn("")], " ")


def _line(finding: Finding, _: Translate) -> Mrkdwn:
    if finding.root_line is None:
        return _("said by the runtime, not by the log:")
    if finding.lines:
        return _("line {line} of {lines}", line=finding.root_line, lines=finding.lines)
    return _("line {line}", line=finding.root_line)


def ranks(names: tuple[str, ...]) -> str:
    """Name at most four processes, then a count."""
    return ", ".join(names[:4]) + (f" +{len(names) - 4}" if len(names) > 4 else "")


def reached(finding: Finding, _: Translate) -> Mrkdwn:
    """Say how far the launch came."""
    if finding.reached is Stage.NONE:
        return _("Reached: nothing is seen complete in this log.")
    return _("Reached: {stage}.", stage=_(STAGES[finding.reached]))


def symptoms(finding: Finding, _: Translate, *, most: int = 2) -> Iterable[Mrkdwn]:
    """Name what was set aside, memory lines first, each with why."""
    ordered = sorted(finding.symptoms, key=lambda s: s.error_class not in OOM_CLASSES)
    for symptom in ordered[:most]:
        yield _(
            "Set aside: {where} {text} - {why}",
            where=_("line {line}", line=symptom.line) if symptom.line is not None else _("a later line"),
            text=code(symptom.text or symptom.error_class, limit=120),
            why=_.told(symptom.why),
        )
    if len(ordered) == most + 1:
        yield _("Set aside besides: one later line.")
    elif len(ordered) > most:
        yield _("Set aside besides: {n} later lines.", n=len(ordered) - most)


def next_step(finding: Finding, _: Translate) -> Mrkdwn:
    """Say what to look at next, or which way it points."""
    if finding.next_check:
        return _("*Next:* {what}", what=_.told(finding.next_check))
    if finding.decision is not None:
        return _("*Next:* this points to: {decision}.", decision=_(DECISIONS[finding.decision]))
    if finding.error_class is ErrorClass.UNKNOWN or (finding.error_class is ErrorClass.NONE and not came_up(finding)):
        return _("*Next:* drop the complete log, from the first line to the exit; the beginning decides.")
    return Mrkdwn("")


def _cap(text: Mrkdwn) -> Mrkdwn:
    return Mrkdwn(text[:1].upper() + text[1:])
