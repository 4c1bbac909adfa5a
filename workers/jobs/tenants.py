"""Who uses the GPUs of this node besides what is started here."""

from __future__ import annotations

from playbooks.messages import FieldValue
from playbooks.reading.fields import indexes, read, value_of
from workers.ports import Facts


def tenants_of(facts: Facts) -> FieldValue:
    """Return the processes on the GPUs, by NVML; absent where no GPU could be asked for them."""
    names: list[str] = []
    told = False
    for index in indexes(facts, "gpu"):
        rows = value_of(facts, f"gpu.{index}.processes")
        told |= rows is not None
        names += [f"process {row['pid']} {row['name']} on GPU {index}" for row in rows or ()]
    return read(sorted(set(names)) if told or not indexes(facts, "gpu") else None, "NVML processes")
