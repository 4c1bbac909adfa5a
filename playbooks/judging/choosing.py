"""Chooses the first failure among the candidates, and says what was set aside and why."""

from __future__ import annotations

from dataclasses import replace

from playbooks.judging import normalise
from playbooks.judging.candidates import GPU_OOM, MEMORY, VERSION_RISK, Candidate, stage_of
from playbooks.judging.finding import Finding, Symptom
from playbooks.judging.launch_progress import Progress
from playbooks.judging.material import Material, finding, warnings_before
from playbooks.judging.signature_catalogue import ClassInfo
from playbooks.judging.silent_ends import cache_finding, killed, stopped, went_well
from playbooks.vocabulary import ErrorClass, Stage

_MOST_SYMPTOMS = 12
_NEAR_LINES = 400
_ENDED = frozenset({
    ErrorClass.WORKER_PROCESS_KILLED,
    ErrorClass.ENGINE_PROCESS_KILLED,
    ErrorClass.PROCESS_CRASHED_NATIVE,
})  # fmt: skip
_SAME_MESSAGE_LINES = 6
"""An error of a container engine goes on over a few lines."""


def choose(material: Material) -> Finding:
    """Return the first failure, a success, or an honest `unknown`."""
    root = _root(material)
    if root is not None:
        return _found(material, _placed(root, material))
    silent = killed(material)
    if silent is not None:
        return silent
    if went_well(material):
        cache = cache_finding(material)
        if cache is not None:
            return cache
        return finding(material, stage=Stage.NONE, error_class=ErrorClass.NONE, confidence="certain", decision=None)
    return stopped(material)


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
    first = _explained_by(first, material)
    return _seen_from_outside(first, causes)


def _seen_from_outside(first: Candidate, causes: list[Candidate]) -> Candidate:
    """Evidence of the kernel log or the container's state, printed after the engine's own words, may explain them."""
    for other in causes:
        if other.signature is not None and other.signature.postmortem and first.error_class in other.signature.explains:
            return other
    return first


def _eligible(candidate: Candidate, progress: Progress) -> bool:
    if candidate.hint:
        return False
    postmortem = candidate.signature is not None and candidate.signature.postmortem
    if candidate.derived is not None and candidate.derived.repeats > 1 and candidate.after_ready:
        return False
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
    same = [c for c in material.candidates if c.no != root.no and _says_the_same(c, root)]
    ranks = tuple(dict.fromkeys(c.process for c in (root, *same) if c.process))
    decision = signature.decision if signature is not None and signature.decision is not None else None
    if decision is None and info is not None and root.error_class is not ErrorClass.ENGINE_WRAPPER_ERROR:
        decision = info.points_to
    return finding(
        material,
        stage=stage,
        error_class=root.error_class,
        reached=root.reached,
        root_line=root.no,
        root_text=root.text,
        stack=_stack(root),
        warnings=warnings_before(material, root.no),
        symptoms=_symptoms(material, root, same),
        confidence="unsure" if _unplaced(root) else _confidence(root),
        decision=decision,
        signature=None if signature is None else signature.id,
        ranks=ranks,
        why=_UNPLACED if _unplaced(root) else _why(root, info),
        next_check=_WHERE_FROM if _unplaced(root) else _next_check(root, info),
        block_digest=_block_digest(root),
    )


def _where_it_struck(root: Candidate, material: Material) -> Candidate:
    """A cause announced early by a bare line is placed where the launch then failed of it."""
    if root.block is not None or root.after_ready:
        return root
    classes = {root.error_class}
    if root.blind and root.signature is not None:
        classes |= root.signature.explains
    struck = (c for c in material.candidates if c.no > root.no and c.block and not c.blind)
    return next((c for c in struck if c.error_class in classes), root)


def _placed(root: Candidate, material: Material) -> Candidate:
    """Where a log begins after its markers, the wrappers behind the root say whether the engine had started."""
    if not root.blind:
        return root
    wrappers = (c.derived.stage for c in material.candidates if c.derived is not None and c.no >= root.no)
    stage = next((stage for stage in wrappers if stage is not None), None)
    if stage is None and any(c.derived is not None and c.derived.at_start for c in material.candidates):
        info = material.catalogue.classes.get(root.error_class)
        stage = Stage.ENGINE_INIT if info is not None and info.stage is Stage.SERVING else None
    return root if stage is None else replace(root, observed=stage, blind=False)


def _says_the_same(candidate: Candidate, root: Candidate) -> bool:
    if candidate.block is not None and candidate.block is root.block:
        return True
    return candidate.error_class is root.error_class and normalise.line(candidate.text) == normalise.line(root.text)


def _stack(root: Candidate) -> tuple[str, ...]:
    frames = root.raised.frames if root.raised is not None else []
    return tuple(found for text in frames if (found := normalise.frame(text)) is not None)


def _block_digest(root: Candidate) -> str:
    if root.block is None:
        return normalise.digest([normalise.line(root.text)])
    lines = [normalise.line(raised.text) for raised in root.block.raised]
    return normalise.digest([*_stack(root), *lines])


_UNPLACED = "GPU memory ended. Nothing around it tells in which stage: while weights are placed, while the engine warms up, or at a request."
_LOOK_UP = "The lines above it: which step was the last to complete? Then the text of this line in the engine's issues, for this version."
_WHERE_FROM = (
    "The log from its first line on: the stage tells whether the weights, the warm-up or a request took the memory."
)


def _unplaced(root: Candidate) -> bool:
    """Whether a memory error stands alone: its class is named by the stage, and no stage is told."""
    return root.error_class in GPU_OOM and root.blind and root.raised is None


def _confidence(root: Candidate) -> str:
    if root.signature is not None:
        return root.signature.confidence if not root.signature.generic else "likely"
    return "likely" if root.derived is not None else "unsure"


def _next_check(root: Candidate, info: ClassInfo | None) -> str:
    if root.signature is not None and root.signature.next_check:
        return root.signature.next_check
    return _LOOK_UP if info is None else info.next_check


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
        if candidate.no == root.no or candidate in same or candidate.hint or not later:
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
    if candidate.error_class in _ENDED and candidate.derived is not None:
        return f"only says that a process ended; line {root.no} says why"
    if candidate.derived is not None:
        return candidate.derived.why
    if candidate.error_class in GPU_OOM:
        return f"printed after line {root.no} had failed already: memory is not the first question"
    return f"printed after the first failure in line {root.no}"
