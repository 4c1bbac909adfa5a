"""Output of nvidia-smi to facts: table (R535 to R615), `-q`, `-q -x`, `--query-… --format=csv`, `-L` and its error texts.

Text of any origin: parts around the output are passed over, a cut one gives what it still says. Nothing is guessed: a
cell such as `[N/A]` or `ERR!` is None, never 0. What the facts mean for a launch is judged elsewhere. nvidia-smi that
works proves NVML only; it never touches libcuda.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from playbooks.errors import UnreadableInput
from playbooks.reading import smi_csv, smi_query, smi_xml
from playbooks.reading.fields import FieldValue
from playbooks.reading.fields import read as field
from playbooks.reading.smi_values import Gpu, Process, boolean, memory_mib, version
from playbooks.vocabulary import FieldStatus

MIB = 1024 * 1024


class SmiFormat(StrEnum):
    """Which of its layouts the output has; the first that is found in the text."""

    TABLE = "table"
    QUERY = "q"
    XML = "xml"
    CSV = "csv"
    CSV_APPS = "csv-apps"
    LIST = "L"
    ERROR = "error"


class SmiError(StrEnum):
    """What nvidia-smi says instead of facts; the codes are those of NVML (facts of the vendor's documents)."""

    NO_PERMISSION = "no_permission"
    NO_DEVICES = "no_devices"
    DRIVER_NOT_LOADED = "driver_not_loaded"
    LIBRARY_NOT_FOUND = "library_not_found"
    INFOROM_CORRUPTED = "inforom_corrupted"
    GPU_LOST = "gpu_lost"
    RESET_REQUIRED = "reset_required"
    BLOCKED_BY_OS = "blocked_by_os"
    LIB_RM_VERSION_MISMATCH = "lib_rm_version_mismatch"
    CONTAINER_LOST_DEVICES = "container_lost_devices"
    NVIDIA_SMI_ABSENT = "nvidia_smi_absent"


_ERRORS: tuple[tuple[re.Pattern[str], SmiError, int], ...] = tuple(
    (re.compile(pattern), error, code)
    for pattern, error, code in (
        (r"Driver/library version mismatch|NVML/RM version mismatch", SmiError.LIB_RM_VERSION_MISMATCH, 18),
        (r"couldn't communicate with the NVIDIA driver|NVML: Driver Not Loaded", SmiError.DRIVER_NOT_LOADED, 9),
        (r"Failed to initialize NVML: Insufficient Permissions", SmiError.NO_PERMISSION, 4),
        (
            r"couldn't find libnvidia-ml\.so|Failed to initialize NVML: .*[Ll]ibrary not found",
            SmiError.LIBRARY_NOT_FOUND,
            12,
        ),
        (r"GPU is lost\.", SmiError.GPU_LOST, 15),
        (r"GPU requires reset", SmiError.RESET_REQUIRED, 16),
        (r"infoROM is corrupted", SmiError.INFOROM_CORRUPTED, 14),
        (r"blocked by the operating system", SmiError.BLOCKED_BY_OS, 17),
        (r"Failed to initialize NVML: Unknown Error", SmiError.CONTAINER_LOST_DEVICES, 255),
        (r"No devices were found", SmiError.NO_DEVICES, 6),
        (
            r"nvidia-smi: (?:command )?not found|\"nvidia-smi\": executable file not found",
            SmiError.NVIDIA_SMI_ABSENT,
            127,
        ),
    )
)
_NVML_LIBRARY = re.compile(r"NVML library version:\s*([\d.]+)")
_HEADER_DRIVER = re.compile(r"\b(Driver|KMD) Version\s*:\s*([\d.]+)")
_HEADER_CUDA = re.compile(r"\bCUDA(?: UMD)? Version\s*:\s*([\d.]+)")
_GPU_ROW = re.compile(
    r"\|\s+(\d+)\s+(\S.*?)\s+(On|Off|N/A)\s+\|\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s"
)
_MEMORY_ROW = re.compile(r"(\d+|N/A|ERR!)\s*W?\s*/\s*(\d+|N/A|ERR!)\s*W?\s*\|\s*(\S+)\s*/\s*(\S+)\s*\|")
_MIG_CELL = re.compile(r"\|\s*\|\s*\|\s*(Enabled|Disabled|N/A)\*?\s*\|")
_MIG_DEVICE = re.compile(r"\|\s+(\d+)\s+\d+\s+\d+\s+\d+\s+\|\s*\d+MiB\s*/")
_PROCESS_ROW = re.compile(
    r"\|\s+(\d+)\s+(?:\S+\s+\S+\s+)?(\d+)\s+(C\+G|M\+C|C|G)\s+(\S.*?)\s+(\d+MiB|N/A|\[[^\]]*\])\s*\|"
)
_LIST_ROW = re.compile(r"^\s*GPU (\d+): (.+?) \(UUID: (GPU-[0-9a-fA-F-]+)\)", re.MULTILINE)
_NAME_WIDTH = 29
"""The table cuts a product name at 30 columns; a name that fills them (less a trailing blank) may be cut."""


@dataclass(frozen=True, slots=True)
class SmiFacts:
    """What one output says. None = it does not say.

    driver: the kernel module's version (`Driver Version`, from R610 on `KMD Version`).
    cuda: highest CUDA of the libcuda that was found first; raised by compat libraries inside an image.
    exit_code: what nvidia-smi exits with for this output.
    processes_listed: whether a process list was printed; an empty one is not proof that no process exists.
    """

    format: SmiFormat
    driver: str | None = None
    cuda: str | None = None
    header_style: str | None = None
    """`driver_cuda` up to R595, `kmd_umd` from R610 on; None where there is no header."""
    gpu_count: int | None = None
    gpus: tuple[Gpu, ...] = ()
    processes: tuple[Process, ...] = ()
    processes_listed: bool = False
    error: SmiError | None = None
    error_text: str | None = None
    exit_code: int = 0
    nvml_library: str | None = None

    @property
    def unowned(self) -> tuple[Gpu, ...]:
        """GPUs with memory in use that no listed process explains: a leftover, or processes outside the PID namespace."""
        if not self.processes_listed:
            return ()
        owned = {process.gpu for process in self.processes} | {process.gpu_uuid for process in self.processes} - {None}
        return tuple(
            gpu
            for gpu in self.gpus
            if (gpu.memory_used_mib or 0) > _IDLE_MIB and gpu.index not in owned and gpu.uuid not in owned
        )


_IDLE_MIB = 600
"""An idle GPU shows up to some hundred MiB without a process: ECC, display, a persistence daemon's context."""


def looks_like(text: str) -> bool:
    """Whether the text holds output of nvidia-smi that `read` understands."""
    return _format_of(text) is not None


def read(text: str) -> SmiFacts:
    """Read output of nvidia-smi, whatever its layout.

    Raises:
        UnreadableInput: nothing in the text is output of nvidia-smi.
    """
    match _format_of(text):
        case SmiFormat.XML:
            found = smi_xml.read(text)
            return SmiFacts(
                SmiFormat.XML,
                driver=found.driver,
                cuda=found.cuda,
                header_style=found.header_style,
                gpu_count=found.attached if found.attached is not None else len(found.gpus),
                gpus=found.gpus,
                processes=found.processes,
                processes_listed=bool(found.gpus),
            )
        case SmiFormat.QUERY:
            return _read_query(text)
        case SmiFormat.TABLE:
            return _read_table(text)
        case SmiFormat.CSV | SmiFormat.CSV_APPS:
            return _read_csv(text)
        case SmiFormat.LIST:
            gpus = tuple(Gpu(index=int(i), name=name, uuid=uuid) for i, name, uuid in _LIST_ROW.findall(text))
            return SmiFacts(SmiFormat.LIST, gpu_count=len(gpus), gpus=gpus)
        case SmiFormat.ERROR:
            return _read_error(text)
        case None:
            head = text.strip().splitlines()[:1]
            raise UnreadableInput(
                f"expected output of nvidia-smi (table, -q, -q -x, --format=csv, -L or its error), found {head[0][:80]!r}"
                if head
                else "expected output of nvidia-smi, found nothing"
            )


def to_facts(smi: SmiFacts, source: str = "nvidia-smi") -> dict[str, FieldValue]:
    """Return what the output says as fingerprint fields, for a scene of which only this text is left."""
    if smi.error is not None:
        detail = smi.error_text or smi.error.value
        found = {"nvml.error": field(smi.exit_code, source, detail=detail)}
        if smi.error is SmiError.NVIDIA_SMI_ABSENT:
            found["nvml.error"] = FieldValue(status=FieldStatus.UNSUPPORTED, source=source, detail=detail)
    else:
        found = {"nvml.error": field(0, source)}
    found["driver.loaded"] = field(smi.driver, source)
    found["nvml.driver"] = field(smi.driver, source)
    found["nvml.cuda"] = field(smi.cuda, source)
    found["nvml.count"] = field(smi.gpu_count, source)
    unowned = {gpu.index for gpu in smi.unowned}
    for position, gpu in enumerate(smi.gpus):
        name = f"gpu.{gpu.index if gpu.index is not None else position}"
        total, used = gpu.memory_total_mib, gpu.memory_used_mib
        leaves = {
            "uuid": gpu.uuid,
            "name": None if gpu.name_cut else gpu.name,
            "bus_id": gpu.bus_id,
            "compute_capability": gpu.compute_capability,
            "mig_current": gpu.mig,
            "mig_pending": gpu.mig_pending,
            "persistence": gpu.persistence,
            "fabric_state": gpu.fabric.lower().replace(" ", "_") if gpu.fabric else None,
            "fabric_clique": gpu.fabric_clique,
            "fabric_cluster": gpu.fabric_cluster,
            "remap_pending": gpu.remap_pending,
            "remap_failed": gpu.remap_failed,
            "error": SMI_LOST if gpu.lost else None,
        }
        found.update({f"{name}.{leaf}": field(value, source) for leaf, value in leaves.items() if value is not None})
        sizes = {
            "memory_total_bytes": total,
            "memory_used_bytes": used,
            "memory_unowned_bytes": used if gpu.index in unowned else None,
        }
        found.update(
            {f"{name}.{leaf}": field(mib * MIB, source, unit="bytes") for leaf, mib in sizes.items() if mib is not None}
        )
        if smi.processes_listed:
            listed = [
                {"pid": p.pid, "name": p.name, "used_bytes": None if p.used_mib is None else p.used_mib * MIB}
                for p in smi.processes
                if p.gpu == gpu.index or (p.gpu_uuid is not None and p.gpu_uuid == gpu.uuid)
            ]
            found[f"{name}.processes"] = field(listed, source)
    return found


SMI_LOST = 15
"""NVML's code for a lost GPU."""


def _format_of(text: str) -> SmiFormat | None:
    if "<nvidia_smi_log" in text:
        return SmiFormat.XML
    if "NVSMI LOG" in text:
        return SmiFormat.QUERY
    if _GPU_ROW.search(text) or ("NVIDIA-SMI" in text and _HEADER_DRIVER.search(text)):
        return SmiFormat.TABLE
    tables = smi_csv.read(text)
    if tables.gpu_table or tables.process_table:
        return SmiFormat.CSV if tables.gpu_table else SmiFormat.CSV_APPS
    if _LIST_ROW.search(text):
        return SmiFormat.LIST
    return SmiFormat.ERROR if any(pattern.search(text) for pattern, _, _ in _ERRORS) else None


def _read_error(text: str) -> SmiFacts:
    for pattern, error, code in _ERRORS:
        if match := pattern.search(text):
            line = text[text.rfind("\n", 0, match.start()) + 1 :].splitlines()[0].strip()
            library = _NVML_LIBRARY.search(text)
            return SmiFacts(
                SmiFormat.ERROR,
                error=error,
                error_text=line,
                exit_code=code,
                nvml_library=library[1] if library else None,
            )
    raise AssertionError(text)  # pragma: no cover  # the format was judged by the same patterns


def _header(text: str) -> tuple[str | None, str | None, str | None]:
    driver, cuda = _HEADER_DRIVER.search(text), _HEADER_CUDA.search(text)
    style = None if driver is None else "kmd_umd" if driver[1] == "KMD" else "driver_cuda"
    return (version(driver[2]) if driver else None), (version(cuda[1]) if cuda else None), style


def _read_table(text: str) -> SmiFacts:
    driver, cuda, style = _header(text)
    gpus: list[Gpu] = []
    processes: list[Process] = []
    in_processes = False
    for line in text.splitlines():
        in_processes = in_processes or "Processes:" in line
        if in_processes:
            if row := _PROCESS_ROW.search(line):
                processes.append(Process(int(row[2]), row[4].strip(), memory_mib(row[5]), gpu=int(row[1]), type=row[3]))
        elif row := _GPU_ROW.search(line):
            name = row[2].strip()
            gpus.append(
                Gpu(
                    index=int(row[1]),
                    name=name.removesuffix("..."),
                    name_cut=name.endswith("...") or len(name) >= _NAME_WIDTH,
                    bus_id=row[4],
                    persistence=boolean(row[3]),
                )
            )
        elif gpus:
            gpus[-1] = _with_row(gpus[-1], line)
            if row := _MIG_DEVICE.search(line):
                gpus = [gpu.having(mig_devices=(gpu.mig_devices or 0) + (gpu.index == int(row[1]))) for gpu in gpus]
    return SmiFacts(
        SmiFormat.TABLE,
        driver=driver,
        cuda=cuda,
        header_style=style,
        gpu_count=len(gpus) or None,
        gpus=tuple(gpus),
        processes=tuple(processes),
        processes_listed=in_processes,
    )


def _with_row(gpu: Gpu, line: str) -> Gpu:
    """Return the GPU with what the second and third line of its row add; MIG devices below are not its own rows."""
    if gpu.memory_total_mib is None and (row := _MEMORY_ROW.search(line)):
        return gpu.having(
            power_cap_w=int(row[2]) if row[2].isdigit() else None,
            memory_used_mib=memory_mib(row[3]),
            memory_total_mib=memory_mib(row[4]),
        )
    if gpu.mig is None and (row := _MIG_CELL.search(line)):
        return gpu.having(mig=boolean(row[1]), mig_pending=_other(row[0], boolean(row[1])))
    return gpu


def _other(cell: str, current: bool | None) -> bool | None:
    """A star behind the MIG mode says that another mode is pending."""
    return not current if current is not None and "*" in cell else current


def _read_query(text: str) -> SmiFacts:
    driver, cuda, _ = _header(text)
    found = smi_query.read(text)
    return SmiFacts(
        SmiFormat.QUERY,
        driver=driver,
        cuda=cuda,
        header_style="kmd_umd" if "\nKMD Version" in text else "driver_cuda",
        gpu_count=found.attached if found.attached is not None else len(found.gpus),
        gpus=found.gpus,
        processes=found.processes,
        processes_listed=found.processes_listed,
    )


def _read_csv(text: str) -> SmiFacts:
    found = smi_csv.read(text)
    return SmiFacts(
        SmiFormat.CSV if found.gpu_table else SmiFormat.CSV_APPS,
        driver=found.driver,
        gpu_count=len(found.gpus) if found.gpu_table else None,
        gpus=found.gpus,
        processes=found.processes,
        processes_listed=found.process_table,
    )
