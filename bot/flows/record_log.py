"""Record a log that was dropped or pasted into a case: as an attempt that ran elsewhere, or as a log that was looked at.

A recorded attempt is marked as such everywhere. It counts for the newest frozen baseline; where none is frozen, one is
made of the command as it was given, for that is what ran.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from bot.blocks.notices import refusal
from bot.flows.advance_phase import advance_phase
from bot.flows.ask_next import ask_next
from bot.flows.once import lock_open, once, refuse
from bot.flows.permission import Action, require
from bot.flows.recorded_baseline import newest_or_as_given
from bot.flows.score_attempts import score_against_previous
from bot.flows.showing import Asker, known, language_for
from bot.flows.take_log import TakenLog, note, shows_a_launch, take_log
from bot.ports import OutboxKind
from playbooks.evidence.entries import AttemptRecorded, LogAnalysed
from playbooks.judging.recorded import outcome_of

if TYPE_CHECKING:
    from datetime import datetime

    from bot.blocks.texts import Translate
    from bot.flows.services import Services
    from bot.ports import Incident, Writing
    from playbooks.guiding.case import Case


def record_log(services: Services, asker: Asker, incident_id: str, *, name: str, chunks: Iterable[bytes]) -> int:
    """Record the log; returns the sequence number of its entry.

    Raises:
        Repeated: the delivery was taken already.
        Refused: the asker may not, or the case is closed.
    """
    with services.store.read() as reading:
        incident = known(reading, incident_id)
        require(services, asker, Action.RECORD_LOG, language_for(reading, asker, incident))
    log = take_log(services, name, chunks)
    now = services.clock.now()
    with once(services, asker) as tx:
        incident = lock_open(tx, incident_id)
        return record_taken(tx, services, incident, log, asker=asker, now=now)


def record_taken(
    tx: Writing, services: Services, incident: Incident, log: TakenLog, *, asker: Asker, now: datetime
) -> int:
    """Record a log that was taken in already, inside a transaction that holds the incident's lock."""
    note(tx, log, incident.id)
    if not shows_a_launch(log.finding):
        entry = tx.append(
            incident.id,
            LogAnalysed(sha256=log.sha256, name=log.name, finding=log.finding.model_dump(mode="json")),
            actor=asker.actor,
            at=now,
            artifacts=(log.sha256,),
        )
        return entry.seq
    _refuse_a_second_copy(incident.case, log, language_for(tx, asker, incident))
    baseline = newest_or_as_given(
        tx, services, incident.id, actor=asker.actor, now=now, ran=log.watched.command if log.watched else ()
    )
    case = tx.lock(incident.id).case
    attempt = AttemptRecorded(
        attempt=case.next_attempt,
        baseline_digest=baseline.digest,
        origin="recorded",
        outcome=outcome_of(log.finding),
        finding=log.finding.model_dump(mode="json"),
        log_sha256=log.sha256,
        log_name=log.name,
        exit_code=log.watched.exit_code if log.watched else None,
        oom_killed=log.watched.oom_killed if log.watched else None,
        watched=log.watched.model_dump(mode="json") if log.watched else None,
    )
    entry = tx.append(incident.id, attempt, actor=asker.actor, at=now, artifacts=(log.sha256,))
    score_against_previous(tx, services, incident.id, now=now)
    _attach(tx, incident.id, log, attempt, now)
    advance_phase(tx, services, incident.id, now=now)
    ask_next(tx, services, incident.id, now=now)
    return entry.seq


def _refuse_a_second_copy(case: Case, log: TakenLog, _: Translate) -> None:
    """A log with times and process ids in it is written once: the same bytes are the same run.

    Raises:
        Refused: an attempt of this case has this log already.
    """
    if not log.stamped:
        return
    for noted in case.attempts:
        if noted.payload.log_sha256 == log.sha256:
            raise refuse(
                refusal(
                    _("Not recorded: this is the log of attempt {n} again", n=noted.payload.attempt),
                    _(
                        "It is the same, byte for byte, with the same times and process ids: one run, not two. See #{seq}; drop the log of another run.",
                        seq=noted.seq,
                    ),
                )
            )


def _attach(tx: Writing, incident: str, log: TakenLog, attempt: AttemptRecorded, now: datetime) -> None:
    redacted = f", redacted: {log.redactions}" if log.redactions else ""
    title = f"Recorded attempt {attempt.attempt}: log{redacted} · sha256 {log.sha256[:12]}"
    payload = {"sha256": log.sha256, "name": log.name or f"attempt-{attempt.attempt}.log", "title": title}
    tx.enqueue(OutboxKind.FILE, payload, incident=incident, at=now)
