"""Held engines: how the promise of a launch is ended, and how the engine's death is noticed.

Every end goes through the journal first-come, so that a stop, an expiry and a death at the same moment are told once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from playbooks.judging.first_failure import Analyser
from playbooks.messages import HeldEngine
from workers.errors import PolicyRefusal
from workers.jobs.deps import Deps
from workers.jobs.redacting import clean
from workers.journal import EngineLife, EngineRow
from workers.policy import allow_launch
from workers.ports import EngineRef

STOP_GRACE_S = 3.0
_TAIL_BYTES = 256 << 10
"""Of a log of long service, what may hold the end and its cause."""
_SHOWN_CHARS = 300
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
            if deps.journal.engine_ended(row.job_id, how="died", detail=why_it_died(deps, row)):
                engine.clear(ref)
                news = True
        elif now >= held.until:
            end_engine(deps, row, how="expired", detail=f"held until {held.until:%H:%M:%S} UTC")
            news = True
        else:
            deps.spool.trim(Path(ref.log))
    return news


def lost_and_ended(deps: Deps) -> tuple[tuple[HeldEngine, ...], list[EngineRow]]:
    """Return the engines found dead, and all ends that were not told yet."""
    rows = deps.journal.untold_ends()
    return tuple(row.held for row in rows if row.how == "died" and row.held is not None), rows


def why_it_died(deps: Deps, row: EngineRow) -> str:
    """Return the first failure in the tail of an engine's log, else its last line; "" when nothing may be shown."""
    job = deps.journal.job(row.job_id)
    if job is None:
        return ""
    try:
        secrets = allow_launch(job.request, deps.policy).secrets
    except PolicyRefusal:  # the policy changed since: what was filled in is not known any more, so no line is shown
        return ""
    lines = [clean(line, secrets) for line in _tail(ref_of(row))]
    analyser = Analyser(deps.catalogue())
    for line in lines:
        analyser.feed(line)
    root = analyser.finish().root_text
    last = next((line for line in reversed(lines) if line.strip()), "")
    return (root or last).strip()[:_SHOWN_CHARS]


def _tail(ref: EngineRef) -> list[str]:
    try:
        with Path(ref.log).open("rb") as log:
            size = log.seek(0, 2)
            start = log.seek(max(0, size - _TAIL_BYTES))
            text = log.read().decode(errors="replace")
    except OSError:
        return []
    lines = text.split("\n")
    return lines[1:] if start else lines
