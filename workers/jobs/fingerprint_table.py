"""The fingerprint as a short table for a terminal: what is loaded, side by side, and what could not be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from playbooks.judging.consistency import Disagreement
from playbooks.messages import FieldValue, FingerprintFacts
from playbooks.reading.fields import indexes, value_of
from playbooks.vocabulary import FieldStatus

_ROWS: tuple[tuple[str, str, str | None], ...] = (
    ("Driver loaded", "driver.loaded", "driver.loaded"),
    ("Driver on disk", "driver.on_disk", None),
    ("Driver state", "driver.state", None),
    ("NVML", "nvml.error", "nvml.error"),
    ("CUDA of the driver", "nvml.cuda", "cuda.driver"),
    ("GPUs", "nvml.count", "cuda.count"),
    ("cuInit", "", "cuda.init"),
    ("libcuda", "driver.libcuda_path", "cuda.libcuda_path"),
    ("vLLM", "", "vllm.version"),
    ("torch", "", "torch.version"),
    ("CUDA of torch", "", "torch.cuda"),
    ("Image", "", "image.id"),
    ("Shared memory", "shm.total_bytes", "shm.total_bytes"),
    ("Locked memory", "limits.memlock_bytes", "limits.memlock_bytes"),
    ("Kernel", "os.kernel", "os.kernel"),
    ("Docker", "docker.version", None),
    ("Xid messages", "kernel.xid", None),
    ("Leftovers", "leftovers", None),
    ("Tenants", "tenants", None),
    ("Reboot pending", "os.reboot_pending", None),
)
_WIDTH = 44


def table(facts: FingerprintFacts, disagreements: Sequence[Disagreement] = ()) -> str:
    """Return the table, what does not agree, and at the end the fields that could not be read."""
    inside = facts.container_source is not None
    lines = [f"{'':<20}{'host':<{_WIDTH}}{facts.container_source or ''}".rstrip()]
    for label, host_name, inside_name in _ROWS:
        host = _cell(facts.host.get(host_name)) if host_name else ""
        container = _cell(facts.container.get(inside_name)) if inside and inside_name else ""
        if host or container:
            lines.append(f"{label:<20}{host:<{_WIDTH}}{container}".rstrip())
    for index in indexes(facts.host, "gpu"):
        name = (
            value_of(facts.host, f"gpu.{index}.name")
            or f"not readable (NVML {value_of(facts.host, f'gpu.{index}.error')})"
        )
        used, total = (_cell(facts.host.get(f"gpu.{index}.memory_{what}_bytes")) for what in ("used", "total"))
        lines.append(f"{f'GPU {index}':<20}{name}: {used} of {total} in use")
    unread = sorted(
        f"{name} ({field.status.value}{': ' + field.detail[:80] if field.detail else ''})"
        for side in (facts.host, facts.container)
        for name, field in side.items()
        if field.status not in {FieldStatus.OK, FieldStatus.ABSENT, FieldStatus.UNSUPPORTED}
    )
    lines.append("")
    lines += [f"{found.severity}: {found.text} [{found.rule}]" for found in disagreements] or ["nothing disagrees"]
    lines.append(
        f"{len(facts.host) + len(facts.container)} fields in {facts.duration_ms} ms; {len(unread)} not readable"
    )
    lines += [f"  {line}" for line in unread]
    return "\n".join(lines)


def _cell(field: FieldValue | None) -> str:
    if field is None:
        return ""
    if field.status is not FieldStatus.OK:
        return f"({field.status.value})"
    shown = _short(field.value, field.unit)
    return f"{shown} ({field.detail})"[: _WIDTH - 2] if field.detail else shown


def _short(value: Any, unit: str | None) -> str:
    match value:
        case list():
            return (
                f"{len(value)}: {'; '.join(_short(part, None) for part in value[:2])}"[: _WIDTH - 2]
                if value
                else "none"
            )
        case bool():
            return "yes" if value else "no"
        case int() if unit == "bytes":
            return "unlimited" if value < 0 else _size(value)
        case dict():
            return " ".join(map(str, value.values()))[: _WIDTH - 2]
        case _:
            return str(value)[: _WIDTH - 2]


def _size(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):.1f} MiB"
