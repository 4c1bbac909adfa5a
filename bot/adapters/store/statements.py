"""The statements that every press runs, built once: building them anew costs more than the database does."""

from __future__ import annotations

from sqlalchemy import bindparam, case, insert, select, update

from bot.adapters.store import schema as t

_c = t.incidents.c
_DASHBOARD = {
    "dashboard_wanted": _c.dashboard_wanted + 1,
    # A wish that is open keeps its place in the queue; `wished_at` says nothing but which wish is older.
    "dashboard_wished_at": case(
        (_c.dashboard_wanted > _c.dashboard_posted, _c.dashboard_wished_at),
        else_=bindparam("wished_at", type_=t.UtcTime()),
    ),
}

FIND_INCIDENT = select(t.incidents).where(_c.id == bindparam("incident"))
FIND_PREFERENCE = select(t.preferences.c.value).where(
    t.preferences.c.scope == bindparam("scope"), t.preferences.c.key == bindparam("key")
)
LOCK_INCIDENT = select(t.incidents).where(_c.id == bindparam("incident")).with_for_update()
INSERT_ENTRY = insert(t.entries).values({column.name: bindparam(column.name) for column in t.entries.c})
ADVANCE_HEAD = (
    update(t.incidents)
    .where(_c.id == bindparam("incident"))
    .values(
        head_seq=bindparam("seq"),
        last_hash=bindparam("last"),
        head_hash=bindparam("head"),
        closed=_c.closed | bindparam("closes", type_=_c.closed.type),
        **_DASHBOARD,
    )
)
WANT_DASHBOARD = update(t.incidents).where(_c.id == bindparam("incident")).values(**_DASHBOARD)
_OUTBOX = insert(t.outbox).values(
    {
        name: bindparam(name)
        for name in ("incident", "lane", "kind", "payload", "state", "attempts", "not_before", "created_at")
    }
)
INSERT_OUTBOX = _OUTBOX.returning(t.outbox.c.id)
