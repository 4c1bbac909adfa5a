"""The first schema.

Revision ID: 0001
Revises:
Create Date: 2026-12-01
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

UTC_TEXT = sa.String(27)
ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make all tables."""
    op.create_table(
        "artifacts",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("media_type", sa.String(length=120), nullable=False),
        sa.Column("incident", sa.String(length=40), nullable=True),
        sa.Column("stored", sa.Boolean(), nullable=False),
        sa.Column("redactions", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_artifacts")),
    )
    op.create_index(op.f("ix_artifacts_incident"), "artifacts", ["incident"], unique=False)
    op.create_table(
        "counters",
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_counters")),
    )
    op.create_table(
        "deliveries",
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("at", UTC_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_deliveries")),
    )
    op.create_index(op.f("ix_deliveries_at"), "deliveries", ["at"], unique=False)
    op.create_table(
        "entries",
        sa.Column("incident", sa.String(length=40), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("previous", sa.String(length=64), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=80), nullable=False),
        sa.Column("actor", sa.String(length=120), nullable=False),
        sa.Column("at", UTC_TEXT, nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("artifacts", sa.Text(), nullable=False),
        sa.UniqueConstraint("incident", "seq", name=op.f("uq_entries_incident_seq")),
    )
    op.create_table(
        "incidents",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("channel", sa.String(length=80), nullable=False),
        sa.Column("thread_ts", sa.String(length=40), nullable=True),
        sa.Column("owner", sa.String(length=80), nullable=False),
        sa.Column("language", sa.String(length=20), nullable=False),
        sa.Column("opened_at", UTC_TEXT, nullable=False),
        sa.Column("closed", sa.Boolean(), nullable=False),
        sa.Column("head_seq", sa.BigInteger(), nullable=False),
        sa.Column("last_hash", sa.String(length=64), nullable=False),
        sa.Column("head_hash", sa.String(length=64), nullable=False),
        sa.Column("dashboard_wanted", sa.BigInteger(), nullable=False),
        sa.Column("dashboard_posted", sa.BigInteger(), nullable=False),
        sa.Column("dashboard_wished_at", UTC_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_incidents")),
    )
    op.create_index(op.f("ix_incidents_channel_thread_ts"), "incidents", ["channel", "thread_ts"], unique=False)
    op.create_index(op.f("ix_incidents_closed_opened_at"), "incidents", ["closed", "opened_at"], unique=False)
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(length=80), nullable=False),
        sa.Column("incident", sa.String(length=40), nullable=False),
        sa.Column("node", sa.String(length=120), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("requested_at", UTC_TEXT, nullable=False),
        sa.Column("not_after", UTC_TEXT, nullable=False),
        sa.Column("claimed_at", UTC_TEXT, nullable=True),
        sa.Column("fence", sa.BigInteger(), nullable=True),
        sa.Column("last_heard_at", UTC_TEXT, nullable=True),
        sa.Column("cancelled_by", sa.String(length=120), nullable=True),
        sa.Column("stage", sa.String(length=40), nullable=True),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("outcome", sa.String(length=40), nullable=True),
        sa.Column("report_sha256", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_index(op.f("ix_jobs_incident_requested_at"), "jobs", ["incident", "requested_at"], unique=False)
    op.create_index(op.f("ix_jobs_state_requested_at"), "jobs", ["state", "requested_at"], unique=False)
    op.create_table(
        "leases",
        sa.Column("node", sa.String(length=120), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("incident", sa.String(length=40), nullable=False),
        sa.Column("job_id", sa.String(length=80), nullable=False),
        sa.Column("since", UTC_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("node", name=op.f("pk_leases")),
    )
    op.create_table(
        "messages",
        sa.Column("incident", sa.String(length=40), nullable=False),
        sa.Column("slot", sa.String(length=120), nullable=False),
        sa.Column("ts", sa.String(length=40), nullable=False),
        sa.PrimaryKeyConstraint("incident", "slot", name=op.f("pk_messages")),
    )
    op.create_table(
        "nodes",
        sa.Column("name", sa.String(length=120), nullable=False),
        sa.Column("public_key", sa.String(length=80), nullable=True),
        sa.Column("hello", sa.Text(), nullable=True),
        sa.Column("heard_at", UTC_TEXT, nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_nodes")),
    )
    op.create_table(
        "outbox",
        sa.Column("id", ROW_ID, autoincrement=True, nullable=False),
        sa.Column("incident", sa.String(length=40), nullable=True),
        sa.Column("lane", sa.String(length=10), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("not_before", UTC_TEXT, nullable=False),
        sa.Column("created_at", UTC_TEXT, nullable=False),
        sa.Column("external_id", sa.String(length=120), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        op.f("ix_outbox_state_lane_incident_id"), "outbox", ["state", "lane", "incident", "id"], unique=False
    )
    op.create_table(
        "preferences",
        sa.Column("scope", sa.String(length=120), nullable=False),
        sa.Column("key", sa.String(length=120), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "key", name=op.f("pk_preferences")),
    )
    op.create_table(
        "sender_leases",
        sa.Column("name", sa.String(length=120), nullable=False),
        sa.Column("holder", sa.String(length=120), nullable=False),
        sa.Column("until", UTC_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_sender_leases")),
    )


def downgrade() -> None:
    """Take all tables away; the record is lost."""
    for table in (
        "sender_leases",
        "preferences",
        "outbox",
        "nodes",
        "messages",
        "leases",
        "jobs",
        "incidents",
        "entries",
        "deliveries",
        "counters",
        "artifacts",
    ):
        op.drop_table(table)
