"""Answers where no line names a failure: killed from outside, gone well, or cut off."""

from __future__ import annotations

import re

from playbooks.judging import normalise
from playbooks.judging.finding import Finding
from playbooks.judging.material import Material, finding, warnings_before
from playbooks.reading.transcript import read_line
from playbooks.vocabulary import DecisionKind, ErrorClass, Stage


def killed(material: Material) -> Finding | None:
    """Judge by the container's state where no line told anything."""
    inspected = _inspected(material.document)
    if inspected == "small-shm":
        return _small_shm(material)
    if inspected == "crashed":
        return _by_state(
            material, ErrorClass.PROCESS_CRASHED_NATIVE, "The container's state tells that it died in native code."
        )
    if inspected == "killed" and not material.oom_killed:
        return _by_state(
            material, ErrorClass.ENGINE_PROCESS_KILLED, "The container's state tells signal 9 and no memory event."
        )
    if material.oom_killed or inspected == "oom":
        return _by_state(
            material, ErrorClass.CONTAINER_OOM_KILLED, "The runtime says that the kernel killed it for memory."
        )
    if material.progress.ready_no is None and material.exit_code in {137, -9}:
        return _by_state(
            material, ErrorClass.ENGINE_PROCESS_KILLED, "It was killed from outside (signal 9) and printed nothing."
        )
    if material.exit_code in {139, 134, 135, -11, -6, -7}:
        return _by_state(material, ErrorClass.PROCESS_CRASHED_NATIVE, "It died in native code and printed nothing.")
    return None


def _tail_digest(material: Material) -> str:
    """Digest the last lines: all there is to compare where none names the failure."""
    return normalise.digest(normalise.line(read_line(0, line).text) for line in material.tail)


def _by_state(material: Material, klass: ErrorClass, why: str) -> Finding:
    info = material.catalogue.classes.get(klass)
    return finding(
        material,
        stage=material.progress.current,
        error_class=klass,
        confidence="likely",
        decision=None if info is None else info.points_to,
        warnings=warnings_before(material, None),
        why=why,
        next_check="" if info is None else info.next_check,
        block_digest=_tail_digest(material),
    )


_SMALL_SHM_BYTES = 1 << 30
_SHM_SIZE = re.compile(r'"ShmSize": ?(\d{1,18})\b')
_TENSOR_PARALLEL = re.compile(r"--tensor-parallel-size(?:=|[\",\s]+)(\d{1,6})\b|-tp[\",\s]+(\d{1,6})\b")
_EXIT_CODE = re.compile(r'"[Ee]xitCode": ?(\d{1,3})\b')
"""The first one of a document is the container's; those of its health checks follow."""
_CRASHED = frozenset({132, 134, 135, 136, 139})
_ORDERED = frozenset({0, 130, 143})
_RUNNING = re.compile(r'"Running": ?true|"CONTAINER_RUNNING"')


def _small_shm(material: Material) -> Finding:
    no, text = next((no, text) for no, text in material.document if _SHM_SIZE.search(text))
    info = material.catalogue.classes.get(ErrorClass.SHM_EXHAUSTED)
    return finding(
        material,
        stage=Stage.ENGINE_INIT,
        error_class=ErrorClass.SHM_EXHAUSTED,
        root_line=no,
        root_text=text.strip(),
        confidence="unsure",
        decision=None if info is None else info.points_to,
        why="The container failed with several ranks and a private shared memory that is smaller than they need; its log is not here.",
        next_check="" if info is None else info.next_check,
    )


_OOM_STATE = re.compile(r'"OOMKilled": ?true')


def _inspected(document: tuple[tuple[int, str], ...]) -> str | None:
    whole = "\n".join(text for _, text in document)
    if _OOM_STATE.search(whole):
        return "oom"
    size, ranks = _SHM_SIZE.search(whole), _TENSOR_PARALLEL.search(whole)
    several = ranks is not None and int(ranks[1] or ranks[2]) > 1
    small = size is not None and int(size[1]) < _SMALL_SHM_BYTES and '"IpcMode": "private"' in whole
    exit_code = _exit_code(whole)
    if several and small and exit_code:
        return "small-shm"
    match exit_code:
        case 137:
            return "killed"
        case code if code in _CRASHED:
            return "crashed"
        case None:
            return None
        case code:
            return None if code in _ORDERED else "failed"


def _exit_code(document: str) -> int | None:
    """Return what a document of a container's state tells of its end; None while it runs."""
    found = _EXIT_CODE.search(document)
    return None if found is None or _RUNNING.search(document) else int(found[1])


_SNAPSHOTS = frozenset({
    "nvidia_smi", "metrics", "http_response", "docker_inspect_json", "dmesg", "kubectl_describe", "shell_session",
})  # fmt: skip
"""Inputs that are no launch: nothing wrong in them is nothing wrong."""


def went_well(material: Material) -> bool:
    """Whether the service came up or was stopped in order, or the input is a snapshot without a fault."""
    progress = material.progress
    if progress.ready_no is not None or progress.stopping_no is not None:
        return material.exit_code in {None, 0, 130, 143, -2, -15}
    snapshot = not progress.began and material.exit_code in {None, 0} and material.input_kind in _SNAPSHOTS
    return snapshot and _inspected(material.document) is None


def cache_finding(material: Material) -> Finding | None:
    """Answer for a service that runs and whose cache cannot hit: a finding about it, no failed launch."""
    cache = material.cache
    if cache.below_unit:
        klass, no, text = ErrorClass.PREFIX_CACHE_BELOW_UNIT, cache.block_no, cache.block_text
        why = f"The cache reuses whole units of {cache.block} tokens, and no request here is longer; that is no miss."
    elif cache.counter_unreliable:
        klass, no, text = ErrorClass.PREFIX_COUNTER_UNRELIABLE, cache.hits_no, cache.hits_text
        why = f"Answers tell up to {cache.cached} cached tokens while the hit counter stays at zero."
    else:
        return None
    info = material.catalogue.classes.get(klass)
    return finding(
        material,
        stage=Stage.SERVING,
        error_class=klass,
        root_line=no,
        root_text=text.strip(),
        confidence="likely",
        decision=None if info is None else info.points_to,
        why=why,
        next_check="" if info is None else info.next_check,
    )


_HOW_IT_ENDED = "How did it end: still running, killed, or cut? The container's state (exit code, OOMKilled) and the kernel log tell."
_LAUNCH_LOG = (
    "The engine's own log, complete: `docker logs --timestamps NAME`, `kubectl logs POD`, or the terminal's text."
)


def _is_no_launch(material: Material) -> bool:
    return not material.progress.began and not material.input_kind


def _why_unknown(material: Material) -> str:
    if not material.lines:
        return "The input is empty."
    if _inspected(material.document) == "failed":
        return "The container ended with an error of its own, which stands in its log."
    if _is_no_launch(material):
        return "No line of it is one that an engine, a container runtime, a driver or a kernel prints."
    return "The log ends before the service was ready and names no error."


def stopped(material: Material) -> Finding:
    """Answer for a log that ends without a failure and without readiness: no honest class."""
    return finding(
        material,
        stage=material.progress.current,
        error_class=ErrorClass.UNKNOWN,
        confidence="unsure",
        decision=DecisionKind.HOLD if material.progress.began else None,
        warnings=warnings_before(material, None),
        why=_why_unknown(material),
        next_check=_LAUNCH_LOG if _is_no_launch(material) or material.document else _HOW_IT_ENDED,
        block_digest=_tail_digest(material),
    )
