"""Boundaries beside the driver verdict: image class, engine version, hardware floor, first baselines that prove nothing (R2.3).

Each finding has an id, a text for the thread, and says whether it blocks or is worth knowing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from playbooks.judging.boundary_data import Boundaries, HardwareRow, ImageClass
from playbooks.judging.boundary_facts import BoundaryFinding, DriverFacts, numbers

_GIB = 1024**3
_FRESH_DAYS = 30
"""Recipes changed five times within a month (facts of August 2026): older data is checked again before a decision."""
_INIT = {
    35: "the driver is too old for the runtime",
    46: "the devices are busy or in exclusive mode",
    100: "no device is visible",
    101: "a device number that does not exist",
    802: "the fabric is not ready",
    803: "user-mode and kernel driver do not pair",
    804: "compatibility libraries on a GPU that may not use them",
    999: "unknown; a missing nvidia_uvm or a lost GPU is the usual cause",
}


def image_class(facts: DriverFacts, boundaries: Boundaries) -> ImageClass:
    """Say what kind of build the image is, by reference and engine version; a number is never compared for it.

    A known reference without a repository digest was rebuilt or loaded here: it is not the official image.
    """
    if facts.image_known and facts.image_digest is None and facts.image_reference is not None:
        return ImageClass.SELF_BUILT
    reference, version = facts.image_reference, facts.vllm_version
    rules = boundaries.images
    if reference is not None:
        return next((rule.image_class for rule in rules if re.search(rule.reference, reference)), ImageClass.SELF_BUILT)
    if version is not None:
        return next((rule.image_class for rule in rules if re.search(rule.version, version)), ImageClass.SELF_BUILT)
    return ImageClass.UNKNOWN


def compiler_cuda(facts: DriverFacts, boundaries: Boundaries) -> str | None:
    """Return the CUDA of compilers that the official image is known to bundle, when it is newer than the image's."""
    found = image_class(facts, boundaries)
    return next((rule.compiler_cuda for rule in boundaries.images if rule.image_class is found), None)


def findings(facts: DriverFacts, boundaries: Boundaries, image: ImageClass) -> tuple[BoundaryFinding, ...]:
    """List every boundary that is not kept or worth knowing, blocking ones first."""
    found = [
        *_host(facts, boundaries),
        *_engine(facts, boundaries, image),
        *_hardware(facts, boundaries),
        *_proof(facts),
        *_notes(facts, boundaries),
    ]
    return tuple(sorted(found, key=lambda finding: finding.severity != "blocking"))


def age(days: int, boundaries: Boundaries) -> tuple[BoundaryFinding, ...]:
    """Say when the snapshot is too old to decide by."""
    if days <= _FRESH_DAYS:
        return ()
    text = f"The boundary snapshot {boundaries.id} is {days} days old: check it again before a decision."
    return (BoundaryFinding("snapshot-old", text, "note"),)


def _host(facts: DriverFacts, boundaries: Boundaries) -> Iterator[BoundaryFinding]:
    if facts.on_disk and facts.loaded and facts.on_disk != facts.loaded:
        yield BoundaryFinding(
            "loaded-is-not-on-disk",
            f"Driver {facts.loaded} is loaded, {facts.on_disk} lies on disk: the package record is no proof, a reboot will change the result.",
            "note",
        )
    branch = numbers(facts.loaded)[0] if facts.loaded and numbers(facts.loaded) else None
    row = next((row for row in boundaries.driver.branches if row.branch == branch), None)
    if row is not None and row.ended:
        ended = f" ({row.end})" if row.end else ""
        yield BoundaryFinding(
            "branch-over", f"Driver branch {row.branch} is at its end of life{ended}. ({row.source})", "note"
        )
    if facts.require_disabled:
        yield BoundaryFinding(
            "require-disabled",
            "NVIDIA_DISABLE_REQUIRE is set: the toolkit's check of the driver is skipped, so the fault comes later and looks different.",
            "note",
        )


def _engine(facts: DriverFacts, boundaries: Boundaries, image: ImageClass) -> Iterator[BoundaryFinding]:
    rule = next((rule for rule in boundaries.images if rule.image_class is image), None)
    version, lowest = facts.vllm_version, boundaries.model.min_vllm
    match image:
        case ImageClass.K3_BRANCH | ImageClass.NIGHTLY if rule is not None:
            yield BoundaryFinding(
                "branch-build" if image is ImageClass.K3_BRANCH else "nightly-build",
                f"{rule.text} Judged by image and digest, not by its number. ({rule.source})",
                "note",
            )
        case ImageClass.SELF_BUILT if not facts.cpu_build:
            told = f"vLLM {version} " if version else ""
            yield BoundaryFinding(
                "self-built",
                f"{told}is a build of your own or was loaded locally ({facts.image_reference or 'no image'}): record its source; it is not the official image.".strip(),
                "note",
            )
        case _:
            pass
    numbered = (
        version is not None
        and re.match(r"\d+\.\d+\.\d+", version)
        and not re.match(boundaries.options.caching.off_builds, version)
    )
    if (
        lowest is not None
        and version is not None
        and numbered
        and not facts.cpu_build
        and numbers(version)[:3] < numbers(lowest.value)[:3]
    ):
        yield BoundaryFinding(
            "vllm-below-minimum",
            f"vLLM {version} is below {lowest.value}, the recipe's minimum for {boundaries.model.ids.value[0]}. ({lowest.source})",
            "blocking",
        )


def _hardware(facts: DriverFacts, boundaries: Boundaries) -> Iterator[BoundaryFinding]:
    if not facts.gpu_names or facts.cpu_build:
        return
    kind = boundaries.driver.kind(facts.gpu_names[0])
    row = next((row for row in boundaries.file.hardware if kind is not None and row.gpu == kind.gpu), None)
    if row is None:
        if boundaries.file.hardware:
            known = ", ".join(row.gpu for row in boundaries.file.hardware)
            yield BoundaryFinding(
                "hardware-unlisted", f"{facts.gpu_names[0]} is not in the recipe's list ({known}).", "note"
            )
    elif facts.gpu_count is not None and facts.gpu_count < row.min_gpus:
        yield _too_few(row, facts.gpu_count)
    needed = boundaries.model.vram_minimum_gb
    if needed is not None and facts.gpu_memory_bytes is not None and facts.gpu_memory_bytes < needed.value * _GIB:
        yield BoundaryFinding(
            "memory-below-recipe",
            f"The GPUs of this node hold {facts.gpu_memory_bytes // _GIB} GiB; the recipe wants {needed.value} GB over all nodes of a launch. ({needed.source})",
            "note",
        )
    lowest = boundaries.model.min_compute_capability
    low = [
        found
        for found in _capabilities(facts, boundaries)
        if lowest is not None and numbers(found) < numbers(lowest.value)
    ]
    if low and lowest is not None:
        yield BoundaryFinding(
            "architecture",
            f"Compute capability {low[0]} is below {lowest.value}: no kernels for this model. ({lowest.source})",
            "blocking",
        )


def _too_few(row: HardwareRow, count: int) -> BoundaryFinding:
    if row.per_node is not None and count >= row.per_node:
        nodes = -(-row.min_gpus // count)
        text = f"The recipe needs {row.min_gpus} × {row.gpu}; this node has {count}, so one launch takes {nodes} nodes. ({row.source})"
        return BoundaryFinding("several-nodes", text, "note")
    text = f"The recipe needs {row.min_gpus} × {row.gpu}; {count} are visible here. ({row.source})"
    return BoundaryFinding("hardware-floor", text, "blocking")


def _capabilities(facts: DriverFacts, boundaries: Boundaries) -> tuple[str, ...]:
    if facts.compute_capabilities:
        return facts.compute_capabilities
    kinds = (boundaries.driver.kind(name) for name in facts.gpu_names)
    return tuple(kind.compute_capability for kind in kinds if kind is not None)


def _proof(facts: DriverFacts) -> Iterator[BoundaryFinding]:
    """First baselines that prove nothing, because something was assumed and not read (R2.3)."""
    if facts.loaded is not None and not facts.container_read:
        yield BoundaryFinding(
            "host-only",
            "Only the host was looked at; what counts is what is loaded in the container.",
            "note",
        )
    elif facts.cuda_image is not None and not facts.cuda_was_read and not facts.cpu_build:
        yield BoundaryFinding(
            "cuda-assumed",
            f"CUDA {facts.cuda_image} is the image's own word (CUDA_VERSION); the build of torch inside was not read.",
            "note",
        )
    if facts.cuda_init not in {None, 0}:
        meaning = _INIT.get(facts.cuda_init or 0, "see the CUDA error numbers")
        yield BoundaryFinding(
            "cuda-init-fails",
            f"cuInit in the container answers {facts.cuda_init}: {meaning}. That comes before any memory question.",
            "blocking",
        )
    if facts.compat_in_use:
        yield BoundaryFinding(
            "compat-in-use",
            "The libcuda in use comes from the image's compatibility libraries: nvidia-smi inside shows their CUDA, not the driver's.",
            "note",
        )


def _notes(facts: DriverFacts, boundaries: Boundaries) -> Iterator[BoundaryFinding]:
    holds = {
        "always": True,
        "gpus": bool(facts.gpu_names) and not facts.cpu_build,
        "cuda_12": (facts.cuda_image or "").startswith("12"),
    }
    for note in boundaries.file.notes:
        if holds.get(note.when, False):
            yield BoundaryFinding(
                note.id, f"{note.text} ({note.source}, checked {note.checked_on.isoformat()})", "note"
            )
