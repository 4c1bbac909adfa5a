"""The job `launch`: one attempt from a baseline, observed to ready or to its first failure, and nothing left behind.

Returns facts: stages with their times, how it ended, the live finding, the log. Whether two attempts agree is scored by
the bot.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from pathlib import Path

from playbooks.guiding.chart_forms import thinned
from playbooks.judging.baseline import Baseline
from playbooks.judging.finding import Finding
from playbooks.judging.first_failure import Analyser
from playbooks.messages import HeldEngine, JobRequest, LaunchFacts, LaunchParams
from playbooks.reading.fields import indexes, value_of
from playbooks.vocabulary import ErrorClass, Outcome, Stage
from workers.errors import JobError, StartFailed, TenantsChanged
from workers.jobs.deps import Deps, Done
from workers.jobs.holding import STOP_GRACE_S, replace_held
from workers.jobs.memory_file import MEMORY_FILE, as_csv
from workers.jobs.own_port import meeting_port, own_port
from workers.jobs.readiness import DEFAULT_SAMPLE, NoProbe, ReadyProbe, Target
from workers.jobs.redacting import LiveCleaner, clean
from workers.jobs.resolving import resolve
from workers.jobs.tenants import tenants_of
from workers.jobs.waiting import while_asked_for
from workers.jobs.watching import DEFAULT_LIMITS, Ending, Watch
from workers.policy import Allowed, allow_launch
from workers.policy.arguments import read_options
from workers.policy.judge import SECRET
from workers.ports import Control, Engine, Facts, LaunchSpec, MemoryWatch, RunningEngine

LOG_NAME = "engine.log"
FAILED_GRACE_S = 1.0
"""A failed engine is given little time: its own teardown takes many seconds and tells nothing."""
_POINTS = 600
"""Samples of each GPU in the facts: a chart has no more columns, and a report of 16 GPUs stays small."""
_OTHER_PORTS = 2
"""How often a launch is started on another port when a program that makes no promises took the worker's own meanwhile."""
_LIBRARY_NOT_FOUND, _DRIVER_NOT_LOADED = 12, 9
_LEFTOVER_BYTES = 512 << 20
"""GPU memory that may differ before and after without being called a leftover: driver and display contexts."""


def launch(request: JobRequest, deps: Deps, control: Control) -> Done:
    """Launch one attempt.

    Raises:
        PolicyRefusal: the node's policy does not allow it; nothing was started.
        JobCancelled: called off; what had been started is gone.
        EngineUnavailable: the container engine does not answer.
    """
    allowed = allow_launch(request, deps.policy)
    engine = deps.engines.get(allowed.baseline.engine)
    if engine is None:
        raise JobError(f"this worker has no {allowed.baseline.engine} engine; expected one of {sorted(deps.engines)}")
    control.progress(Stage.CONTAINER_INIT, "preparing: reading packages, model files and GPUs")
    left = list(replace_held(deps, by=f"attempt {request.attempt} of {request.incident}"))
    before = deps.gpus.read()
    before = {**before, "tenants": tenants_of(before)}
    _require_same_tenants(request, before)
    resolved = while_asked_for(lambda: resolve(deps, allowed, before), check=control.check, undo=lambda _late: None)
    taken: list[int] = []
    while True:
        control.check()
        with meeting_port(allowed.rank), _api_port(allowed, taken) as port:
            spec = _spec(request, allowed, deps, port, use_gpus=asks_for_gpus(before))
            attempt = _Attempt(request, allowed, deps, control, spec)
            facts = _run(attempt, engine, before, resolved)
        left += facts.left_behind
        if allowed.port or len(taken) == _OTHER_PORTS or not _port_was_taken(facts):
            return Done(facts.model_copy(update={"left_behind": tuple(left)}))
        taken.append(port)
        attempt.set_log_aside(f"port-{port}")
        control.progress(Stage.CONTAINER_INIT, f"port {port} was taken meanwhile: started again on another one")


def _require_same_tenants(request: JobRequest, before: Facts) -> None:
    """Start no repeat while others use the GPUs than at the attempt before: the two would not compare (R5).

    Raises:
        TenantsChanged: others do.
    """
    expected, found = LaunchParams.model_validate(request.params).expect_tenants, value_of(before, "tenants")
    if expected is None or found is None or set(expected) == set(found):
        return
    was, now = (", ".join(sorted(names)) or "nobody" for names in (expected, found))
    raise TenantsChanged(
        f"paused, nothing was started: others use the GPUs now than at the attempt before (was: {was}; is: {now}); run again to go on"
    )


def _api_port(allowed: Allowed, taken: list[int]) -> AbstractContextManager[int]:
    return nullcontext(allowed.port) if allowed.port else own_port(allowed.ports, but=taken)


def _run(attempt: _Attempt, engine: Engine, before: Facts, resolved: Baseline) -> LaunchFacts:
    """Start one engine and watch it to its end."""
    request, deps = attempt.request, attempt.deps
    memory = deps.gpus.watch()
    left: list[str] = []
    try:
        started = _start(attempt, engine)
    except StartFailed as failure:
        memory.close()
        return _never_started(failure, attempt, resolved)
    except BaseException:
        memory.close()
        raise
    try:
        ending = attempt.watch(started)
        if ending.outcome is not Outcome.READY:
            left += started.stop(grace_s=FAILED_GRACE_S)
        facts = attempt.facts(started, ending)
    except BaseException:
        memory.close()
        gone = started.stop(grace_s=FAILED_GRACE_S)
        deps.journal.engine_ended(request.job_id, how="stopped", detail="; ".join(gone))
        attempt.save_log(None)
        raise
    held = attempt.hold(started, ending)
    if held is None:
        if ending.outcome is Outcome.READY:
            left += started.stop(grace_s=STOP_GRACE_S)
        deps.journal.engine_ended(request.job_id, how="stopped")
        left += _leftover_memory(before, deps)
    memory.close()
    return facts.model_copy(
        update={
            "held": held,
            "resolved": resolved,
            "left_behind": tuple(left),
            **attempt.memory(memory),
            "tenants": tuple(value_of(before, "tenants") or ()),
        }
    )


def _start(attempt: _Attempt, engine: Engine) -> RunningEngine:
    """Start the engine; a container engine that does not answer holds up no cancel, and what it made late is removed.

    Raises:
        StartFailed: it was refused.
        EngineUnavailable: the container engine does not answer.
        JobCancelled: called off meanwhile.
    """
    job_id, journal, spec = attempt.request.job_id, attempt.deps.journal, attempt.spec

    def start() -> RunningEngine:
        return engine.start(spec, lambda ref: journal.engine_started(job_id, asdict(ref)))

    def undo(late: RunningEngine) -> None:
        gone = late.stop(grace_s=FAILED_GRACE_S)
        journal.engine_ended(job_id, how="stopped", detail="; ".join(gone))

    if engine.kind != "docker":
        return start()
    return while_asked_for(start, check=attempt.check, undo=undo)


def _port_was_taken(facts: LaunchFacts) -> bool:
    return (
        facts.outcome is Outcome.FAILED
        and facts.finding is not None
        and facts.finding.error_class is ErrorClass.PORT_UNAVAILABLE
    )


class _Attempt:
    """One attempt under way."""

    def __init__(self, request: JobRequest, allowed: Allowed, deps: Deps, control: Control, spec: LaunchSpec) -> None:
        self.request = request
        self._allowed = allowed
        self.deps = deps
        self._control = control
        self.spec = spec
        self.clean = partial(clean, secrets=allowed.secrets)
        self.analyser = Analyser(deps.catalogue())
        self._watch: Watch

    @property
    def _serves(self) -> bool:
        return self._allowed.rank is None or self._allowed.rank.is_head

    @property
    def endpoint(self) -> str:
        """Where the engine answers; nowhere for a follower."""
        if not self._serves:
            return ""
        host = next((o.value for o in read_options(self._allowed.arguments)[1] if o.name == "--host"), None)
        return f"http://{host if host and host != '::1' else '127.0.0.1'}:{self.spec.port}"

    def check(self) -> None:
        """Raise JobCancelled when the job was called off."""
        self._control.check()

    def watch(self, engine: RunningEngine) -> Ending:
        """Watch until the attempt is over."""
        limits = self.request.limits
        last = limits.stages.get(Stage.ENDPOINT_READY, DEFAULT_LIMITS[Stage.ENDPOINT_READY])
        target = Target(
            endpoint=self.endpoint,
            sample=self._allowed.baseline.sample or DEFAULT_SAMPLE,
            headers=access_headers(self._allowed),
            timeout_s=last.total_s,
            is_ours=lambda: engine.answers_on(self.spec.port),
        )
        self._watch = Watch(
            engine,
            self.analyser,
            ReadyProbe(self.deps.http, target) if self._serves else NoProbe(),
            limits=limits,
            total_s=self._allowed.total_s,
            clock=self.deps.clock,
            control=self._control,
            cleaner=LiveCleaner(self._allowed.secrets),
        )
        return self._watch.run()

    def memory(self, watch: MemoryWatch) -> dict[str, object]:
        """Return the memory in use for the facts; every sample of every GPU is in the spool then."""
        by_gpu = watch.by_gpu()
        if by_gpu:
            self.deps.spool.save_text(self.request.job_id, MEMORY_FILE, as_csv(by_gpu), media_type="text/csv")
        return {
            "memory_samples": thinned(watch.samples()),
            "gpu_memory": {name: thinned(samples, _POINTS) for name, samples in by_gpu.items()},
        }

    def facts(self, engine: RunningEngine, ending: Ending) -> LaunchFacts:
        """Return what was observed; the log is in the spool then, with what a stop still printed."""
        state = ending.state
        self._watch.drain()
        finding = self.analyser.finish(
            exit_code=state.exit_code if state else None, oom_killed=state.oom_killed if state else None
        )
        if ending.limit is not None:
            self.deps.spool.save_text(
                self.request.job_id, "limit.txt", ending.limit.observed.encode(), secrets=self._allowed.secrets
            )
        return LaunchFacts(
            outcome=ending.outcome,
            exit_code=state.exit_code if state else None,
            signal=state.signal if state else None,
            oom_killed=state.oom_killed if state else None,
            state_error=self.clean(state.error) if state and state.error else None,
            stages=ending.spans,
            ready_ms=ending.ready_ms,
            finding=finding,
            limit=ending.limit.model_copy(update={"observed": ending.limit.observed[:1500]}) if ending.limit else None,
            log_sha256=self.save_log(finding, Path(engine.ref.log)),
            log_lines=self._watch.lines,
            probe=ending.probe.model_copy(update={"output_head": self.clean(ending.probe.output_head)})
            if ending.probe
            else None,
            failed_at=ending.failed_at,
            ended_for=ending.ended_for,
        )

    def save_log(self, finding: Finding | None, path: Path | None = None) -> str:
        """Spool the log as it is now; returns its digest."""
        around = (
            tuple(line for line in (finding.root_line, *(s.line for s in finding.symptoms[:8])) if line is not None)
            if finding
            else ()
        )
        ref = self.deps.spool.save_log(
            self.request.job_id,
            LOG_NAME,
            path or self.spec.folder / LOG_NAME,
            around=around,
            secrets=self._allowed.secrets,
        )
        return ref.sha256

    def set_log_aside(self, why: str) -> None:
        """Leave the log's name to the next start; what was logged is in the spool already."""
        log = self.spec.folder / LOG_NAME
        if log.exists():
            log.rename(log.with_name(f"{LOG_NAME}.{why}"))

    def hold(self, engine: RunningEngine, ending: Ending) -> HeldEngine | None:
        """Hold a ready engine for later requests, when asked to and allowed."""
        if ending.outcome is not Outcome.READY or self._allowed.hold_s <= 0:
            return None
        now = self.deps.clock.now()
        held = HeldEngine(
            job_id=self.request.job_id,
            incident=self.request.incident,
            attempt=self.request.attempt or 0,
            engine=engine.ref.engine,
            what=engine.ref.what,
            endpoint=self.endpoint,
            since=now,
            until=now + timedelta(seconds=self._allowed.hold_s),
        )
        self.deps.journal.hold(held)
        return held


def access_headers(allowed: Allowed) -> dict[str, str]:
    """Return the headers that the engine's own access key asks for; {} when it has none."""
    given = [o.value for o in read_options(allowed.arguments)[1] if o.name == "--api-key" and o.value]
    key = given[0] if given else allowed.baseline.env.get("VLLM_API_KEY")
    return {"Authorization": f"Bearer {filled(key, allowed.secrets)}"} if key else {}


def filled(text: str, secrets: Mapping[str, str]) -> str:
    """Return a value with the node's own secrets in it."""
    return SECRET.sub(lambda found: secrets[found[1]], text)


def _spec(request: JobRequest, allowed: Allowed, deps: Deps, port: int, *, use_gpus: bool) -> LaunchSpec:
    arguments = [filled(word, allowed.secrets) for word in allowed.arguments]
    given = {option.name for option in read_options(allowed.arguments)[1]}
    in_container = allowed.baseline.engine == "docker"
    serves = allowed.rank is None or allowed.rank.is_head
    if serves and "--host" not in given:
        arguments += ["--host", "0.0.0.0" if in_container else "127.0.0.1"]  # noqa: S104 - inside the container; published on loopback
    if serves and "--port" not in given:
        arguments += ["--port", str(port)]
    program = [] if allowed.interpreter is None else [str(allowed.interpreter.vllm), "serve"]
    return LaunchSpec(
        job_id=request.job_id,
        incident=request.incident,
        attempt=request.attempt or 0,
        argv=(*program, *arguments),
        env={**allowed.env, **{name: filled(value, allowed.secrets) for name, value in allowed.baseline.env.items()}},
        port=port,
        folder=deps.home / "engines" / request.job_id,
        secrets=allowed.secrets,
        image=allowed.baseline.image,
        mounts=allowed.mounts,
        container=allowed.baseline.container,
        gpus=allowed.gpus,
        use_gpus=use_gpus or bool(allowed.baseline.gpus),
    )


def asks_for_gpus(facts: Facts) -> bool:
    """Whether a container should ask for GPUs: yes unless this node surely has none (no NVML library, no module)."""
    return value_of(facts, "nvml.error") not in {_LIBRARY_NOT_FOUND, _DRIVER_NOT_LOADED}


def _never_started(failure: StartFailed, attempt: _Attempt, resolved: Baseline) -> LaunchFacts:
    text = attempt.clean(str(failure))
    for line in text.splitlines():
        attempt.analyser.feed(line)
    return LaunchFacts(
        outcome=Outcome.FAILED,
        exit_code=failure.exit_code,
        state_error=text,
        finding=attempt.analyser.finish(exit_code=failure.exit_code),
        resolved=resolved,
        failed_at=attempt.deps.clock.now(),
    )


def _leftover_memory(before: Facts, deps: Deps) -> list[str]:
    if not indexes(before, "gpu"):
        return []
    after = deps.gpus.read()
    left = []
    for index in indexes(after, "gpu"):
        name = f"gpu.{index}.memory_used_bytes"
        was, now = value_of(before, name), value_of(after, name)
        if was is not None and now is not None and now - was > _LEFTOVER_BYTES:
            left.append(f"GPU {index}: {(now - was) >> 20} MiB more in use than before the attempt")
    return left
