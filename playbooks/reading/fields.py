"""The fields of a fingerprint: their names, sides, units, and which of them are stable.

Names are flat and dotted. In a pattern `{i}` stands for an index from 0 and `{name}` for the rest of the name, so
`gpu.{i}.uuid` is the pattern of `gpu.0.uuid`. Stable fields go into the digest of a fingerprint: when one of them moves,
two attempts no longer compare. Volatile ones (free memory, tenants, times, temperatures) are shown and compared by rules,
never hashed. A name that is not listed here is volatile: a newer node must not void the attempts of an older one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict

from playbooks.vocabulary import FieldStatus


class FieldValue(BaseModel):
    """One fingerprint field (R3.3). `value` is JSON without floats; None unless the status is `ok`."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    status: FieldStatus
    value: Any = None
    source: str = ""
    unit: str | None = None
    detail: str = ""


Facts = Mapping[str, FieldValue]
"""One side of a fingerprint by dotted name."""


class Side(StrEnum):
    """Which side of a fingerprint holds the field."""

    HOST = "host"
    CONTAINER = "container"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A field of the fingerprint: pattern of its name, side, whether it is stable, unit and meaning."""

    name: str
    side: Side
    stable: bool
    unit: str | None
    meaning: str


def read(value: Any, source: str = "", *, unit: str | None = None, detail: str = "") -> FieldValue:
    """Return a field that was read; None becomes `absent`."""
    status = FieldStatus.ABSENT if value is None else FieldStatus.OK
    return FieldValue(status=status, value=value, source=source, unit=unit, detail=detail)


def value_of(facts: Facts, name: str) -> Any:
    """Return the value of a field that was read, else None (absent, refused, timed out or never asked)."""
    field = facts.get(name)
    return field.value if field is not None and field.status is FieldStatus.OK else None


def indexes(facts: Facts, group: str) -> tuple[int, ...]:
    """Return the indexes of a numbered group, in order: `gpu` gives 0, 1, … for `gpu.0.uuid`, `gpu.1.uuid`."""
    pattern = re.compile(rf"{re.escape(group)}\.(\d+)\.")
    return tuple(sorted({int(match[1]) for name in facts if (match := pattern.match(name))}))


def values_of(facts: Facts, group: str, leaf: str) -> tuple[Any, ...]:
    """Return the values of one leaf over a numbered group, in order of the index; what was not read is left out."""
    found = (value_of(facts, f"{group}.{index}.{leaf}") for index in indexes(facts, group))
    return tuple(value for value in found if value is not None)


def spec_of(name: str) -> FieldSpec | None:
    """Return the specification of a field name, or None when the name is not listed."""
    exact = _by_name().get(name)
    if exact is not None:
        return exact
    return next((spec for pattern, spec in _patterns() if pattern.fullmatch(name)), None)


def is_stable(name: str) -> bool:
    """Whether the field goes into the digest; a name that is not listed does not."""
    spec = spec_of(name)
    return spec is not None and spec.stable


def _rows(side: Side, text: str) -> Iterator[FieldSpec]:
    for line in text.strip().splitlines():
        name, kind, unit, meaning = (part.strip() for part in line.split("|"))
        yield FieldSpec(name, side, kind == "stable", None if unit == "-" else unit, meaning)


FIELDS: tuple[FieldSpec, ...] = (
    *_rows(
        Side.BOTH,
        """
        driver.loaded | stable | - | version of the kernel module that is loaded, from /proc/driver/nvidia/version
        driver.module_flavour | stable | - | `open` or `proprietary`
        driver.libcuda_path | stable | - | libcuda.so.1 after links are resolved
        driver.libcuda_version | stable | - | version in the file name of libcuda
        driver.libnvml_path | stable | - | libnvidia-ml.so.1 after links are resolved
        driver.libnvml_version | stable | - | version in the file name of libnvidia-ml
        nvml.error | volatile | - | code of nvmlInit, 0 = fine; 9, 12, 18, 999 … as in nvidia-smi; `hang` when it was killed
        nvml.driver | stable | - | driver version that NVML reports
        nvml.version | stable | - | version of the NVML library itself
        nvml.cuda | stable | - | highest CUDA of the libcuda that is found first, `13.0`
        nvml.count | stable | - | GPUs that NVML counts
        gpu.{i}.error | volatile | - | NVML code when the handle of this index could not be had (15 = lost)
        gpu.{i}.uuid | stable | - | identity; join by it, never by the index
        gpu.{i}.name | stable | - | product name, uncut
        gpu.{i}.bus_id | stable | - | PCI bus id with its 8-digit domain
        gpu.{i}.minor | stable | - | number of /dev/nvidiaN
        gpu.{i}.compute_capability | stable | - | `10.3`
        gpu.{i}.memory_total_bytes | stable | bytes | memory of the GPU
        gpu.{i}.memory_reserved_bytes | volatile | bytes | kept by the driver
        gpu.{i}.memory_used_bytes | volatile | bytes | in use without the reserved part
        gpu.{i}.memory_free_bytes | volatile | bytes | free now
        gpu.{i}.memory_unowned_bytes | volatile | bytes | used, but by no listed process: a leftover of unknown owner
        gpu.{i}.processes | volatile | - | list of {pid, name, used_bytes}; used_bytes null = not told
        gpu.{i}.vbios | stable | - | VBIOS version
        gpu.{i}.ecc_current | stable | - | true, false
        gpu.{i}.ecc_pending | volatile | - | mode after the next reset
        gpu.{i}.ecc_uncorrected_volatile | volatile | - | uncorrected errors since the driver was loaded
        gpu.{i}.ecc_uncorrected_aggregate | volatile | - | uncorrected errors over the life of the GPU
        gpu.{i}.remap_pending | volatile | - | a row remap waits for a reset
        gpu.{i}.remap_failed | volatile | - | a row remap failed: hardware
        gpu.{i}.nvlink_active | stable | - | links that are up
        gpu.{i}.nvlink_count | stable | - | links that the GPU has
        gpu.{i}.fabric_state | volatile | - | `not_supported`, `not_started`, `in_progress`, `completed`
        gpu.{i}.fabric_status | volatile | - | NVML code of the fabric registration, 0 = fine
        gpu.{i}.fabric_clique | stable | - | clique of the NVLink fabric
        gpu.{i}.fabric_cluster | stable | - | cluster UUID of the NVLink fabric
        gpu.{i}.mig_current | stable | - | true, false
        gpu.{i}.mig_pending | volatile | - | mode after the next reset
        gpu.{i}.compute_mode | stable | - | `default`, `prohibited`, `exclusive_process`
        gpu.{i}.persistence | stable | - | true, false
        gpu.{i}.clocks_reasons | volatile | - | bit mask of what holds the clocks down
        gpu.{i}.pcie_width | stable | - | lanes in use
        gpu.{i}.pcie_width_max | stable | - | lanes possible
        gpu.{i}.pcie_gen | volatile | - | generation now; drops when idle
        gpu.{i}.pcie_gen_max | stable | - | generation possible
        gpu.{i}.pcie_replays | volatile | - | replay counter
        gpu.{i}.recovery_action | volatile | - | 0 none, 1 GPU reset, 2 node reboot, 3 drain P2P, 4 drain and reset …
        shm.total_bytes | stable | bytes | size of /dev/shm
        shm.used_bytes | volatile | bytes | used of /dev/shm
        shm.leftovers | volatile | - | names in /dev/shm that earlier launches left (nccl-*, psm_*, vllm*)
        limits.memlock_bytes | stable | bytes | locked memory allowed; -1 = unlimited
        limits.nofile | stable | - | open files allowed; -1 = unlimited
        cgroup.memory_limit_bytes | stable | bytes | memory limit of the group; absent = none
        dev.nodes | stable | - | path to rights (`rw`, `r`, ``) of /dev/nvidia*, caps and IMEX channels
        rdma.uverbs | stable | - | path to rights of /dev/infiniband/*
        rdma.devices | stable | - | names under /sys/class/infiniband
        rdma.{name}.state | volatile | - | `4: ACTIVE` of the port; name is `<device>.<port>`
        rdma.{name}.phys_state | volatile | - | `5: LinkUp`
        rdma.{name}.rate | stable | - | rate and width as the kernel prints it
        rdma.{name}.link_layer | stable | - | `InfiniBand` or `Ethernet`
        rdma.{name}.firmware | stable | - | firmware of the adapter
        rdma.{name}.mtu | stable | - | active MTU
        os.kernel | stable | - | `uname -r`
        os.release | stable | - | PRETTY_NAME of os-release
        os.machine | stable | - | architecture
        clock.timezone | stable | - | name or offset of the local zone
        model.path | stable | - | model directory after links are resolved
        model.revision | stable | - | revision of the hub snapshot
        model.index_sha256 | stable | - | digest of the weight index
        model.config_sha256 | stable | - | digest of config.json
        model.files | stable | - | list of [name, size in bytes], sorted
        model.total_bytes | stable | bytes | sum of the sizes
        model.filesystem | stable | - | type of the filesystem
        model.free_bytes | volatile | bytes | free space beside the model
        env.{name} | stable | - | environment variable by allow-list; secrets as `${node:NAME}`
        """,
    ),
    *_rows(
        Side.HOST,
        """
        driver.on_disk | stable | - | version that the next module load brings, `modinfo -F version nvidia`
        driver.packages | stable | - | package name to version
        driver.packages_half_installed | stable | - | names in a state such as iF, iU or rc
        driver.state | stable | - | `consistent`, `upgrade_pending_reboot`, `module_not_loaded`, `module_not_built`, `user_libraries_missing`
        nvml.distribution | stable | - | distribution that owns the module `pynvml` on the worker
        proc.gpu_count | stable | - | directories in /proc/driver/nvidia/gpus; more than NVML counts = one failed to start
        pci.gpu_count | stable | - | NVIDIA display and 3D controllers on the PCI bus
        modules.{name} | stable | - | version or true when the kernel module is loaded: nvidia_uvm, nvidia_peermem, gdrdrv, nouveau …
        kernel.xid | volatile | - | list of {bus_id, xid, text}, oldest first
        kernel.nvrm | volatile | - | other NVRM lines worth showing
        service.fabric_manager | volatile | - | `active`, `inactive`, `failed`, absent
        service.fabric_manager_version | stable | - | must equal the driver
        service.imex | volatile | - | `active`, `inactive`, `failed`, absent
        service.persistenced | volatile | - | `active`, `inactive`, `failed`, absent
        imex.channels | stable | - | channels in /dev/nvidia-caps-imex-channels
        imex.nodes | stable | - | addresses of nodes_config.cfg
        hugepages.total | stable | - | huge pages set aside
        docker.version | stable | - | version of the daemon
        docker.runtimes | stable | - | names of the runtimes, sorted
        docker.default_runtime | stable | - | runtime without `--runtime`
        docker.cdi_devices | stable | - | CDI devices the daemon discovered
        docker.cdi_dirs | stable | - | where it looks for CDI specs
        docker.cgroup_version | stable | - | 1 or 2
        docker.cgroup_driver | stable | - | systemd or cgroupfs
        docker.toolkit_version | stable | - | `nvidia-ctk --version`
        docker.live_restore | stable | - | true, false
        docker.containers | volatile | - | list of {id, name, image, state}
        tenants | volatile | - | others that use the GPUs: `process PID NAME on GPU INDEX`, by NVML
        leftovers | volatile | - | what an earlier launch left: processes, ports, memory
        ports.listening | volatile | - | listening TCP ports that a launch may want
        disk.free_bytes | volatile | bytes | free space of the worker's data directory
        memory.total_bytes | stable | bytes | main memory
        memory.available_bytes | volatile | bytes | available main memory
        cpu.count | stable | - | logical CPUs
        os.hostname | stable | - | name of the node
        os.boot_id | volatile | - | changes with each boot
        os.reboot_pending | volatile | - | true when packages ask for a reboot
        os.uptime_s | volatile | s | since boot
        clock.utc | volatile | - | host clock, ISO 8601
        clock.synchronised | volatile | - | true when a time service says so
        python.version | stable | - | of the worker
        network.mtu | stable | - | interface name to MTU
        """,
    ),
    *_rows(
        Side.CONTAINER,
        """
        container.id | volatile | - | id of the container
        container.name | volatile | - | name of the container
        container.image_id | stable | - | config digest of the image that really runs
        container.image_reference | stable | - | image as asked for
        container.status | volatile | - | `running`, `exited`, `created`, `dead` …
        container.exit_code | volatile | - | exit code; 137 = killed, 139 = segmentation fault
        container.oom_killed | volatile | - | the kernel killed it for memory
        container.error | volatile | - | the runtime's own text
        container.created_at | volatile | - | ISO 8601
        container.started_at | volatile | - | ISO 8601
        container.finished_at | volatile | - | ISO 8601; absent while it runs
        container.restart_count | volatile | - | restarts by the restart policy
        container.restart_policy | stable | - | `no`, `always`, `on-failure` …
        container.health | volatile | - | `healthy`, `unhealthy`, `starting`
        container.shm_bytes | stable | bytes | ShmSize
        container.ipc_mode | stable | - | `host`, `private`, `container:…`
        container.pid_mode | stable | - | `host` or empty
        container.network_mode | stable | - | `host`, `bridge`, a network
        container.runtime | stable | - | `nvidia`, `runc` …
        container.privileged | stable | - | true, false
        container.cap_add | stable | - | added capabilities, sorted
        container.security_opt | stable | - | security options, sorted
        container.ulimits | stable | - | name to soft limit; -1 = unlimited
        container.device_requests | stable | - | GPUs asked for: list of {driver, count, device_ids, capabilities}
        container.devices | stable | - | host devices passed in, sorted
        container.binds | stable | - | list of `source:target:mode`, sorted
        container.cgroup_parent | stable | - | parent group
        container.memory_limit_bytes | stable | bytes | memory limit; absent = none
        container.entrypoint | stable | - | entrypoint that really runs
        container.cmd | stable | - | arguments, secrets as `${node:NAME}`
        container.env.{name} | stable | - | environment as configured; secrets as `${node:NAME}`
        image.reference | stable | - | tag or digest looked at
        image.id | stable | - | config digest
        image.tag_image_id | stable | - | config digest the tag points to now
        image.tags | volatile | - | all tags on this machine, sorted
        image.digest | stable | - | manifest digest `sha256:…`; absent = built or loaded locally
        image.digests | volatile | - | all repository digests, sorted
        image.created | stable | - | build time, ISO 8601
        image.architecture | stable | - | `amd64`, `arm64`
        image.size_bytes | stable | bytes | size on disk
        image.labels.{name} | stable | - | label of the image
        image.env.{name} | stable | - | CUDA_VERSION, LD_LIBRARY_PATH, NVIDIA_* … as built in
        image.require_cuda | stable | - | NVIDIA_REQUIRE_CUDA: checked by the toolkit before start
        image.disable_require | stable | - | NVIDIA_DISABLE_REQUIRE: the check is skipped, which hides the cause
        image.entrypoint | stable | - | entrypoint of the image
        image.cmd | stable | - | arguments of the image
        python.version | stable | - | `3.12.11`
        python.executable | stable | - | path of the interpreter
        package.{name} | stable | - | version of a distribution: torch, vllm, nvidia-nccl-cu13, flashinfer-python, triton …
        vllm.version | stable | - | `vllm.__version__`
        vllm.metadata_version | stable | - | version of the distribution's metadata
        vllm.path | stable | - | directory of the module
        vllm.commit | stable | - | commit, where the version holds one
        torch.version | stable | - | `2.9.1+cu130`
        torch.cuda | stable | - | CUDA that torch was built for, `13.0`
        torch.arch_list | stable | - | architectures with machine code, `sm_100a` …
        torch.nccl | stable | - | NCCL that torch loads, `2.28.9`
        torch.device_count | stable | - | `torch.cuda.device_count()`
        torch.error | volatile | - | text when the import failed
        cuda.init | stable | - | result of cuInit, 0 = fine; 803, 804, 802, 35, 100, 999 … : the real device recognition test
        cuda.driver | stable | - | cuDriverGetVersion, `13.0`
        cuda.count | stable | - | cuDeviceGetCount
        cuda.libcuda_path | stable | - | libcuda that was mapped
        cuda.compat_path | stable | - | directory of the image's compat libraries; absent = the image has none
        cuda.compat_in_use | stable | - | true when the mapped libcuda comes from a compat directory
        cuda.version_file | stable | - | CUDA of /usr/local/cuda/version.json
        probe.{name} | volatile | - | exit code of a part of the probe: static, nvml, cuda, versions, torch
        """,
    ),
)


@cache
def _by_name() -> dict[str, FieldSpec]:
    return {spec.name: spec for spec in FIELDS if "{" not in spec.name}


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], FieldSpec], ...]:
    return tuple((re.compile(_regex(spec.name)), spec) for spec in FIELDS if "{" in spec.name)


def _regex(name: str) -> str:
    return re.escape(name).replace(r"\{i\}", r"\d+").replace(r"\{name\}", ".+")
