"""The values that all layouts of nvidia-smi share, and how one cell of it is read."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

_VERSION = re.compile(r"\s*(\d+(?:\.\d+)+)")
_NUMBER = re.compile(r"\s*(\d+)\s*(?:MiB)?\s*$")
_TRUE = frozenset({"on", "enabled", "yes", "active"})
_FALSE = frozenset({"off", "disabled", "no", "not active"})


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as the output shows it; None = it does not say."""

    index: int | None = None
    name: str | None = None
    uuid: str | None = None
    bus_id: str | None = None
    memory_total_mib: int | None = None
    memory_used_mib: int | None = None
    power_cap_w: int | None = None
    compute_capability: str | None = None
    mig: bool | None = None
    mig_pending: bool | None = None
    mig_devices: int | None = None
    persistence: bool | None = None
    fabric: str | None = None
    """`Completed`, `In Progress`, `Not Started`, … as printed."""
    fabric_clique: str | None = None
    fabric_cluster: str | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    recovery_action: str | None = None
    lost: bool = False
    name_cut: bool = False
    """The table may have cut the product name."""

    def having(self, **changes: Any) -> Gpu:
        """Return the GPU with some values set."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Process:
    """One process on a GPU; `gpu` is an index, `gpu_uuid` an identity, whichever the layout names."""

    pid: int
    name: str | None
    used_mib: int | None
    gpu: int | None = None
    gpu_uuid: str | None = None
    type: str | None = None

    def having(self, **changes: Any) -> Process:
        """Return the process with some values set."""
        return replace(self, **changes)


def version(cell: str) -> str | None:
    """Return the version at the start of a cell; what stands behind the first blank is a remark."""
    match = _VERSION.match(cell)
    return match[1] if match else None


def memory_mib(cell: str) -> int | None:
    """Return whole MiB; None for `[N/A]`, `ERR!`, `[GPU is lost]` and the like."""
    match = _NUMBER.match(cell)
    return int(match[1]) if match else None


def boolean(cell: str) -> bool | None:
    """Return what On/Off, Enabled/Disabled, Yes/No say; None for anything else."""
    word = cell.strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None


def text_or_none(cell: str) -> str | None:
    """Return the text of a cell; None when it is empty or a bracketed excuse."""
    word = cell.strip()
    return None if not word or word == "N/A" or (word.startswith("[") and word.endswith("]")) else word
