"""What could be the first failure: each suspicious line with what was known when it was printed."""

from __future__ import annotations

from dataclasses import dataclass

from playbooks.judging.blocks import Block, Raised
from playbooks.judging.signature_catalogue import ClassInfo, Derived, Signature
from playbooks.vocabulary import LAUNCH_STAGES, ErrorClass, Stage

MEMORY = frozenset({
    ErrorClass.OOM_WEIGHT_LOAD,
    ErrorClass.OOM_ENGINE_INIT,
    ErrorClass.OOM_RUNTIME,
    ErrorClass.KV_CACHE_NO_MEMORY,
    ErrorClass.KV_CACHE_BELOW_MAX_LEN,
})  # fmt: skip
GPU_OOM = frozenset({ErrorClass.OOM_WEIGHT_LOAD, ErrorClass.OOM_ENGINE_INIT, ErrorClass.OOM_RUNTIME})
VERSION_RISK = frozenset({
    ErrorClass.DRIVER_BELOW_BOUNDARY,
    ErrorClass.DRIVER_LIBRARY_MISMATCH,
    ErrorClass.FORWARD_COMPAT_UNSUPPORTED,
    ErrorClass.CUDA_DRIVER_COMBO,
})  # fmt: skip


@dataclass(slots=True)
class Candidate:
    """One suspicious line.

    observed: the stage at work when it was printed, told by the stack where the stack tells it.
    weak: an error line without signature and traceback; counts only where nothing better was printed.
    hint: below its signature's level; explains a later failure, is none of its own.
    blind: neither a marker nor the stack tells the stage, as in a log whose head was cut.
    """

    no: int
    text: str
    process: str
    signature: Signature | None
    derived: Derived | None
    block: Block | None
    raised: Raised | None
    observed: Stage
    reached: Stage
    after_ready: bool
    after_served: bool
    after_stop: bool
    after_end: bool
    weak: bool = False
    hint: bool = False
    blind: bool = False

    @property
    def error_class(self) -> ErrorClass:
        """Class by signature or wrapper; unknown without either. An OOM is named for the stage it happened in."""
        if self.signature is not None:
            return oom_of(self.observed) if self.signature.error_class in GPU_OOM else self.signature.error_class
        return self.derived.error_class if self.derived is not None else ErrorClass.UNKNOWN

    @property
    def tells(self) -> bool:
        """Whether it names a cause of its own: a signature, a traceback, or a wrapper that says what ended."""
        if self.derived is not None:
            return self.derived.error_class is not ErrorClass.ENGINE_WRAPPER_ERROR
        return not self.weak


def oom_of(stage: Stage) -> ErrorClass:
    """Name a GPU out-of-memory by the stage it happened in."""
    if stage in {Stage.SERVING, Stage.ENDPOINT_READY}:
        return ErrorClass.OOM_RUNTIME
    return ErrorClass.OOM_ENGINE_INIT if stage is Stage.ENGINE_INIT else ErrorClass.OOM_WEIGHT_LOAD


def stage_of(candidate: Candidate, info: ClassInfo | None) -> Stage:
    """Say whose question failed: the class says it; a class with several stages takes the observed one."""
    if info is None:
        return candidate.observed
    if candidate.signature is not None and candidate.signature.stage is not None and not candidate.after_ready:
        return candidate.signature.stage
    if info.own_stage or (candidate.derived is not None and candidate.observed is Stage.CONTAINER_INIT):
        return info.stage
    allowed = {info.stage, *info.other_stages}
    if candidate.observed in allowed and not candidate.blind:
        return candidate.observed
    if candidate.after_ready and Stage.SERVING in allowed:
        return Stage.SERVING
    if info.stage is Stage.SERVING and not candidate.blind:
        return next(
            (s for s in LAUNCH_STAGES if s in allowed and s.position >= candidate.observed.position), info.stage
        )
    return info.stage
