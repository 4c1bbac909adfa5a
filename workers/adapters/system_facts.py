"""The host beside the driver: shared memory, limits, RDMA, services, kernel, clock, disk, network."""

from __future__ import annotations

import os
import re
import resource
import shutil
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from playbooks.messages import FieldValue
from workers.adapters.attempted import attempt, output, text
from workers.ports import Facts

_LEFTOVER_PREFIXES = ("nccl-", "psm_", "vllm", "sem.mp-", "cuda.shm")
_MAPPED = re.compile(rb"/dev/shm/([^\s(]+)$", re.MULTILINE)
_NODE_PATTERNS = ("dev/nvidia*", "dev/nvidia-caps/*", "dev/nvidia-caps-imex-channels/*")
_NO_LIMIT = 1 << 62
"""What version 1 of control groups prints where nothing is limited is near the largest number."""
_SERVICES = {
    "service.fabric_manager": "nvidia-fabricmanager",
    "service.imex": "nvidia-imex",
    "service.persistenced": "nvidia-persistenced",
}


def system_facts(root: Path, *, data_dir: Path) -> Facts:
    """Return everything of the host that needs no driver and no container engine."""
    return {
        **_memory(root),
        **_limits(root),
        **_device_nodes(root),
        **_rdma(root),
        **_services(root),
        **_system(root, data_dir),
        **_clock(root),
    }


def _memory(root: Path) -> Facts:
    shm = root / "dev/shm"
    meminfo = attempt(
        "/proc/meminfo",
        lambda: dict(line.split(":", 1) for line in text(root / "proc/meminfo").splitlines() if ":" in line),
    )

    def of_meminfo(name: str, *, kib: bool = True) -> FieldValue:
        if meminfo.value is None:
            return meminfo.model_copy(update={"unit": "bytes" if kib else None})
        return attempt(
            "/proc/meminfo",
            lambda: int(meminfo.value[name].split()[0]) * (1024 if kib else 1) if name in meminfo.value else None,
            unit="bytes" if kib else None,
        )

    return {
        "shm.total_bytes": attempt("statvfs /dev/shm", lambda: _usage(shm)[0], unit="bytes"),
        "shm.used_bytes": attempt("statvfs /dev/shm", lambda: _usage(shm)[1], unit="bytes"),
        "shm.leftovers": attempt(
            str(shm), lambda: _leftovers(root, {e.name for e in shm.iterdir() if e.name.startswith(_LEFTOVER_PREFIXES)})
        ),
        "memory.total_bytes": of_meminfo("MemTotal"),
        "memory.available_bytes": of_meminfo("MemAvailable"),
        "hugepages.total": of_meminfo("HugePages_Total", kib=False),
    }


def _leftovers(root: Path, names: set[str]) -> list[str]:
    """Return the names that no process has mapped; what lives is no leftover, and what another user may still use is not told."""
    left, blind = set(names), False
    for maps in (root / "proc").glob("[0-9]*/maps") if names else ():
        try:
            left -= {name.decode(errors="replace") for name in _MAPPED.findall(maps.read_bytes())}
        except PermissionError:
            blind = True
        except OSError:
            continue  # it ended meanwhile
    if blind:
        left = {name for name in left if (root / "dev/shm" / name).lstat().st_uid == os.geteuid()}
    return sorted(left)[:50]


def _usage(path: Path) -> tuple[int, int]:
    stat = os.statvfs(path)
    return stat.f_blocks * stat.f_frsize, (stat.f_blocks - stat.f_bfree) * stat.f_frsize


def _limits(root: Path) -> Facts:
    def soft(which: int) -> int:
        limit = resource.getrlimit(which)[0]
        return -1 if limit == resource.RLIM_INFINITY else limit

    return {
        "limits.memlock_bytes": attempt("RLIMIT_MEMLOCK", lambda: soft(resource.RLIMIT_MEMLOCK), unit="bytes"),
        "limits.nofile": attempt("RLIMIT_NOFILE", lambda: soft(resource.RLIMIT_NOFILE)),
        "cgroup.memory_limit_bytes": attempt("/sys/fs/cgroup", lambda: _group_limit(root), unit="bytes"),
        "cpu.count": attempt("sched_getaffinity", lambda: len(os.sched_getaffinity(0))),
    }


def _group_limit(root: Path) -> int | None:
    """Return the smallest memory limit of the groups this process is in, of either version; None = none is set."""
    limits = []
    for line in text(root / "proc/self/cgroup").splitlines() if (root / "proc/self/cgroup").exists() else ("0::/",):
        _number, controllers, group = line.split(":", 2)
        if controllers not in {"", "memory"}:
            continue
        base, name = ("", "memory.max") if not controllers else ("memory", "memory.limit_in_bytes")
        parts = [part for part in group.split("/") if part not in {"", ".."}]
        for depth in range(len(parts) + 1):
            path = (root / "sys/fs/cgroup" / base).joinpath(*parts[:depth], name)
            if path.exists() and (limit := text(path)) != "max" and int(limit) < _NO_LIMIT:
                limits.append(int(limit))
    return min(limits, default=None)


def rights(path: Path) -> str:
    """Return what this process may do with a device node: `rw`, `r`, `w` or nothing."""
    return "".join(letter for letter, mode in (("r", os.R_OK), ("w", os.W_OK)) if os.access(path, mode))


def _device_nodes(root: Path) -> Facts:
    def nodes(*patterns: str) -> dict[str, str]:
        found = (path for pattern in patterns for path in root.glob(pattern) if not path.is_dir())
        return {"/" + str(path.relative_to(root)): rights(path) for path in sorted(found)}

    channels = root / "dev/nvidia-caps-imex-channels"
    imex = root / "etc/nvidia-imex/nodes_config.cfg"
    return {
        "dev.nodes": attempt("/dev/nvidia*", lambda: nodes(*_NODE_PATTERNS) or None),
        "rdma.uverbs": attempt("/dev/infiniband", lambda: nodes("dev/infiniband/*") or None),
        "imex.channels": attempt(str(channels), lambda: sorted(path.name for path in channels.iterdir())),
        "imex.nodes": attempt(
            "/etc/nvidia-imex/nodes_config.cfg",
            lambda: [line.strip() for line in text(imex).splitlines() if line.strip() and not line.startswith("#")],
        ),
    }


def _rdma(root: Path) -> Facts:
    folder = root / "sys/class/infiniband"
    devices = attempt("/sys/class/infiniband", lambda: sorted(path.name for path in folder.iterdir()))
    facts: Facts = {"rdma.devices": devices}
    for device in devices.value or ():
        firmware = folder / device / "fw_ver"
        for port in sorted((folder / device / "ports").glob("*")):
            name = f"rdma.{device}.{port.name}"
            for leaf in ("state", "phys_state", "rate", "link_layer"):
                facts[f"{name}.{leaf}"] = attempt(f"{port}/{leaf}", lambda path=port / leaf: text(path))  # type: ignore[misc]
            facts[f"{name}.firmware"] = attempt(str(firmware), lambda path=firmware: text(path))  # type: ignore[misc]
    return facts


def _services(root: Path) -> Facts:
    source = "systemctl is-active"
    tool = "nv-fabricmanager --version"
    if root != Path("/"):
        return {name: attempt(source, lambda: None) for name in _SERVICES}
    version = {"service.fabric_manager_version": attempt(tool, _fabric_manager_version)}
    if not Path("/run/systemd/system").exists():
        return version | {name: attempt(source, lambda: None) for name in _SERVICES}

    def state(unit: str) -> str | None:
        listed = output("systemctl", "show", "-p", "LoadState,ActiveState", "--value", unit, timeout_s=1).split()
        return None if "not-found" in listed else listed[-1]

    return version | {name: attempt(source, lambda unit=unit: state(unit)) for name, unit in _SERVICES.items()}  # type: ignore[misc]


def _fabric_manager_version() -> str | None:
    """Return the version the program says it has; None where it is not installed."""
    if shutil.which("nv-fabricmanager") is None:
        return None
    found = re.search(r"\d+(?:\.\d+)+", output("nv-fabricmanager", "--version", timeout_s=1))
    return found[0] if found else None


def _system(root: Path, data_dir: Path) -> Facts:
    def release() -> str | None:
        lines = dict(line.split("=", 1) for line in text(root / "etc/os-release").splitlines() if "=" in line)
        return lines.get("PRETTY_NAME", "").strip('"') or None

    def mtus() -> dict[str, int]:
        return {path.parent.name: int(text(path)) for path in sorted((root / "sys/class/net").glob("*/mtu"))}

    return {
        "os.kernel": attempt("/proc/sys/kernel/osrelease", lambda: text(root / "proc/sys/kernel/osrelease")),
        "os.release": attempt("/etc/os-release", release),
        "os.machine": attempt("uname", lambda: os.uname().machine),
        "os.hostname": attempt("/proc/sys/kernel/hostname", lambda: text(root / "proc/sys/kernel/hostname")),
        "os.boot_id": attempt("/proc/sys/kernel/random/boot_id", lambda: text(root / "proc/sys/kernel/random/boot_id")),
        "os.uptime_s": attempt("/proc/uptime", lambda: int(float(text(root / "proc/uptime").split()[0])), unit="s"),
        "os.reboot_pending": attempt("/run/reboot-required", lambda: _reboot_pending(root)),
        "disk.free_bytes": attempt(str(data_dir), lambda: shutil.disk_usage(data_dir).free, unit="bytes"),
        "network.mtu": attempt("/sys/class/net", mtus),
        "python.version": attempt("worker", lambda: sys.version.split()[0]),
        "ports.listening": attempt("/proc/net/tcp", lambda: _listening(root)),
    }


def _reboot_pending(root: Path) -> bool | None:
    """Say whether packages ask for a reboot; None where the distribution does not leave word of it."""
    if (root / "run/reboot-required").exists():
        return True
    return False if (root / "var/lib/dpkg").exists() else None


def _listening(root: Path) -> list[int]:
    ports = set()
    for name in ("proc/net/tcp", "proc/net/tcp6"):
        if (root / name).exists():
            rows = (line.split() for line in text(root / name).splitlines()[1:])
            ports |= {int(row[1].rsplit(":", 1)[1], 16) for row in rows if row[3] == "0A"}
    return sorted(ports)


def _clock(root: Path) -> Facts:
    def synchronised() -> bool | None:
        if root != Path("/"):
            return None
        if Path("/run/systemd/timesync/synchronized").exists():
            return True
        return output("timedatectl", "show", "-p", "NTPSynchronized", "--value", timeout_s=1) == "yes"

    def zone() -> str:
        name = root / "etc/timezone"
        return text(name) if name.exists() else time.strftime("%z")

    return {
        "clock.utc": attempt("clock_gettime", lambda: datetime.now(UTC).isoformat(timespec="seconds")),
        "clock.timezone": attempt("/etc/timezone", zone),
        "clock.synchronised": attempt("timedatectl", synchronised),
    }
