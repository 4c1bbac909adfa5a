"""Every layout of nvidia-smi gives its true values, and no guess for what it does not say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from playbooks.errors import UnreadableInput
from playbooks.reading import nvidia_smi
from playbooks.reading.fields import value_of
from playbooks.vocabulary import FieldStatus

SAMPLES = Path(__file__).parents[1] / "logs" / "nvidia-smi"
INDEX = [json.loads(line) for line in (SAMPLES / "index.jsonl").read_text().splitlines()]
SWITCH = {"Enabled": True, "On": True, "Disabled": False, "Off": False, None: None}
GPU_FIELDS = {
    "index": "index",
    "uuid": "uuid",
    "bus_id": "bus_id",
    "mem_total_mib": "memory_total_mib",
    "mem_used_mib": "memory_used_mib",
    "power_cap_w": "power_cap_w",
    "compute_cap": "compute_capability",
    "fabric": "fabric",
    "remap_pending": "remap_pending",
    "mig_devices": "mig_devices",
    "lost": "lost",
}
PROCESS_FIELDS = {
    "gpu": "gpu",
    "gpu_uuid": "gpu_uuid",
    "pid": "pid",
    "type": "type",
    "name": "name",
    "used_mib": "used_mib",
}


@pytest.mark.parametrize("truth", INDEX, ids=lambda truth: truth["file"])
def test_every_true_value_of_the_samples_is_read(truth):
    facts = nvidia_smi.read((SAMPLES / truth["file"]).read_text())
    assert facts.format == truth["format"]
    assert facts.exit_code == truth["rc"]
    assert facts.driver == truth.get("driver")
    assert facts.cuda == truth.get("cuda_umd")
    assert facts.gpu_count == truth.get("gpu_count")
    assert facts.error == truth.get("error_class")
    if "header_style" in truth:
        assert facts.header_style == truth["header_style"]
    assert len(facts.gpus) == len(truth.get("gpus", ()))
    for gpu, true_gpu in zip(facts.gpus, truth.get("gpus", ()), strict=True):
        for key, name in GPU_FIELDS.items():
            if key in true_gpu:
                assert getattr(gpu, name) == true_gpu[key], key
        for key in ("mig", "persistence"):
            if key in true_gpu:
                assert getattr(gpu, key) is SWITCH[true_gpu[key]], key
        if truth.get("name_truncated"):
            assert gpu.name_cut
            assert true_gpu["name"].startswith(gpu.name)
        else:
            assert gpu.name == true_gpu["name"]
            assert not gpu.name_cut
    assert len(facts.processes) == len(truth.get("processes", ()))
    for process, true_process in zip(facts.processes, truth.get("processes", ()), strict=True):
        assert {key: getattr(process, PROCESS_FIELDS[key]) for key in true_process} == true_process


def sample(name):
    return (SAMPLES / name).read_text()


@pytest.mark.parametrize(
    ("text", "found"),
    [("hello", "found 'hello'"), ("", "found nothing"), ("  \n", "found nothing")],
)
def test_text_that_is_no_output_of_nvidia_smi_is_named(text, found):
    assert not nvidia_smi.looks_like(text)
    with pytest.raises(UnreadableInput, match="expected output of nvidia-smi") as caught:
        nvidia_smi.read(text)
    assert found in str(caught.value)


@pytest.mark.parametrize("name", [truth["file"] for truth in INDEX])
def test_output_is_recognised_among_other_text(name):
    text = f"$ nvidia-smi\n{sample(name)}\n$ uname -r\n6.8.0\n"
    assert nvidia_smi.looks_like(text)
    assert nvidia_smi.read(text).gpus == nvidia_smi.read(sample(name)).gpus


class TestUnownedMemory:
    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("r575-b200x8-orphan-memory-host.txt", (2,)),
            ("r580-b300x8-in-container-hidden-procs.txt", tuple(range(8))),
            ("r575-b200x8-leftover-host.txt", ()),
            ("r575-b200x8-idle-host.txt", ()),
            ("r590-rtxpro6000x2.txt", ()),
            ("r580-b200x8-remap-pending-leftover-q-x.xml", ()),
            ("r580-b300x8-query-gpu.csv", ()),
        ],
    )
    def test_memory_that_no_listed_process_explains(self, name, expected):
        assert tuple(gpu.index for gpu in nvidia_smi.read(sample(name)).unowned) == expected

    def test_processes_by_uuid_are_owners(self):
        text = sample("r580-b300x8-query-gpu.csv").replace("0 MiB, 10.3", "90000 MiB, 10.3")
        apps = sample("r575-query-compute-apps.csv")
        assert [gpu.index for gpu in nvidia_smi.read(f"{text}\n{apps}").unowned] == [2, 3, 4, 5, 6, 7]


class TestTable:
    def test_a_star_says_that_a_change_of_mig_is_pending(self):
        text = sample("r575-b200x8-idle-host.txt").replace("            Disabled |", "           Disabled* |", 1)
        first, second = nvidia_smi.read(text).gpus[:2]
        assert (first.mig, first.mig_pending) == (False, True)
        assert (second.mig, second.mig_pending) == (False, False)

    def test_a_broken_gpu_gives_none_and_never_zero(self):
        text = re.sub(r"\d+W / 1000W", "ERR! /  ERR!", sample("r575-b200x8-idle-host.txt"), count=1)
        first = nvidia_smi.read(text.replace("0MiB / 183359MiB", "ERR! /      ERR!", 1)).gpus[0]
        assert (first.power_cap_w, first.memory_total_mib, first.memory_used_mib) == (None, None, None)

    def test_a_header_without_rows_still_says_the_driver(self):
        facts = nvidia_smi.read("| NVIDIA-SMI 575.57.08   Driver Version: 575.57.08   CUDA Version: 12.9 |")
        assert (facts.driver, facts.cuda, facts.gpu_count, facts.gpus) == ("575.57.08", "12.9", None, ())

    def test_rows_of_old_drivers_without_instance_columns(self):
        text = sample("r575-b200x8-idle-host.txt").replace(
            "|  No running processes found                                                             |",
            "|    0     18132      C   python3                                        11MiB |",
        )
        process = nvidia_smi.read(text).processes[0]
        assert (process.gpu, process.pid, process.used_mib) == (0, 18132, 11)

    def test_names_that_old_drivers_cut_with_dots(self):
        text = sample("r575-b200x8-idle-host.txt").replace(
            "NVIDIA B200                    On", "NVIDIA A100-SXM...             On", 1
        )
        first = nvidia_smi.read(text).gpus[0]
        assert (first.name, first.name_cut) == ("NVIDIA A100-SXM", True)


class TestXml:
    def test_a_cut_document_gives_its_complete_gpus(self):
        text = sample("r580-b300x8-fabric-in-progress-q-x.xml")
        facts = nvidia_smi.read(text[: text.index("<minor_number>2")])
        assert facts.driver == "580.126.20"
        assert len(facts.gpus) == 2

    def test_a_damaged_document_gives_what_precedes_the_damage(self):
        text = sample("r610-b200x2-q-x.xml").replace("</pci>", "</pcj>")
        assert nvidia_smi.read(text).driver == "610.43.02"

    def test_entities_are_refused(self):
        text = '<!DOCTYPE x [<!ENTITY a "b">]><nvidia_smi_log>&a;</nvidia_smi_log>'
        with pytest.raises(UnreadableInput, match="declares entities"):
            nvidia_smi.read(text)

    def test_a_document_without_a_count_is_counted(self):
        text = sample("r610-b200x2-q-x.xml").replace("<attached_gpus>2</attached_gpus>", "")
        assert nvidia_smi.read(text).gpu_count == 2

    def test_a_process_without_a_number_is_left_out(self):
        text = sample("r580-b200x8-remap-pending-leftover-q-x.xml").replace("<pid>88001</pid>", "<pid>N/A</pid>")
        assert nvidia_smi.read(text).processes == ()


class TestQuery:
    def test_processes_and_a_missing_count(self):
        text = sample("r610-q-excerpt.txt").replace(
            "Attached GPUs                                          : 1\n", ""
        ) + (
            "    Processes\n"
            "        GPU instance ID                                : N/A\n"
            "        Process ID                                     : 4242\n"
            "            Type                                       : C\n"
            "            Name                                       : VLLM::Worker\n"
            "            Used GPU Memory                            : 171190 MiB\n"
            "        Process ID                                     : 4243\n"
            "            Used GPU Memory                            : N/A\n"
        )
        facts = nvidia_smi.read(text)
        assert facts.gpu_count == 1
        assert [(p.pid, p.type, p.name, p.used_mib) for p in facts.processes] == [
            (4242, "C", "VLLM::Worker", 171190),
            (4243, None, None, None),
        ]
        assert facts.processes_listed

    def test_the_deprecation_text_is_no_version(self):
        assert nvidia_smi.read(sample("r610-q-excerpt.txt")).cuda == "13.3"


class TestCsv:
    def test_two_tables_end_where_other_text_begins(self):
        text = (
            f"{sample('r580-b300x8-query-gpu.csv')}index, color\n0, red\n{sample('r575-query-compute-apps.csv')}bye\n"
        )
        facts = nvidia_smi.read(text)
        assert len(facts.gpus) == 8
        assert [process.pid for process in facts.processes] == [4242, 4243]

    def test_a_table_without_index_counts_by_row(self):
        facts = nvidia_smi.read("name, memory.total [MiB]\nA, 5 MiB\nB, [N/A]\n")
        assert [(gpu.index, gpu.memory_total_mib) for gpu in facts.gpus] == [(0, 5), (1, None)]


class TestFields:
    def test_a_table_gives_the_fields_of_a_fingerprint(self):
        facts = nvidia_smi.to_facts(nvidia_smi.read(sample("r575-b200x8-orphan-memory-host.txt")))
        assert value_of(facts, "driver.loaded") == "575.57.08"
        assert value_of(facts, "nvml.cuda") == "12.9"
        assert value_of(facts, "nvml.count") == 8
        assert value_of(facts, "nvml.error") == 0
        assert value_of(facts, "gpu.2.memory_unowned_bytes") == 96112 << 20
        assert value_of(facts, "gpu.2.processes") == []
        assert "gpu.1.memory_unowned_bytes" not in facts

    def test_owned_memory_and_fabric(self):
        facts = nvidia_smi.to_facts(nvidia_smi.read(sample("r580-b200x8-remap-pending-leftover-q-x.xml")))
        assert value_of(facts, "gpu.7.processes") == [{"pid": 88001, "name": "python3", "used_bytes": 90100 << 20}]
        assert value_of(facts, "gpu.0.remap_pending") is True
        assert value_of(facts, "gpu.0.fabric_state") == "completed"

    def test_a_lost_gpu_and_a_cut_name(self):
        lost = nvidia_smi.to_facts(nvidia_smi.read(sample("r575-query-gpu-na.csv")))
        assert value_of(lost, "gpu.1.error") == 15
        assert "gpu.0.processes" not in lost
        cut = nvidia_smi.to_facts(nvidia_smi.read(sample("r590-rtxpro6000x2.txt")))
        assert "gpu.0.name" not in cut

    def test_an_error_is_a_value(self):
        facts = nvidia_smi.to_facts(nvidia_smi.read(sample("err-version-mismatch.txt")))
        assert value_of(facts, "nvml.error") == 18
        assert facts["driver.loaded"].status is FieldStatus.ABSENT
        absent = nvidia_smi.to_facts(nvidia_smi.read(sample("err-not-in-image.txt")))
        assert absent["nvml.error"].status is FieldStatus.UNSUPPORTED

    def test_memory_of_a_process_that_is_not_told_is_none(self):
        text = sample("r575-b200x8-leftover-host.txt").replace("171190MiB |", "      N/A |", 1)
        facts = nvidia_smi.to_facts(nvidia_smi.read(text))
        assert value_of(facts, "gpu.0.processes")[0]["used_bytes"] is None
