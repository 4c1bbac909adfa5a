"""Writing: one transaction, in which entries are appended to an incident's chain under its lock."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from sqlalchemy import Connection, delete, insert

from bot.adapters.store import schema as t
from bot.adapters.store.cases import CaseCache, Folded
from bot.adapters.store.hands import HandsWriting
from bot.adapters.store.statements import ADVANCE_HEAD, INSERT_ENTRY, LOCK_INCIDENT
from bot.adapters.store.upsert import count_on, insert_new, upsert
from bot.errors import StoreConflict, UnknownIncident
from bot.ports import Entry, Incident, OutboxKind
from playbooks.evidence.canonical import canonical_bytes
from playbooks.evidence.chain import GENESIS, entry_hash, head_hash
from playbooks.evidence.entries import IncidentClosed, IncidentOpened, Payload
from playbooks.evidence.redaction import may_hold_secret, redact_json
from playbooks.guiding.case import fold, fold_one


class SqlWriting(HandsWriting):
    """One transaction; implements `bot.ports.Writing`."""

    def __init__(self, connection: Connection, cases: CaseCache) -> None:
        super().__init__(connection, cases)
        self._heads: dict[str, Folded] = {}
        """Cases as this transaction sees them, with what it appended itself."""
        self._locked: set[str] = set()

    def lock(self, incident_id: str) -> Incident:
        """Lock the incident for this transaction and return its newest row.

        Raises:
            UnknownIncident: no incident of that id.
        """
        row = self._connection.execute(LOCK_INCIDENT, {"incident": incident_id}).first()
        if row is None:
            raise UnknownIncident(f"no incident {incident_id}")
        self._locked.add(incident_id)
        return self._incident_of(row)

    def open_incident(self, *, channel: str, owner: str, payload: Payload, at: datetime, language: str) -> Incident:
        """Make the incident with its first entry `incident:opened`, the parent outbox row and its id."""
        if not isinstance(payload, IncidentOpened):
            raise StoreConflict(f"expected {IncidentOpened.KIND} as the first entry, found {payload.KIND}")
        incident_id = f"INC-{count_on(self._connection, 'incident'):04d}"
        entry = _entry(incident_id, None, payload, actor=f"user:{owner}", at=at, artifacts=())
        case = fold(incident_id, [entry])
        self._connection.execute(
            insert(t.incidents),
            {
                "id": incident_id,
                "channel": channel,
                "thread_ts": None,
                "owner": owner,
                "language": language,
                "opened_at": at,
                "closed": False,
                "head_seq": 1,
                "last_hash": entry.hash,
                "head_hash": head_hash(incident_id, 1, entry.hash),
                "dashboard_wanted": 0,
                "dashboard_posted": 0,
                "dashboard_wished_at": at,
            },
        )
        self._insert(entry)
        self._heads[incident_id] = Folded(case, entry.hash)
        self.enqueue(OutboxKind.PARENT, {}, incident=incident_id, at=at)
        return self.lock(incident_id)

    def append(
        self,
        incident_id: str,
        payload: Payload,
        *,
        actor: str,
        at: datetime,
        artifacts: tuple[str, ...] = (),
        post: bool = True,
    ) -> Entry:
        """Append an evidence entry, fold it into the case, want a dashboard, and (`post`) queue its evidence reply.

        Raises:
            UnknownIncident: no incident of that id.
            NotCanonical: the payload holds something without canonical bytes, such as a float.
            MalformedMessage: the entry does not fold into the case.
        """
        if incident_id not in self._locked:
            self.lock(incident_id)
        before = self._heads[incident_id]
        entry = _entry(incident_id, before, payload, actor=actor, at=at, artifacts=artifacts)
        self._heads[incident_id] = Folded(fold_one(before.case, entry), entry.hash)
        self._insert(entry)
        self._connection.execute(
            ADVANCE_HEAD,
            {
                "incident": incident_id,
                "seq": entry.seq,
                "last": entry.hash,
                "head": head_hash(incident_id, entry.seq, entry.hash),
                "closes": isinstance(payload, IncidentClosed),
                "wished_at": datetime.now(UTC),
            },
        )
        if post:
            self.enqueue(OutboxKind.EVIDENCE, {"seq": entry.seq}, incident=incident_id, at=at)
        return entry

    def first_time(self, key: str, *, at: datetime) -> bool:
        """Whether this delivery key is new; remembers it in the same transaction."""
        return insert_new(self._connection, t.deliveries, {"key": key}, {"at": at})

    def forget_deliveries(self, *, before: datetime) -> int:
        """Delete delivery keys older than any repetition; returns how many."""
        return self._connection.execute(delete(t.deliveries).where(t.deliveries.c.at < before)).rowcount

    def set_preference(self, scope: str, key: str, value: str) -> None:
        """Remember a setting of a person or channel."""
        upsert(self._connection, t.preferences, {"scope": scope, "key": key}, {"value": value})

    def publish_cases(self) -> None:
        """Hand the folded cases on, once they are committed."""
        for incident_id, folded in self._heads.items():
            self._cases.keep(incident_id, folded)

    def _insert(self, entry: Entry) -> None:
        self._connection.execute(
            INSERT_ENTRY,
            {
                "incident": entry.incident,
                "seq": entry.seq,
                "previous": entry.previous,
                "hash": entry.hash,
                "kind": entry.kind,
                "actor": entry.actor,
                "at": entry.at,
                "payload": canonical_bytes(entry.payload).decode(),
                "artifacts": json.dumps(entry.artifacts),
            },
        )

    def _kept(self, incident_id: str) -> Folded | None:
        found = self._heads.get(incident_id) or super()._kept(incident_id)
        if found is not None:
            self._heads[incident_id] = found
        return found

    def _keep(self, incident_id: str, folded: Folded) -> None:
        """Keep what is not committed inside this transaction."""
        self._heads[incident_id] = folded


def _entry(
    incident: str, before: Folded | None, payload: Payload, *, actor: str, at: datetime, artifacts: tuple[str, ...]
) -> Entry:
    """Return the entry that follows; `before` is None for the first."""
    seq = 1 if before is None else before.case.head_seq + 1
    previous = GENESIS if before is None else before.last_hash
    content = payload.model_dump(mode="json")
    if may_hold_secret(str(content)):  # the last gate: flows redact what people and nodes send, and say how much
        content, _ = redact_json(content)
    name = entry_hash(
        incident=incident,
        seq=seq,
        previous=previous,
        kind=payload.KIND,
        actor=actor,
        at=at,
        payload=content,
        artifacts=artifacts,
    )
    return Entry(incident, seq, previous, name, payload.KIND, actor, at.astimezone(UTC), content, artifacts)
