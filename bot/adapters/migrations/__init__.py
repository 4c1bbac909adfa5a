"""Alembic's migrations of the incident store, run by `bot.adapters.store.migrate` at every start."""
