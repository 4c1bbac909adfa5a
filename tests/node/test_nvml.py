"""NVML through a library of our own: every state of a node is a set of fields, and nothing raises."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from playbooks.judging.consistency import compare
from playbooks.messages import FieldValue
from playbooks.reading.fields import value_of
from playbooks.vocabulary import FieldStatus
from tests.support import nvml_stub
from workers.adapters.nvml_reader import NoGpus, NvmlReader
from workers.ports import Facts

Stub = Callable[..., Facts]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nvml_stub.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def stub(library: Path, monkeypatch: pytest.MonkeyPatch) -> Stub:
    def read(*, timeout_s: float = 20, **values: Any) -> Facts:
        monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
        for name, value in values.items():
            monkeypatch.setenv(f"STUB_{name.upper()}", str(value))
        return NvmlReader(timeout_s=timeout_s).read()

    return read


def test_eight_healthy_gpus(stub: Stub) -> None:
    facts = stub()
    assert value_of(facts, "nvml.error") == 0
    assert value_of(facts, "nvml.count") == 8
    assert value_of(facts, "nvml.cuda") == "13.0"
    assert value_of(facts, "nvml.driver") == "580.105.08"
    assert value_of(facts, "gpu.7.uuid") == "GPU-00000007"
    assert value_of(facts, "gpu.0.bus_id") == "00000000:05:00.0"
    assert value_of(facts, "gpu.0.memory_total_bytes") == 288 << 30
    assert value_of(facts, "gpu.0.memory_reserved_bytes") == 1 << 30
    assert value_of(facts, "gpu.0.compute_capability") == "10.3"
    assert value_of(facts, "gpu.0.nvlink_active") == 18
    assert value_of(facts, "gpu.0.fabric_state") == "completed"
    assert value_of(facts, "gpu.0.ecc_current") is True
    assert value_of(facts, "gpu.0.compute_mode") == "default"
    assert facts["gpu.0.pcie_replays"].status is FieldStatus.UNSUPPORTED


def test_four_gpus_of_one_clique(stub: Stub) -> None:
    facts = stub(count=4, name="NVIDIA GB300")
    assert {value_of(facts, f"gpu.{index}.fabric_clique") for index in range(4)} == {5}
    assert value_of(facts, "gpu.3.fabric_cluster") == "07070707-0707-0707-0707-070707070707"


@pytest.mark.parametrize("code", [9, 12, 15, 17, 18, 999])
def test_an_error_at_the_start_is_a_value(stub: Stub, code: int) -> None:
    facts = stub(init=code)
    assert value_of(facts, "nvml.error") == code
    assert facts["nvml.error"].detail
    assert not any(name.startswith("gpu.") for name in facts)


def test_a_hang_costs_its_own_time_and_is_a_field(stub: Stub) -> None:
    start = time.monotonic()
    facts = stub(hang=60, timeout_s=0.5)
    assert facts["nvml.error"].status is FieldStatus.TIMEOUT
    assert time.monotonic() - start < 5


def test_a_lost_gpu_leaves_the_others_readable(stub: Stub) -> None:
    facts = stub(lost=3)
    assert value_of(facts, "gpu.3.error") == 15
    assert "gpu.3.uuid" not in facts
    assert [value_of(facts, f"gpu.{index}.error") for index in (2, 4)] == [0, 0]
    assert value_of(facts, "gpu.4.uuid") == "GPU-00000004"


@pytest.mark.parametrize(
    ("pid", "unowned", "processes"),
    [
        pytest.param(0, 40 << 30, [], id="memory without an owner"),
        pytest.param(4711, 0, [{"pid": 4711, "name": "/usr/bin/python3", "used_bytes": 40 << 30}], id="with an owner"),
    ],
)
def test_leftovers(stub: Stub, pid: int, unowned: int, processes: list[dict[str, object]]) -> None:
    facts = stub(count=1, used=40 << 30, pid=pid)
    assert value_of(facts, "gpu.0.memory_unowned_bytes") == unowned
    assert value_of(facts, "gpu.0.processes") == processes


@pytest.mark.parametrize(
    ("setting", "field", "expected"),
    [
        ("mig_pending", "mig_pending", True),
        ("remap_pending", "remap_pending", True),
        ("fabric", "fabric_state", "not_started"),
    ],
)
def test_what_waits_for_a_reset(stub: Stub, setting: str, field: str, expected: object) -> None:
    assert value_of(stub(count=1, **{setting: 1}), f"gpu.0.{field}") == expected


LOADED = FieldValue(status=FieldStatus.OK, value="580.105.08", source="/proc/driver/nvidia/version")


@pytest.mark.parametrize(
    ("states", "rules"),
    [
        pytest.param({}, set(), id="eight healthy GPUs"),
        pytest.param({"count": 4, "name": "NVIDIA GB300"}, set(), id="four GPUs of one clique"),
        pytest.param({"init": 9}, {"nvml-error"}, id="error 9"),
        pytest.param({"init": 12}, {"nvml-error"}, id="error 12"),
        pytest.param({"init": 15}, {"nvml-error"}, id="error 15"),
        pytest.param({"init": 17}, {"nvml-error"}, id="error 17"),
        pytest.param({"init": 18}, {"nvml-error"}, id="error 18"),
        pytest.param({"init": 999}, {"nvml-error"}, id="error 999"),
        pytest.param({"hang": 30, "timeout_s": 0.5}, {"nvml-hang"}, id="a hang"),
        pytest.param({"lost": 3}, {"gpu-error"}, id="one of eight is lost"),
        pytest.param({"used": 40 << 30}, {"memory-without-owner"}, id="leftovers of nobody"),
        pytest.param({"used": 40 << 30, "pid": 4711, "count": 1}, {"tenants"}, id="leftovers of a process"),
        pytest.param({"mig_pending": 1}, {"mig-pending"}, id="MIG pending"),
        pytest.param({"remap_pending": 1}, {"remap-pending"}, id="a row remap pending"),
        pytest.param({"fabric": 2}, {"fabric"}, id="the fabric in progress"),
        pytest.param({"fabric": 1}, {"fabric"}, id="the fabric not started"),
        pytest.param({"old": 1}, set(), id="an older library"),
    ],
)
def test_each_state_of_a_node_has_its_finding(stub: Stub, states: dict[str, Any], rules: set[str]) -> None:
    facts = stub(**states)
    tenants = [row for i in range(8) for row in value_of(facts, f"gpu.{i}.processes") or ()]
    facts |= {"driver.loaded": LOADED, "tenants": FieldValue(status=FieldStatus.OK, value=tenants, source="NVML")}
    found = compare(facts, {})
    assert {one.rule for one in found} == rules
    assert all(one.evidence for one in found if one.rule != "nvml-hang")


@pytest.mark.parametrize("code", [9, 12])
def test_a_machine_without_a_gpu_has_no_finding_for_that(stub: Stub, code: int) -> None:
    assert compare(stub(init=code), {}) == ()


@pytest.mark.parametrize("name", ["B300 \udcff\udcfe", "\udc80", "name \u2028 of two lines", "\ud7ff"])
def test_a_name_that_is_no_text_costs_the_name_alone(stub: Stub, name: str) -> None:
    facts = stub(count=2, name=name)
    assert value_of(facts, "nvml.error") == 0
    assert [value_of(facts, f"gpu.{index}.uuid") for index in (0, 1)] == ["GPU-00000000", "GPU-00000001"]
    assert value_of(facts, "gpu.1.memory_total_bytes") == 288 << 30
    asked = facts["gpu.0.name"]
    assert asked.status is (FieldStatus.ERROR if "\udc80" <= max(name) <= "\udcff" else FieldStatus.OK), asked
    json.dumps({field: value.model_dump(mode="json") for field, value in facts.items()}).encode("utf-8")


def test_a_library_that_ends_the_process_costs_the_gpus_not_read_yet(stub: Stub) -> None:
    facts = stub(abort=2, count=4)
    assert facts["nvml.error"].status is FieldStatus.ERROR
    assert facts["nvml.error"].detail
    assert value_of(facts, "nvml.driver") == "580.105.08"
    assert [value_of(facts, f"gpu.{index}.uuid") for index in (0, 1)] == ["GPU-00000000", "GPU-00000001"]
    assert "gpu.2.uuid" not in facts
    assert {one.rule for one in compare(facts | {"driver.loaded": LOADED}, {})} == {"nvml-error"}


def test_memory_that_may_not_be_read_is_refused_and_not_absent(stub: Stub) -> None:
    facts = stub(count=1, refused=1)
    for name in ("memory_total_bytes", "memory_used_bytes", "memory_unowned_bytes"):
        assert facts[f"gpu.0.{name}"].status is FieldStatus.REFUSED, name
    assert value_of(facts, "gpu.0.uuid") == "GPU-00000000"


def test_an_older_library_costs_only_what_it_lacks(stub: Stub) -> None:
    facts = stub(count=1, old=1)
    assert value_of(facts, "gpu.0.memory_total_bytes") == 288 << 30
    assert value_of(facts, "gpu.0.fabric_state") == "completed"


def test_a_machine_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")
    if shutil.which("nvidia-smi"):
        return
    assert value_of(NvmlReader().read(), "nvml.error") == 12


def test_memory_is_sampled_while_it_is_watched(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv("STUB_USED", str(3 << 30))
    monkeypatch.setenv("STUB_COUNT", "2")
    watch = NvmlReader().watch()
    deadline = time.monotonic() + 20
    while not watch.samples() and time.monotonic() < deadline:
        time.sleep(0.02)
    watch.close()
    assert watch.samples()[0][1] == 6 << 30
    assert [(name, samples[0][1]) for name, samples in watch.by_gpu().items()] == [
        ("GPU 0", 3 << 30),
        ("GPU 1", 3 << 30),
    ]


def test_a_lost_gpu_costs_its_own_samples_alone(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"LD_LIBRARY_PATH": library, "STUB_USED": 1 << 30, "STUB_COUNT": 3, "STUB_LOST": 1}.items():
        monkeypatch.setenv(name, str(value))
    watch = NvmlReader().watch()
    deadline = time.monotonic() + 20
    while not watch.samples() and time.monotonic() < deadline:
        time.sleep(0.02)
    watch.close()
    assert list(watch.by_gpu()) == ["GPU 0", "GPU 2"]
    assert watch.samples()[0][1] == 2 << 30


def test_a_recorded_root_has_no_nvml() -> None:
    assert NoGpus().read()["nvml.error"].status is FieldStatus.UNSUPPORTED


def test_the_probe_works_in_any_python_without_packages(library: Path, tmp_path: Path) -> None:
    from workers.adapters.inside_reader import ProbeInsideReader

    script = tmp_path / "python"
    script.write_text(
        f'#!/bin/sh\nLD_LIBRARY_PATH="{library}" exec "{shutil.which("python3")}" -S "$@"\n', encoding="utf-8"
    )
    script.chmod(0o755)
    facts = ProbeInsideReader(None, worker="test").in_python(str(script))
    assert value_of(facts, "nvml.driver") == "580.105.08"
    assert value_of(facts, "gpu.7.uuid") == "GPU-00000007"
    assert facts["cuda.init"].status is FieldStatus.ABSENT
    assert facts["vllm.metadata_version"].status is FieldStatus.ERROR
    assert value_of(facts, "probe.versions") == 0
    assert value_of(facts, "torch.error")
