"""The short verdict of a fingerprint: one row a topic, what differs first, nothing unread called fine."""

from __future__ import annotations

from typing import Any

import pytest

from playbooks.judging.consistency import compare
from playbooks.judging.consistency_rules import RULES as BETWEEN
from playbooks.judging.fingerprint_text import report
from playbooks.judging.verdict_table import _TOPICS, Row, verdict_table
from playbooks.reading.fields import FieldValue
from playbooks.vocabulary import FieldStatus
from tests.support.cases import CPU_CONTAINER, CPU_HOST, GPU_CONTAINER, GPU_HOST


def facts(plain: dict[str, Any]) -> dict[str, FieldValue]:
    return {name: FieldValue.model_validate(leaf) for name, leaf in plain.items()}


def field(status: str, value: Any = None, unit: str | None = None) -> FieldValue:
    return FieldValue(status=FieldStatus(status), value=value, source="here", unit=unit)


def row(name: str, rows: tuple[Row, ...]) -> Row:
    return next(one for one in rows if one.topic == name)


def test_what_differs_stands_first_and_names_both_sides() -> None:
    container = {**facts(GPU_CONTAINER), "nvml.count": field("ok", 7)}
    found = [one.rule for one in compare(facts(GPU_HOST), container)]
    rows = verdict_table(facts(GPU_HOST), container, found)
    assert rows[0] == Row("GPUs", "differs", "8", "7")
    assert [one.verdict for one in rows] == sorted(
        (one.verdict for one in rows), key=["differs", "not_readable", "agrees", "read", "absent"].index
    )


@pytest.mark.parametrize("status", ["refused", "timeout", "error"])
def test_what_could_not_be_read_is_never_said_to_agree(status: str) -> None:
    host = {**facts(GPU_HOST), "rdma.devices": field("ok", ["mlx5_0"])}
    container = {**facts(GPU_CONTAINER), "rdma.uverbs": field(status)}
    assert row("RDMA", verdict_table(host, container, [])) == Row("RDMA", "not_readable", "1", status)


def test_a_finding_outranks_what_could_not_be_read() -> None:
    container = {**facts(GPU_CONTAINER), "nvml.count": field("timeout"), "torch.device_count": field("timeout")}
    assert row("GPUs", verdict_table(facts(GPU_HOST), container, ["gpu-lost"])).verdict == "differs"


def test_both_sides_or_one_or_none() -> None:
    rows = verdict_table(
        {**facts(CPU_HOST), "shm.total_bytes": field("ok", 64 << 20, "bytes")},
        {**facts(CPU_CONTAINER), "shm.total_bytes": field("ok", 64 << 20, "bytes")},
        [],
    )
    assert row("shm", rows) == Row("shm", "agrees", "0.1 GiB", "0.1 GiB")
    assert row("vLLM", rows) == Row("vLLM", "read", "", "0.32.0")
    assert row("driver", rows) == Row("driver", "absent", "absent", "")
    assert all(one.topic != "image" for one in rows), "nobody asked for an image"


def test_every_rule_between_the_sides_has_its_topic() -> None:
    spoken = {name for topic in _TOPICS for name in topic.rules}
    written = {
        constant
        for rule in BETWEEN
        for constant in rule.__code__.co_consts
        if isinstance(constant, str)
        and "-" in constant
        and " " not in constant
        and "." not in constant
        and "/" not in constant
    } - {"nvidia-container-cli"}
    assert written <= spoken, written - spoken
    assert len(written) > 12


def test_the_report_holds_every_field_and_the_evidence() -> None:
    container = {**facts(GPU_CONTAINER), "nvml.count": field("ok", 7), "odd.name": field("error")}
    found = compare(facts(GPU_HOST), container)
    text = report(facts(GPU_HOST), container, found, title="Fingerprint of gpu-a1", moved=["driver.loaded: 1 → 2"])
    assert text.startswith("Fingerprint of gpu-a1\n")
    for name in (*GPU_HOST, *container):
        assert f" {name} " in text
    assert "expected 8 GPUs" in text
    assert "host: nvml.count = 8 (read)" in text
    assert "driver.loaded: 1 → 2" in text
