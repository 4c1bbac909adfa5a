"""A case as JSON and back: what a store keeps so that it need not fold the whole ledger on each reading.

A snapshot is a convenience, never a source: `fold` over the entries gives the same case, and a snapshot of another form is
refused, so that the caller folds anew.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import ValidationError

from playbooks.errors import MalformedMessage
from playbooks.evidence import entries as e
from playbooks.guiding.case import Case, Noted
from playbooks.vocabulary import Phase

SNAPSHOT = 1
_TUPLES = (
    "scenes",
    "fingerprints",
    "baselines",
    "attempts",
    "scores",
    "requests",
    "analysed",
    "proposals",
    "approvals",
    "rejections",
    "phases",
    "held_ended",
    "bundles",
    "leases_taken",
)
_DICTS = ("answers", "jobs", "ended_jobs")
_SINGLE = ("boundary", "closed")


def case_to_json(case: Case) -> dict[str, Any]:
    """Return the case as JSON without floats."""
    return {
        "snapshot": SNAPSHOT,
        "incident": case.incident,
        "head_seq": case.head_seq,
        "phase": case.phase.value,
        "newest_report": case.newest_report,
        "answered_jobs": sorted(case.answered_jobs),
        "opened": _dump(case.opened),
        **{name: [_dump(noted) for noted in getattr(case, name)] for name in _TUPLES},
        **{name: {key: _dump(noted) for key, noted in getattr(case, name).items()} for name in _DICTS},
        **{name: None if (noted := getattr(case, name)) is None else _dump(noted) for name in _SINGLE},
    }


def case_from_json(data: dict[str, Any]) -> Case:
    """Return the case that `case_to_json` wrote.

    Raises:
        MalformedMessage: a snapshot of another form; fold the entries instead.
    """
    if data.get("snapshot") != SNAPSHOT:
        raise MalformedMessage(f"snapshot form {data.get('snapshot')!r}; expected {SNAPSHOT}")
    try:
        fields: dict[str, Any] = {
            **{name: tuple(map(_load, data[name])) for name in _TUPLES},
            **{name: {key: _load(noted) for key, noted in data[name].items()} for name in _DICTS},
            **{name: None if data[name] is None else _load(data[name]) for name in _SINGLE},
        }
        return Case(
            incident=data["incident"],
            opened=_load(data["opened"]),
            head_seq=data["head_seq"],
            phase=Phase(data["phase"]),
            newest_report=data["newest_report"],
            answered_jobs=frozenset(data["answered_jobs"]),
            **fields,
        )
    except (KeyError, TypeError, ValueError, AttributeError, ValidationError) as error:
        raise MalformedMessage(f"not a snapshot of a case: {error}") from error


def _dump(noted: Noted[Any]) -> dict[str, Any]:
    return {
        "seq": noted.seq,
        "actor": noted.actor,
        "at": noted.at.isoformat(),
        "kind": noted.payload.KIND,
        "payload": noted.payload.model_dump(mode="json"),
    }


def _load(data: dict[str, Any]) -> Noted[Any]:
    return Noted(
        seq=data["seq"],
        actor=data["actor"],
        at=datetime.fromisoformat(data["at"]),
        payload=e.PAYLOADS[data["kind"]].model_validate(data["payload"]),
    )
