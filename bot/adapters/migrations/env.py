"""Alembic's environment: the connection is handed in by `migrate`, so that no URL is written down anywhere."""

from __future__ import annotations

from alembic import context

from bot.adapters.store.schema import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
