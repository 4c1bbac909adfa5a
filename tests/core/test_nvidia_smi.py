import json
from pathlib import Path

import pytest

from playbooks.errors import UnreadableInput
from playbooks.reading import nvidia_smi

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


def test_text_that_is_no_output_of_nvidia_smi_is_named():
    with pytest.raises(UnreadableInput, match="expected output of nvidia-smi"):
        nvidia_smi.read("hello")
