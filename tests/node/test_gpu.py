"""The fingerprint on a machine with a GPU: what NVML, the kernel and CUDA say of one driver agrees."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from playbooks.judging.consistency import compare
from playbooks.reading.fields import indexes, spec_of, value_of
from workers.reading_here import read_local

pytestmark = pytest.mark.gpu


def test_a_real_gpu_is_read_and_its_sides_agree() -> None:
    facts = read_local(root=Path("/"), container=None, image=None, python=sys.executable, model=None)
    host, inside = facts.host, facts.container
    assert value_of(host, "nvml.error") == 0
    count = value_of(host, "nvml.count")
    assert isinstance(count, int)
    assert count >= 1
    assert len(indexes(host, "gpu")) == count
    assert value_of(host, "driver.loaded") == value_of(host, "nvml.driver")
    for index in indexes(host, "gpu"):
        assert str(value_of(host, f"gpu.{index}.uuid")).startswith("GPU-")
        assert value_of(host, f"gpu.{index}.memory_total_bytes") > 1 << 30
        assert value_of(host, f"gpu.{index}.compute_capability")
    assert value_of(inside, "cuda.init") == 0
    assert value_of(inside, "cuda.count") == count
    assert [name for name in (*host, *inside) if spec_of(name) is None] == []
    assert not {one.rule for one in compare(host, inside)} & {
        "kernel-driver",
        "nvml-version",
        "gpu-identity",
        "cuda-init",
    }
