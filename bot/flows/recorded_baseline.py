"""The baseline that a recorded attempt counts for: the newest frozen one, else the command as it was given."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from playbooks.errors import InvalidCommand
from playbooks.evidence.entries import BaselineFrozen
from playbooks.judging.baseline import Baseline
from playbooks.judging.minimal_command import as_given
from playbooks.judging.recorded import SEEN_TO_RUN
from playbooks.reading import launch_command

if TYPE_CHECKING:
    from datetime import datetime

    from bot.flows.services import Services
    from bot.ports import Writing
    from playbooks.guiding.case import Case


def newest_or_as_given(
    tx: Writing, services: Services, incident_id: str, *, actor: str, now: datetime, ran: tuple[str, ...] = ()
) -> Baseline:
    """Return the baseline of the next recorded attempt, freezing the command as it was given when there is none.

    ran: the command that was seen to run, as argv; it goes before what people told.
    """
    case = tx.lock(incident_id).case
    if case.baselines:
        return Baseline.model_validate(case.baselines[-1].payload.baseline)
    del services
    baseline = _of_command(shlex.join(ran) if ran else command_of(case))
    frozen = BaselineFrozen(
        digest=baseline.digest,
        baseline=baseline.model_dump(mode="json"),
        derived_from=_whence(baseline, seen=bool(ran)),
    )
    tx.append(incident_id, frozen, actor=actor, at=now)
    return baseline


def _whence(baseline: Baseline, *, seen: bool) -> str:
    if not baseline.argv:
        return "no command was given"
    return SEEN_TO_RUN if seen else "the command as it was given"


def command_of(case: Case) -> str:
    """Return the launch command as people gave it: the newest answer, else the one of the opening."""
    answer = case.answers.get("launch-command")
    return answer.payload.value if answer is not None else case.opened.payload.command


def _of_command(text: str) -> Baseline:
    """Return what ran, as far as it is known; an unreadable command is no reason to lose the log."""
    if text.strip():
        try:
            return as_given(launch_command.read(text)).model_copy(update={"engine": "recorded"})
        except InvalidCommand:
            pass
    return Baseline(engine="recorded")
