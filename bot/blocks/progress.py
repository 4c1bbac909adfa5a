"""The one line a running job shows in the thread; edited in place, never evidence."""

from __future__ import annotations

from bot.blocks.elements import Message
from bot.blocks.limits import fit
from bot.blocks.notices import notice
from bot.blocks.terms import JOBS, STAGES
from bot.blocks.texts import Mrkdwn, Translate, code, cut, esc
from playbooks.vocabulary import JobKind, Stage


def progress(
    kind: JobKind,
    node: str,
    _: Translate,
    *,
    attempt: int | None = None,
    stage: Stage | None = None,
    note: str = "",
    root_text: str | None = None,
) -> Message:
    """Say what runs and where it stands; the first fatal line comes first as soon as there is one."""
    what = _(JOBS[kind])
    if attempt is not None:
        what = _("{what} {n}", what=what, n=attempt)
    where = _("{what} on {node}", what=what, node=node)
    at = _("now: {stage}", stage=_(STAGES[stage])) if stage not in {None, Stage.NONE} else Mrkdwn("")
    detail = esc(cut(note, 300)) if note else Mrkdwn("")
    if root_text is None:
        return fit(notice(where, at, detail))
    first = _("First fatal line: {line}", line=code(root_text))
    waits = _("The verdict follows when the attempt has ended.")
    return fit(notice(where, first, at, detail, waits))
