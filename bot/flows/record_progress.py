"""Take a progress message: what a job does now, one edited line in the thread, at most every three seconds.

Lossy on purpose: an older message than one that was taken, or one after the report, changes nothing. The first fatal line
is never held back.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from bot.blocks.progress import progress
from bot.blocks.texts import translator
from bot.flows.job_access import job_of
from bot.ports import JobState, OutboxKind, OutboxState
from playbooks.messages import HeartbeatReply
from playbooks.vocabulary import Stage

if TYPE_CHECKING:
    from bot.flows.services import Services
    from bot.ports import Job, Writing
    from playbooks.messages import Progress

EVERY = timedelta(seconds=3)
"""The thread's line is edited at most this often; Slack allows about one message a second and channel."""
_WAITING_ROWS = 500


def record_progress(services: Services, said: Progress) -> HeartbeatReply:
    """Take a progress message; answers like a heartbeat, so that a cancel reaches the node with either.

    Raises:
        UnknownJob: no job of that id.
        NotThatNode: the job is another node's.
    """
    now = services.clock.now()
    with services.store.write() as tx:
        job = job_of(tx, said.job_id, said.node)
        if job.state in {JobState.CLAIMED, JobState.CANCELLING}:
            tx.lock(job.incident)
            job = tx.lock_job(said.job_id)
            shown = _take(tx, job, said, now)
        else:
            shown = False
    if shown:
        services.nudge()
    cancel = job.state in {JobState.CANCELLING, JobState.ENDED}
    return HeartbeatReply(
        job_id=job.id, cancel=cancel, cancelled_by=(job.cancelled_by or "the bot") if cancel else "", bot_time=now
    )


def _take(tx: Writing, job: Job, said: Progress, now: datetime) -> bool:
    scope = f"job:{job.id}"
    before: dict[str, Any] = json.loads(tx.preference(scope, "progress") or "{}")
    if said.seq <= before.get("seq", -1):
        return False
    stage = said.stage.value if said.stage is not None else job.stage
    root = said.root_text or before.get("root")
    tx.update_job(job.id, stage=stage, note=said.note or job.note, last_heard_at=now)
    tx.want_dashboard(job.incident)
    is_first_root = said.root_text is not None and before.get("root") is None
    noted_at = datetime.fromisoformat(before["noted_at"]) if "noted_at" in before else None
    due = noted_at is None or now - noted_at >= EVERY
    show = is_first_root or due
    after = {"seq": said.seq, "root": root, "noted_at": (now if show else noted_at or now).isoformat()}
    tx.set_preference(scope, "progress", json.dumps(after))
    if show:
        _note(tx, replace(job, stage=stage, note=said.note), root, now)
    return show


def _note(tx: Writing, job: Job, root: str | None, now: datetime) -> None:
    incident = tx.incident(job.incident)
    message = progress(
        job.kind,
        job.node,
        translator(incident.language if incident is not None else "en"),
        attempt=job.request.attempt,
        stage=Stage(job.stage) if job.stage is not None else None,
        note=job.note,
        root_text=root,
    )
    payload = {**message.payload(), "slot": f"progress:{job.id}"}
    waiting = tx.outbox(states=[OutboxState.WAITING], kinds=[OutboxKind.NOTE], limit=_WAITING_ROWS)
    unsent = next((row for row in waiting if row.payload.get("slot") == payload["slot"]), None)
    if unsent is not None:
        tx.update_outbox(unsent.id, payload=payload)  # Slack is behind: say the newest once, not all of them
    else:
        tx.enqueue(OutboxKind.NOTE, payload, incident=job.incident, at=now)
