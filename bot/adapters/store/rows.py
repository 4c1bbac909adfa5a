"""Rows to values and back."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Row

from bot.errors import StoreCorrupt
from bot.ports import ArtifactMeta, Entry, Job, JobState, Lease, Node, OutboxKind, OutboxRow, OutboxState
from playbooks.judging.ranks import RankEnd
from playbooks.messages import JobRequest, NodeHello
from playbooks.vocabulary import JobKind


def entry_of(row: Row[Any]) -> Entry:
    """Read a ledger entry."""
    return Entry(
        incident=row.incident,
        seq=row.seq,
        previous=row.previous,
        hash=row.hash,
        kind=row.kind,
        actor=row.actor,
        at=row.at,
        payload=_json(row.payload, f"{row.incident} #{row.seq}"),
        artifacts=tuple(_json(row.artifacts, f"{row.incident} #{row.seq}")),
    )


def job_of(row: Row[Any]) -> Job:
    """Read a job."""
    try:
        request = JobRequest.model_validate_json(row.request)
    except ValidationError as error:
        raise StoreCorrupt(f"job {row.id}: its request cannot be read: {error.errors()[0]['msg']}") from error
    return Job(
        id=row.id,
        incident=row.incident,
        node=row.node,
        kind=JobKind(row.kind),
        state=JobState(row.state),
        request=request,
        requested_at=row.requested_at,
        not_after=row.not_after,
        claimed_at=row.claimed_at,
        fence=row.fence,
        last_heard_at=row.last_heard_at,
        cancelled_by=row.cancelled_by,
        stage=row.stage,
        note=row.note,
        outcome=row.outcome,
        report_sha256=row.report_sha256,
        rank_end=_rank_end(row),
    )


def _rank_end(row: Row[Any]) -> RankEnd | None:
    try:
        return None if row.rank_end is None else RankEnd.model_validate_json(row.rank_end)
    except ValidationError as error:
        raise StoreCorrupt(f"job {row.id}: the end of its rank cannot be read: {error.errors()[0]['msg']}") from error


def lease_of(row: Row[Any]) -> Lease:
    """Read a lease."""
    return Lease(node=row.node, fence=row.fence, incident=row.incident, job_id=row.job_id, since=row.since)


def node_of(row: Row[Any]) -> Node:
    """Read a node; a hello that an other version wrote and this one cannot read counts as none."""
    try:
        hello = None if row.hello is None else NodeHello.model_validate_json(row.hello)
    except ValidationError:
        hello = None
    return Node(name=row.name, public_key=row.public_key, hello=hello, heard_at=row.heard_at)


def outbox_of(row: Row[Any]) -> OutboxRow:
    """Read an outbox row."""
    return OutboxRow(
        id=row.id,
        incident=row.incident,
        kind=OutboxKind(row.kind),
        payload=_json(row.payload, f"outbox {row.id}"),
        state=OutboxState(row.state),
        attempts=row.attempts,
        not_before=row.not_before,
        created_at=row.created_at,
        external_id=row.external_id,
        error=row.error,
    )


def artifact_of(row: Row[Any]) -> ArtifactMeta:
    """Read what is known of a file."""
    return ArtifactMeta(
        sha256=row.sha256,
        name=row.name,
        size_bytes=row.size_bytes,
        media_type=row.media_type,
        incident=row.incident,
        stored=row.stored,
        redactions=row.redactions,
    )


def _json(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise StoreCorrupt(f"{place}: expected JSON in the store, found {error.msg}") from error
