"""NVML, read once in a process of its own: run as `python -m workers.adapters.nvml_probe`, prints a JSON line for NVML and one a GPU.

A process of its own because NVML calls have no time-out and may hang in the kernel, and because a long-lived process would
keep the library of before a driver upgrade. Each call has its own status; error codes are told by value, never by text.
`--watch` prints the memory in use of each GPU once a second instead.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import json
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pynvml

_STATUS = {3: "unsupported", 4: "refused", 6: "absent", 10: "timeout", 13: "unsupported", 25: "unsupported"}
_FABRIC_STATES = ("not_supported", "not_started", "in_progress", "completed")
_COMPUTE_MODES = {0: "default", 2: "prohibited", 3: "exclusive_process"}
_MOST_LINKS = 18
_NOT_TO_BE_READ = -1
"""In the place of an NVML code: the library answered what is no answer."""
_OWNERS = ("nvidia-ml-py", "pynvml")
"""Distributions that bring a module `pynvml`; the second, an old one, shadows the first and lacks calls."""

Field = dict[str, Any]


def _text(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _field(source: str, call: Callable[[], Any], unit: str | None = None) -> Field:
    try:
        value = _text(call())
    except pynvml.NVMLError as error:
        return {
            "status": _STATUS.get(error.value, "error"),
            "source": source,
            "unit": unit,
            "detail": f"NVML {error.value}: {error}",
        }
    except AttributeError as error:
        return {"status": "unsupported", "source": source, "unit": unit, "detail": f"no such call: {error}"}
    except (
        ValueError,
        TypeError,
        LookupError,
        ctypes.ArgumentError,
    ) as error:  # a text that is none, a number out of range
        return {"status": "error", "source": source, "unit": unit, "detail": f"not to be read: {error}"[:200]}
    return {"status": "absent" if value is None else "ok", "value": value, "source": source, "unit": unit}


def _code(call: Callable[[], Any]) -> tuple[int, Any]:
    try:
        return 0, call()
    except pynvml.NVMLError as error:
        return int(error.value), None
    except (ValueError, TypeError, ctypes.ArgumentError):
        return _NOT_TO_BE_READ, None


def _cuda(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _links(handle: Any) -> tuple[int, int]:
    active = count = 0
    for link in range(_MOST_LINKS):
        code, state = _code(lambda link=link: pynvml.nvmlDeviceGetNvLinkState(handle, link))  # type: ignore[misc]
        if code:
            break
        count += 1
        active += bool(state)
    return active, count


def _fabric(handle: Any) -> Any:
    for struct in ("c_nvmlGpuFabricInfo_v3_t", "c_nvmlGpuFabricInfo_v2_t"):
        info = getattr(pynvml, struct)()
        code, _ = _code(lambda info=info: pynvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info)))  # type: ignore[misc]
        if code == 0:
            return info
        if code != pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
            raise pynvml.NVMLError(code)
    raise pynvml.NVMLError(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)


def _processes(handle: Any) -> list[dict[str, Any]]:
    rows = []
    for found in pynvml.nvmlDeviceGetComputeRunningProcesses(handle):
        code, name = _code(lambda found=found: pynvml.nvmlSystemGetProcessName(found.pid))  # type: ignore[misc]
        rows.append({"pid": found.pid, "name": _text(name) if code == 0 else "", "used_bytes": found.usedGpuMemory})
    return rows


def _ecc(handle: Any, counter: int) -> int:
    return int(pynvml.nvmlDeviceGetTotalEccErrors(handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, counter))


def _gpu(handle: Any) -> dict[str, Field]:
    n = pynvml
    memory = _field("nvmlDeviceGetMemoryInfo", lambda: _memory(handle))
    processes = _field("nvmlDeviceGetComputeRunningProcesses", lambda: _processes(handle))
    links = _field("nvmlDeviceGetNvLinkState", lambda: _links(handle))
    ecc = _field("nvmlDeviceGetEccMode", lambda: n.nvmlDeviceGetEccMode(handle))
    remap = _field("nvmlDeviceGetRemappedRows", lambda: n.nvmlDeviceGetRemappedRows(handle))
    mig = _field("nvmlDeviceGetMigMode", lambda: n.nvmlDeviceGetMigMode(handle))
    fabric = _field("nvmlDeviceGetGpuFabricInfoV", lambda: _fabric(handle))

    def part(whole: Field, take: Callable[[Any], Any], unit: str | None = None) -> Field:
        if whole["status"] != "ok":
            return {**whole, "unit": unit}
        return {"status": "ok", "value": take(whole["value"]), "source": whole["source"], "unit": unit}

    def unowned(values: dict[str, int]) -> int | None:
        if processes["status"] != "ok" or any(row["used_bytes"] is None for row in processes["value"]):
            return None
        return max(0, values["used"] - int(sum(row["used_bytes"] for row in processes["value"])))

    fields = {
        "uuid": _field("nvmlDeviceGetUUID", lambda: n.nvmlDeviceGetUUID(handle)),
        "name": _field("nvmlDeviceGetName", lambda: n.nvmlDeviceGetName(handle)),
        "bus_id": _field("nvmlDeviceGetPciInfo", lambda: _text(n.nvmlDeviceGetPciInfo(handle).busId)),
        "minor": _field("nvmlDeviceGetMinorNumber", lambda: n.nvmlDeviceGetMinorNumber(handle)),
        "compute_capability": _field(
            "nvmlDeviceGetCudaComputeCapability", lambda: "{}.{}".format(*n.nvmlDeviceGetCudaComputeCapability(handle))
        ),
        "vbios": _field("nvmlDeviceGetVbiosVersion", lambda: n.nvmlDeviceGetVbiosVersion(handle)),
        "memory_total_bytes": part(memory, lambda m: m["total"], "bytes"),
        "memory_reserved_bytes": part(memory, lambda m: m["reserved"], "bytes"),
        "memory_used_bytes": part(memory, lambda m: m["used"], "bytes"),
        "memory_free_bytes": part(memory, lambda m: m["free"], "bytes"),
        "memory_unowned_bytes": part(memory, unowned, "bytes"),
        "processes": processes,
        "ecc_current": part(ecc, lambda modes: bool(modes[0])),
        "ecc_pending": part(ecc, lambda modes: bool(modes[1])),
        "ecc_uncorrected_volatile": _field("nvmlDeviceGetTotalEccErrors", lambda: _ecc(handle, n.NVML_VOLATILE_ECC)),
        "ecc_uncorrected_aggregate": _field("nvmlDeviceGetTotalEccErrors", lambda: _ecc(handle, n.NVML_AGGREGATE_ECC)),
        "remap_pending": part(remap, lambda rows: bool(rows[2])),
        "remap_failed": part(remap, lambda rows: bool(rows[3])),
        "nvlink_active": part(links, lambda pair: pair[0]),
        "nvlink_count": part(links, lambda pair: pair[1]),
        "fabric_state": part(fabric, lambda info: _FABRIC_STATES[info.state] if info.state < 4 else str(info.state)),
        "fabric_status": part(fabric, lambda info: info.status),
        "fabric_clique": part(fabric, lambda info: info.cliqueId),
        "fabric_cluster": part(fabric, lambda info: str(uuid.UUID(bytes=bytes(info.clusterUuid)))),
        "mig_current": part(mig, lambda modes: bool(modes[0])),
        "mig_pending": part(mig, lambda modes: bool(modes[1])),
        "compute_mode": _field(
            "nvmlDeviceGetComputeMode",
            lambda: _COMPUTE_MODES.get(mode := n.nvmlDeviceGetComputeMode(handle), str(mode)),
        ),
        "persistence": _field("nvmlDeviceGetPersistenceMode", lambda: bool(n.nvmlDeviceGetPersistenceMode(handle))),
        "clocks_reasons": _field(
            "nvmlDeviceGetCurrentClocksEventReasons", lambda: n.nvmlDeviceGetCurrentClocksEventReasons(handle)
        ),
        "pcie_width": _field("nvmlDeviceGetCurrPcieLinkWidth", lambda: n.nvmlDeviceGetCurrPcieLinkWidth(handle)),
        "pcie_width_max": _field("nvmlDeviceGetMaxPcieLinkWidth", lambda: n.nvmlDeviceGetMaxPcieLinkWidth(handle)),
        "pcie_gen": _field(
            "nvmlDeviceGetCurrPcieLinkGeneration", lambda: n.nvmlDeviceGetCurrPcieLinkGeneration(handle)
        ),
        "pcie_gen_max": _field(
            "nvmlDeviceGetMaxPcieLinkGeneration", lambda: n.nvmlDeviceGetMaxPcieLinkGeneration(handle)
        ),
        "pcie_replays": _field("nvmlDeviceGetPcieReplayCounter", lambda: n.nvmlDeviceGetPcieReplayCounter(handle)),
    }
    fields["recovery_action"] = _field("nvmlDeviceGetFieldValues", lambda: _recovery(handle))
    if memory["status"] == "ok" and fields["memory_unowned_bytes"].get("value") is None:
        asked = processes["status"] != "ok"
        why = processes.get("detail", "") if asked else "the memory of a process was not told"
        fields["memory_unowned_bytes"] |= {"status": processes["status"] if asked else "absent", "detail": why}
    return fields


def _recovery(handle: Any) -> int | None:
    """Return what the driver asks for; None where this library or driver does not tell."""
    found = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])[0]
    if found.nvmlReturn:
        raise pynvml.NVMLError(found.nvmlReturn)
    return int(found.value.uiVal)


def _memory(handle: Any) -> dict[str, int]:
    try:
        info = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    except pynvml.NVMLError as error:
        if error.value not in {13, 25}:
            raise
        info = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return {"total": info.total, "reserved": getattr(info, "reserved", 0), "used": info.used, "free": info.free}


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def read() -> Iterator[dict[str, Field]]:
    """Yield the fields `nvml.*`, then those `gpu.*` of one GPU after the other: what was read before a crash is kept."""
    owners = ", ".join(name for name in _OWNERS if _is_installed(name))
    fields: dict[str, Field] = {"nvml.distribution": {"status": "ok", "value": owners, "source": "metadata"}}
    code, _ = _code(pynvml.nvmlInit)
    fields["nvml.error"] = {"status": "ok", "value": code, "source": "nvmlInit"}
    if code:
        fields["nvml.error"]["detail"] = str(pynvml.NVMLError(code)) if code < 999 else "Unknown Error"
        yield fields
        return
    fields["nvml.driver"] = _field("nvmlSystemGetDriverVersion", pynvml.nvmlSystemGetDriverVersion)
    fields["nvml.version"] = _field("nvmlSystemGetNVMLVersion", pynvml.nvmlSystemGetNVMLVersion)
    fields["nvml.cuda"] = _field(
        "nvmlSystemGetCudaDriverVersion_v2", lambda: _cuda(pynvml.nvmlSystemGetCudaDriverVersion_v2())
    )
    fields["nvml.count"] = _field("nvmlDeviceGetCount", pynvml.nvmlDeviceGetCount)
    yield fields
    for index in range(fields["nvml.count"].get("value") or 0):
        code, handle = _code(lambda index=index: pynvml.nvmlDeviceGetHandleByIndex(index))  # type: ignore[misc]
        one: dict[str, Field] = {
            f"gpu.{index}.error": {"status": "ok", "value": code, "source": "nvmlDeviceGetHandleByIndex"}
        }
        if code == 0:
            one |= {f"gpu.{index}.{name}": field for name, field in _gpu(handle).items()}
        yield one


def _used(index: int) -> int:
    return int(_memory(pynvml.nvmlDeviceGetHandleByIndex(index))["used"])


def watch() -> None:
    """Print the monotonic clock in milliseconds and the bytes in use of each GPU (`-` = not told), once a second."""
    if _code(pynvml.nvmlInit)[0]:
        return
    indexes = range(pynvml.nvmlDeviceGetCount())
    while indexes:
        found = [_code(lambda index=index: _used(index)) for index in indexes]  # type: ignore[misc]
        used = ("-" if code else str(value) for code, value in found)
        print(round(time.monotonic() * 1000), *used, flush=True)
        time.sleep(1)


if __name__ == "__main__":
    if "--watch" in sys.argv:
        watch()
    else:
        for part in read():
            print(json.dumps(part), flush=True)
