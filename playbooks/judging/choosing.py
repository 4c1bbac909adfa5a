"""Chooses the first failure among the candidates, and says what was set aside and why."""

from __future__ import annotations

import re
from dataclasses import dataclass

from playbooks.judging import normalise
from playbooks.judging.cache_evidence import CacheEvidence
from playbooks.judging.candidates import GPU_OOM, MEMORY, VERSION_RISK, Candidate, stage_of
from playbooks.judging.finding import EngineFacts, Finding, Symptom
from playbooks.judging.launch_progress import Progress
from playbooks.judging.signature_catalogue import Catalogue, ClassInfo
from playbooks.vocabulary import DecisionKind, ErrorClass, Stage

_MOST_SYMPTOMS = 12
_NEAR_LINES = 400
_SAME_MESSAGE_LINES = 6
"""An error of a container engine goes on over a few lines."""


@dataclass(frozen=True, slots=True)
class Material:
    """Everything known of one launch at its end."""

    catalogue: Catalogue
    candidates: tuple[Candidate, ...]
    warnings: tuple[tuple[int, str], ...]
    progress: Progress
    exit_code: int | None
    oom_killed: bool | None
    input_kind: str
    document: tuple[tuple[int, str], ...]
    cache: CacheEvidence
    engine: EngineFacts
    lines: int
    whole_digest: str


def choose(material: Material) -> Finding:
    """Return the first failure, a success, or an honest `unknown`."""
    root = _root(material)
    if root is not None:
        return _found(material, root)
    killed = _killed(material)
    if killed is not None:
        return killed
    if _went_well(material):
        cache = _cache_finding(material)
        if cache is not None:
            return cache
        return _finding(material, stage=Stage.NONE, error_class=ErrorClass.NONE, confidence="certain", decision=None)
    return _stopped(material)


# ---- the root


def _root(material: Material) -> Candidate | None:
    eligible = [c for c in material.candidates if _eligible(c, material.progress)]
    causes = [c for c in eligible if c.derived is None and not c.weak]
    if not causes:
        wrappers = [c for c in eligible if c.derived is not None]
        telling = [c for c in wrappers if c.error_class is not ErrorClass.ENGINE_WRAPPER_ERROR]
        weak = [c for c in eligible if c.weak and c.derived is None]
        if material.progress.ready_no is not None and not telling:
            return next(iter(wrappers), None)
        return next(iter([*telling, *weak[:1], *wrappers]), None)
    first = _best_of_block(causes[0], causes)
    first = _more_exact(first, causes)
    first = _version_before_memory(first, material)
    return _explained_by(first, material)


def _eligible(candidate: Candidate, progress: Progress) -> bool:
    if candidate.hint:
        return False
    postmortem = candidate.signature is not None and candidate.signature.postmortem
    if (candidate.after_stop or candidate.after_end) and not postmortem:
        return False
    if progress.ready_no is not None and candidate.no < progress.ready_no:
        return candidate.signature is not None and candidate.signature.degrades
    return True


def _best_of_block(first: Candidate, causes: list[Candidate]) -> Candidate:
    """Within one traceback: the exact signature before the general one before the bare exception."""
    if first.block is None:
        return first
    same = [c for c in causes if c.block is first.block]
    exact = [c for c in same if c.signature is not None and not c.signature.generic]
    general = [c for c in same if c.signature is not None]
    return (exact or general or [first])[0]


def _more_exact(first: Candidate, causes: list[Candidate]) -> Candidate:
    """A general text of one process gives way to the exact one that explains it, printed shortly after by another."""
    general = first.signature is not None and first.signature.generic
    if not general:
        return first
    for other in causes:
        if other.no - first.no > _NEAR_LINES:
            break
        if other is first or other.signature is None or other.signature.generic:
            continue
        next_words = first.block is None and other.block is None and other.no - first.no <= _SAME_MESSAGE_LINES
        if next_words or first.error_class in other.signature.explains:
            return other
    return first


def _version_before_memory(first: Candidate, material: Material) -> Candidate:
    """A driver below the boundary outranks whatever memory error was printed first (R2.4)."""
    if first.error_class not in MEMORY or first.after_ready:
        return first
    versions = (c for c in material.candidates if c.error_class in VERSION_RISK and c.derived is None)
    return next(versions, first)


def _explained_by(first: Candidate, material: Material) -> Candidate:
    """A warning printed earlier may state the cause of a class it names."""
    for hint in material.candidates:
        if hint.no >= first.no:
            break
        if hint.signature is None or hint.derived is not None or hint is first:
            continue
        if (hint.hint or hint.signature.degrades) and first.error_class in hint.signature.explains:
            return hint
    return first


def _found(material: Material, root: Candidate) -> Finding:
    info = material.catalogue.classes.get(root.error_class)
    stage = stage_of(_where_it_struck(root, material), info)
    signature = root.signature
    same = [c for c in material.candidates if c is not root and _says_the_same(c, root)]
    ranks = tuple(dict.fromkeys(c.process for c in (root, *same) if c.process))
    decision = signature.decision if signature is not None and signature.decision is not None else None
    if decision is None and info is not None and root.error_class is not ErrorClass.ENGINE_WRAPPER_ERROR:
        decision = info.points_to
    return _finding(
        material,
        stage=stage,
        error_class=root.error_class,
        reached=root.reached,
        root_line=root.no,
        root_text=root.text,
        stack=_stack(root),
        warnings=_warnings_before(material, root.no),
        symptoms=_symptoms(material, root, same),
        confidence=_confidence(root),
        decision=decision,
        signature=None if signature is None else signature.id,
        ranks=ranks,
        why=_why(root, info),
        next_check=(signature.next_check if signature is not None else "") or ("" if info is None else info.next_check),
        block_digest=_block_digest(root),
    )


def _where_it_struck(root: Candidate, material: Material) -> Candidate:
    """A cause announced early by a bare line is placed where the launch then failed of it."""
    if root.block is not None or root.after_ready:
        return root
    struck = (c for c in material.candidates if c.no > root.no and c.block and c.error_class is root.error_class)
    return next(struck, root)


def _says_the_same(candidate: Candidate, root: Candidate) -> bool:
    if candidate.block is not None and candidate.block is root.block:
        return True
    return candidate.error_class is root.error_class and normalise.line(candidate.text) == normalise.line(root.text)


def _stack(root: Candidate) -> tuple[str, ...]:
    frames = root.raised.frames if root.raised is not None else []
    return tuple(found for text in frames if (found := normalise.frame(text)) is not None)


def _warnings_before(material: Material, no: int | None) -> tuple[str, ...]:
    return tuple(sorted({text for at, text in material.warnings if no is None or at < no}))


def _block_digest(root: Candidate) -> str:
    if root.block is None:
        return normalise.digest([normalise.line(root.text)])
    lines = [normalise.line(raised.text) for raised in root.block.raised]
    return normalise.digest([*_stack(root), *lines])


def _confidence(root: Candidate) -> str:
    if root.signature is not None:
        return root.signature.confidence if not root.signature.generic else "likely"
    return "likely" if root.derived is not None else "unsure"


def _why(root: Candidate, info: ClassInfo | None) -> str:
    if root.signature is not None and root.signature.why:
        return root.signature.why
    if root.derived is not None:
        return root.derived.why
    if info is None:
        return "It is the earliest error that nothing before it explains; no signature knows it."
    return f"It is the earliest error that nothing before it explains. {info.meaning}"


def _symptoms(material: Material, root: Candidate, same: list[Candidate]) -> tuple[Symptom, ...]:
    found: dict[ErrorClass, Symptom] = {}
    for candidate in material.candidates:
        later = candidate.no > root.no or candidate.derived is not None
        if candidate is root or candidate in same or candidate.hint or not later:
            continue
        klass = candidate.error_class
        if klass is root.error_class or klass in found or (klass is ErrorClass.UNKNOWN and candidate.weak):
            continue
        found[klass] = Symptom(
            error_class=klass, line=candidate.no, why=_why_symptom(candidate, root), text=candidate.text[:300]
        )
        if len(found) == _MOST_SYMPTOMS:
            break
    return tuple(found.values())


def _why_symptom(candidate: Candidate, root: Candidate) -> str:
    if candidate.derived is not None:
        return candidate.derived.why
    if candidate.error_class in GPU_OOM:
        return f"printed after line {root.no} had failed already: memory is not the first question"
    return f"printed after the first failure in line {root.no}"


# ---- nothing printed


def _killed(material: Material) -> Finding | None:
    """Judge by the container's state where no line told anything."""
    inspected = _inspected(material.document)
    if inspected == "small-shm":
        return _small_shm(material)
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


def _by_state(material: Material, klass: ErrorClass, why: str) -> Finding:
    info = material.catalogue.classes.get(klass)
    return _finding(
        material,
        stage=material.progress.current,
        error_class=klass,
        confidence="likely",
        decision=None if info is None else info.points_to,
        warnings=_warnings_before(material, None),
        why=why,
        next_check="" if info is None else info.next_check,
        block_digest=material.whole_digest,
    )


_SMALL_SHM_BYTES = 1 << 30
_SHM_SIZE = re.compile(r'"ShmSize": ?(\d+)')
_TENSOR_PARALLEL = re.compile(r"--tensor-parallel-size(?:=|[\", ]+)(\d+)|-tp[\", ]+(\d+)")
_EXITED_BADLY = re.compile(r'"ExitCode": ?[1-9]')


def _small_shm(material: Material) -> Finding:
    no, text = next((no, text) for no, text in material.document if _SHM_SIZE.search(text))
    info = material.catalogue.classes.get(ErrorClass.SHM_EXHAUSTED)
    return _finding(
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
    return "small-shm" if several and small and _EXITED_BADLY.search(whole) else None


def _went_well(material: Material) -> bool:
    progress = material.progress
    if progress.ready_no is not None or progress.stopping_no is not None:
        return material.exit_code in {None, 0, 130, 143, -2, -15}
    return not progress.began and material.exit_code in {None, 0}


def _cache_finding(material: Material) -> Finding | None:
    """A service that runs, whose cache cannot hit: a finding about it, no failed launch."""
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
    return _finding(
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


def _stopped(material: Material) -> Finding:
    """The log ends without a failure and without readiness: no honest class."""
    return _finding(
        material,
        stage=material.progress.current,
        error_class=ErrorClass.UNKNOWN,
        confidence="unsure",
        decision=DecisionKind.HOLD if material.progress.began else None,
        warnings=_warnings_before(material, None),
        why="The log ends before the service was ready and names no error.",
        next_check="How did it end: still running, killed, or cut? The container's state (exit code, OOMKilled) and the kernel log tell.",
        block_digest=material.whole_digest,
    )


def _finding(
    material: Material,
    *,
    stage: Stage,
    error_class: ErrorClass,
    confidence: str,
    decision: DecisionKind | None,
    reached: Stage | None = None,
    root_line: int | None = None,
    root_text: str | None = None,
    stack: tuple[str, ...] = (),
    warnings: tuple[str, ...] = (),
    symptoms: tuple[Symptom, ...] = (),
    signature: str | None = None,
    ranks: tuple[str, ...] = (),
    why: str = "",
    next_check: str = "",
    block_digest: str | None = None,
) -> Finding:
    return Finding(
        stage=stage,
        reached=material.progress.reached if reached is None else reached,
        error_class=error_class,
        root_line=root_line,
        root_text=root_text,
        stack=stack,
        warnings=warnings,
        symptoms=symptoms,
        confidence=confidence,
        input_kind=material.input_kind or "text",
        decision=decision,
        signature=signature,
        ranks=ranks,
        catalogue=material.catalogue.digest,
        engine=material.engine,
        why=why,
        next_check=next_check,
        block_digest=block_digest,
        lines=material.lines,
    )
