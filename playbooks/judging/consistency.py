"""Host against container, node against node, and a fingerprint against an earlier one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import rfc8785

from playbooks.reading.fields import Facts, is_stable, value_of, values_of
from playbooks.vocabulary import FieldStatus

_SMALL_SHM_BYTES = 1 << 30
_LOST = frozenset({FieldStatus.TIMEOUT, FieldStatus.ERROR, FieldStatus.REFUSED})


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A rule that found something: which one, over which fields, in words."""

    rule: str
    fields: tuple[str, ...]
    text: str
    severity: str = "finding"
    """`finding`, or `note` for what is worth knowing and stops nothing."""


Rule = Callable[[Facts, Facts], Iterator[Disagreement]]


def compare(host: Facts, container: Facts) -> tuple[Disagreement, ...]:
    """Ask every rule; each speaks only of fields that were read on the sides it needs."""
    return tuple(found for rule in _RULES for found in rule(host, container))


def drift(old: Facts, new: Facts) -> tuple[str, ...]:
    """Name the stable fields that moved, `driver.loaded: 580.65.06 → 580.95.05`; a field that one side could not read is left out."""
    moved = []
    for name in sorted({*old, *new}):
        if not is_stable(name):
            continue
        before, after = old.get(name), new.get(name)
        if before is None or after is None or before.status in _LOST or after.status in _LOST:
            continue
        if (before.status, before.value) != (after.status, after.value):
            moved.append(f"{name}: {_shown(before.value)} → {_shown(after.value)}")
    return tuple(moved)


def stable_digest(host: Facts, container: Facts) -> str:
    """Digest over the stable fields of both sides; equal digests mean that nothing moved."""
    content = {
        side: {
            name: {"status": field.status.value, "value": field.value}
            for name, field in sorted(facts.items())
            if is_stable(name) and field.status not in _LOST
        }
        for side, facts in (("host", host), ("container", container))
    }
    return hashlib.sha256(rfc8785.dumps(content)).hexdigest()


def between_nodes(a: Facts, b: Facts, names: tuple[str, str]) -> tuple[Disagreement, ...]:
    """Compare what must be equal on all nodes of one launch."""
    same = (
        "driver.loaded",
        "image.id",
        "image.digest",
        "torch.nccl",
        "vllm.version",
        "gpu.0.fabric_cluster",
        "gpu.0.name",
    )
    return tuple(
        Disagreement("node-differs", (name,), f"{name}: {_shown(x)} on {names[0]}, {_shown(y)} on {names[1]}")
        for name in same
        if (x := value_of(a, name)) is not None and (y := value_of(b, name)) is not None and x != y
    )


# ---- the rules


def _one_kernel(host: Facts, container: Facts) -> Iterator[Disagreement]:
    yield from _differs(
        host, container, "kernel-driver", "driver.loaded", "the facts are from two machines: one kernel has one driver"
    )


def _nvml(host: Facts, container: Facts) -> Iterator[Disagreement]:
    yield from _differs(
        host,
        container,
        "nvml-version",
        "nvml.driver",
        "stale CDI specification or old injected libraries: recreate the container",
    )


def _counts(host: Facts, container: Facts) -> Iterator[Disagreement]:
    ours, theirs = set(values_of(host, "gpu", "uuid")), set(values_of(container, "gpu", "uuid"))
    if theirs - ours and ours:
        yield Disagreement(
            "gpu-identity",
            ("gpu.{i}.uuid",),
            f"the container sees {len(theirs - ours)} GPUs that the host does not list",
        )
    count, cuda = value_of(container, "nvml.count"), value_of(container, "cuda.count")
    if count is not None and cuda is not None and count != cuda:
        yield Disagreement(
            "cuda-count",
            ("nvml.count", "cuda.count"),
            f"NVML counts {count} GPUs in the container, CUDA initialises {cuda}: CUDA_VISIBLE_DEVICES, MIG or a failed GPU",
        )
    host_count, seen = value_of(host, "nvml.count"), value_of(container, "nvml.count")
    if host_count is not None and seen is not None and seen < host_count:
        yield Disagreement("gpu-count", ("nvml.count",), f"the host has {host_count} GPUs, the container sees {seen}")
    for other in ("proc.gpu_count", "pci.gpu_count"):
        more = value_of(host, other)
        if host_count is not None and more is not None and more > host_count:
            yield Disagreement(
                "gpu-lost", ("nvml.count", other), f"{other} counts {more} GPUs, NVML {host_count}: one failed to start"
            )


def _compat(host: Facts, container: Facts) -> Iterator[Disagreement]:
    ours, theirs = value_of(host, "nvml.cuda"), value_of(container, "cuda.driver")
    if value_of(container, "cuda.compat_in_use"):
        yield Disagreement(
            "compat-in-use",
            ("cuda.compat_in_use", "cuda.libcuda_path"),
            f"the image's compatibility library is used: {_shown(value_of(container, 'cuda.libcuda_path'))}",
        )
    elif ours and theirs and _numbers(theirs) > _numbers(ours):
        yield Disagreement(
            "compat-shadowing",
            ("nvml.cuda", "cuda.driver"),
            f"CUDA of the driver is {ours} on the host and {theirs} in the container: a compatibility library comes first",
        )


def _cuda_init(_host: Facts, container: Facts) -> Iterator[Disagreement]:
    result = value_of(container, "cuda.init")
    if isinstance(result, int) and result != 0:
        yield Disagreement(
            "cuda-init",
            ("cuda.init",),
            f"cuInit in the container answers {result}: nvidia-smi working proves nothing about CUDA",
        )


def _moved_tag(_host: Facts, container: Facts) -> Iterator[Disagreement]:
    runs, now = (
        value_of(container, "container.image_id") or value_of(container, "image.id"),
        value_of(container, "image.tag_image_id"),
    )
    if runs and now and runs != now:
        yield Disagreement(
            "moved-tag",
            ("container.image_id", "image.tag_image_id"),
            "the tag points to another image now: the run cannot be repeated by tag",
        )


def _vllm_twice(_host: Facts, container: Facts) -> Iterator[Disagreement]:
    module, metadata = value_of(container, "vllm.version"), value_of(container, "vllm.metadata_version")
    if module and metadata and str(metadata).split("+")[0] != str(module).split("+")[0]:
        yield Disagreement(
            "vllm-version",
            ("vllm.version", "vllm.metadata_version"),
            f"the module says vLLM {module}, its metadata {metadata}: mixed installations",
        )


def _toolkit(_host: Facts, container: Facts) -> Iterator[Disagreement]:
    built, image = value_of(container, "torch.cuda"), value_of(container, "image.env.CUDA_VERSION")
    if built and image and _numbers(built)[:1] != _numbers(image)[:1]:
        yield Disagreement(
            "cuda-build",
            ("torch.cuda", "image.env.CUDA_VERSION"),
            f"torch is built for CUDA {built}, the image says {image}",
        )


def _shared_memory(_host: Facts, container: Facts) -> Iterator[Disagreement]:
    total, ipc = (
        value_of(container, "container.shm_bytes") or value_of(container, "shm.total_bytes"),
        value_of(container, "container.ipc_mode"),
    )
    several = (value_of(container, "nvml.count") or 0) > 1
    if isinstance(total, int) and total < _SMALL_SHM_BYTES and ipc != "host" and several:
        yield Disagreement(
            "small-shm",
            ("container.shm_bytes", "container.ipc_mode"),
            f"shared memory is {total // (1 << 20)} MiB: too small for several ranks (--ipc=host or --shm-size)",
        )


def _device_rights(_host: Facts, container: Facts) -> Iterator[Disagreement]:
    nodes = value_of(container, "dev.nodes")
    if not isinstance(nodes, dict):
        return
    needed = [n for n in nodes if n.startswith(("/dev/nvidia", "/dev/nvidiactl"))]
    closed = [name for name in needed if "w" not in str(nodes[name])]
    if closed:
        yield Disagreement(
            "device-rights",
            ("dev.nodes",),
            f"cannot open {', '.join(sorted(closed)[:4])} in the container: a permission fault, no model fault",
        )


def _rdma(host: Facts, container: Facts) -> Iterator[Disagreement]:
    ours, theirs = value_of(host, "rdma.devices"), value_of(container, "rdma.uverbs")
    if ours and theirs is not None and not theirs:
        yield Disagreement(
            "rdma-missing",
            ("rdma.devices", "rdma.uverbs"),
            f"the host has {len(ours)} RDMA devices, the container no device node",
        )
    limit = value_of(container, "limits.memlock_bytes")
    if ours and isinstance(limit, int) and 0 <= limit < (1 << 30):
        yield Disagreement(
            "memlock",
            ("limits.memlock_bytes",),
            f"locked memory is limited to {limit // 1024} KiB: RDMA registration needs it unlimited",
        )


def _host_state(host: Facts, _container: Facts) -> Iterator[Disagreement]:
    state = value_of(host, "driver.state")
    if state and state != "consistent":
        loaded, disk = value_of(host, "driver.loaded"), value_of(host, "driver.on_disk")
        yield Disagreement(
            "driver-state", ("driver.state",), f"{state}: loaded {_shown(loaded)}, on disk {_shown(disk)}"
        )
    fabric, driver = value_of(host, "service.fabric_manager_version"), value_of(host, "driver.loaded")
    if fabric and driver and fabric != driver:
        yield Disagreement(
            "fabric-version",
            ("service.fabric_manager_version", "driver.loaded"),
            f"fabric manager {fabric}, driver {driver}: they must be equal",
        )
    if value_of(host, "os.reboot_pending"):
        yield Disagreement(
            "reboot-pending", ("os.reboot_pending",), "packages ask for a reboot: it may change the result", "note"
        )


def _leftovers(host: Facts, _container: Facts) -> Iterator[Disagreement]:
    unowned = [n for n in values_of(host, "gpu", "memory_unowned_bytes") if isinstance(n, int) and n > (1 << 28)]
    if unowned:
        yield Disagreement(
            "memory-without-owner",
            ("gpu.{i}.memory_unowned_bytes",),
            f"{len(unowned)} GPUs hold memory that no process owns: a leftover, not a clean node",
        )
    for name, words in (("leftovers", "left by an earlier launch"), ("tenants", "others use the GPUs")):
        found = value_of(host, name)
        if found:
            yield Disagreement(name, (name,), f"{words}: {_shown(found)}")
    xids = value_of(host, "kernel.xid")
    if xids:
        yield Disagreement(
            "xid", ("kernel.xid",), f"{len(xids)} Xid lines in the kernel log, the first: {_shown(xids[0])}"
        )


_RULES: tuple[Rule, ...] = (
    _one_kernel, _nvml, _counts, _compat, _cuda_init, _moved_tag, _vllm_twice, _toolkit,
    _shared_memory, _device_rights, _rdma, _host_state, _leftovers,
)  # fmt: skip


def _differs(host: Facts, container: Facts, rule: str, name: str, means: str) -> Iterator[Disagreement]:
    ours, theirs = value_of(host, name), value_of(container, name)
    if ours is not None and theirs is not None and ours != theirs:
        yield Disagreement(
            rule, (name,), f"{name}: {_shown(ours)} on the host, {_shown(theirs)} in the container; {means}"
        )


def _numbers(version: Any) -> tuple[int, ...]:
    return tuple(int(part) for part in str(version).split(".") if part.isdigit())


def _shown(value: Any) -> str:
    return "not there" if value is None else str(value)[:120]
