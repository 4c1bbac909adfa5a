"""What the flows need of the outside: store, artifacts, clock, ids. Vendor adapters live in `bot.adapters`.

One `write()` block is one transaction: state change, evidence entry and outbox rows together, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from playbooks.evidence.chain import LedgerEntry
from playbooks.evidence.entries import Payload
from playbooks.guiding.case import Case
from playbooks.guiding.chart_forms import Chart
from playbooks.judging.ranks import RankEnd
from playbooks.messages import JobRequest, NodeHello
from playbooks.vocabulary import JobKind

Entry = LedgerEntry
"""A ledger entry as stored: the same value that a bundle is read into."""


@dataclass(frozen=True, slots=True)
class Incident:
    """The row beside the ledger: where the thread is, and the folded case."""

    id: str
    channel: str
    thread_ts: str | None
    """None until the parent message is posted."""
    owner: str
    opened_at: datetime
    head_seq: int
    head_hash: str
    case: Case
    language: str = "en"


class JobState(StrEnum):
    """Life of a job on the bot's side."""

    WANTED = "wanted"
    CLAIMED = "claimed"
    CANCELLING = "cancelling"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Job:
    """A job row. `request` is what was signed; `fence` is set by a granted claim."""

    id: str
    incident: str
    node: str
    kind: JobKind
    state: JobState
    request: JobRequest
    requested_at: datetime
    not_after: datetime
    claimed_at: datetime | None = None
    fence: int | None = None
    last_heard_at: datetime | None = None
    cancelled_by: str | None = None
    stage: str | None = None
    note: str = ""
    outcome: str | None = None
    report_sha256: str | None = None
    rank_end: RankEnd | None = None
    """Of a launch over several nodes: how this rank ended."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Who may load the GPUs of a node. Ends by the worker's word or an approver's, never by time."""

    node: str
    fence: int
    incident: str
    job_id: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Node:
    """A node the bot knows; `hello` None = never heard of."""

    name: str
    public_key: str | None
    hello: NodeHello | None = None
    heard_at: datetime | None = None


class OutboxKind(StrEnum):
    """What an outbox row sends."""

    PARENT = "parent"
    """The incident's parent message (once); payload {}: rendered when its turn comes."""
    EVIDENCE = "evidence"
    """A thread reply for ledger entry `seq`; payload {"seq": n}; rendered from the entry, never edited."""
    NOTE = "note"
    """A thread reply that is no evidence (a question, a progress line); payload {"blocks", "text", "slot"?}.
    Rows of the same `slot` edit the message that the first of them posted."""
    FILE = "file"
    """An artifact into the thread; payload {"sha256", "name", "title"}."""
    EPHEMERAL = "ephemeral"
    """payload {"user", "channel", "thread_ts"?, "blocks", "text"}."""
    DIRECT = "direct"
    """A message outside any incident; payload {"channel", "thread_ts"?, "blocks", "text"}."""
    JOB = "job"
    """Publish a job to its node's queue; payload {"job_id"}."""
    FETCH = "fetch"
    """A file dropped in Slack that is still to be read and judged; payload {"file", "user", "channel", "thread_ts"}."""


class OutboxState(StrEnum):
    """Life of an outbox row; `marked` rows are looked up after a crash, and only then sent again."""

    WAITING = "waiting"
    MARKED = "marked"
    DONE = "done"
    UNDELIVERABLE = "undeliverable"


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """One thing to send; rows of an incident go out in order of `id`, jobs apart from messages."""

    id: int
    incident: str | None
    kind: OutboxKind
    payload: dict[str, Any]
    state: OutboxState
    attempts: int
    not_before: datetime
    created_at: datetime
    external_id: str | None = None
    """Message ts or file id, once known."""
    error: str | None = None


class Reading(Protocol):
    """Consistent reading."""

    def incident(self, incident_id: str) -> Incident | None: ...
    def incident_in_thread(self, channel: str, thread_ts: str) -> Incident | None: ...
    def incidents(self, *, open_only: bool = True, channel: str | None = None, limit: int = 50) -> list[Incident]: ...
    def entries(self, incident_id: str, *, after: int = 0) -> Iterator[Entry]: ...
    def entry(self, incident_id: str, seq: int) -> Entry | None: ...
    def job(self, job_id: str) -> Job | None: ...
    def jobs(self, *, incident: str | None = None, node: str | None = None, active_only: bool = True) -> list[Job]: ...
    def group_jobs(self, group: str) -> list[Job]:
        """Return the jobs of a launch over several nodes, by rank, ended ones too."""
        ...

    def lease(self, node: str) -> Lease | None: ...
    def node(self, name: str) -> Node | None: ...
    def nodes(self) -> list[Node]: ...
    def artifact(self, sha256: str) -> ArtifactMeta | None: ...
    def outbox(
        self, *, states: Iterable[OutboxState], kinds: Iterable[OutboxKind] | None = None, limit: int = 100
    ) -> list[OutboxRow]:
        """Return rows oldest first, due or not; `kinds` None = all of them (each sender reads its own)."""
        ...

    def due_messages(self, *, now: datetime, limit: int = 50) -> list[OutboxRow]:
        """Return what may be sent to Slack now: of each thread its oldest open row, and what waits for nobody."""
        ...

    def next_due_at(self) -> datetime | None:
        """Return when the earliest open outbox row may go out; None when none is open."""
        ...

    def due_jobs(self, *, now: datetime, limit: int = 50) -> list[OutboxRow]:
        """Return the job rows that may be published now, oldest first."""
        ...

    def message_ts(self, incident_id: str, slot: str) -> str | None: ...
    def preference(self, scope: str, key: str) -> str | None: ...


@dataclass(frozen=True, slots=True)
class ArtifactMeta:
    """What is known of a stored file; `stored` False = announced, bytes still to come."""

    sha256: str
    name: str
    size_bytes: int
    media_type: str
    incident: str | None
    stored: bool
    redactions: int = 0


class Writing(Reading, Protocol):
    """One transaction."""

    def lock(self, incident_id: str) -> Incident:
        """Lock the incident for this transaction and return its newest row. Raises: UnknownIncident."""
        ...

    def open_incident(self, *, channel: str, owner: str, payload: Payload, at: datetime, language: str) -> Incident:
        """Make the incident with its first entry `incident:opened`, the parent outbox row and its id `INC-0001`, counted on."""
        ...

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
        """Append an evidence entry, fold it into the case, want a dashboard, and (`post`) queue its evidence reply."""
        ...

    def enqueue(
        self,
        kind: OutboxKind,
        payload: dict[str, Any],
        *,
        incident: str | None,
        at: datetime,
        not_before: datetime | None = None,
    ) -> int: ...
    def want_dashboard(self, incident_id: str) -> None: ...
    def set_thread(self, incident_id: str, thread_ts: str) -> None: ...
    def set_owner(self, incident_id: str, owner: str) -> None: ...
    def set_message_ts(self, incident_id: str, slot: str, ts: str) -> None: ...
    def update_outbox(self, row_id: int, **changes: Any) -> None: ...

    def first_time(self, key: str, *, at: datetime) -> bool:
        """Whether this delivery key is new (event id, trigger id, action ts); remembers it in the same transaction."""
        ...

    def add_job(self, request: JobRequest) -> Job:
        """Record the wish and queue its outbox row in the same transaction."""
        ...

    def lock_job(self, job_id: str) -> Job:
        """Lock the job for this transaction and return its newest row. Raises: UnknownJob."""
        ...

    def update_job(self, job_id: str, **changes: Any) -> Job: ...
    def take_lease(self, node: str, *, incident: str, job_id: str, at: datetime) -> Lease | None:
        """Take the node's lease with the next fencing number; None when another job holds it."""
        ...

    def take_leases(self, wanted: Mapping[str, str], *, incident: str, at: datetime) -> dict[str, Lease] | None:
        """Take the leases of several nodes (node to job), or none of them; None when another job holds one."""
        ...

    def end_lease(self, node: str, *, fence: int) -> bool: ...
    def save_hello(self, hello: NodeHello, *, at: datetime) -> None: ...
    def enrol_node(self, name: str, public_key: str | None) -> None: ...
    def note_artifact(self, meta: ArtifactMeta) -> None: ...
    def artifact_stored(self, sha256: str) -> None: ...
    def set_preference(self, scope: str, key: str, value: str) -> None: ...
    def forget_deliveries(self, *, before: datetime) -> int: ...
    def forget_sent(self, *, before: datetime) -> int: ...


class Store(Protocol):
    """The incident store."""

    def read(self) -> AbstractContextManager[Reading]: ...
    def write(self) -> AbstractContextManager[Writing]:
        """Commit when the block ends, roll back when it raises. Raises: StoreUnavailable, StoreBusy."""
        ...

    def dashboards(self, *, limit: int = 20) -> list[tuple[str, int]]:
        """Incidents whose wanted dashboard revision is newer than the posted one, oldest wish first: (id, wanted)."""
        ...

    def dashboard_posted(self, incident_id: str, revision: int) -> None: ...
    def sender_lease(self, name: str, holder: str, *, now: datetime, ttl_s: int) -> bool:
        """Take or renew the right to send under this name; False while another process holds it."""
        ...

    def end_sender_lease(self, name: str, holder: str, *, now: datetime) -> None:
        """Give the right to send back, so that another process need not wait for its end."""
        ...

    def check(self) -> None:
        """Raise StoreUnavailable when the store does not answer or its schema is not this version's."""
        ...


class ArtifactStore(Protocol):
    """Bytes by digest."""

    def put(self, data: bytes) -> str:
        """Store and return the digest; storing the same bytes again is nothing."""
        ...

    def put_stream(self, chunks: Iterable[bytes], *, expected: str) -> int:
        """Store a stream under the digest it must have; returns its size. Raises: DigestMismatch."""
        ...

    def get(self, sha256: str) -> bytes: ...
    def open(self, sha256: str) -> AbstractContextManager[Iterator[bytes]]: ...
    def has(self, sha256: str) -> bool: ...
    def forget_drafts(self, *, before: datetime) -> int:
        """Delete what was begun before this time and never finished; returns how many files."""
        ...


class ChartPainter(Protocol):
    """Charts as PNG."""

    def paint(self, chart: Chart) -> bytes:
        """Return the picture; the same chart gives the same bytes. Raises: ChartNotDrawn."""
        ...


class Clock(Protocol):
    """Aware UTC time."""

    def now(self) -> datetime: ...


class Ids(Protocol):
    """Fresh ids."""

    def job_id(self) -> str: ...
