"""Rules between host and container: what must be equal on both sides, and what the container must be given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from playbooks.judging.boundary_facts import numbers
from playbooks.judging.disagreement import Disagreement, Rule, shown
from playbooks.reading.fields import Facts, value_of, values_of

_GIB = 1 << 30
_SMALL_SHM_BYTES = _GIB
"""Docker's default is 64 MiB; NCCL and the workers of several ranks need more than a GiB of head room."""
_UNLIMITED = -1
_NO_GPU_RUNTIME = (
    "could not select device driver",
    "nvidia-container-cli",
    "nvidia-container-runtime",
    "unresolvable CDI devices",
    "CDI device injection failed",
)
_DEVICES_NEEDED = ("/dev/nvidiactl", "/dev/nvidia-uvm")


def _one_kernel(host: Facts, container: Facts) -> Iterator[Disagreement]:
    yield from _differs(
        host,
        container,
        "kernel-driver",
        "driver.loaded",
        "one kernel has one driver, so these facts are from two machines",
    )


def _nvml(host: Facts, container: Facts) -> Iterator[Disagreement]:
    means = (
        "stale CDI specification or old injected libraries: generate the specification again and recreate the container"
    )
    field = "nvml.version" if value_of(host, "nvml.version") and value_of(container, "nvml.version") else "nvml.driver"
    yield from _differs(host, container, "nvml-version", field, means)


def _injected_libcuda(host: Facts, container: Facts) -> Iterator[Disagreement]:
    loaded, mapped = value_of(host, "driver.loaded"), value_of(container, "driver.libcuda_version")
    if loaded and mapped and loaded != mapped and not _compat(container):
        text = f"libcuda in the container is of driver {mapped}, loaded is {loaded}: libraries of another driver were injected (error 803)"
        yield Disagreement("libcuda-version", ("driver.libcuda_version", "driver.loaded"), text)


def _compat_in_use(host: Facts, container: Facts) -> Iterator[Disagreement]:
    if not _compat(container):
        ours, theirs = (
            value_of(host, "nvml.cuda"),
            value_of(container, "cuda.driver") or value_of(container, "nvml.cuda"),
        )
        if ours and theirs and numbers(str(theirs)) > numbers(str(ours)):
            text = f"CUDA of the driver is {ours} on the host and {theirs} in the container: a compatibility library comes first in the search path"
            yield Disagreement("compat-shadowing", ("nvml.cuda", "cuda.driver"), text)
        return
    path = value_of(container, "cuda.libcuda_path") or value_of(container, "driver.libcuda_path")
    init = value_of(container, "cuda.init")
    means = (
        {803: "; it does not pair with the loaded driver", 804: "; this GPU may not use it"}.get(init, "")
        if isinstance(init, int)
        else ""
    )
    text = f"the image's compatibility library is in use ({shown(path)}){means}: nvidia-smi inside shows its CUDA, not the driver's"
    yield Disagreement(
        "compat-in-use", ("cuda.libcuda_path", "cuda.compat_in_use"), text, "finding" if means else "note"
    )


def _count(host: Facts, container: Facts) -> Iterator[Disagreement]:
    ours, theirs = set(values_of(host, "gpu", "uuid")), set(values_of(container, "gpu", "uuid"))
    if ours and theirs - ours:
        text = f"the container sees {len(theirs - ours)} GPUs that the host does not list: {shown(min(theirs - ours))}"
        yield Disagreement("gpu-identity", ("gpu.{i}.uuid",), text)
    total, seen = value_of(host, "nvml.count"), value_of(container, "nvml.count")
    expected = _asked_for(container, total)
    if isinstance(seen, int) and isinstance(expected, int) and seen != expected:
        asked = "asked for" if expected != total else "there"
        text = f"expected {expected} GPUs ({asked}), container sees {seen}: NVIDIA_VISIBLE_DEVICES, the device request, or a lost GPU"
        yield Disagreement("gpu-count", ("nvml.count", "container.device_requests"), text)
    cuda = value_of(container, "cuda.count")
    if isinstance(seen, int) and isinstance(cuda, int) and seen != cuda and not value_of(container, "cuda.init"):
        text = f"NVML counts {seen} GPUs in the container, CUDA {cuda}: CUDA_VISIBLE_DEVICES, MIG, or a GPU that failed to start"
        yield Disagreement("cuda-count", ("nvml.count", "cuda.count"), text)


def _asked_for(container: Facts, total: Any) -> int | None:
    """Return how many GPUs the container was to see; all of the host's when nothing says otherwise."""
    visible = value_of(container, "container.env.NVIDIA_VISIBLE_DEVICES")
    if isinstance(visible, str) and visible not in {"", "all", "void", "none"}:
        return len(visible.split(","))
    for request in value_of(container, "container.device_requests") or ():
        if isinstance(request, dict):
            ids, count = request.get("device_ids"), request.get("count")
            if (
                isinstance(ids, list)
                and ids
                and "all" not in ids
                and not any(str(item).endswith("=all") for item in ids)
            ):
                return len(ids)
            if isinstance(count, int) and count > 0:
                return count
    return total if isinstance(total, int) else None


def _gpus_given(host: Facts, container: Facts) -> Iterator[Disagreement]:
    total = value_of(host, "nvml.count")
    requests, runtime = value_of(container, "container.device_requests"), value_of(container, "container.runtime")
    if not isinstance(total, int) or total == 0 or requests is None:
        return
    default = value_of(host, "docker.default_runtime")
    if not requests and "nvidia" not in {runtime, default} and not value_of(container, "container.devices"):
        text = f"the container was given no GPU: runtime {shown(runtime)}, no device request; start it with --gpus all or by CDI"
        yield Disagreement(
            "gpu-runtime", ("container.runtime", "container.device_requests", "docker.default_runtime"), text
        )


def _gpus_refused(_host: Facts, container: Facts) -> Iterator[Disagreement]:
    error = value_of(container, "container.error")
    if isinstance(error, str) and any(word in error for word in _NO_GPU_RUNTIME):
        text = f"the container runtime gives no GPU to a container: {shown(error)}"
        yield Disagreement("gpu-runtime", ("container.error", "docker.runtimes", "docker.cdi_devices"), text)


def _cuda_init(_host: Facts, container: Facts) -> Iterator[Disagreement]:
    result = value_of(container, "cuda.init")
    if isinstance(result, int) and result != 0:
        text = f"cuInit in the container answers {result}: nvidia-smi working proves nothing about CUDA"
        yield Disagreement("cuda-init", ("cuda.init",), text)


def _moved_tag(_host: Facts, container: Facts) -> Iterator[Disagreement]:
    runs = value_of(container, "container.image_id") or value_of(container, "image.id")
    now = value_of(container, "image.tag_image_id")
    if runs and now and runs != now:
        text = "the tag points to another image now: the run cannot be repeated by tag, only by digest"
        yield Disagreement("moved-tag", ("container.image_id", "image.tag_image_id"), text)


def _engine_build(_host: Facts, container: Facts) -> Iterator[Disagreement]:
    module, metadata = value_of(container, "vllm.version"), value_of(container, "vllm.metadata_version")
    if module and metadata and str(module).split("+")[0] != str(metadata).split("+")[0]:
        text = f"the vLLM module says {module}, its metadata {metadata}: two installations are mixed"
        yield Disagreement("vllm-version", ("vllm.version", "vllm.metadata_version"), text)
    built, image = value_of(container, "torch.cuda"), value_of(container, "image.env.CUDA_VERSION")
    if built and image and numbers(str(built))[:1] != numbers(str(image))[:1]:
        text = f"torch is built for CUDA {built}, the image says {image}: the image's own word is no proof"
        yield Disagreement("cuda-build", ("torch.cuda", "image.env.CUDA_VERSION"), text)
    nccl = value_of(container, "torch.nccl")
    for package in ("package.nvidia-nccl-cu13", "package.nvidia-nccl-cu12"):
        installed = value_of(container, package)
        if nccl and installed and numbers(str(nccl))[:3] != numbers(str(installed))[:3]:
            text = f"torch loads NCCL {nccl}, installed is {installed}"
            yield Disagreement("nccl-version", ("torch.nccl", package), text, "note")


def _architecture(host: Facts, container: Facts) -> Iterator[Disagreement]:
    kinds = {str(kind) for kind in values_of(host, "gpu", "compute_capability")}
    built = value_of(container, "torch.arch_list")
    if not kinds or not isinstance(built, list) or not built:
        return
    lacking = sorted(kind for kind in kinds if not any(_runs_on(str(arch), kind) for arch in built))
    if lacking:
        text = f"torch has no machine code for compute capability {', '.join(lacking)} (it has {', '.join(map(str, built))}): error 209"
        yield Disagreement("architecture", ("gpu.{i}.compute_capability", "torch.arch_list"), text)


def _runs_on(arch: str, capability: str) -> bool:
    """Whether code of `sm_100a` runs on 10.0: same major and an equal or higher minor; `a` on that one alone; PTX always."""
    kind, _, digits = arch.partition("_")
    if kind == "compute":
        return True
    number = digits.rstrip("af")
    if not number.isdigit():
        return True  # not understood: no reason to accuse it
    major, minor = int(number[:-1]), int(number[-1])
    here = numbers(capability)
    if digits.endswith("a"):
        return here[:2] == (major, minor)
    return here[0] == major and here[1] >= minor


def _shared_memory(_host: Facts, container: Facts) -> Iterator[Disagreement]:
    total = value_of(container, "container.shm_bytes") or value_of(container, "shm.total_bytes")
    ranks = value_of(container, "nvml.count")
    private = value_of(container, "container.ipc_mode") not in {"host", None}
    if isinstance(total, int) and total < _SMALL_SHM_BYTES and private and isinstance(ranks, int) and ranks > 1:
        text = f"shared memory is {total >> 20} MiB for {ranks} GPUs: too small for several ranks (--ipc=host or --shm-size)"
        yield Disagreement("small-shm", ("container.shm_bytes", "container.ipc_mode", "shm.total_bytes"), text)


def _device_rights(host: Facts, container: Facts) -> Iterator[Disagreement]:
    nodes = value_of(container, "dev.nodes")
    if not isinstance(nodes, dict) or not value_of(host, "nvml.count"):
        return
    closed = sorted(
        name
        for name, rights in nodes.items()
        if name.startswith("/dev/nvidia") and "caps" not in name and "w" not in str(rights)
    )
    if closed:
        text = f"cannot open {', '.join(closed[:4])} in the container: a permission fault, no model fault"
        yield Disagreement("device-rights", ("dev.nodes",), text)
    missing = [name for name in _DEVICES_NEEDED if name not in nodes]
    if missing and any(name.startswith("/dev/nvidia") for name in nodes):
        text = f"{', '.join(missing)} is not in the container; CUDA needs it even when nvidia-smi works"
        yield Disagreement("device-missing", ("dev.nodes",), text)


def _rdma(host: Facts, container: Facts) -> Iterator[Disagreement]:
    devices, given = value_of(host, "rdma.devices"), value_of(container, "rdma.uverbs")
    if not devices or not container:
        return
    if given in ({}, []):
        text = f"the host has {len(devices)} RDMA devices, the container no device node: one node does not need them, several do"
        yield Disagreement("rdma-missing", ("rdma.devices", "rdma.uverbs"), text, "note")
    elif isinstance(given, dict) and (
        closed := sorted(name for name, rights in given.items() if "w" not in str(rights))
    ):
        text = f"cannot open {', '.join(closed[:3])} in the container: RDMA needs them readable and writable"
        yield Disagreement("rdma-rights", ("rdma.uverbs",), text)
    limit = value_of(container, "limits.memlock_bytes")
    if given and isinstance(limit, int) and limit != _UNLIMITED:
        text = f"locked memory is limited to {limit >> 10} KiB in the container: RDMA registration needs it unlimited (--ulimit memlock=-1)"
        yield Disagreement("memlock", ("limits.memlock_bytes",), text)


RULES: tuple[Rule, ...] = (
    _one_kernel, _nvml, _injected_libcuda, _compat_in_use, _count, _gpus_given, _gpus_refused, _cuda_init, _moved_tag, _engine_build,
    _architecture, _shared_memory, _device_rights, _rdma,
)  # fmt: skip


def _compat(container: Facts) -> bool:
    path = value_of(container, "cuda.libcuda_path") or value_of(container, "driver.libcuda_path")
    return value_of(container, "cuda.compat_in_use") is True or "/compat/" in str(path or "")


def _differs(host: Facts, container: Facts, rule: str, name: str, means: str) -> Iterator[Disagreement]:
    ours, theirs = value_of(host, name), value_of(container, name)
    if ours is not None and theirs is not None and ours != theirs:
        yield Disagreement(
            rule, (name,), f"{name} is {shown(ours)} on the host and {shown(theirs)} in the container: {means}"
        )
