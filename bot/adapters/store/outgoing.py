"""What a transaction leaves for the senders: outbox rows, their life, dashboards, messages' places."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import delete, update

from bot.adapters.store import schema as t
from bot.adapters.store.reading import SqlReading
from bot.adapters.store.statements import INSERT_OUTBOX, WANT_DASHBOARD
from bot.adapters.store.upsert import upsert
from bot.errors import StoreConflict, UnknownIncident
from bot.ports import OutboxKind, OutboxState

Lane = Literal["thread", "free", "job", "fetch"]


def lane_of(kind: OutboxKind, incident: str | None) -> Lane:
    """Return which rows this one waits for: those of its thread, or none."""
    match kind:
        case OutboxKind.JOB:
            return "job"
        case OutboxKind.FETCH:
            return "fetch"
        case OutboxKind.EPHEMERAL | OutboxKind.DIRECT:
            return "free"
        case OutboxKind.PARENT | OutboxKind.EVIDENCE | OutboxKind.NOTE | OutboxKind.FILE:
            return "free" if incident is None else "thread"


class OutgoingWriting(SqlReading):
    """The outgoing half of `bot.ports.Writing`."""

    def enqueue(
        self,
        kind: OutboxKind,
        payload: dict[str, Any],
        *,
        incident: str | None,
        at: datetime,
        not_before: datetime | None = None,
    ) -> int:
        """Queue something to send; returns the row's id."""
        row_id = self._connection.execute(
            INSERT_OUTBOX,
            {
                "incident": incident,
                "lane": lane_of(kind, incident),
                "kind": kind.value,
                "payload": json.dumps(payload, ensure_ascii=False),
                "state": OutboxState.WAITING.value,
                "attempts": 0,
                "not_before": not_before or at,
                "created_at": at,
            },
        )
        return int(row_id.scalar_one())

    def outbox_marked(self, row_id: int) -> None:
        """Say that the call is about to be made: after a crash, such a row is looked up before it is sent again."""
        self._outbox_changed(row_id, state=OutboxState.MARKED.value, attempts=t.outbox.c.attempts + 1)

    def outbox_done(self, row_id: int, *, external_id: str | None = None) -> None:
        """Say that it was sent."""
        self._outbox_changed(row_id, state=OutboxState.DONE.value, external_id=external_id, error=None)

    def outbox_retry(self, row_id: int, *, not_before: datetime, error: str) -> None:
        """Say that it was not sent and may be tried again from then on; what follows in its thread waits with it."""
        self._outbox_changed(row_id, state=OutboxState.WAITING.value, not_before=not_before, error=error)

    def outbox_undeliverable(self, row_id: int, *, error: str) -> None:
        """Say that it is refused for good; what follows in its thread goes on."""
        self._outbox_changed(row_id, state=OutboxState.UNDELIVERABLE.value, error=error)

    def update_outbox(self, row_id: int, **changes: Any) -> None:
        """Set fields of an `OutboxRow` by name."""
        if "payload" in changes:
            changes["payload"] = json.dumps(changes["payload"], ensure_ascii=False)
        self._outbox_changed(row_id, **changes)

    def forget_sent(self, *, before: datetime) -> int:
        """Delete rows sent before this time; returns how many."""
        return self._connection.execute(
            delete(t.outbox).where(t.outbox.c.state == OutboxState.DONE.value, t.outbox.c.created_at < before)
        ).rowcount

    def want_dashboard(self, incident_id: str) -> None:
        """Wish for the dashboard to be rendered anew; wishes that were not met yet are one."""
        wish = {"incident": incident_id, "wished_at": datetime.now(UTC)}
        if self._connection.execute(WANT_DASHBOARD, wish).rowcount != 1:
            raise UnknownIncident(f"no incident {incident_id}")

    def set_thread(self, incident_id: str, thread_ts: str) -> None:
        """Remember the parent message."""
        self._incident_changed(incident_id, thread_ts=thread_ts)

    def set_owner(self, incident_id: str, owner: str) -> None:
        """Hand the incident to another person."""
        self._incident_changed(incident_id, owner=owner)

    def set_message_ts(self, incident_id: str, slot: str, ts: str) -> None:
        """Remember where a slot was posted."""
        upsert(self._connection, t.messages, {"incident": incident_id, "slot": slot}, {"ts": ts})

    def _incident_changed(self, incident_id: str, **values: Any) -> None:
        done = self._connection.execute(update(t.incidents).where(t.incidents.c.id == incident_id).values(**values))
        if done.rowcount != 1:
            raise UnknownIncident(f"no incident {incident_id}")

    def _outbox_changed(self, row_id: int, **values: Any) -> None:
        done = self._connection.execute(update(t.outbox).where(t.outbox.c.id == row_id).values(**values))
        if done.rowcount != 1:
            raise StoreConflict(f"no outbox row {row_id}")
