"""The reproduction bundle: one signed archive of the record, its files and a first page; verified without the bot.

Every byte counts: the manifest holds each file's digest, the signature covers the manifest, the ledger is a hash chain, and
the archive itself must be the very bytes that packing its files gives. Nothing is compressed, so that packing is exact.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from playbooks.errors import BadSignature, BrokenBundle, BrokenChain, EvidenceError, MessageError
from playbooks.evidence import chain
from playbooks.evidence.canonical import canonical_bytes, parse_canonical, sha256_hex, utc_text
from playbooks.evidence.signing import PublicKey, SigningKey, open_envelope, sign

SCHEMA = "baseline-bundle/1"
PAGE, LEDGER, MANIFEST, SIGNATURE = "README.md", "ledger.jsonl", "manifest.json", "signature.json"
_OWN = frozenset({PAGE, LEDGER, MANIFEST, SIGNATURE})
_MOST_BYTES = 2_000_000_000
_EPOCH = (1980, 1, 1, 0, 0, 0)
_SHORTEST_HEAD = 8


class ManifestSeal(BaseModel):
    """What is signed: the digest of the manifest."""

    model_config = ConfigDict(frozen=True)
    type: str = "bundle_manifest"
    sha256: str


@dataclass(frozen=True, slots=True)
class BundleVerdict:
    """Whether a bundle holds together. `problems` names everything that is wrong, most telling first."""

    incident: str
    entries: int
    head: str
    """Head hash of the record."""
    last_hash: str
    """Hash of its newest entry, as shown in the thread."""
    key: str
    """Public key that signed; compare it with the bot's."""
    key_was_given: bool
    files: int
    problems: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def build(
    *,
    incident: str,
    page: str,
    ledger: bytes,
    files: Mapping[str, bytes],
    key: SigningKey,
    created_at: datetime,
    missing: tuple[str, ...] = (),
) -> bytes:
    """Build the archive; the same material gives the same bytes.

    ledger: `ledger.jsonl`, one canonical entry a line, oldest first.
    files: further files by name, such as `artifacts/<sha256>-<name>`.
    missing: digests that the record names and whose bytes were never received; the manifest says so.

    Raises:
        BrokenChain: the ledger does not hold together; such a bundle is never made.
        BrokenBundle: a file would take the place of the bundle's own.
    """
    count, head = chain.verify(chain.parse_ledger(ledger), incident=incident)
    last = list(chain.parse_ledger(ledger))[-1].hash if count else chain.GENESIS
    if taken := sorted(_OWN.intersection(files)):
        raise BrokenBundle(f"expected files beside {', '.join(sorted(_OWN))}, found {', '.join(taken)} given twice")
    content = {PAGE: page.encode(), LEDGER: ledger, **files}
    manifest = canonical_bytes(
        {
            "schema": SCHEMA,
            "incident": incident,
            "created_at": utc_text(created_at),
            "key": key.public_text,
            "ledger": {"entries": count, "head": head, "last": last},
            "missing": sorted(missing),
            "files": {name: {"sha256": sha256_hex(data), "size_bytes": len(data)} for name, data in content.items()},
        }
    )
    seal = sign(ManifestSeal(sha256=sha256_hex(manifest)), key, "bot")
    signature = canonical_bytes(seal.model_dump(mode="json", by_alias=True))
    return _pack({**content, MANIFEST: manifest, SIGNATURE: signature})


def verify(data: bytes, *, key: PublicKey | None = None, head: str | None = None) -> BundleVerdict:
    """Check a bundle and name everything that is wrong with it.

    key: the bot's public key from elsewhere; without it the signature only proves that the bundle is whole.
    head: head or newest entry's hash as posted in the thread, at least 8 digits.

    Raises:
        BrokenBundle: the bytes are no bundle at all.
    """
    files, problems = _unpack(data)
    manifest = _manifest(files)
    problems += _archive(data, files)
    problems += _signature(files, manifest, key)
    problems += _digests(files, manifest)
    count, found_head, last, broken = _ledger(files, manifest)
    problems += broken
    if head is not None:
        problems += _head(head.lower().rstrip("…"), found_head, last)
    return BundleVerdict(
        incident=str(manifest.get("incident", "")),
        entries=count,
        head=found_head,
        last_hash=last,
        key=str(manifest.get("key", "")),
        key_was_given=key is not None,
        files=len(files),
        problems=tuple(dict.fromkeys(problems)),
    )


def _pack(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files, key=lambda item: (item != PAGE, item)):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = 0o644 << 16
            info.create_system = 3
            archive.writestr(info, files[name])
    return buffer.getvalue()


def _unpack(data: bytes) -> tuple[dict[str, bytes], list[str]]:
    files: dict[str, bytes] = {}
    problems: list[str] = []
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(info.file_size for info in archive.infolist()) > _MOST_BYTES:
                raise BrokenBundle(f"expected at most {_MOST_BYTES} bytes of files, found more")
            for info in archive.infolist():
                if info.filename in files:
                    problems.append(f"{info.filename}: stands in the archive twice")
                try:
                    files[info.filename] = archive.read(info)
                except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, RuntimeError, OSError) as error:
                    problems.append(f"{info.filename}: altered ({error})")
    except (zipfile.BadZipFile, ValueError, EOFError, OSError, UnicodeDecodeError, NotImplementedError) as error:
        raise BrokenBundle(f"expected a bundle archive, found bytes that are none: {error}") from error
    return files, problems


def _manifest(files: Mapping[str, bytes]) -> dict[str, Any]:
    if MANIFEST not in files:
        raise BrokenBundle(f"expected {MANIFEST} in the archive, found none")
    try:
        manifest = parse_canonical(files[MANIFEST])
    except EvidenceError as error:
        raise BrokenBundle(f"{MANIFEST}: {error}") from error
    if (
        not isinstance(manifest, dict)
        or manifest.get("schema") != SCHEMA
        or not isinstance(manifest.get("files"), dict)
    ):
        found = manifest.get("schema") if isinstance(manifest, dict) else type(manifest).__name__
        raise BrokenBundle(f"{MANIFEST}: expected schema {SCHEMA} with files, found {found!r}")
    return manifest


def _archive(data: bytes, files: Mapping[str, bytes]) -> list[str]:
    packed = _pack(files)
    if packed == data:
        return []
    first = next((i for i, (a, b) in enumerate(zip(packed, data, strict=False)) if a != b), min(len(packed), len(data)))
    return [f"archive: byte {first} is not what packing these files gives: altered, added or cut"]


def _signature(files: Mapping[str, bytes], manifest: Mapping[str, Any], key: PublicKey | None) -> list[str]:
    if SIGNATURE not in files:
        return [f"{SIGNATURE}: missing"]
    try:
        stated = PublicKey.from_text(str(manifest.get("key", "")))
        envelope = parse_canonical(files[SIGNATURE])
        seal = open_envelope(envelope, {"bot": key or stated}, ManifestSeal)
    except (EvidenceError, MessageError, ValueError) as error:
        given = " by the key that was given" if key is not None and isinstance(error, BadSignature) else ""
        return [f"{SIGNATURE}: not valid{given}: {error}"]
    if key is not None and key.to_text() != stated.to_text():
        return [f"{MANIFEST}: names another key than the one that was given"]
    if seal.sha256 != sha256_hex(files[MANIFEST]):
        return [f"{MANIFEST}: altered; it is not the one that was signed"]
    return []


def _digests(files: Mapping[str, bytes], manifest: Mapping[str, Any]) -> list[str]:
    problems = []
    listed: Mapping[str, Any] = manifest["files"]
    for name, stated in listed.items():
        if name not in files:
            problems.append(f"{name}: missing")
        elif not isinstance(stated, dict) or stated.get("sha256") != sha256_hex(files[name]):
            problems.append(f"{name}: altered; its sha256 is {sha256_hex(files[name])[:16]}…")
    extra = sorted(set(files) - set(listed) - {MANIFEST, SIGNATURE})
    return problems + [f"{name}: not in the manifest" for name in extra]


def _ledger(files: Mapping[str, bytes], manifest: Mapping[str, Any]) -> tuple[int, str, str, list[str]]:
    if LEDGER not in files:
        return 0, "", "", [f"{LEDGER}: missing"]
    try:
        entries = list(chain.parse_ledger(files[LEDGER]))
        count, head = chain.verify(entries, incident=str(manifest.get("incident", "")))
    except BrokenChain as error:
        return 0, "", "", [f"{LEDGER}: {error}"]
    last = entries[-1].hash if entries else chain.GENESIS
    problems: list[str] = []
    if manifest.get("ledger") != {"entries": count, "head": head, "last": last}:
        problems.append(f"{LEDGER}: {count} entries with head {head[:16]}…, the manifest states another")
    held = {name.removeprefix("artifacts/")[:64] for name in files if name.startswith("artifacts/")}
    problems += [
        f"{name}: its bytes are not those of its digest"
        for name, data in files.items()
        if name.startswith("artifacts/") and sha256_hex(data) != name.removeprefix("artifacts/")[:64]
    ]
    missing = sorted({sha for entry in entries for sha in entry.artifacts if entry.kind != "bundle:exported"} - held)
    stated = manifest.get("missing", [])
    problems += [
        f"artifact {sha[:16]}…: the record names it, the bundle lacks it" for sha in missing if sha not in stated
    ]
    return count, head, last, problems


def _head(wanted: str, head: str, last: str) -> list[str]:
    if len(wanted) < _SHORTEST_HEAD:
        return [f"head: expected at least {_SHORTEST_HEAD} digits to compare, found {len(wanted)}"]
    if head.startswith(wanted) or last.startswith(wanted):
        return []
    return [
        f"head: the thread says {wanted[:16]}…, the record ends at {last[:16]}…: entries were cut off, added or replaced"
    ]
