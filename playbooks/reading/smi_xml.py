"""`nvidia-smi -q -x` to values, element by element, so that a cut file still gives its complete GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from xml.etree.ElementTree import Element, ParseError, iterparse

from playbooks.errors import UnreadableInput
from playbooks.reading.smi_values import Gpu, Process, boolean, memory_mib, text_or_none, version

_DOCTYPE = re.compile(r"<!DOCTYPE[^\[>]*>")


@dataclass(frozen=True, slots=True)
class SmiXml:
    """What the document says; None = it does not."""

    driver: str | None
    cuda: str | None
    header_style: str | None
    attached: int | None
    gpus: tuple[Gpu, ...]
    processes: tuple[Process, ...]


def read(text: str) -> SmiXml:
    """Read the document in the text; what precedes or follows it is passed over.

    Raises:
        UnreadableInput: it declares entities, which nvidia-smi never does and which could blow up.
    """
    start = text.index("<nvidia_smi_log")
    if "<!ENTITY" in text or "<!DOCTYPE" in _DOCTYPE.sub("", text):
        raise UnreadableInput("expected the XML of nvidia-smi -q -x, found a document that declares entities")
    top: dict[str, str] = {}
    gpus: list[Gpu] = []
    processes: list[Process] = []
    for element in _elements(text[start:]):
        if element.tag == "gpu":
            index = len(gpus)
            gpus.append(_gpu(element, index))
            processes.extend(_processes(element, index))
            element.clear()
        elif element.tag in _TOP:
            top.setdefault(element.tag, element.text or "")
    attached = top.get("attached_gpus", "").strip()
    return SmiXml(
        driver=version(top.get("kmd_version", "")) or version(top.get("driver_version", "")),
        cuda=version(top.get("cuda_umd_version", "")) or version(top.get("cuda_version", "")),
        header_style="kmd_umd" if "kmd_version" in top else "driver_cuda" if "driver_version" in top else None,
        attached=int(attached) if attached.isdigit() else None,
        gpus=tuple(gpus),
        processes=tuple(processes),
    )


_TOP = frozenset({"driver_version", "kmd_version", "cuda_version", "cuda_umd_version", "attached_gpus"})


def _elements(text: str) -> Iterator[Element]:
    end = text.find("</nvidia_smi_log>")
    whole = text if end < 0 else text[: end + len("</nvidia_smi_log>")]
    try:
        for _, element in iterparse(BytesIO(whole.encode(errors="replace"))):  # noqa: S314  # declared entities are refused above
            yield element
    except ParseError:
        return  # cut or damaged: what is complete before it counts


def _gpu(gpu: Element, index: int) -> Gpu:
    def at(path: str) -> str:
        return gpu.findtext(path) or ""

    return Gpu(
        index=index,
        name=text_or_none(at("product_name")),
        uuid=text_or_none(at("uuid")),
        bus_id=text_or_none(at("pci/pci_bus_id")) or gpu.get("id"),
        memory_total_mib=memory_mib(at("fb_memory_usage/total")),
        memory_used_mib=memory_mib(at("fb_memory_usage/used")),
        mig=boolean(at("mig_mode/current_mig")),
        mig_pending=boolean(at("mig_mode/pending_mig")),
        persistence=boolean(at("persistence_mode")),
        fabric=text_or_none(at("fabric/state")),
        fabric_clique=text_or_none(at("fabric/cliqueId")),
        fabric_cluster=text_or_none(at("fabric/clusterUuid")),
        remap_pending=boolean(at("remapped_rows/remapped_row_pending")),
        remap_failed=boolean(at("remapped_rows/remapped_row_failure")),
        recovery_action=text_or_none(at("gpu_recovery_action")),
    )


def _processes(gpu: Element, index: int) -> Iterator[Process]:
    for info in gpu.iterfind("processes/process_info"):
        pid = (info.findtext("pid") or "").strip()
        if pid.isdigit():
            yield Process(
                int(pid),
                text_or_none(info.findtext("process_name") or ""),
                memory_mib(info.findtext("used_memory") or ""),
                gpu=index,
                type=text_or_none(info.findtext("type") or ""),
            )
