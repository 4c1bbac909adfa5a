"""Stop what runs for a case: every job that is on its way or at work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.blocks.elements import Message
from bot.blocks.notices import notice, refusal
from bot.flows.cancel_job import Cancelled, cancel_job
from bot.flows.once import refuse
from bot.flows.permission import Action, require
from bot.flows.showing import Asker, known, language_for

if TYPE_CHECKING:
    from bot.flows.services import Services


def stop_jobs(services: Services, asker: Asker, incident_id: str) -> Message:
    """Cancel the case's jobs; pressed again, it changes nothing.

    Raises:
        Refused: the asker may not, or nothing runs.
    """
    with services.store.read() as reading:
        incident = known(reading, incident_id)
        _ = language_for(reading, asker, incident)
        jobs = reading.jobs(incident=incident_id)
    require(services, asker, Action.CANCEL_JOB, _)
    if not jobs:
        raise refuse(refusal(_("Nothing to stop"), _("No job of this case is on its way or running.")))
    results = [cancel_job(services, job.id, by=asker.actor, reason="stopped from the thread") for job in jobs]
    if Cancelled.TOLD in results:
        return notice(_("The node is told to stop; its report says when it has."))
    return notice(_("Stopped before it started."))
