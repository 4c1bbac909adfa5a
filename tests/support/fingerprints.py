"""Fingerprints as the readers give them, with one thing changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from playbooks.reading.fields import FieldValue, read
from playbooks.vocabulary import FieldStatus

GIB = 1 << 30


@dataclass(frozen=True)
class Sides:
    """Host and container of one fingerprint."""

    host: dict[str, FieldValue]
    container: dict[str, FieldValue]


def facts(**values: Any) -> dict[str, FieldValue]:
    """Return fields by name, `gpu_0_uuid` written `gpu.0.uuid` by `__`: `gpu__0__uuid`."""
    return {
        name.replace("__", "."): value if isinstance(value, FieldValue) else read(value, "test")
        for name, value in values.items()
    }


def lost(status: FieldStatus = FieldStatus.TIMEOUT) -> FieldValue:
    """Return a field that could not be read."""
    return FieldValue(status=status)


def gpus(
    count: int = 8, name: str = "NVIDIA B300 SXM6 AC", capability: str = "10.3", memory: int = 268 * GIB, **more: Any
) -> dict[str, FieldValue]:
    """Return healthy GPUs of one kind."""
    found: dict[str, FieldValue] = {"nvml.count": read(count, "test"), "nvml.error": read(0, "test")}
    for index in range(count):
        leaves = {
            "uuid": f"GPU-{index}",
            "name": name,
            "compute_capability": capability,
            "memory_total_bytes": memory,
        } | more
        found |= {f"gpu.{index}.{leaf}": read(value, "test") for leaf, value in leaves.items()}
    return found


def host(**changed: Any) -> dict[str, FieldValue]:
    """Return a healthy host with eight B300."""
    plain = facts(
        driver__loaded="580.105.08",
        driver__on_disk="580.105.08",
        driver__state="consistent",
        nvml__version="13.580.105.08",
        nvml__driver="580.105.08",
        nvml__cuda="13.0",
        docker__default_runtime="runc",
    )
    return plain | gpus() | facts(**changed)


def container(**changed: Any) -> dict[str, FieldValue]:
    """Return the healthy inside of a container of the release image on that host."""
    plain = facts(
        driver__loaded="580.105.08",
        driver__libcuda_version="580.105.08",
        nvml__version="13.580.105.08",
        nvml__driver="580.105.08",
        cuda__init=0,
        cuda__driver="13.0",
        cuda__count=8,
        cuda__libcuda_path="/usr/lib/x86_64-linux-gnu/libcuda.so.580.105.08",
        torch__cuda="13.0",
        torch__version="2.9.1+cu130",
        vllm__version="0.28.0",
        vllm__metadata_version="0.28.0",
        image__reference="vllm/vllm-openai:v0.28.0",
        image__id="sha256:image",
        image__digest="sha256:digest",
    )
    return plain | gpus() | facts(**changed)
