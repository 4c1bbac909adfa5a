"""The answer to a log that was dropped or pasted: root, why, what it is not, next step. Needs no case."""

from __future__ import annotations

from dataclasses import dataclass

from bot.blocks import findings
from bot.blocks.elements import Message, Ref, actions, button, context, sections
from bot.blocks.limits import fit
from bot.blocks.terms import CONFIDENCE
from bot.blocks.texts import Mrkdwn, Translate, bold, code_block, esc, joined, short
from playbooks.judging.finding import Finding
from playbooks.vocabulary import ErrorClass


@dataclass(frozen=True, slots=True)
class Analysis:
    """A finding with the stored text it was made from."""

    finding: Finding
    sha256: str
    name: str
    redactions: int = 0
    notes: tuple[str, ...] = ()
    """What was left out or could not be read."""


def answer(analysis: Analysis, _: Translate, *, with_case: bool = False) -> Message:
    """Render the answer; without a case it offers to open one."""
    found = analysis.finding
    head = findings.headline(found, _)
    failed = found.error_class is not ErrorClass.NONE
    lines = [
        bold(head),
        findings.first_failure(found, _),
        _.told(found.why) if failed else Mrkdwn(""),
        findings.reached(found, _) if failed else Mrkdwn(""),
        *findings.symptoms(found, _),
        findings.next_step(found, _),
    ]
    log = Ref("log", analysis.sha256)
    buttons = [] if with_case else [button(_.plain("Open a case from this log"), "open_from_log", log, style="primary")]
    if found.root_line is not None:
        buttons.append(button(_around(found.root_line, found.lines, _), "show_lines", log))
    if findings.shown_oom(found):
        buttons.append(button(_.plain("Why not OOM?"), "why_not_oom", log))
    details = [
        _("confidence: {confidence}", confidence=_(CONFIDENCE.get(found.confidence, found.confidence)))
        if failed
        else Mrkdwn(""),
        _("redacted: {n} values", n=analysis.redactions) if analysis.redactions else Mrkdwn(""),
        _("log {name} · sha256 {digest}", name=analysis.name, digest=short(analysis.sha256)),
        *(esc(note) for note in analysis.notes),
    ]
    blocks = [*sections(lines), context(joined(details, " · ")), *actions(buttons)]
    return fit(Message(joined([head, findings.first_failure(found, _)], " - "), tuple(blocks)))


def _around(root: int, lines: int | None, _: Translate) -> str:
    """Name the lines around the root, none after the last of the log."""
    first, last = max(root - 5, 1), root + 15
    if lines:
        last = max(min(last, lines), root)
    return (
        _.plain("Show line {line}", line=root)
        if first == last
        else _.plain("Show lines {first}-{last}", first=first, last=last)
    )


def lines_around(name: str, first: int, rows: list[str], _: Translate) -> Message:
    """Show the lines around the root, numbered from the log's own count."""
    width = len(str(first + len(rows)))
    numbered = "\n".join(f"{first + index:>{width}} {row}" for index, row in enumerate(rows))
    title = _("Lines {first}-{last} of {name}", first=first, last=first + len(rows) - 1, name=name)
    return fit(Message(title, tuple(sections([bold(title), code_block(numbered, max_lines=40, max_chars=2800)]))))


def why_not_oom(finding: Finding, _: Translate) -> Message:
    """Explain why a memory line is not the root of this log."""
    title = _("Why this is not an out-of-memory problem")
    lines = [
        bold(title),
        findings.first_failure(finding, _),
        *findings.symptoms(finding, _, most=4),
        _(
            "A memory error is the first failure only when devices, weights and engine questions before it were clean. "
            "Here something failed earlier, so lowering context length or memory share cannot help."
        ),
    ]
    return fit(Message(title, tuple(sections(lines))))
