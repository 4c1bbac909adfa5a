"""May this host's loaded driver run this image's CUDA? And which official boundary is not kept (R2)?

The driver verdict has four values, each with a rule id and its grounds; boundary problems outrank memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Protocol

from playbooks.judging.boundary_data import Boundaries, parse_boundaries
from playbooks.reading.fields import Facts, value_of, values_of
from playbooks.vocabulary import DriverVerdict

__all__ = ["Boundaries", "BoundaryFinding", "BoundaryVerdict", "DriverFacts", "facts_from", "judge", "parse_boundaries"]

_VERSION = re.compile(r"\d+(?:\.\d+)*")
_BRANCH_BUILD = re.compile(r"^0\.1\.dev\d+")
_RELEASE = re.compile(r"^(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """What the verdict rests on; None = not read."""

    loaded: str | None = None
    on_disk: str | None = None
    cuda_image: str | None = None
    """CUDA that the engine's torch is built for, else the image's own word."""
    cpu_build: bool = False
    image_reference: str | None = None
    image_digest: str | None = None
    gpu_names: tuple[str, ...] = ()
    gpu_count: int | None = None
    compute_capabilities: tuple[str, ...] = ()
    compat_path: str | None = None
    compat_enabled: bool = False
    vllm_version: str | None = None
    cuda_init: int | None = None
    image_created: str | None = None
    container_read: bool = False


@dataclass(frozen=True, slots=True)
class BoundaryFinding:
    """A boundary that is not kept, or worth knowing: id, text, `blocking` or `note`."""

    id: str
    text: str
    severity: str


@dataclass(frozen=True, slots=True)
class BoundaryVerdict:
    """The driver verdict with its rule, grounds, further findings, and how old the snapshot is."""

    verdict: DriverVerdict
    rule: str
    grounds: tuple[str, ...]
    findings: tuple[BoundaryFinding, ...]
    snapshot: str
    age_days: int


class TwoSides(Protocol):
    """What `facts_from` needs of a fingerprint."""

    @property
    def host(self) -> Mapping[str, Any]: ...
    @property
    def container(self) -> Mapping[str, Any]: ...


def facts_from(fingerprint: TwoSides) -> DriverFacts:
    """Take the facts of the verdict out of a fingerprint."""
    host: Facts = fingerprint.host
    inside: Facts = fingerprint.container
    torch_version = str(value_of(inside, "torch.version") or value_of(inside, "package.torch") or "")
    vllm_metadata = str(value_of(inside, "vllm.metadata_version") or "")
    init = value_of(inside, "cuda.init")
    count = value_of(inside, "nvml.count") if inside else None
    return DriverFacts(
        loaded=value_of(host, "driver.loaded"),
        on_disk=value_of(host, "driver.on_disk"),
        cuda_image=_cuda_of(inside, torch_version),
        cpu_build="+cpu" in torch_version or "cpu" in vllm_metadata,
        image_reference=value_of(inside, "image.reference") or value_of(inside, "container.image_reference"),
        image_digest=value_of(inside, "image.digest"),
        gpu_names=tuple(str(name) for name in values_of(host, "gpu", "name")),
        gpu_count=count if isinstance(count, int) else value_of(host, "nvml.count"),
        compute_capabilities=tuple(str(cc) for cc in values_of(host, "gpu", "compute_capability")),
        compat_path=value_of(inside, "cuda.compat_path"),
        compat_enabled=str(value_of(inside, "env.VLLM_ENABLE_CUDA_COMPATIBILITY") or value_of(inside, "container.env.VLLM_ENABLE_CUDA_COMPATIBILITY") or "") in {"1", "true", "True"},
        vllm_version=value_of(inside, "vllm.version") or value_of(inside, "vllm.metadata_version") or value_of(inside, "package.vllm"),
        cuda_init=init if isinstance(init, int) else None,
        image_created=value_of(inside, "image.created"),
        container_read=bool(inside),
    )  # fmt: skip


def judge(facts: DriverFacts, boundaries: Boundaries, today: date) -> BoundaryVerdict:
    """Judge the driver against the image, and list every other boundary that is not kept.

    supported    the loaded driver reaches the floor of the image's CUDA
    compat_only  below the floor, a data-center GPU, and the image carries compatibility libraries
    blocked      below the floor otherwise, or no driver is loaded
    unknown      something that the verdict rests on was not read, or this is no place for GPUs
    """
    verdict, rule, grounds = _driver(facts, boundaries)
    age = boundaries.age_days(today)
    return BoundaryVerdict(
        verdict=verdict,
        rule=rule,
        grounds=grounds,
        findings=tuple(_findings(facts, boundaries)),
        snapshot=f"{boundaries.id}, checked {boundaries.checked_on.isoformat()}",
        age_days=age,
    )


def _driver(facts: DriverFacts, boundaries: Boundaries) -> tuple[DriverVerdict, str, tuple[str, ...]]:
    if facts.cpu_build:
        return (
            DriverVerdict.UNKNOWN,
            "B-05",
            ("The engine is a CPU build: it uses no driver, and nothing here is evidence about GPUs.",),
        )
    if facts.cuda_image is None:
        why = (
            "The CUDA that the engine is built for was not read inside the container"
            if facts.loaded
            else "Neither a loaded driver nor the engine's CUDA was read"
        )
        return DriverVerdict.UNKNOWN, "B-04", (f"{why}; host packages are no substitute.",)
    floor = boundaries.cuda.floors.get(facts.cuda_image.split(".")[0])
    if facts.loaded is None:
        if facts.gpu_count is None and not facts.gpu_names:
            return (
                DriverVerdict.UNKNOWN,
                "B-03",
                ("No NVIDIA driver is loaded and no GPU was seen: this place cannot say.",),
            )
        return DriverVerdict.BLOCKED, "B-02", (f"No driver is loaded; CUDA {facts.cuda_image} needs one.",)
    if floor is None:
        return DriverVerdict.UNKNOWN, "B-06", (f"The snapshot has no driver floor for CUDA {facts.cuda_image}.",)
    branch = (
        boundaries.model.min_driver_branch
        if facts.cuda_image.split(".")[0] == (boundaries.model.cuda_build or "").split(".")[0]
        else None
    )
    demanded = max(_numbers(floor), (branch or 0,))
    said = f"Loaded driver {facts.loaded}; CUDA {facts.cuda_image} of the image needs {floor} or newer"
    source = f"Source: {boundaries.cuda.source}"
    if _numbers(facts.loaded) >= demanded:
        return DriverVerdict.SUPPORTED, "B-01", (f"{said}.", *_toolchain(facts, boundaries), source)
    if facts.compat_path and _is_data_center(facts, boundaries):
        enabled = "switched on" if facts.compat_enabled else "not switched on"
        return (
            DriverVerdict.COMPAT_ONLY,
            "B-07",
            (
                f"{said}.",
                f"The image carries compatibility libraries ({enabled}); that is no path of the official recipe.",
                source,
            ),
        )
    return DriverVerdict.BLOCKED, "B-02", (f"{said}.", "Lowering context or concurrency does not help.", source)


def _toolchain(facts: DriverFacts, boundaries: Boundaries) -> tuple[str, ...]:
    """Necessary is not sufficient: PTX of a newer toolkit needs that toolkit's own driver."""
    own = boundaries.cuda.toolkits.get(facts.cuda_image or "")
    if own is None or facts.loaded is None or _numbers(facts.loaded) >= _numbers(own):
        return ()
    return (
        f"Necessary, not sufficient: kernels compiled at run time by CUDA {facts.cuda_image} may need driver {own} (error 222).",
    )


def _findings(facts: DriverFacts, boundaries: Boundaries) -> Iterator[BoundaryFinding]:
    if facts.on_disk and facts.loaded and facts.on_disk != facts.loaded:
        yield BoundaryFinding(
            "loaded-is-not-on-disk",
            f"Driver {facts.loaded} is loaded, {facts.on_disk} lies on disk: the package record is no proof.",
            "note",
        )
    if facts.loaded and facts.cuda_image:
        ended = next((b for b in boundaries.driver_branches if b.branch == _numbers(facts.loaded)[0] and b.over), None)
        if ended is not None:
            yield BoundaryFinding(
                "branch-over",
                f"Driver branch {ended.branch} is at its end of life{f' ({ended.end})' if ended.end else ''}.",
                "note",
            )
    yield from _vllm(facts, boundaries)
    yield from _hardware(facts, boundaries)
    if facts.container_read and not facts.cpu_build and facts.image_reference and facts.image_digest is None:
        yield BoundaryFinding(
            "no-digest",
            f"{facts.image_reference} has no repository digest: built or loaded locally, so its inner CUDA build was read, not assumed.",
            "note",
        )
    yield from _notes(facts, boundaries)


def _notes(facts: DriverFacts, boundaries: Boundaries) -> Iterator[BoundaryFinding]:
    for note in boundaries.model.notes:
        if note.id == "no-cu129-tag" and not (facts.cuda_image or "").startswith("12"):
            continue
        if note.id == "stale-tag" and "kimi-k3" not in (facts.image_reference or ""):
            continue
        if note.id == "floor-is-no-promise" and not facts.gpu_names:
            continue
        yield BoundaryFinding(note.id, f"{note.text} ({note.source}, checked {note.checked_on.isoformat()})", "note")


def _hardware(facts: DriverFacts, boundaries: Boundaries) -> Iterator[BoundaryFinding]:
    if not facts.gpu_names or facts.cpu_build:
        return
    model = boundaries.model
    kind = _kind(facts.gpu_names[0], boundaries)
    needed = model.hardware.min_gpus.get(kind or "")
    if needed and facts.gpu_count is not None and facts.gpu_count < needed:
        yield BoundaryFinding(
            "hardware-floor",
            f"The recipe needs {needed} × {kind}; {facts.gpu_count} are visible here. A floor is a precondition, no promise of capacity.",
            "blocking",
        )
    lowest = model.hardware.min_compute_capability
    low = [cc for cc in facts.compute_capabilities if lowest and _numbers(cc) < _numbers(lowest)]
    if low:
        yield BoundaryFinding(
            "architecture", f"Compute capability {low[0]} is below {lowest}: no kernels for this model.", "blocking"
        )


def _vllm(facts: DriverFacts, boundaries: Boundaries) -> Iterator[BoundaryFinding]:
    version, lowest = facts.vllm_version, boundaries.model.min_vllm
    if version is None or lowest is None:
        return
    if _BRANCH_BUILD.match(version):
        # the official image reports 0.1.dev…: comparing that as a number would refuse it
        yield BoundaryFinding(
            "branch-build", f"vLLM {version} is a branch build: judged by image and digest, not by its number.", "note"
        )
        return
    if not _RELEASE.match(version):
        yield BoundaryFinding(
            "self-built",
            f"vLLM {version} is no release number: a self-built engine, to be judged by its source.",
            "note",
        )
        return
    if _numbers(version)[:3] < _numbers(lowest)[:3]:
        yield BoundaryFinding(
            "vllm-below-minimum",
            f"vLLM {version} is below {lowest}, the recipe's minimum for {boundaries.model.ids[0]}.",
            "blocking",
        )


def _cuda_of(inside: Facts, torch_version: str) -> str | None:
    found = value_of(inside, "torch.cuda")
    if found:
        return str(found)
    if match := re.search(r"\+cu(\d{2})(\d)", torch_version):
        return f"{int(match[1])}.{match[2]}"
    image = value_of(inside, "image.env.CUDA_VERSION") or value_of(inside, "cuda.version_file")
    return ".".join(str(image).split(".")[:2]) if image else None


def _is_data_center(facts: DriverFacts, boundaries: Boundaries) -> bool:
    return bool(facts.gpu_names) and all(_kind(name, boundaries) is not None for name in facts.gpu_names)


def _kind(name: str, boundaries: Boundaries) -> str | None:
    words = set(re.findall(r"[A-Z]+\d+[A-Z]*", name.upper()))
    return next((gpu for gpu in sorted(boundaries.data_center_gpus, key=len, reverse=True) if gpu in words), None)


def _numbers(version: str) -> tuple[int, ...]:
    match = _VERSION.search(version)
    return tuple(int(part) for part in match[0].split(".")) if match else (0,)
