"""Reading: incidents with their folded case, entries, jobs, nodes, outbox."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, exists, func, or_, select

from bot.adapters.store import rows
from bot.adapters.store import schema as t
from bot.adapters.store.cases import CaseCache, Folded, bring_up
from bot.adapters.store.statements import FIND_INCIDENT, FIND_PREFERENCE
from bot.ports import ArtifactMeta, Entry, Incident, Job, JobState, Lease, Node, OutboxKind, OutboxRow, OutboxState
from playbooks.evidence.chain import LedgerEntry

_PAGE = 500
OPEN_STATES = (OutboxState.WAITING.value, OutboxState.MARKED.value)


class SqlReading:
    """One consistent picture of the store; implements `bot.ports.Reading`."""

    def __init__(self, connection: Connection, cases: CaseCache) -> None:
        self._connection = connection
        self._cases = cases

    # incidents and their ledger

    def incident(self, incident_id: str) -> Incident | None:
        """Return the incident with its case."""
        row = self._connection.execute(FIND_INCIDENT, {"incident": incident_id}).first()
        return None if row is None else self._incident_of(row)

    def incident_in_thread(self, channel: str, thread_ts: str) -> Incident | None:
        """Return the incident whose thread this is."""
        row = self._first(
            select(t.incidents).where(t.incidents.c.channel == channel, t.incidents.c.thread_ts == thread_ts)
        )
        return None if row is None else self._incident_of(row)

    def incidents(self, *, open_only: bool = True, channel: str | None = None, limit: int = 50) -> list[Incident]:
        """Return incidents, newest first."""
        wanted = select(t.incidents).order_by(t.incidents.c.opened_at.desc(), t.incidents.c.id.desc()).limit(limit)
        if open_only:
            wanted = wanted.where(t.incidents.c.closed.is_(False))
        if channel is not None:
            wanted = wanted.where(t.incidents.c.channel == channel)
        return [self._incident_of(row) for row in self._connection.execute(wanted).all()]

    def entries(self, incident_id: str, *, after: int = 0) -> Iterator[Entry]:
        """Yield the entries of an incident, oldest first, page by page."""
        while True:
            page = self._connection.execute(
                select(t.entries)
                .where(t.entries.c.incident == incident_id, t.entries.c.seq > after)
                .order_by(t.entries.c.seq)
                .limit(_PAGE)
            ).all()
            yield from map(rows.entry_of, page)
            if len(page) < _PAGE:
                return
            after = page[-1].seq

    def entry(self, incident_id: str, seq: int) -> Entry | None:
        """Return one entry."""
        row = self._first(select(t.entries).where(t.entries.c.incident == incident_id, t.entries.c.seq == seq))
        return None if row is None else rows.entry_of(row)

    # jobs and nodes

    def job(self, job_id: str) -> Job | None:
        """Return a job."""
        row = self._first(select(t.jobs).where(t.jobs.c.id == job_id))
        return None if row is None else rows.job_of(row)

    def jobs(self, *, incident: str | None = None, node: str | None = None, active_only: bool = True) -> list[Job]:
        """Return jobs, oldest first; `active_only` leaves out those that ended."""
        wanted = select(t.jobs).order_by(t.jobs.c.requested_at, t.jobs.c.id)
        if active_only:
            wanted = wanted.where(t.jobs.c.state != JobState.ENDED.value)
        if incident is not None:
            wanted = wanted.where(t.jobs.c.incident == incident)
        if node is not None:
            wanted = wanted.where(t.jobs.c.node == node)
        return [rows.job_of(row) for row in self._connection.execute(wanted).all()]

    def group_jobs(self, group: str) -> list[Job]:
        """Return the jobs of a launch over several nodes, by rank."""
        wanted = select(t.jobs).where(t.jobs.c.group_id == group)
        found = [rows.job_of(row) for row in self._connection.execute(wanted).all()]
        return sorted(found, key=lambda job: job.request.rank.rank if job.request.rank is not None else 0)

    def lease(self, node: str) -> Lease | None:
        """Return who holds the node's GPUs."""
        row = self._first(select(t.leases).where(t.leases.c.node == node))
        return None if row is None else rows.lease_of(row)

    def node(self, name: str) -> Node | None:
        """Return a node."""
        row = self._first(select(t.nodes).where(t.nodes.c.name == name))
        return None if row is None else rows.node_of(row)

    def nodes(self) -> list[Node]:
        """Return all nodes by name."""
        return [rows.node_of(row) for row in self._connection.execute(select(t.nodes).order_by(t.nodes.c.name)).all()]

    # what is sent, and where it went

    def outbox(
        self, *, states: Iterable[OutboxState], kinds: Iterable[OutboxKind] | None = None, limit: int = 100
    ) -> list[OutboxRow]:
        """Return outbox rows in these states, oldest first; `kinds` None = all of them."""
        wanted = select(t.outbox).where(t.outbox.c.state.in_([s.value for s in states])).order_by(t.outbox.c.id)
        if kinds is not None:
            wanted = wanted.where(t.outbox.c.kind.in_([kind.value for kind in kinds]))
        return self._outbox(wanted.limit(limit))

    def due_messages(self, *, now: datetime, limit: int = 50) -> list[OutboxRow]:
        """Return what may be sent to Slack now: of each thread its oldest open row, and what waits for nobody."""
        earlier = t.outbox.alias("earlier")
        held_back = exists().where(
            earlier.c.state.in_(OPEN_STATES),
            earlier.c.lane == "thread",
            earlier.c.incident == t.outbox.c.incident,
            earlier.c.id < t.outbox.c.id,
        )
        wanted = select(t.outbox).where(
            t.outbox.c.state.in_(OPEN_STATES),
            or_(t.outbox.c.lane == "free", and_(t.outbox.c.lane == "thread", ~held_back)),
            t.outbox.c.not_before <= now,
        )
        return self._outbox(wanted.order_by(t.outbox.c.id).limit(limit))

    def due_jobs(self, *, now: datetime, limit: int = 50) -> list[OutboxRow]:
        """Return the job rows that may be published now, oldest first."""
        wanted = select(t.outbox).where(
            t.outbox.c.state.in_(OPEN_STATES), t.outbox.c.lane == "job", t.outbox.c.not_before <= now
        )
        return self._outbox(wanted.order_by(t.outbox.c.id).limit(limit))

    def next_due_at(self) -> datetime | None:
        """Return when the earliest open outbox row may go out; None when none is open."""
        wanted = select(func.min(t.outbox.c.not_before)).where(t.outbox.c.state.in_(OPEN_STATES))
        return self._connection.execute(wanted).scalar_one_or_none()

    def message_ts(self, incident_id: str, slot: str) -> str | None:
        """Return the message that a slot of a thread was posted as."""
        row = self._first(
            select(t.messages.c.ts).where(t.messages.c.incident == incident_id, t.messages.c.slot == slot)
        )
        return None if row is None else str(row.ts)

    def artifact(self, sha256: str) -> ArtifactMeta | None:
        """Return what is known of a file."""
        row = self._first(select(t.artifacts).where(t.artifacts.c.sha256 == sha256))
        return None if row is None else rows.artifact_of(row)

    def artifacts(self, incident_id: str) -> list[ArtifactMeta]:
        """Return the files that were first seen in an incident, by digest."""
        wanted = select(t.artifacts).where(t.artifacts.c.incident == incident_id).order_by(t.artifacts.c.sha256)
        return [rows.artifact_of(row) for row in self._connection.execute(wanted).all()]

    def preference(self, scope: str, key: str) -> str | None:
        """Return a remembered setting of a person or channel."""
        row = self._connection.execute(FIND_PREFERENCE, {"scope": scope, "key": key}).first()
        return None if row is None else str(row.value)

    # inside

    def _first(self, wanted: Select[Any]) -> Row[Any] | None:
        return self._connection.execute(wanted).first()

    def _outbox(self, wanted: Select[Any]) -> list[OutboxRow]:
        return [rows.outbox_of(row) for row in self._connection.execute(wanted).all()]

    def _incident_of(self, row: Row[Any]) -> Incident:
        return Incident(
            id=row.id,
            channel=row.channel,
            thread_ts=row.thread_ts,
            owner=row.owner,
            opened_at=row.opened_at,
            head_seq=row.head_seq,
            head_hash=row.head_hash,
            case=self._folded(row.id, row.last_hash).case,
            language=row.language,
        )

    def _folded(self, incident_id: str, last_hash: str) -> Folded:
        kept = self._kept(incident_id)

        def entries_after(seq: int) -> Iterable[LedgerEntry]:
            return self.entries(incident_id, after=seq)

        folded = bring_up(incident_id, kept, last_hash=last_hash, entries_after=entries_after)
        if folded is not kept:
            self._keep(incident_id, folded)
        return folded

    def _kept(self, incident_id: str) -> Folded | None:
        return self._cases.find(incident_id)

    def _keep(self, incident_id: str, folded: Folded) -> None:
        self._cases.keep(incident_id, folded)
