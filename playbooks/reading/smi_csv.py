"""`nvidia-smi --query-gpu=…` and `--query-compute-apps=… --format=csv` to values, by column name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from playbooks.reading.smi_values import Gpu, Process, boolean, memory_mib, text_or_none, version

_COLUMN = r"[a-z_][a-z_.0-9]*(?: \[[^\]\n]{1,20}\])?"
_HEADER = re.compile(rf"^\s*{_COLUMN}(?:, ?{_COLUMN})+\s*$")
_GPU_COLUMNS = frozenset({"uuid", "gpu_uuid", "driver_version", "memory.total", "pci.bus_id", "compute_cap", "name"})


@dataclass(frozen=True, slots=True)
class SmiCsv:
    """What the tables say; `gpu_table` and `process_table` tell which were there."""

    driver: str | None
    gpus: tuple[Gpu, ...]
    processes: tuple[Process, ...]
    gpu_table: bool
    process_table: bool


def read(text: str) -> SmiCsv:
    """Read every table in the text whose header is known."""
    gpus: list[Gpu] = []
    processes: list[Process] = []
    drivers: list[str] = []
    gpu_table = process_table = False
    for columns, rows in _tables(text):
        if "pid" in columns:
            process_table = True
            processes.extend(_process(row) for row in rows if row["pid"].isdigit())
        elif _GPU_COLUMNS.intersection(columns):
            gpu_table = True
            drivers.extend(found for row in rows if (found := version(row.get("driver_version", ""))))
            gpus.extend(_gpu(row, position) for position, row in enumerate(rows, start=len(gpus)))
    return SmiCsv(drivers[0] if drivers else None, tuple(gpus), tuple(processes), gpu_table, process_table)


def _tables(text: str) -> Iterator[tuple[list[str], list[dict[str, str]]]]:
    columns: list[str] = []
    rows: list[dict[str, str]] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if _HEADER.match(line):
            if columns:
                yield columns, rows
            columns, rows = [cell.split(" [")[0] for cell in cells], []
        elif columns and len(cells) == len(columns):
            rows.append(dict(zip(columns, cells, strict=True)))
        elif columns:
            yield columns, rows
            columns, rows = [], []
    if columns:
        yield columns, rows


def _process(row: dict[str, str]) -> Process:
    return Process(
        int(row["pid"]),
        text_or_none(row.get("process_name", row.get("name", ""))),
        memory_mib(row.get("used_gpu_memory", row.get("used_memory", ""))),
        gpu_uuid=text_or_none(row.get("gpu_uuid", "")),
    )


def _gpu(row: dict[str, str], position: int) -> Gpu:
    index = row.get("index", "")
    return Gpu(
        index=int(index) if index.isdigit() else position,
        name=text_or_none(row.get("name", row.get("gpu_name", ""))),
        uuid=text_or_none(row.get("uuid", row.get("gpu_uuid", ""))),
        bus_id=text_or_none(row.get("pci.bus_id", row.get("gpu_bus_id", ""))),
        memory_total_mib=memory_mib(row.get("memory.total", "")),
        memory_used_mib=memory_mib(row.get("memory.used", "")),
        compute_capability=text_or_none(row.get("compute_cap", "")),
        mig=boolean(row.get("mig.mode.current", "")),
        mig_pending=boolean(row.get("mig.mode.pending", "")),
        persistence=boolean(row.get("persistence_mode", "")),
        power_cap_w=memory_mib(row.get("power.limit", "").split(".")[0]),
        lost="[GPU is lost]" in row.values(),
    )
