"""The names of fingerprint fields: what is stable, on which side, and how values are asked for."""

from __future__ import annotations

import pytest

from playbooks.reading import fields
from playbooks.reading.fields import FieldValue, Side
from playbooks.vocabulary import FieldStatus


@pytest.mark.parametrize(
    ("name", "stable"),
    [
        ("driver.loaded", True),
        ("gpu.11.uuid", True),
        ("gpu.0.memory_free_bytes", False),
        ("rdma.mlx5_0.1.state", False),
        ("env.NCCL_DEBUG", True),
        ("container.exit_code", False),
        ("image.labels.a.b", True),
        ("of.a.newer.node", False),
        ("gpu.x.uuid", False),
    ],
)
def test_which_fields_are_stable(name, stable):
    assert fields.is_stable(name) is stable


def test_names_are_listed_once_with_a_meaning():
    names = [(spec.name, spec.side) for spec in fields.FIELDS]
    assert len(names) == len(set(names))
    assert all(spec.meaning for spec in fields.FIELDS)
    assert {spec.unit for spec in fields.FIELDS} == {None, "bytes", "s"}
    assert {spec.side for spec in fields.FIELDS} == set(Side)
    assert all(spec.unit == "bytes" for spec in fields.FIELDS if spec.name.endswith("_bytes"))


def test_none_is_absent_and_zero_is_read():
    assert fields.read(None).status is FieldStatus.ABSENT
    assert fields.read(0).status is FieldStatus.OK


def test_values_of_a_group_come_in_order_and_without_gaps():
    facts = {
        "gpu.10.uuid": fields.read("c"),
        "gpu.2.uuid": fields.read("b"),
        "gpu.0.uuid": fields.read("a"),
        "gpu.1.uuid": FieldValue(status=FieldStatus.TIMEOUT),
        "gpus": fields.read("x"),
    }
    assert fields.indexes(facts, "gpu") == (0, 1, 2, 10)
    assert fields.values_of(facts, "gpu", "uuid") == ("a", "b", "c")
    assert fields.value_of(facts, "gpu.1.uuid") is None
