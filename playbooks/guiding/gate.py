"""The gate: ten items before each round and before any next stage (R6), and which phase may be entered.

An item that a machine can prove is proven by an entry of the record, never ticked; a person's value counts where no machine
can read it. Any open item refuses the next stage and says which.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import ValidationError

from playbooks.errors import PhaseClosed
from playbooks.guiding import seen
from playbooks.guiding.case import Case
from playbooks.guiding.items import may_answer, open_items
from playbooks.guiding.playbook import NOT_CARRIED_OUT, Playbook
from playbooks.judging.baseline import Baseline
from playbooks.judging.baseline_diff import diff
from playbooks.vocabulary import FieldStatus, Outcome, Phase, Stage

BEFORE_AN_ATTEMPT = (1, 2, 4, 5, 6, 7, 10)
"""Items that can be closed before anything was started; 3, 8 and 9 are answered by an attempt itself."""


@dataclass(frozen=True, slots=True)
class GateItem:
    """One of the ten. `item` is the checklist item that a person may answer instead, where there is one."""

    no: int
    text: str
    closed: bool
    evidence: int | None
    how: str
    value: str | None = None
    item: str | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """The ten items as the case stands."""

    items: tuple[GateItem, ...]

    @property
    def open(self) -> tuple[int, ...]:
        """Numbers of the open items."""
        return tuple(item.no for item in self.items if not item.closed)


@dataclass(frozen=True, slots=True)
class _Judged:
    closed: bool
    evidence: int | None = None
    value: str | None = None
    how: str | None = None


_OPEN = _Judged(closed=False)


def evaluate(case: Case, playbook: Playbook) -> Gate:
    """Judge the ten items of the gate."""
    return Gate(tuple(_item(row, case, playbook) for row in _ROWS))


def may_attempt(case: Case, playbook: Playbook) -> None:
    """Refuse another attempt while what can be closed before one is open.

    Raises:
        PhaseClosed: items are open; `items` names them.
    """
    left = [item for item in evaluate(case, playbook).items if item.no in BEFORE_AN_ATTEMPT and not item.closed]
    if left:
        raise _refusal("No attempt yet", [f"{item.no} {item.text}" for item in left])


def may_enter(case: Case, playbook: Playbook, phase: Phase) -> None:
    """Refuse a phase whose gate is open; a phase may be entered again, and a decision may be taken from any phase.

    Raises:
        PhaseClosed: the gate is open; `items` names what is missing.
    """
    if phase in {Phase.DECISION, Phase.CLOSED} or _position(phase) <= _position(case.phase):
        return
    found = playbook.phase(phase)
    if found is None:
        raise _refusal(f"The playbook {playbook.id} has no phase {phase.value}", [])
    if missing := _missing(case, playbook, phase):
        raise _refusal(f"{found.title}: not yet", missing)
    if not found.carried_out:
        raise PhaseClosed(f"{found.title}: {NOT_CARRIED_OUT}")


def next_phase(case: Case, playbook: Playbook) -> Phase | None:
    """Return the phase that follows when its gate is closed, so that it can be entered now; else None."""
    later = [found.id for found in playbook.phases if _position(found.id) > _position(case.phase)]
    if not later or later[0] in {Phase.DECISION, Phase.CLOSED}:
        return None
    try:
        may_enter(case, playbook, later[0])
    except PhaseClosed:
        return None
    return later[0]


def _position(phase: Phase) -> int:
    return list(Phase).index(phase)


def _refusal(message: str, missing: list[str]) -> PhaseClosed:
    text = f"{message}; open: {'; '.join(missing)}" if missing else message
    return PhaseClosed(text, items=tuple(missing))


def _missing(case: Case, playbook: Playbook, phase: Phase) -> list[str]:
    """Name what is open of every layer below the phase that was not skipped by an approver; each layer opens the next."""
    skipped = {noted.payload.phase for noted in case.phases if noted.payload.skipped}
    missing: list[str] = []
    below = [found.id for found in playbook.phases if _position(found.id) < _position(phase)]
    reached = max((_position(found) for found in skipped), default=-1)
    for layer in below:
        if _position(layer) >= max(reached, _position(case.phase)):
            missing += _open_of(case, playbook, layer)
    return missing


def _open_of(case: Case, playbook: Playbook, layer: Phase) -> list[str]:
    match layer:
        case Phase.FREEZE | Phase.REGRESSION:
            return [item.label for item in open_items(case, playbook, layer)]
        case Phase.BOUNDARY:
            # A verdict that is not "supported" is passed by an approved decision only.
            if case.boundary is not None and case.approvals and case.approvals[-1].seq > case.boundary.seq:
                return []
            return [item.label for item in open_items(case, playbook, layer)]
        case Phase.LAUNCH:
            left = [f"{item.no} {item.text}" for item in evaluate(case, playbook).items if not item.closed]
            return [item.label for item in open_items(case, playbook, layer)] + left + _not_ready(case)
        case Phase.DECISION:
            return [] if case.approvals else ["Decision approved by a second person"]
        case Phase.ADD_BACK | Phase.CHANGE | Phase.OBSERVE | Phase.CLOSED:
            return []


def _not_ready(case: Case) -> list[str]:
    """A failure that repeats opens a decision; only an engine that is ready twice opens what lies after the launch."""
    newest = seen.newest_attempt(case)
    return [] if newest is not None and newest.payload.outcome is Outcome.READY else ["The newest attempt is ready"]


Judge = Callable[[Case, Playbook], _Judged]


@dataclass(frozen=True, slots=True)
class GateRow:
    """A row of the gate: what has to be there, how it is closed, and how it is judged."""

    no: int
    text: str
    how: str
    judge: Judge
    item: str | None = None


def _item(row: GateRow, case: Case, playbook: Playbook) -> GateItem:
    judged = row.judge(case, playbook)
    if not judged.closed and row.item is not None:
        judged = _answered(case, playbook, row.item) or judged
    return GateItem(
        no=row.no,
        text=row.text,
        closed=judged.closed,
        evidence=judged.evidence,
        how=judged.how or row.how,
        value=judged.value,
        item=row.item,
    )


def _answered(case: Case, playbook: Playbook, item: str) -> _Judged | None:
    step, answer = playbook.step(item), case.answers.get(item)
    if step is None or answer is None or not answer.payload.value.strip() or not may_answer(case, step):
        return None
    return _Judged(closed=True, evidence=answer.seq, value=f"{answer.payload.value} ({answer.actor})")


def _driver(case: Case, _playbook: Playbook) -> _Judged:
    found = seen.field(case, "host", "driver.loaded")
    if found is None or not found.was_read:
        return _OPEN
    return _Judged(closed=True, evidence=found.seq, value=found.text)


def _image(case: Case, _playbook: Playbook) -> _Judged:
    if seen.engine_of(case) == "process":
        found = seen.field(case, "container", "python.executable")
        if found is not None and found.status is FieldStatus.OK:
            return _Judged(closed=True, evidence=found.seq, value=f"interpreter {found.value} with its packages")
    for name in ("image.digest", "image.id", "container.image_id"):
        found = seen.field(case, "container", name)
        if found is not None and found.status is FieldStatus.OK:
            return _Judged(closed=True, evidence=found.seq, value=found.text)
    return _OPEN


def _count(case: Case, side: seen.Side, names: tuple[str, ...]) -> seen.Seen | None:
    for name in names:
        found = seen.field(case, side, name)
        if found is not None and found.was_read:
            return found
    return None


def _gpus(case: Case, _playbook: Playbook) -> _Judged:
    cpu = seen.cpu_build(case)
    if cpu is not None:
        return _Judged(closed=True, evidence=cpu.seq, value="the engine is built without CUDA: no GPU is expected")
    host = _count(case, "host", ("nvml.count", "proc.gpu_count", "pci.gpu_count"))
    inside = _count(case, "container", ("torch.device_count", "cuda.count", "nvml.count"))
    named = len(case.baselines[-1].payload.baseline.get("gpus") or ()) if case.baselines else 0
    if inside is None or (host is None and not named):
        return _OPEN
    expected = named or int((host.value if host is not None else 0) or 0)
    counted = int(inside.value or 0)
    if counted == expected and counted > 0:
        return _Judged(closed=True, evidence=inside.seq, value=f"{counted} GPUs, as recorded")
    return _Judged(
        closed=False,
        evidence=inside.seq,
        value=f"expected {expected} GPUs, the container sees {counted}",
        how="Look at GPU visibility, container runtime and device permissions first; no memory analysis before that.",
    )


def _versions(case: Case, _playbook: Playbook) -> _Judged:
    wanted = (("torch.cuda", "cuda.version_file"), ("torch.version", "package.torch"), ("vllm.version", "package.vllm"))
    found = [_count(case, "container", names) for names in wanted]
    read = [one for one in found if one is not None]
    if len(read) < len(wanted):
        return _OPEN
    return _Judged(closed=True, evidence=max(one.seq for one in read), value=", ".join(one.text for one in read))


def _command(case: Case, _playbook: Playbook) -> _Judged:
    if not case.baselines or not case.baselines[-1].payload.baseline.get("argv"):
        return _OPEN
    newest = case.baselines[-1]
    return _Judged(closed=True, evidence=newest.seq, value=f"baseline {newest.payload.digest[:12]}")


def _minimal(case: Case, playbook: Playbook) -> _Judged:
    if not case.baselines:
        return _OPEN
    newest = case.baselines[-1]
    added_back = {str((n.payload.change or {}).get("variable", "")) for n in case.baselines}
    options = {str(part) for part in newest.payload.baseline.get("argv") or ()}
    left = [option for option in playbook.excluded_options if option in options and option not in added_back]
    if left:
        return _Judged(
            closed=False,
            evidence=newest.seq,
            value=", ".join(left),
            how=f"Take out {', '.join(left)}: features come back one at a time, on a stable baseline.",
        )
    return _Judged(closed=True, evidence=newest.seq, value="nothing of it in the command")


def _one_variable(case: Case, _playbook: Playbook) -> _Judged:
    if not case.baselines:
        return _OPEN
    newest = case.baselines[-1]
    attempts = seen.attempts_of(case, newest.payload.digest)
    if len(attempts) > 1 and attempts[-1].payload.changed:
        moved = "; ".join(attempts[-1].payload.changed)
        return _Judged(
            closed=False,
            evidence=attempts[-1].seq,
            value=moved,
            how=f"This was to be a repeat, and something moved: {moved}. Run two more attempts with nothing changed.",
        )
    reference = _reference(case)
    if reference is None:
        return _Judged(closed=True, evidence=newest.seq, value="first baseline: nothing to differ from")
    try:
        variables = diff(_read(reference.payload.baseline), _read(newest.payload.baseline))
    except ValidationError:
        return _Judged(closed=False, evidence=newest.seq, how="A baseline of this case cannot be read; freeze it again.")
    names = ", ".join(variable.name for variable in variables)
    if len(variables) > 1:
        return _Judged(
            closed=False,
            evidence=newest.seq,
            value=names,
            how=f"Keep one of them, and put the others back as in #{reference.seq}: {names}.",
        )
    return _Judged(closed=True, evidence=newest.seq, value=names or "no variable differs")


def _reference(case: Case):  # type: ignore[no-untyped-def]
    """Return the baseline to compare the newest with: the last stable one, else the one before; None = there is none."""
    newest = case.baselines[-1]
    stable = {n.payload.later for n in case.scores if n.payload.score == 2}
    digests = {n.payload.baseline_digest for n in case.attempts if n.payload.attempt in stable}
    earlier = [n for n in case.baselines[:-1] if n.payload.digest != newest.payload.digest]
    return next((n for n in reversed(earlier) if n.payload.digest in digests), earlier[-1] if earlier else None)


def _read(baseline: dict[str, object]) -> Baseline:
    return Baseline.model_validate(baseline)


def _stage(case: Case, _playbook: Playbook) -> _Judged:
    newest = seen.newest_attempt(case)
    if newest is None or newest.payload.outcome is Outcome.NOT_OBSERVED:
        return _OPEN
    if newest.payload.outcome is Outcome.READY:
        return _Judged(closed=True, evidence=newest.seq, value="ready")
    stage = newest.payload.finding.get("stage")
    if stage in {None, Stage.NONE.value}:
        return _OPEN
    return _Judged(closed=True, evidence=newest.seq, value=f"first failing stage {stage}")


def _logs(case: Case, _playbook: Playbook) -> _Judged:
    newest = seen.newest_attempt(case)
    if newest is None or not newest.payload.log_sha256:
        return _OPEN
    return _Judged(closed=True, evidence=newest.seq, value=f"sha256 {newest.payload.log_sha256[:12]}")


def _sample(case: Case, playbook: Playbook) -> _Judged:
    if case.baselines and (sample := case.baselines[-1].payload.baseline.get("sample")):
        newest = case.baselines[-1]
        try:
            capped = type(json.loads(sample.get("body", "")).get("max_tokens")) is int
        except (ValueError, AttributeError):
            capped = False
        if not capped:
            return _Judged(closed=False, evidence=newest.seq, how="Give the fixed request a whole number max_tokens.")
        return _Judged(closed=True, evidence=newest.seq, value="of the baseline")
    return _Judged(closed=True, evidence=case.opened.seq, value=f"of the playbook {playbook.id} {playbook.version}")


_FINGERPRINT = "Run the fingerprint with the container, image or interpreter."
_ROWS = (
    GateRow(1, "Loaded driver saved, not the package version", "Run the fingerprint.", _driver, "host-driver"),
    GateRow(2, "Image tag, digest or build information saved", _FINGERPRINT, _image, "image-identity"),
    GateRow(3, "The container sees the expected GPUs", _FINGERPRINT, _gpus, "gpu-visibility"),
    GateRow(4, "CUDA runtime, PyTorch and vLLM versions recorded", _FINGERPRINT, _versions, "runtime-versions"),
    GateRow(5, "Complete launch command saved", "Paste the launch command and freeze the baseline.", _command),
    GateRow(6, "Agent, tools, load scripts and routing removed", "Freeze the minimal command as baseline.", _minimal),
    GateRow(7, "At most one variable differs from the last stable baseline", "Freeze a baseline.", _one_variable),
    GateRow(8, "First failing stage, or ready, recorded", "Run an attempt, or drop its complete log.", _stage),
    GateRow(9, "Complete logs before and after the failure kept", "Run an attempt, or drop its complete log.", _logs),
    GateRow(10, "One fixed request sample with a fixed cap", "Freeze a baseline with the playbook's sample.", _sample),
)
ROWS = _ROWS
