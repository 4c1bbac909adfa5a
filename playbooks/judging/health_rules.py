"""Rules of the host alone: driver state, hardware, fabric, leftovers, other tenants - what makes a launch there prove little."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from playbooks.judging.disagreement import Disagreement, Rule, shown
from playbooks.reading.fields import Facts, indexes, value_of
from playbooks.vocabulary import FieldStatus

_NVML: dict[Any, str] = {
    4: "no permission to open the devices",
    6: "the driver is up, but no GPU is usable",
    9: "the kernel module is not loaded",
    12: "libnvidia-ml.so.1 cannot be loaded",
    14: "an infoROM is corrupted: hardware",
    15: "a GPU is lost: reboot",
    16: "a GPU wants a reset",
    17: "blocked by the operating system",
    18: "library and kernel module are of two versions: a reboot or module reload is pending",
    999: "unknown; in a container: access to the devices was lost, recreate it",
    "hang": "NVML did not answer in time: the driver hangs (see Xid 119)",
}
_NO_DRIVER = frozenset({9, 12})
"""What NVML answers on any machine without a GPU: a finding only where there is one, or its driver."""
_UNOWNED_BYTES = 1 << 28
"""Less is the driver's own context; the same limit for every GPU."""
_SLOWED = {0x8: "hardware slowdown", 0x40: "hardware thermal slowdown", 0x80: "power brake"}
_RECOVERY = {
    1: "GPU reset",
    2: "node reboot",
    3: "drain P2P",
    4: "drain and reset",
    5: "recover the IMEX domain",
    6: "bus reset",
}
_XID_DOWNSTREAM = frozenset({43, 45})
_XID_INFORMATIONAL = frozenset({63, 92, 121, 154, 157})
_MOST_NAMED = 4


def _driver(host: Facts, _container: Facts) -> Iterator[Disagreement]:
    state = value_of(host, "driver.state")
    if state and state != "consistent":
        loaded, disk = value_of(host, "driver.loaded"), value_of(host, "driver.on_disk")
        text = f"driver state {state}: loaded {shown(loaded)}, on disk {shown(disk)}"
        yield Disagreement("driver-state", ("driver.state", "driver.loaded", "driver.on_disk"), text)
    half = value_of(host, "driver.packages_half_installed")
    if half:
        yield Disagreement(
            "driver-packages", ("driver.packages_half_installed",), f"half-installed driver packages: {shown(half)}"
        )
    error = value_of(host, "nvml.error")
    hardware = value_of(host, "driver.loaded") or value_of(host, "driver.on_disk") or value_of(host, "pci.gpu_count")
    if error not in {None, 0} and (hardware or error not in _NO_DRIVER):
        yield Disagreement(
            "nvml-error", ("nvml.error",), f"NVML answers {error}: {_NVML.get(error, 'see the table of NVML errors')}"
        )
    asked = host.get("nvml.error")
    if asked is not None and asked.status is FieldStatus.TIMEOUT:
        yield Disagreement("nvml-hang", ("nvml.error",), _NVML["hang"])
    if asked is not None and asked.status is FieldStatus.ERROR and hardware:
        yield Disagreement("nvml-error", ("nvml.error",), f"NVML could not be read to its end: {asked.detail}")
    if value_of(host, "os.reboot_pending"):
        yield Disagreement(
            "reboot-pending", ("os.reboot_pending",), "packages ask for a reboot: it may change the result", "note"
        )


def _modules(host: Facts, _container: Facts) -> Iterator[Disagreement]:
    if value_of(host, "modules.nouveau"):
        yield Disagreement(
            "nouveau", ("modules.nouveau",), "the module nouveau is loaded: it keeps the driver off the GPUs"
        )
    uvm = host.get("modules.nvidia_uvm")
    if uvm is not None and uvm.status is FieldStatus.ABSENT and value_of(host, "driver.loaded"):
        yield Disagreement(
            "uvm-missing", ("modules.nvidia_uvm",), "nvidia_uvm is not loaded: CUDA does not initialise without it"
        )


def _counts(host: Facts, _container: Facts) -> Iterator[Disagreement]:
    count = value_of(host, "nvml.count")
    for other, what in (("proc.gpu_count", "the kernel driver"), ("pci.gpu_count", "the PCI bus")):
        more = value_of(host, other)
        if isinstance(count, int) and isinstance(more, int) and more > count:
            yield Disagreement(
                "gpu-lost", ("nvml.count", other), f"{what} knows {more} GPUs, NVML counts {count}: one failed to start"
            )
    lost = [index for index in indexes(host, "gpu") if value_of(host, f"gpu.{index}.error")]
    if lost:
        codes = ", ".join(
            f"GPU {index}: {_NVML.get(code := value_of(host, f'gpu.{index}.error'), f'NVML error {code}')}"
            for index in lost
        )
        yield Disagreement("gpu-error", tuple(f"gpu.{index}.error" for index in lost), codes)


def _gpus(host: Facts, _container: Facts) -> Iterator[Disagreement]:
    def having(leaf: str, *wanted: Any) -> tuple[int, ...]:
        return tuple(index for index in indexes(host, "gpu") if value_of(host, f"gpu.{index}.{leaf}") in wanted)

    for leaf, wanted, rule, means in (
        ("remap_pending", (True,), "remap-pending", "a row remap waits for a GPU reset"),
        ("remap_failed", (True,), "remap-failed", "a row remap failed: hardware"),
        ("mig_current", (True,), "mig-enabled", "MIG is on: no tensor parallelism over these GPUs"),
        ("compute_mode", ("prohibited",), "compute-mode", "compute mode forbids CUDA"),
        (
            "fabric_state",
            ("not_started", "in_progress"),
            "fabric",
            "the fabric is not completed: CUDA answers 802 until it is",
        ),
    ):
        found = having(leaf, *wanted)
        if found:
            yield Disagreement(rule, tuple(f"gpu.{i}.{leaf}" for i in found), f"{_named(found)}: {means}")
    for index in indexes(host, "gpu"):
        yield from _one_gpu(host, index)


def _one_gpu(host: Facts, index: int) -> Iterator[Disagreement]:
    def at(leaf: str) -> Any:
        return value_of(host, f"gpu.{index}.{leaf}")

    def found(rule: str, leaf: str, text: str, severity: Any = "finding") -> Disagreement:
        return Disagreement(rule, (f"gpu.{index}.{leaf}",), f"GPU {index}: {text}", severity)

    current, pending = at("mig_current"), at("mig_pending")
    if current is not None and pending is not None and current != pending:
        yield found("mig-pending", "mig_pending", "a change of MIG waits for a reset")
    if at("ecc_uncorrected_volatile"):
        yield found(
            "ecc",
            "ecc_uncorrected_volatile",
            f"{at('ecc_uncorrected_volatile')} uncorrected memory errors since the driver was loaded",
        )
    if at("recovery_action"):
        yield found(
            "recovery-action",
            "recovery_action",
            f"the driver asks for: {_RECOVERY.get(at('recovery_action'), at('recovery_action'))}",
        )
    slowed = [
        name for bit, name in _SLOWED.items() if isinstance(at("clocks_reasons"), int) and at("clocks_reasons") & bit
    ]
    if slowed:
        yield found("clocks", "clocks_reasons", f"clocks are held down: {', '.join(slowed)}", "note")
    width, most = at("pcie_width"), at("pcie_width_max")
    if isinstance(width, int) and isinstance(most, int) and 0 < width < most:
        yield found("pcie-width", "pcie_width", f"PCIe runs {width} of {most} lanes", "note")
    if at("compute_mode") == "exclusive_process" and at("processes"):
        yield found("exclusive-mode", "compute_mode", "exclusive compute mode, and a process holds it: error 46")
    if at("fabric_status"):
        yield found("fabric-status", "fabric_status", f"the fabric's registration answers {at('fabric_status')}")


def _services(host: Facts, _container: Facts) -> Iterator[Disagreement]:
    fabric, driver = value_of(host, "service.fabric_manager_version"), value_of(host, "driver.loaded")
    if fabric and driver and fabric != driver:
        fields = ("service.fabric_manager_version", "driver.loaded")
        yield Disagreement("fabric-version", fields, f"fabric manager {fabric}, driver {driver}: they must be equal")
    for service, name in (("service.fabric_manager", "the fabric manager"), ("service.imex", "IMEX")):
        if value_of(host, service) == "failed":
            yield Disagreement("service-failed", (service,), f"{name} failed to start")
    down = sorted(
        name.removeprefix("rdma.").removesuffix(".state")
        for name in host
        if name.startswith("rdma.")
        and name.endswith(".state")
        and "ACTIVE" not in str(value_of(host, name) or "ACTIVE")
    )
    if down:
        text = f"RDMA ports that are not active: {', '.join(down[:_MOST_NAMED])}"
        yield Disagreement("rdma-port", tuple(f"rdma.{name}.state" for name in down), text, "note")


def _leftovers(host: Facts, _container: Facts) -> Iterator[Disagreement]:
    unowned = tuple(
        index
        for index in indexes(host, "gpu")
        if isinstance(held := value_of(host, f"gpu.{index}.memory_unowned_bytes"), int) and held > _UNOWNED_BYTES
    )
    if unowned:
        total = sum(value_of(host, f"gpu.{index}.memory_unowned_bytes") for index in unowned)
        text = f"{_named(unowned)} hold {total >> 20} MiB that no listed process owns: a leftover, not a clean node"
        yield Disagreement(
            "memory-without-owner", tuple(f"gpu.{index}.memory_unowned_bytes" for index in unowned), text
        )
    for name, words in (("leftovers", "an earlier launch left behind"), ("tenants", "others use the GPUs")):
        found = value_of(host, name)
        if found:
            yield Disagreement(name, (name,), f"{words}: {_first_of(found)}")


def _first_of(found: object) -> str:
    """Return the first few of a list as words, with how many more there are; anything else as it is shown."""
    if not isinstance(found, (list, tuple)):
        return shown(found)
    named, more = ", ".join(map(str, found[:_MOST_NAMED])), len(found) - _MOST_NAMED
    return f"{named} and {more} more" if more > 0 else named


def _xids(host: Facts, _container: Facts) -> Iterator[Disagreement]:
    events = [event for event in value_of(host, "kernel.xid") or () if isinstance(event, dict)]
    telling = [event for event in events if event.get("xid") not in _XID_DOWNSTREAM]
    serious = [event for event in telling if event.get("xid") not in _XID_INFORMATIONAL]
    if telling:
        first = (serious or telling)[0]
        text = f"Xid {first.get('xid')} on {first.get('bus_id')} in the kernel log, first of {len(telling)}: {shown(first.get('text'))}"
        yield Disagreement("xid", ("kernel.xid",), text, "finding" if serious else "note")


RULES: tuple[Rule, ...] = (_driver, _modules, _counts, _gpus, _services, _leftovers, _xids)


def _named(found: tuple[int, ...]) -> str:
    listed = ", ".join(map(str, found[:8]))
    return f"GPU {listed}" if len(found) == 1 else f"GPUs {listed}"
