"""The analyser's answer: the first failure of a launch, and what was set aside."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from playbooks.vocabulary import DecisionKind, ErrorClass, Stage


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Symptom(_Value):
    """A later error that the first failure explains.

    `line` is counted from 1 by LF only; `why` says in words why it is no root.
    """

    error_class: ErrorClass
    line: int | None
    why: str
    text: str = ""


class EngineFacts(_Value):
    """What the log itself says about the engine; None where it does not."""

    version: str | None = None
    frontend: str | None = None
    processes: tuple[str, ...] = ()
    arguments: dict[str, str] | None = None
    """What it says was given to it and is not the default; secrets are left out."""


class Finding(_Value):
    """First failure of one input.

    stage: whose question failed; `none` with error_class `none` for a success.
    reached: last stage seen complete, `none` when not even the first was.
    root_line: from 1, counted by LF only; None when the cause printed nothing.
    stack: normalised frames, outermost first; empty when there was no traceback.
    warnings: normalised warnings before the root line, sorted, without doubles.
    decision: next action; None where the input alone cannot tell.
    confidence: `certain` an exact signature, `likely` a family signature or a derived stage, `unsure` otherwise.
    block: normalised lines of the failing block (the whole normalised log when there was no error line); only what
        the stability score needs, digested as `block_digest` on the wire.
    """

    stage: Stage
    reached: Stage
    error_class: ErrorClass
    root_line: int | None
    root_text: str | None
    stack: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    symptoms: tuple[Symptom, ...] = ()
    confidence: str
    input_kind: str
    decision: DecisionKind | None
    signature: str | None = None
    """Id of the signature that recognised the root; None for `unknown` and for a success."""
    ranks: tuple[str, ...] = ()
    """Processes that printed the same root, e.g. `Worker_TP0`."""
    catalogue: str
    """Digest of the signature catalogue that judged."""
    engine: EngineFacts = EngineFacts()
    why: str = ""
    """One sentence for the reader: why this is the root."""
    next_check: str = ""
    """What to look at next, from the class or signature."""
    block_digest: str | None = None
    lines: int = 0
    """Lines read."""

    @property
    def stage_is_told(self) -> bool:
        """Whether the input shows in which stage it failed; a state looked at later shows only what failed."""
        if self.reached is not Stage.NONE or self.engine.processes:
            return True
        return self.input_kind not in _STATES and self.error_class not in _ENDS

    @property
    def is_a_state(self) -> bool:
        """Whether the input shows a state rather than a launch."""
        return self.input_kind in _STATES and self.reached is Stage.NONE


_STATES = frozenset({"dmesg", "nvidia_smi", "docker_inspect_json", "http_response", "metrics"})
_ENDS = frozenset({
    ErrorClass.CONTAINER_OOM_KILLED,
    ErrorClass.ENGINE_PROCESS_KILLED,
    ErrorClass.PROCESS_CRASHED_NATIVE,
    ErrorClass.ENGINE_WRAPPER_ERROR,
})  # fmt: skip
"""What a supervisor tells of a process: that it ended, not what it was at."""
