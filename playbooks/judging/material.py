"""Everything known of one launch at its end, and the form in which an answer is given."""

from __future__ import annotations

from dataclasses import dataclass

from playbooks.judging import normalise
from playbooks.judging.cache_evidence import CacheEvidence
from playbooks.judging.candidates import Candidate
from playbooks.judging.finding import EngineFacts, Finding, Symptom
from playbooks.judging.launch_progress import Progress
from playbooks.judging.signature_catalogue import Catalogue
from playbooks.vocabulary import DecisionKind, ErrorClass, Stage


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
    tail: tuple[str | bytes, ...]


def warnings_before(material: Material, no: int | None) -> tuple[str, ...]:
    """Return the normalised warnings before a line, of the whole input where it is None."""
    return tuple(sorted({normalise.line(text) for at, text in material.warnings if no is None or at < no}))


def finding(
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
    """Put an answer together with what is known of the input."""
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
