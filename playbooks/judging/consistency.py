"""Host against container, node against node, and a fingerprint against an earlier one.

The rules themselves are in `consistency_rules` (between the sides) and `health_rules` (of one side); this module asks
them, and holds which fields make two fingerprints equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import rfc8785

from playbooks.judging import consistency_rules, health_rules
from playbooks.judging.disagreement import Disagreement, shown
from playbooks.reading.fields import Facts, FieldValue, is_stable, value_of, values_of
from playbooks.vocabulary import FieldStatus

__all__ = ["Disagreement", "bars_a_launch", "between_nodes", "compare", "drift", "stable_digest"]

_LOST = frozenset({FieldStatus.TIMEOUT, FieldStatus.ERROR, FieldStatus.REFUSED})
_SAME_ON_ALL_NODES: Mapping[str, str] = {
    "driver.loaded": "the driver",
    "driver.libcuda_version": "libcuda",
    "container.image_id": "the image that runs",
    "image.id": "the image",
    "image.digest": "the image's digest",
    "torch.nccl": "NCCL",
    "torch.version": "torch",
    "vllm.version": "vLLM",
    "package.nvidia-nccl-cu13": "the NCCL package",
    "model.index_sha256": "the weights' index",
    "model.config_sha256": "the model's configuration",
    "os.machine": "the architecture",
    "network.mtu": "the MTU of the interfaces",
    "clock.synchronised": "whether the clock is synchronised",
    "clock.timezone": "the time zone",
}
_BARS_A_LAUNCH = frozenset(
    {
        "driver.loaded",
        "container.image_id",
        "image.id",
        "image.digest",
        "torch.nccl",
        "torch.version",
        "vllm.version",
        "package.nvidia-nccl-cu13",
        "model.index_sha256",
        "model.config_sha256",
    }
)
_SAME_GPUS: Mapping[str, str] = {
    "name": "the GPUs",
    "fabric_cluster": "the NVLink cluster of the GPUs",
    "fabric_clique": "the NVLink clique of the GPUs",
    "mig_current": "MIG",
    "persistence": "persistence mode",
}


def compare(host: Facts, container: Facts) -> tuple[Disagreement, ...]:
    """Ask every rule; each speaks only of fields that were read on the sides it needs.

    host, container: one side of a fingerprint each; an empty container means that none was looked into.
    """
    rules = (*consistency_rules.RULES, *health_rules.RULES)
    return tuple(_with_evidence(found, host, container) for rule in rules for found in rule(host, container))


def drift(old: Facts, new: Facts) -> tuple[str, ...]:
    """Name the stable fields that moved, `driver.loaded: 580.65.06 → 580.95.05`.

    A field that one side could not read, or never asked for, says nothing and is left out.
    """
    return tuple(
        f"{name}: {shown(old[name].value)} → {shown(new[name].value)}"
        for name in sorted(old.keys() & new.keys())
        if is_stable(name)
        and _is_told(old[name])
        and _is_told(new[name])
        and _content(old[name]) != _content(new[name])
    )


def stable_digest(host: Facts, container: Facts) -> str:
    """Digest over the stable fields of both sides that could be read; equal digests mean that nothing moved."""
    content = {
        side: {name: _content(value) for name, value in facts.items() if is_stable(name) and _is_told(value)}
        for side, facts in (("host", host), ("container", container))
    }
    return hashlib.sha256(rfc8785.dumps(content)).hexdigest()


def between_nodes(a: Facts, b: Facts, names: tuple[str, str]) -> tuple[Disagreement, ...]:
    """Compare what must be equal on all nodes of one launch.

    a, b: host and container fields of a node merged into one mapping.
    """
    return tuple(_between(a, b, names))


def bars_a_launch(found: Disagreement) -> bool:
    """Whether nodes that differ in this may not start one launch: its ranks would run other code, or on another driver."""
    return found.rule == "node-differs" and not _BARS_A_LAUNCH.isdisjoint(found.fields)


def _between(a: Facts, b: Facts, names: tuple[str, str]) -> Iterator[Disagreement]:
    for name, what in _SAME_ON_ALL_NODES.items():
        yield from _unequal(name, what, value_of(a, name), value_of(b, name), names)
    for leaf, what in _SAME_GPUS.items():
        sides = (sorted(set(map(str, values_of(side, "gpu", leaf)))) for side in (a, b))
        here, there = (", ".join(side) or None for side in sides)
        yield from _unequal(f"gpu.{{i}}.{leaf}", what, here, there, names)
    count, other = value_of(a, "nvml.count"), value_of(b, "nvml.count")
    yield from _unequal("nvml.count", "the number of GPUs", count, other, names)


def _unequal(name: str, what: str, here: Any, there: Any, names: tuple[str, str]) -> Iterable[Disagreement]:
    if here is None or there is None or here == there:
        return ()
    text = f"{what} differs: {shown(here)} on {names[0]}, {shown(there)} on {names[1]}; a launch over both cannot be compared"
    return (
        Disagreement(
            "node-differs", (name,), text, evidence=(f"{names[0]} {shown(here)}", f"{names[1]} {shown(there)}")
        ),
    )


def _with_evidence(found: Disagreement, host: Facts, container: Facts) -> Disagreement:
    evidence = tuple(
        f"{side}: {name} = {shown(facts[name].value)} ({facts[name].source or 'source not said'})"
        for name in found.fields
        for side, facts in (("host", host), ("container", container))
        if name in facts and facts[name].status is FieldStatus.OK
    )
    return replace(found, evidence=(*found.evidence, *evidence))


def _is_told(field: FieldValue) -> bool:
    return field.status not in _LOST


def _content(field: FieldValue) -> dict[str, Any]:
    return {"status": field.status.value, "value": field.value}
