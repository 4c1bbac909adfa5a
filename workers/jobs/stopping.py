"""The jobs `stop` and `sweep`: end a running job or a held engine; end everything that nobody holds."""

from __future__ import annotations

from pathlib import Path

from playbooks.messages import JobRequest, StopParams, SweepFacts
from workers.errors import JobError, UnusableRequest
from workers.jobs.deps import Deps, Done
from workers.jobs.holding import end_engine, ref_of
from workers.journal import EngineLife
from workers.ports import Control

_STOP_WAIT_S = 15.0
_POLL_S = 0.1


def stop(request: JobRequest, deps: Deps, control: Control) -> Done:
    """End the running job `job_id`, or the held engine of `attempt`; neither given ends all that is held here.

    Raises:
        UnusableRequest: both a job and an attempt are named.
        JobCancelled: called off.
    """
    params = StopParams.model_validate(request.params)
    if params.job_id is not None and params.attempt is not None:
        raise UnusableRequest("expected a job or an attempt to stop, found both")
    if params.job_id is not None:
        return Done(_stop_job(params.job_id, request, deps, control))
    ended: list[str] = []
    failed: list[str] = []
    for row in deps.journal.held(incident=request.incident if params.attempt else None, attempt=params.attempt):
        ref = ref_of(row)
        if Path(ref.log).exists():
            deps.spool.save_log(request.job_id, "engine.log", Path(ref.log))
        left = end_engine(deps, row, how="stopped", detail=f"by {request.requested_by}")
        failed += left
        if not left:
            ended.append(ref.what)
    return Done(SweepFacts(ended=tuple(ended), failed=tuple(failed)))


def sweep(_request: JobRequest, deps: Deps, _control: Control) -> Done:
    """End every engine of this worker that no running job has and nobody holds."""
    return Done(sweep_node(deps))


def sweep_node(deps: Deps) -> SweepFacts:
    """End what is left over on this node; spare what is held and what a living job runs."""
    running = {row.request.job_id for row in deps.journal.running() if deps.is_alive(row.owner)}
    held = {row.job_id: ref_of(row) for row in deps.journal.held()}
    spare = frozenset(running | held.keys())
    ended: list[str] = []
    failed: list[str] = []
    for row in deps.journal.engines(EngineLife.RUNNING):
        if row.job_id in spare:
            continue
        ref = ref_of(row)
        engine = deps.engines.get(ref.engine)
        if engine is None:
            continue
        was_there = engine.find(ref) is not None
        left = engine.clear(ref)
        failed += left
        if not left:
            deps.journal.engine_ended(row.job_id, how="swept")
            if was_there:
                ended.append(ref.what)
    for engine in deps.engines.values():
        try:
            more, left = engine.sweep(spare=spare)
        except JobError as error:
            failed.append(f"{engine.kind}: {error}")
            continue
        ended += more
        failed += left
    return SweepFacts(ended=tuple(ended), spared=tuple(ref.what for ref in held.values()), failed=tuple(failed))


def _stop_job(job_id: str, request: JobRequest, deps: Deps, control: Control) -> SweepFacts:
    if not deps.journal.want_stop(job_id, by=request.requested_by):
        return SweepFacts(failed=(f"job {job_id} does not run on {deps.node}",))
    deadline = deps.clock.monotonic() + _STOP_WAIT_S
    while deps.clock.monotonic() < deadline:
        control.check()
        if all(row.request.job_id != job_id for row in deps.journal.running()):
            return SweepFacts(ended=(f"job {job_id}",))
        deps.clock.sleep(_POLL_S)
    return SweepFacts(failed=(f"job {job_id} did not end within {_STOP_WAIT_S:.0f} s",))
