"""`nvidia-smi -q` to values: indented `key : value` lines, read by their section."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from playbooks.reading.smi_values import Gpu, Process, boolean, memory_mib, text_or_none

_LINE = re.compile(r"^(\s*)(\S.*?)\s*(?:\s:\s(.*)|:?)$")
_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$")
_ATTACHED = re.compile(r"(?m)^Attached GPUs\s*:\s*(\d+)")
_LEAVES: Mapping[tuple[str, str], tuple[str, Callable[[str], Any]]] = {
    ("", "Product Name"): ("name", text_or_none),
    ("", "GPU UUID"): ("uuid", text_or_none),
    ("", "Persistence Mode"): ("persistence", boolean),
    ("", "GPU Recovery Action"): ("recovery_action", text_or_none),
    ("MIG Mode", "Current"): ("mig", boolean),
    ("MIG Mode", "Pending"): ("mig_pending", boolean),
    ("FB Memory Usage", "Total"): ("memory_total_mib", memory_mib),
    ("FB Memory Usage", "Used"): ("memory_used_mib", memory_mib),
    ("Remapped Rows", "Pending"): ("remap_pending", boolean),
    ("Remapped Rows", "Remapping Failure Occurred"): ("remap_failed", boolean),
    ("Fabric", "State"): ("fabric", text_or_none),
    ("Fabric", "CliqueId"): ("fabric_clique", text_or_none),
    ("Fabric", "ClusterUUID"): ("fabric_cluster", text_or_none),
}
_PROCESS_LEAVES: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "Type": ("type", text_or_none),
    "Name": ("name", text_or_none),
    "Used GPU Memory": ("used_mib", memory_mib),
}


@dataclass(frozen=True, slots=True)
class SmiQuery:
    """GPUs and processes of the output; `attached` is the count it states."""

    attached: int | None
    gpus: tuple[Gpu, ...]
    processes: tuple[Process, ...]
    processes_listed: bool


def read(text: str) -> SmiQuery:
    """Read the GPU sections; the header is the caller's."""
    gpus: list[Gpu] = []
    processes: list[Process] = []
    path: list[tuple[int, str]] = []
    for line in text.splitlines():
        if start := _GPU.match(line):
            gpus.append(Gpu(index=len(gpus), bus_id=start[1]))
            path = []
        elif gpus and (row := _LINE.match(line)):
            indent, key, value = len(row[1]), row[2], row[3]
            path = [part for part in path if part[0] < indent]
            if value is None:
                path.append((indent, key))
            elif path and path[0][1] == "Processes":
                _add_process_line(processes, gpus[-1].index, key, value)
            elif leaf := _LEAVES.get((path[-1][1] if path else "", key)):
                gpus[-1] = gpus[-1].having(**{leaf[0]: leaf[1](value)})
    attached = _ATTACHED.search(text)
    return SmiQuery(int(attached[1]) if attached else None, tuple(gpus), tuple(processes), "    Processes" in text)


def _add_process_line(processes: list[Process], gpu: int | None, key: str, value: str) -> None:
    if key == "Process ID" and value.strip().isdigit():
        processes.append(Process(int(value), None, None, gpu=gpu))
    elif processes and (leaf := _PROCESS_LEAVES.get(key)):
        processes[-1] = processes[-1].having(**{leaf[0]: leaf[1](value)})
