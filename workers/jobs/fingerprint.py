"""The job `fingerprint`: facts of the host and of where the engine lives, field by field, each with its status."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from playbooks.evidence.redaction import redact_json
from playbooks.messages import FieldValue, FingerprintFacts, FingerprintParams, JobRequest
from playbooks.reading.fields import indexes, read, value_of
from playbooks.secret_names import is_secret_name
from playbooks.vocabulary import FieldStatus
from workers.errors import JobError, UnusableRequest
from workers.jobs.deps import Deps, Done
from workers.jobs.driver_state import driver_state
from workers.jobs.redacting import clean
from workers.jobs.tenants import tenants_of
from workers.policy import allow_inside
from workers.ports import Clock, Control, Facts, GpuReader, HostReader, InsideReader

_ENGINE_PORTS = range(8000, 8100)


def fingerprint(request: JobRequest, deps: Deps, control: Control) -> Done:
    """Read the fingerprint.

    Raises:
        PolicyRefusal: the interpreter or image is not listed.
        JobCancelled: called off while a part was still read.
    """
    params = FingerprintParams.model_validate(request.params)
    allow_inside(deps.policy, python=params.python, image=params.image)
    facts = read_fingerprint(
        params, host=deps.host, gpus=deps.gpus, inside=deps.inside, clock=deps.clock, control=control
    )
    return Done(facts)


def read_fingerprint(
    params: FingerprintParams,
    *,
    host: HostReader,
    gpus: GpuReader,
    inside: InsideReader,
    clock: Clock,
    control: Control | None = None,
) -> FingerprintFacts:
    """Read both sides side by side: the slowest part sets the time, and a part that fails costs its own fields."""
    asked = [value for value in (params.container, params.image, params.python) if value]
    if len(asked) > 1:
        raise UnusableRequest(f"expected one of container, image, python, found {len(asked)} of them")
    start = clock.monotonic()
    with ThreadPoolExecutor(3, thread_name_prefix="fingerprint") as pool:
        host_part = pool.submit(host.read, model_path=params.model_path)
        gpu_part = pool.submit(gpus.read)
        inside_part = pool.submit(_inside, params, inside) if asked else None
        parts: list[Future[Facts]] = [host_part, gpu_part, *([inside_part] if inside_part else [])]
        while not all(part.done() for part in parts):
            if control is not None:
                control.check()
            clock.sleep(0.02)
        host_facts = host_part.result() | gpu_part.result()
        container = inside_part.result() if inside_part is not None else {}
    host_facts["driver.state"] = driver_state(host_facts)
    host_facts["tenants"] = tenants_of(host_facts)
    host_facts["leftovers"] = _leftovers(host_facts)
    return FingerprintFacts(
        host=redacted(host_facts),
        container=redacted(container),
        container_source=_source(params),
        duration_ms=round((clock.monotonic() - start) * 1000),
    )


def _inside(params: FingerprintParams, inside: InsideReader) -> Facts:
    try:
        if params.container:
            return inside.in_container(params.container)
        if params.image:
            return inside.in_image(params.image)
        return inside.in_python(params.python or "")
    except JobError as error:
        return {
            "probe.static": FieldValue(status=FieldStatus.ERROR, source=_source(params) or "", detail=str(error)[:300])
        }


def _source(params: FingerprintParams) -> str | None:
    if params.container:
        return f"exec {params.container}"
    if params.image:
        return f"image {params.image}"
    return f"python {params.python}" if params.python else None


def _leftovers(facts: Facts) -> FieldValue:
    found = [f"shared memory {name}" for name in value_of(facts, "shm.leftovers") or ()]
    for index in indexes(facts, "gpu"):
        unowned = value_of(facts, f"gpu.{index}.memory_unowned_bytes")
        if unowned and unowned > 1 << 30 and not value_of(facts, f"gpu.{index}.processes"):
            found.append(f"GPU {index}: {unowned >> 20} MiB in use by nobody")
    found += [f"port {port} is taken" for port in value_of(facts, "ports.listening") or () if port in _ENGINE_PORTS]
    return read(found, "shm, NVML, /proc/net/tcp")


def redacted(facts: Facts) -> Facts:
    """Return the fields without secrets, in order of their names."""
    return {name: _field(name, field) for name, field in sorted(facts.items())}


def _field(name: str, field: FieldValue) -> FieldValue:
    variable = name.partition("env.")[2]
    if variable and is_secret_name(variable) and field.value is not None:
        return field.model_copy(update={"value": f"${{node:{variable}}}"})
    if isinstance(field.value, str):
        return field.model_copy(update={"value": clean(field.value, {}), "detail": clean(field.detail, {})})
    if isinstance(field.value, list) and all(isinstance(part, str) for part in field.value):
        return field.model_copy(update={"value": _argv(field.value)})
    return field.model_copy(update={"value": redact_json(field.value)[0], "detail": clean(field.detail, {})})


def _argv(words: list[str]) -> list[str]:
    shown: list[str] = []
    for position, word in enumerate(words):
        before = words[position - 1] if position else ""
        secret = before.startswith("--") and "=" not in before and is_secret_name(before.lstrip("-"))
        shown.append(f"${{node:{before.lstrip('-').replace('-', '_').upper()}}}" if secret else clean(word, {}))
    return shown
