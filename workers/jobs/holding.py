"""Held engines: how the promise of a launch is ended, and how the engine's death is noticed.

Every end goes through the journal first-come, so that a stop, an expiry and a death at the same moment are told once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from playbooks.messages import HeldEngine
from workers.jobs.deps import Deps
from workers.journal import EngineLife, EngineRow
from workers.ports import EngineRef

STOP_GRACE_S = 3.0
How = Literal["stopped", "expired", "replaced"]


def ref_of(row: EngineRow) -> EngineRef:
    """Return the reference that the journal keeps of an engine."""
    return EngineRef(**row.ref)


def end_engine(deps: Deps, row: EngineRow, *, how: How, detail: str = "") -> tuple[str, ...]:
    """Stop an engine and record why; returns what could not be ended."""
    ref = ref_of(row)
    deps.journal.engine_ended(row.job_id, how=how, detail=detail)
    engine = deps.engines.get(ref.engine)
    if engine is None:
        return (f"{ref.what}: this worker has no {ref.engine} engine",)
    running = engine.find(ref)
    return running.stop(grace_s=STOP_GRACE_S) if running is not None else engine.clear(ref)


def replace_held(deps: Deps, *, by: str) -> tuple[str, ...]:
    """End what is held on this node, for the next attempt takes its place."""
    left: list[str] = []
    for row in deps.journal.engines(EngineLife.HELD):
        left.extend(end_engine(deps, row, how="replaced", detail=by))
    return tuple(left)


def keep(deps: Deps) -> bool:
    """Look after the held engines once: notice deaths, end what is past its time. True when there is something to tell."""
    news = False
    now = deps.clock.now()
    for row in deps.journal.held():
        held = row.held
        if held is None:
            continue
        ref = ref_of(row)
        engine = deps.engines.get(ref.engine)
        running = engine.find(ref) if engine is not None else None
        if engine is not None and running is None:
            if deps.journal.engine_ended(row.job_id, how="died", detail=last_line(ref)):
                engine.clear(ref)
                news = True
        elif now >= held.until:
            end_engine(deps, row, how="expired", detail=f"held until {held.until:%H:%M:%S} UTC")
            news = True
    return news


def lost_and_ended(deps: Deps) -> tuple[tuple[HeldEngine, ...], list[EngineRow]]:
    """Return the engines found dead, and all ends that were not told yet."""
    rows = deps.journal.untold_ends()
    return tuple(row.held for row in rows if row.how == "died" and row.held is not None), rows


def last_line(ref: EngineRef) -> str:
    """Return the last line of an engine's log, for a note; "" when there is none."""
    try:
        with Path(ref.log).open("rb") as log:
            log.seek(0, 2)
            log.seek(max(0, log.tell() - 4096))
            lines = log.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")
