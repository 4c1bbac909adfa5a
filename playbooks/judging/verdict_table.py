"""The short verdict of a fingerprint: what agrees, what differs, what could not be read - one row a topic.

A topic names the fields a person looks at and the rules that speak of it (`consistency_rules`, `health_rules`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from playbooks.reading.fields import Facts, FieldValue
from playbooks.vocabulary import FieldStatus

Verdict = Literal["differs", "not_readable", "agrees", "read", "absent"]
"""differs: a rule found something; not_readable: asked and got no answer; agrees: both sides say the same;
read: one side was asked, nothing speaks against it; absent: neither has it."""

_ORDER: tuple[Verdict, ...] = ("differs", "not_readable", "agrees", "read", "absent")
_UNREAD = frozenset({FieldStatus.REFUSED, FieldStatus.TIMEOUT, FieldStatus.ERROR})
_LONGEST = 40


@dataclass(frozen=True, slots=True)
class Row:
    """One topic: its verdict, and the two sides in a few characters; empty = not asked on that side."""

    topic: str
    verdict: Verdict
    host: str
    container: str


@dataclass(frozen=True, slots=True)
class _Topic:
    name: str
    host: tuple[str, ...]
    """Fields of the host, the first that was read is shown."""
    container: tuple[str, ...]
    rules: frozenset[str]


def _topic(name: str, host: str, container: str, rules: str) -> _Topic:
    return _Topic(name, tuple(host.split()), tuple(container.split()), frozenset(rules.split()))


_TOPICS = (
    _topic("driver", "driver.loaded", "driver.loaded", "kernel-driver driver-state driver-packages nouveau uvm-missing fabric-version"),
    _topic("NVML", "nvml.version nvml.driver nvml.error", "nvml.version nvml.driver nvml.error", "nvml-error nvml-hang nvml-version"),
    _topic("GPUs", "nvml.count pci.gpu_count", "nvml.count torch.device_count", "gpu-count gpu-identity cuda-count gpu-runtime gpu-lost gpu-error"),
    _topic("libcuda", "driver.libcuda_version", "driver.libcuda_version cuda.libcuda_path", "libcuda-version compat-in-use compat-shadowing"),
    _topic("CUDA", "nvml.cuda", "cuda.driver nvml.cuda", "compat-shadowing"),
    _topic("cuInit", "", "cuda.init", "cuda-init"),
    _topic("torch", "", "torch.version", "cuda-build architecture"),
    _topic("vLLM", "", "vllm.version", "vllm-version"),
    _topic("NCCL", "", "torch.nccl", "nccl-version"),
    _topic("image", "", "image.digest container.image_id image.id", "moved-tag"),
    _topic("shm", "shm.total_bytes", "container.shm_bytes shm.total_bytes", "small-shm"),
    _topic("devices", "dev.nodes", "dev.nodes", "device-rights device-missing"),
    _topic("RDMA", "rdma.devices", "rdma.uverbs", "rdma-missing rdma-rights rdma-port memlock"),
    _topic("Xid", "kernel.xid", "", "xid"),
    _topic("leftovers", "leftovers", "", "leftovers memory-without-owner"),
    _topic("tenants", "tenants", "", "tenants"),
)  # fmt: skip


def verdict_table(host: Facts, container: Facts, rules: Iterable[str]) -> tuple[Row, ...]:
    """Return the rows, what differs first; topics that neither side was asked about are left out.

    rules: ids of the rules that found something in these facts.
    """
    found = frozenset(rules)
    rows = [row for topic in _TOPICS if (row := _row(topic, host, container, found)) is not None]
    return tuple(sorted(rows, key=lambda row: _ORDER.index(row.verdict)))


def _row(topic: _Topic, host: Facts, container: Facts, found: frozenset[str]) -> Row | None:
    ours, theirs = _first(host, topic.host), _first(container, topic.container)
    if ours is None and theirs is None:
        return None
    sides = [field for _name, field in filter(None, (ours, theirs))]
    verdict: Verdict
    if topic.rules & found:
        verdict = "differs"
    elif any(field.status in _UNREAD for field in sides):
        verdict = "not_readable"
    elif all(field.status is not FieldStatus.OK for field in sides):
        verdict = "absent"
    else:
        verdict = "agrees" if ours is not None and theirs is not None else "read"
    return Row(topic.name, verdict, _cell(ours), _cell(theirs))


def _first(facts: Facts, names: tuple[str, ...]) -> tuple[str, FieldValue] | None:
    """Return the first of the fields that was read, else the first that was asked for at all."""
    asked = [(name, facts[name]) for name in names if name in facts]
    return next((one for one in asked if one[1].status is FieldStatus.OK), asked[0] if asked else None)


def _cell(side: tuple[str, FieldValue] | None) -> str:
    if side is None:
        return ""
    name, field = side
    if name == "nvml.error" and field.value is not None:
        return f"error {field.value}" if field.value else "no error"
    return _short(field.value, field.unit) if field.status is FieldStatus.OK else str(field.status.value)


def _short(value: Any, unit: str | None) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case int() if unit == "bytes":
            return "unlimited" if value < 0 else f"{value / (1 << 30):.1f} GiB"
        case list() | dict():
            return str(len(value))
        case str() if value.startswith("sha256:"):
            return value[7:19]
        case _:
            text = str(value).replace("\n", " ")
            return text if len(text) <= _LONGEST else f"…{text[1 - _LONGEST :]}"
