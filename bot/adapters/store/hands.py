"""Writing about the nodes: jobs, leases, hellos, and the files they send."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import delete, insert, select, update

from bot.adapters.store import rows
from bot.adapters.store import schema as t
from bot.adapters.store.outgoing import OutgoingWriting
from bot.adapters.store.upsert import count_on, insert_new, upsert
from bot.errors import UnknownJob
from bot.ports import ArtifactMeta, Job, JobState, Lease, OutboxKind
from playbooks.judging.ranks import RankEnd
from playbooks.messages import JobRequest, NodeHello


class HandsWriting(OutgoingWriting):
    """The nodes' half of `bot.ports.Writing`."""

    def add_job(self, request: JobRequest) -> Job:
        """Record the wish and queue its outbox row in the same transaction.

        Raises:
            StoreConflict: a job of this id is there already.
        """
        self._connection.execute(
            insert(t.jobs),
            {
                "id": request.job_id,
                "incident": request.incident,
                "node": request.node,
                "kind": request.kind.value,
                "state": JobState.WANTED.value,
                "request": request.model_dump_json(),
                "requested_at": request.requested_at,
                "not_after": request.not_after,
                "note": "",
                "group_id": None if request.rank is None else request.rank.group,
            },
        )
        self.enqueue(OutboxKind.JOB, {"job_id": request.job_id}, incident=request.incident, at=request.requested_at)
        return self._known_job(request.job_id)

    def lock_job(self, job_id: str) -> Job:
        """Lock the job for this transaction and return its newest row.

        Raises:
            UnknownJob: no job of that id.
        """
        row = self._first(select(t.jobs).where(t.jobs.c.id == job_id).with_for_update())
        if row is None:
            raise UnknownJob(f"no job {job_id}")
        return rows.job_of(row)

    def update_job(self, job_id: str, **changes: Any) -> Job:
        """Set fields of a `Job` by name.

        Raises:
            UnknownJob: no job of that id.
        """
        if isinstance(end := changes.get("rank_end"), RankEnd):
            changes["rank_end"] = end.model_dump_json()
        done = self._connection.execute(update(t.jobs).where(t.jobs.c.id == job_id).values(**changes))
        if done.rowcount != 1:
            raise UnknownJob(f"no job {job_id}")
        return self._known_job(job_id)

    def take_lease(self, node: str, *, incident: str, job_id: str, at: datetime) -> Lease | None:
        """Take the node's lease with the next fencing number; None when another job holds it.

        A job that holds it already gets the same lease again: a claim may be asked twice.
        """
        fence = count_on(self._connection, f"fence:{node}")
        insert_new(
            self._connection,
            t.leases,
            {"node": node},
            {"fence": fence, "incident": incident, "job_id": job_id, "since": at},
        )
        held = self.lease(node)
        return held if held is not None and held.job_id == job_id else None

    def take_leases(self, wanted: Mapping[str, str], *, incident: str, at: datetime) -> dict[str, Lease] | None:
        """Take the leases of several nodes, or none of them; None when another job holds one.

        wanted: node to the job that is to hold it. Nodes are asked in one order everywhere, so that two groups never wait
        for each other.
        """
        taken: dict[str, Lease] = {}
        for node in sorted(wanted):
            lease = self.take_lease(node, incident=incident, job_id=wanted[node], at=at)
            if lease is None:
                for held in taken.values():
                    self.end_lease(held.node, fence=held.fence)
                return None
            taken[node] = lease
        return taken

    def end_lease(self, node: str, *, fence: int) -> bool:
        """End the lease of this fencing number; False when it is not the node's newest any more."""
        ended = self._connection.execute(delete(t.leases).where(t.leases.c.node == node, t.leases.c.fence == fence))
        return ended.rowcount == 1

    def save_hello(self, hello: NodeHello, *, at: datetime) -> None:
        """Remember the newest word of a node."""
        upsert(self._connection, t.nodes, {"name": hello.node}, {"hello": hello.model_dump_json(), "heard_at": at})

    def enrol_node(self, name: str, public_key: str | None) -> None:
        """Make a node known, or give it another key."""
        upsert(self._connection, t.nodes, {"name": name}, {"public_key": public_key})

    def note_artifact(self, meta: ArtifactMeta) -> None:
        """Remember a file; one that is stored stays stored, and keeps the incident it was first seen in."""
        new = insert_new(
            self._connection,
            t.artifacts,
            {"sha256": meta.sha256},
            {
                "name": meta.name,
                "size_bytes": meta.size_bytes,
                "media_type": meta.media_type,
                "incident": meta.incident,
                "stored": meta.stored,
                "redactions": meta.redactions,
            },
        )
        if not new and meta.stored:
            self.artifact_stored(meta.sha256)

    def artifact_stored(self, sha256: str) -> None:
        """Say that the bytes of an announced file are there."""
        self._connection.execute(update(t.artifacts).where(t.artifacts.c.sha256 == sha256).values(stored=True))

    def _known_job(self, job_id: str) -> Job:
        job = self.job(job_id)
        if job is None:
            raise UnknownJob(f"no job {job_id}")
        return job
