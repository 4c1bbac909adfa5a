"""Jobs of one launch over several nodes belong to a group, and each keeps how its rank ended.

Revision ID: 0002
Revises: 0001
Create Date: 2026-12-01
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both; the jobs that are there belong to no group."""
    op.add_column("jobs", sa.Column("group_id", sa.String(length=80), nullable=True))
    op.add_column("jobs", sa.Column("rank_end", sa.Text(), nullable=True))
    op.create_index(op.f("ix_jobs_group_id"), "jobs", ["group_id"], unique=False)


def downgrade() -> None:
    """Take both away; launches over several nodes that run then are never put together."""
    op.drop_index(op.f("ix_jobs_group_id"), table_name="jobs")
    with op.batch_alter_table("jobs") as jobs:
        jobs.drop_column("rank_end")
        jobs.drop_column("group_id")
