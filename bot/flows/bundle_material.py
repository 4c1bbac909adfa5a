"""What goes into a reproduction bundle: the record, its files, and each part of R15.3 as a file of its own."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from playbooks.evidence import bundle, chain
from playbooks.evidence.canonical import canonical_bytes
from playbooks.evidence.entries import BundleExported
from playbooks.guiding.charts import told_of
from playbooks.guiding.report_page import Picture, first_page

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from bot.flows.services import Services
    from bot.ports import ArtifactMeta, Entry, Reading
    from playbooks.guiding.case import Case

_MOST_ARTIFACT_BYTES = 200_000_000
_DIGEST = re.compile(r"[0-9a-f]{64}")


def collect(reading: Reading, incident_id: str) -> tuple[list[Entry], dict[str, ArtifactMeta]]:
    """Return the record and what is known of the files it names."""
    entries = list(reading.entries(incident_id))
    return entries, {sha: meta for sha in sorted(_named(entries)) if (meta := reading.artifact(sha)) is not None}


def build(
    services: Services, case: Case, entries: Iterable[Entry], metas: dict[str, ArtifactMeta], *, now: datetime
) -> bytes:
    """Build the signed archive.

    Raises:
        ArtifactError: a file of the record cannot be read.
    """
    record = [chain.LedgerEntry(**_fields(entry)) for entry in entries]
    ledger = b"".join(chain.dump_line(entry) + b"\n" for entry in record)
    files: dict[str, bytes] = dict(_parts(case))
    wanted = {*metas, *(sha for entry in record if entry.kind != BundleExported.KIND for sha in entry.artifacts)}
    missing = []
    total = 0
    for sha in sorted(wanted):
        meta = metas.get(sha)
        there = meta is not None and services.artifacts.has(sha)
        if meta is None or not there or total + meta.size_bytes > _MOST_ARTIFACT_BYTES:
            missing.append(sha)
            continue
        total += meta.size_bytes
        files[_path(meta)] = services.artifacts.get(sha)
    return bundle.build(
        incident=case.incident,
        page=first_page(
            case,
            head_hash=chain.head_hash(case.incident, record[-1].seq, record[-1].hash),
            exported_at=now,
            charts=_pictures(record, metas, files),
        ),
        ledger=ledger,
        files=files,
        key=services.signing_key,
        created_at=now,
        missing=tuple(missing),
    )


def _path(meta: ArtifactMeta) -> str:
    return f"artifacts/{meta.sha256}-{_plain_name(meta.name)}"


def _pictures(
    record: Iterable[chain.LedgerEntry], metas: Mapping[str, ArtifactMeta], files: Mapping[str, bytes]
) -> list[Picture]:
    """Return the charts that are in the bundle, in the order of the record; of the stages the newest alone."""
    found: list[Picture] = []
    for entry in record:
        for sha in entry.artifacts:
            meta = metas.get(sha)
            what = None if meta is None or _path(meta) not in files else told_of(meta.name)
            if meta is not None and what is not None:
                kind = what.partition(",")[0]
                found = [one for one in found if kind != "stages" or not one.what.startswith("stages,")]
                found.append(Picture(_path(meta), what, entry.seq))
    return found


def _parts(case: Case) -> Iterable[tuple[str, bytes]]:
    if case.baselines:
        baseline = case.baselines[-1].payload
        yield (
            "baseline.json",
            canonical_bytes({"digest": baseline.digest, "baseline": baseline.baseline, "removed": baseline.removed}),
        )
        sample = baseline.baseline.get("sample")
        if sample:
            yield "request.json", canonical_bytes(sample)
        yield (
            "variables.json",
            canonical_bytes([{"at": f"#{b.seq}", "by": b.actor, "change": b.payload.change} for b in case.baselines]),
        )
    if case.fingerprints:
        yield "fingerprint.json", canonical_bytes(case.fingerprints[-1].payload.facts)
    if case.attempts:
        yield (
            "first-failure.json",
            json.dumps(_finding(case.attempts[-1].payload.finding), indent=1, ensure_ascii=False).encode(),
        )


def _finding(finding: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in finding.items() if name != "warnings"}


def _fields(entry: Entry) -> dict[str, Any]:
    names = ("incident", "seq", "previous", "hash", "kind", "actor", "at", "payload", "artifacts")
    return {name: getattr(entry, name) for name in names}


def _plain_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name)[:80].strip("._") or "file"


def _named(entries: list[Entry]) -> set[str]:
    """Return the digests that entries name, in their list of files or anywhere in what they say; no earlier bundle."""
    found: set[str] = set()
    for entry in entries:
        if entry.kind != BundleExported.KIND:
            found |= {*entry.artifacts, *_digests(entry.payload)}
    return found


def _digests(value: Any) -> Iterator[str]:
    match value:
        case str() if _DIGEST.fullmatch(value):
            yield value
        case dict():
            for inner in value.values():
                yield from _digests(inner)
        case list():
            for inner in value:
                yield from _digests(inner)
        case _:
            return
