"""The ten rows of the gate (R6): what has to be there, and how the record proves it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import ValidationError

from playbooks.evidence import entries as e
from playbooks.guiding import seen
from playbooks.guiding.case import Case, Noted
from playbooks.guiding.playbook import Playbook
from playbooks.judging.baseline import Baseline
from playbooks.judging.baseline_diff import TOGETHER, diff
from playbooks.vocabulary import FieldStatus, Outcome, Stage


@dataclass(frozen=True, slots=True)
class Judged:
    """A row as judged; an empty `how` = the row's own."""

    closed: bool
    evidence: int | None = None
    value: str | None = None
    how: str = ""
    by_attempt: bool = False
    """Open, and only another attempt can close it: no reason to refuse one."""


_OPEN = Judged(closed=False)


Judge = Callable[[Case, Playbook], Judged]


@dataclass(frozen=True, slots=True)
class GateRow:
    """A row of the gate: what has to be there, how it is closed, and how it is judged."""

    no: int
    text: str
    how: str
    judge: Judge
    item: str | None = None


def _driver(case: Case, _playbook: Playbook) -> Judged:
    found = seen.field(case, "host", "driver.loaded")
    if found is None or not found.was_read:
        return _OPEN
    return Judged(closed=True, evidence=found.seq, value=found.text)


def _image(case: Case, _playbook: Playbook) -> Judged:
    if seen.engine_of(case) == "process":
        found = seen.field(case, "container", "python.executable")
        if found is not None and found.status is FieldStatus.OK:
            return Judged(closed=True, evidence=found.seq, value=f"interpreter {found.value} with its packages")
    for name in ("image.digest", "image.id", "container.image_id"):
        found = seen.field(case, "container", name)
        if found is not None and found.status is FieldStatus.OK:
            return Judged(closed=True, evidence=found.seq, value=found.text)
    return _OPEN


def _count(case: Case, side: seen.Side, names: tuple[str, ...]) -> seen.Seen | None:
    for name in names:
        found = seen.field(case, side, name)
        if found is not None and found.was_read:
            return found
    return None


def _gpus(case: Case, _playbook: Playbook) -> Judged:
    cpu = seen.cpu_build(case)
    if cpu is not None:
        return Judged(closed=True, evidence=cpu.seq, value="the engine is built without CUDA: no GPU is expected")
    host = _count(case, "host", ("nvml.count", "proc.gpu_count", "pci.gpu_count"))
    inside = _count(case, "container", ("torch.device_count", "cuda.count", "nvml.count"))
    named = len(case.baselines[-1].payload.baseline.get("gpus") or ()) if case.baselines else 0
    expected = named or (int(host.value or 0) if host is not None else None)
    if inside is None or expected is None:
        return _OPEN
    counted = int(inside.value or 0)
    if counted == expected and counted > 0:
        return Judged(closed=True, evidence=inside.seq, value=f"{counted} GPUs, as recorded")
    return Judged(
        closed=False,
        evidence=inside.seq,
        value=f"expected {expected} GPUs, the container sees {counted}",
        how="Look at GPU visibility, container runtime and device permissions first; no memory analysis before that.",
    )


def _versions(case: Case, _playbook: Playbook) -> Judged:
    wanted = (("torch.cuda", "cuda.version_file"), ("torch.version", "package.torch"), ("vllm.version", "package.vllm"))
    found = [_count(case, "container", names) for names in wanted]
    read = [one for one in found if one is not None]
    if len(read) < len(wanted):
        return _OPEN
    return Judged(closed=True, evidence=max(one.seq for one in read), value=", ".join(one.text for one in read))


def _command(case: Case, _playbook: Playbook) -> Judged:
    if not case.baselines or not case.baselines[-1].payload.baseline.get("argv"):
        return _OPEN
    newest = case.baselines[-1]
    return Judged(closed=True, evidence=newest.seq, value=f"baseline {newest.payload.digest[:12]}")


def _minimal(case: Case, playbook: Playbook) -> Judged:
    if not case.baselines:
        return _OPEN
    newest = case.baselines[-1]
    changes = [n.payload.change for n in case.baselines if n.payload.change is not None]
    added_back = {str(change.get("variable")).removeprefix("argument ") for change in changes}
    added_back |= {option for name in added_back & TOGETHER.keys() for option in TOGETHER[name]}
    options = {str(part) for part in newest.payload.baseline.get("argv") or ()}
    left = [option for option in playbook.excluded_options if option in options and option not in added_back]
    if left:
        return Judged(
            closed=False,
            evidence=newest.seq,
            value=", ".join(left),
            how=f"Take out {', '.join(left)}: features come back one at a time, on a stable baseline.",
        )
    return Judged(closed=True, evidence=newest.seq, value="nothing of it in the command")


def _one_variable(case: Case, _playbook: Playbook) -> Judged:
    if not case.baselines:
        return _OPEN
    judged = _baselines_differ(case, case.baselines[-1])
    return (_moved(case, case.baselines[-1]) or judged) if judged.closed else judged


def _moved(case: Case, newest: Noted[e.BaselineFrozen]) -> Judged | None:
    """Judge what moved besides the baseline: nothing on a repeat, the one change in its first attempt."""
    attempts = seen.attempts_of(case, newest.payload.digest)
    if attempts and len(attempts[-1].payload.changed) > (1 if len(attempts) == 1 else 0):
        moved = "; ".join(attempts[-1].payload.changed)
        expected = "one change" if len(attempts) == 1 else "a repeat"
        return Judged(
            closed=False,
            evidence=attempts[-1].seq,
            value=moved,
            by_attempt=True,
            how=f"This was to be {expected}, and more moved: {moved}. Put it back, and run two attempts again.",
        )
    return None


def _baselines_differ(case: Case, newest: Noted[e.BaselineFrozen]) -> Judged:
    if newest.payload.digest in _stable_digests(case):
        return Judged(closed=True, evidence=newest.seq, value="a stable baseline itself")
    reference = _reference(case)
    if reference is None:
        return Judged(closed=True, evidence=newest.seq, value="first baseline: nothing to differ from")
    try:
        variables = diff(_read(reference.payload.baseline), _read(newest.payload.baseline))
    except ValidationError:
        return Judged(closed=False, evidence=newest.seq, how="A baseline of this case cannot be read; freeze it again.")
    names = ", ".join(variable.name for variable in variables)
    if len(variables) > 1:
        return Judged(
            closed=False,
            evidence=newest.seq,
            value=names,
            how=f"Keep one of them, and put the others back as in #{reference.seq}: {names}.",
        )
    return Judged(closed=True, evidence=newest.seq, value=names or "no variable differs")


def _reference(case: Case) -> Noted[e.BaselineFrozen] | None:
    """Return the baseline to compare the newest with: the last stable one, else the one before; None = there is none."""
    stable = _stable_digests(case)
    elsewhere = _ran_elsewhere(case.baselines[-1])
    earlier = [noted for noted in case.baselines[:-1] if _ran_elsewhere(noted) is elsewhere]
    return next((n for n in reversed(earlier) if n.payload.digest in stable), earlier[-1] if earlier else None)


def _ran_elsewhere(noted: Noted[e.BaselineFrozen]) -> bool:
    """Whether it was taken from logs of elsewhere: what is run here starts a comparison of its own."""
    return noted.payload.baseline.get("engine") == "recorded"


def _stable_digests(case: Case) -> frozenset[str]:
    stable = {n.payload.later for n in case.scores if n.payload.score == 2}
    return frozenset(n.payload.baseline_digest for n in case.attempts if n.payload.attempt in stable)


def _read(baseline: dict[str, object]) -> Baseline:
    return Baseline.model_validate(baseline)


def _stage(case: Case, _playbook: Playbook) -> Judged:
    newest = seen.newest_attempt(case)
    if newest is None or newest.payload.outcome is Outcome.NOT_OBSERVED:
        return _OPEN
    if newest.payload.outcome is Outcome.READY:
        return Judged(closed=True, evidence=newest.seq, value="ready")
    stage = newest.payload.finding.get("stage")
    if stage in {None, Stage.NONE.value}:
        return _OPEN
    return Judged(closed=True, evidence=newest.seq, value=f"first failing stage {stage}")


def _logs(case: Case, _playbook: Playbook) -> Judged:
    newest = seen.newest_attempt(case)
    if newest is None or not newest.payload.log_sha256:
        return _OPEN
    return Judged(closed=True, evidence=newest.seq, value=f"sha256 {newest.payload.log_sha256[:12]}")


def _sample(case: Case, playbook: Playbook) -> Judged:
    if case.baselines and (sample := case.baselines[-1].payload.baseline.get("sample")):
        newest = case.baselines[-1]
        if not _capped(sample):
            return Judged(closed=False, evidence=newest.seq, how="Give the fixed request a whole number max_tokens.")
        return Judged(closed=True, evidence=newest.seq, value="of the baseline")
    return Judged(closed=True, evidence=case.opened.seq, value=f"of the playbook {playbook.id} {playbook.version}")


def _capped(sample: dict[str, str]) -> bool:
    try:
        return type(json.loads(sample["body"]).get("max_tokens")) is int
    except (LookupError, TypeError, ValueError, AttributeError):
        return False


_FINGERPRINT = "Run the fingerprint with the container, image or interpreter."
ROWS = (
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
