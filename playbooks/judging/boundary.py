"""May this host's loaded driver run this image's CUDA? And which official boundary is not kept (R2)?

The driver verdict has four values, each with a rule id and its grounds; boundary problems outrank memory. Python holds
how to compare; what to compare with is dated data in `definitions/boundaries/`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Protocol

from playbooks.judging import boundary_findings
from playbooks.judging.boundary_data import Boundaries, ImageClass, parse_boundaries
from playbooks.judging.boundary_facts import BoundaryFinding, DriverFacts, numbers
from playbooks.reading.fields import Facts, value_of, values_of
from playbooks.vocabulary import DriverVerdict

__all__ = [
    "Boundaries",
    "BoundaryFinding",
    "BoundaryVerdict",
    "DriverFacts",
    "ImageClass",
    "facts_from",
    "judge",
    "parse_boundaries",
]

_YES = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True, slots=True)
class BoundaryVerdict:
    """The driver verdict with its rule, grounds, further findings, and how old the snapshot is."""

    verdict: DriverVerdict
    rule: str
    grounds: tuple[str, ...]
    findings: tuple[BoundaryFinding, ...]
    snapshot: str
    age_days: int
    image_class: ImageClass = ImageClass.UNKNOWN


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

    def variable(name: str) -> str | None:
        found = (
            value_of(inside, f"env.{name}")
            or value_of(inside, f"container.env.{name}")
            or value_of(inside, f"image.env.{name}")
        )
        return None if found is None else str(found)

    torch_version = str(value_of(inside, "torch.version") or value_of(inside, "package.torch") or "")
    vllm = next(
        (str(v) for n in ("vllm.version", "vllm.metadata_version", "package.vllm") if (v := value_of(inside, n))), None
    )
    metadata = str(value_of(inside, "vllm.metadata_version") or "")
    read_cuda, told_cuda = _cuda(inside, torch_version)
    count = value_of(inside, "nvml.count")
    memory = [total for total in values_of(host, "gpu", "memory_total_bytes") if isinstance(total, int)]
    loaded = value_of(host, "driver.loaded") or value_of(inside, "driver.loaded")
    init = value_of(inside, "cuda.init")
    return DriverFacts(
        loaded=None if loaded is None else str(loaded),
        on_disk=value_of(host, "driver.on_disk"),
        cuda_image=read_cuda or told_cuda,
        cuda_was_read=read_cuda is not None,
        cpu_build="+cpu" in torch_version or "cpu" in metadata or "cpu" in (vllm or ""),
        image_reference=value_of(inside, "image.reference") or value_of(inside, "container.image_reference"),
        image_digest=value_of(inside, "image.digest"),
        image_known=value_of(inside, "image.id") is not None or value_of(inside, "container.image_id") is not None,
        gpu_names=tuple(str(name) for name in values_of(host, "gpu", "name")),
        gpu_count=count if isinstance(count, int) else value_of(host, "nvml.count"),
        gpu_memory_bytes=sum(memory) if memory else None,
        compute_capabilities=tuple(str(found) for found in values_of(host, "gpu", "compute_capability")),
        compat_path=value_of(inside, "cuda.compat_path"),
        compat_enabled=(variable("VLLM_ENABLE_CUDA_COMPATIBILITY") or "").lower() in _YES,
        compat_in_use=value_of(inside, "cuda.compat_in_use"),
        vllm_version=vllm,
        cuda_init=init if isinstance(init, int) else None,
        require_disabled=variable("NVIDIA_DISABLE_REQUIRE") or value_of(inside, "image.disable_require"),
        container_read=any(name.split(".")[0] in _INSIDE for name in inside if value_of(inside, name) is not None),
    )  # fmt: skip


_INSIDE = frozenset({"python", "torch", "vllm", "cuda", "package"})
"""Groups of fields that only a probe inside the container can read; an inspection cannot."""


def judge(facts: DriverFacts, boundaries: Boundaries, today: date) -> BoundaryVerdict:
    """Judge the driver against the image, and list every other boundary that is not kept.

    supported    the loaded driver reaches the floor of the image's CUDA
    compat_only  below the floor, a data-center GPU, and the image carries compatibility libraries
    blocked      below the floor otherwise, or no driver is loaded though GPUs were asked for
    unknown      something that the verdict rests on was not read, or this is no place for GPUs
    """
    verdict, rule, grounds = _driver(facts, boundaries)
    image = boundary_findings.image_class(facts, boundaries)
    age = boundaries.age_days(today)
    limit = boundary_findings.age(age, boundaries)
    return BoundaryVerdict(
        verdict=verdict,
        rule=rule,
        grounds=grounds,
        findings=(*boundary_findings.findings(facts, boundaries, image), *limit),
        snapshot=f"{boundaries.id}, checked {boundaries.checked_on.isoformat()}",
        age_days=age,
        image_class=image,
    )


Grounds = tuple[DriverVerdict, str, tuple[str, ...]]


def _driver(facts: DriverFacts, boundaries: Boundaries) -> Grounds:
    if facts.cpu_build:
        return _said(
            DriverVerdict.UNKNOWN,
            "B-05",
            "The engine is a CPU build: it uses no driver, and nothing here is evidence about GPUs.",
        )
    if facts.loaded is None and not facts.gpu_names and not facts.gpu_count:
        return _said(
            DriverVerdict.UNKNOWN,
            "B-03",
            "No NVIDIA driver is loaded and no GPU was seen: whether a driver fits is not to be told here.",
        )
    if facts.cuda_image is None:
        why = (
            "inside the container"
            if facts.container_read
            else "because no container, image or interpreter was looked into"
        )
        return _said(
            DriverVerdict.UNKNOWN,
            "B-04",
            f"The CUDA that the engine is built for was not read {why}; host packages are no substitute.",
        )
    row = boundaries.driver.major(facts.cuda_image)
    if facts.loaded is None:
        return _said(DriverVerdict.BLOCKED, "B-08", f"No driver is loaded; CUDA {facts.cuda_image} needs one.")
    if row is None:
        return _said(DriverVerdict.UNKNOWN, "B-06", f"The snapshot has no driver floor for CUDA {facts.cuda_image}.")
    floor, source = _floor(facts.cuda_image, row.floor, row.source, boundaries)
    said = f"Loaded driver {facts.loaded}; CUDA {facts.cuda_image} of the image needs {floor} or newer."
    if numbers(facts.loaded) >= numbers(floor):
        return DriverVerdict.SUPPORTED, "B-01", (said, *_caveats(facts, boundaries), f"Source: {source}.")
    below = (said, "Lowering context or concurrency does not help.", f"Source: {source}.")
    kinds = [boundaries.driver.kind(name) for name in facts.gpu_names]
    if facts.compat_path is None:
        return DriverVerdict.BLOCKED, "B-02", below
    if kinds and all(kind is not None and kind.data_center for kind in kinds):
        state = "switched on" if facts.compat_enabled or facts.compat_in_use else "not switched on"
        path = f"The image carries compatibility libraries ({facts.compat_path}, {state}); that is no path of the official recipe, so record it as a deviation."
        return DriverVerdict.COMPAT_ONLY, "B-07", (said, path, f"Source: {source}.")
    if not kinds:
        unsure = (
            "The image carries compatibility libraries, but the GPUs were not read: only data-center GPUs may use them."
        )
        return DriverVerdict.UNKNOWN, "B-09", (said, unsure, f"Source: {source}.")
    named = next(
        name for name, kind in zip(facts.gpu_names, kinds, strict=True) if kind is None or not kind.data_center
    )
    refused = f"Compatibility libraries do not run on {named}: error 804 would follow."
    return DriverVerdict.BLOCKED, "B-10", (said, refused, f"Source: {source}.")


def _said(verdict: DriverVerdict, rule: str, ground: str) -> Grounds:
    return verdict, rule, (ground,)


def _floor(cuda: str, floor: str, source: str, boundaries: Boundaries) -> tuple[str, str]:
    """Return the higher of the vendor's floor and the recipe's branch, when the recipe speaks of this CUDA major."""
    build, branch = boundaries.model.cuda_build, boundaries.model.min_driver_branch
    if build is None or branch is None or build.value.split(".")[0] != cuda.split(".", maxsplit=1)[0]:
        return floor, source
    return (
        (str(branch.value), branch.source)
        if (branch.value,) > numbers(floor)
        else (floor, f"{source}; {branch.source}")
    )


def _caveats(facts: DriverFacts, boundaries: Boundaries) -> tuple[str, ...]:
    """Necessary is not sufficient: PTX of a newer toolkit needs that toolkit's own driver."""
    compilers = [facts.cuda_image, boundary_findings.compiler_cuda(facts, boundaries)]
    for cuda in sorted({found for found in compilers if found}, key=numbers, reverse=True):
        own = boundaries.driver.toolkit(cuda)
        if own is not None and facts.loaded is not None and numbers(facts.loaded) < numbers(own.driver):
            text = f"Necessary, not sufficient: kernels compiled at run time by CUDA {own.cuda} may need driver {own.driver}"
            return (f"{text} (error 222, the provided PTX was compiled with an unsupported toolchain).",)
    return ()


def _cuda(inside: Facts, torch_version: str) -> tuple[str | None, str | None]:
    """Return the CUDA that was read from torch, and the one that the image only tells of itself."""
    found = value_of(inside, "torch.cuda")
    if found:
        return str(found), None
    if match := re.search(r"\+cu(\d{2})(\d)\b", torch_version):
        return f"{int(match[1])}.{match[2]}", None
    told = (
        value_of(inside, "cuda.version_file")
        or value_of(inside, "image.env.CUDA_VERSION")
        or value_of(inside, "container.env.CUDA_VERSION")
    )
    return None, ".".join(str(told).split(".")[:2]) if told else None
