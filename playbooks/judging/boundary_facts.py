"""What a boundary verdict rests on, and the form of what it finds."""

from __future__ import annotations

import re
from dataclasses import dataclass

_VERSION = re.compile(r"\d+(?:\.\d+)*")


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """What the verdict rests on; None = not read."""

    loaded: str | None = None
    on_disk: str | None = None
    cuda_image: str | None = None
    """CUDA that the engine's torch is built for, else the image's own word."""
    cuda_was_read: bool = True
    """Read from torch inside; False = only the image's own word (`CUDA_VERSION`)."""
    cpu_build: bool = False
    image_reference: str | None = None
    image_digest: str | None = None
    image_known: bool = False
    """The image was inspected, so a digest that is not there is truly absent."""
    gpu_names: tuple[str, ...] = ()
    gpu_count: int | None = None
    gpu_memory_bytes: int | None = None
    """Sum over the GPUs of the node."""
    compute_capabilities: tuple[str, ...] = ()
    compat_path: str | None = None
    compat_enabled: bool = False
    compat_in_use: bool | None = None
    vllm_version: str | None = None
    cuda_init: int | None = None
    require_disabled: str | None = None
    container_read: bool = False


@dataclass(frozen=True, slots=True)
class BoundaryFinding:
    """A boundary that is not kept, or worth knowing: id, text, `blocking` or `note`."""

    id: str
    text: str
    severity: str


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, `580.105.08` as (580, 105, 8), so that 580.105 is more than 580.95."""
    match = _VERSION.search(version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()
