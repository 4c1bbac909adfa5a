"""The reproduction bundle: one signed archive of the record, its files and a first page; verified without the bot.

Every byte counts: the manifest holds each file's digest, the signature covers the manifest, the ledger is a hash chain, and
the archive itself must be the very bytes that packing its files gives. Nothing is compressed, so that packing is exact.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from playbooks.errors import BadSignature, BrokenBundle, BrokenChain, EvidenceError, InputError, MessageError
from playbooks.evidence import chain
from playbooks.evidence.canonical import canonical_bytes, parse_canonical, sha256_hex, utc_text
from playbooks.evidence.signing import PublicKey, SigningKey, open_envelope, sign

SCHEMA = "baseline-bundle/1"
PAGE, LEDGER, MANIFEST, SIGNATURE = "README.md", "ledger.jsonl", "manifest.json", "signature.json"
_OWN = frozenset({PAGE, LEDGER, MANIFEST, SIGNATURE})
_EPOCH = (1980, 1, 1, 0, 0, 0)
_SHORTEST_HEAD = 8
_LONGEST_NAME = 300


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
    entries, head = chain.verify_ledger(ledger, incident=incident)
    if taken := sorted(_OWN.intersection(files)):
        raise BrokenBundle(f"expected files beside {', '.join(sorted(_OWN))}, found {', '.join(taken)} given twice")
    if odd := sorted(name for name in files if len(name) > _LONGEST_NAME or not name.isprintable()):
        raise BrokenBundle(f"expected printable names up to {_LONGEST_NAME} characters, found {odd[0][:40]!a}")
    content = {PAGE: page.encode(), LEDGER: ledger, **files}
    manifest = canonical_bytes(
        {
            "schema": SCHEMA,
            "incident": incident,
            "created_at": utc_text(created_at),
            "key": key.public_text,
            "ledger": {"entries": len(entries), "head": head, "last": _last(entries)},
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
    manifest, unreadable = _manifest(files)
    problems += unreadable
    problems += _signature(files, manifest, key)
    problems += _digests(files, manifest)
    entries, found_head, broken = _ledger(files, manifest)
    problems += broken
    if head is not None and not broken:
        problems += _head(head.lower().rstrip("…"), found_head, _last(entries))
    problems += _archive(data, files)
    return BundleVerdict(
        incident=manifest.incident,
        entries=len(entries),
        head=found_head,
        last_hash=_last(entries) if entries else "",
        key=manifest.key,
        key_was_given=key is not None,
        files=len(files),
        problems=tuple(dict.fromkeys(problems)),
    )


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    sha256: str
    size_bytes: int


class _Ledger(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    entries: int
    head: str
    last: str


class _Manifest(BaseModel):
    """`manifest.json`, read strictly."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    schema_: str = Field(alias="schema")
    incident: str
    created_at: str
    key: str
    ledger: _Ledger
    missing: list[str]
    files: dict[str, _File]


_NO_MANIFEST = _Manifest(
    schema="", incident="", created_at="", key="", ledger=_Ledger(entries=0, head="", last=""), missing=[], files={}
)
"""Stands for one that cannot be read."""


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
    """Return the files by name. Their bytes are read past the archive's own check sums: digests say more."""
    files: dict[str, bytes] = {}
    problems: list[str] = []
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            listed = archive.infolist()
    except (zipfile.BadZipFile, ValueError, EOFError, OSError, NotImplementedError, struct.error) as error:
        raise BrokenBundle(f"expected a bundle archive, found bytes that are none: {error}") from error
    if any(info.compress_type != zipfile.ZIP_STORED for info in listed):
        raise BrokenBundle("expected a bundle archive, found one with compressed files; a bundle's never are")
    if sum(info.file_size for info in listed) > len(data):
        raise BrokenBundle("expected a bundle archive, found one that lists more bytes of files than it has")
    for info in listed:
        if len(info.filename) > _LONGEST_NAME or not info.filename.isprintable():
            problems.append(f"{info.filename[:40]!a}: no name of a file in a bundle")
            continue
        if info.filename in files:
            problems.append(f"{info.filename}: stands in the archive twice")
        lengths = data[info.header_offset + 26 : info.header_offset + 30]
        if len(lengths) == 4:  # two short numbers of the local header: lengths of name and extra
            start = info.header_offset + 30 + sum(struct.unpack("<HH", lengths))
            files[info.filename] = data[start : start + info.file_size]
    return files, problems


def _manifest(files: Mapping[str, bytes]) -> tuple[_Manifest, list[str]]:
    if MANIFEST not in files:
        raise BrokenBundle(f"expected {MANIFEST} in the archive, found none")
    try:
        manifest = _Manifest.model_validate(parse_canonical(files[MANIFEST]))
    except EvidenceError as error:
        return _NO_MANIFEST, [f"{MANIFEST}: altered: {error}"]
    except ValidationError as error:
        first = error.errors()[0]
        return _NO_MANIFEST, [f"{MANIFEST}: {'.'.join(map(str, first['loc'])) or 'manifest'}: {first['msg']}"]
    if manifest.schema_ != SCHEMA:
        return _NO_MANIFEST, [f"{MANIFEST}: expected schema {SCHEMA}, found {manifest.schema_[:40]!r}"]
    return manifest, []


def _archive(data: bytes, files: Mapping[str, bytes]) -> list[str]:
    packed = _pack(files)
    if packed == data:
        return []
    first = next((i for i, (a, b) in enumerate(zip(packed, data, strict=False)) if a != b), min(len(packed), len(data)))
    return [f"archive: byte {first} is not what packing these files gives: altered, added or cut"]


def _signature(files: Mapping[str, bytes], manifest: _Manifest, key: PublicKey | None) -> list[str]:
    if SIGNATURE not in files:
        return [f"{SIGNATURE}: missing"]
    try:
        stated = PublicKey.from_text(manifest.key)
        seal = open_envelope(parse_canonical(files[SIGNATURE]), {"bot": key or stated}, ManifestSeal)
    except (InputError, EvidenceError, MessageError) as error:
        given = " by the key that was given" if key is not None and isinstance(error, BadSignature) else ""
        return [f"{SIGNATURE}: not valid{given}: {error}"]
    if key is not None and key.to_text() != stated.to_text():
        return [f"{MANIFEST}: names another key than the one that was given"]
    if seal.sha256 != sha256_hex(files[MANIFEST]):
        return [f"{MANIFEST}: altered; it is not the one that was signed"]
    return []


def _digests(files: Mapping[str, bytes], manifest: _Manifest) -> list[str]:
    if manifest is _NO_MANIFEST:
        return []
    problems = []
    for name, stated in manifest.files.items():
        if name not in files:
            problems.append(f"{name}: missing")
        elif stated.sha256 != (found := sha256_hex(files[name])) or stated.size_bytes != len(files[name]):
            problems.append(f"{name}: altered; its sha256 is {found[:16]}…")
    extra = sorted(set(files) - set(manifest.files) - {MANIFEST, SIGNATURE})
    return problems + [f"{name}: not in the manifest" for name in extra]


def _ledger(files: Mapping[str, bytes], manifest: _Manifest) -> tuple[list[chain.LedgerEntry], str, list[str]]:
    if LEDGER not in files:
        return [], "", [f"{LEDGER}: missing"]
    try:
        entries, head = chain.verify_ledger(files[LEDGER], incident=manifest.incident or None)
    except BrokenChain as error:
        return [], "", [f"{LEDGER}: {error}"]
    problems: list[str] = []
    stated = _Ledger(entries=len(entries), head=head, last=_last(entries))
    if manifest is not _NO_MANIFEST and manifest.ledger != stated:
        problems.append(f"{LEDGER}: {len(entries)} entries with head {head[:16]}…, the manifest states another")
    held = {name: _named_digest(name) for name in files if name.startswith("artifacts/")}
    problems += [
        f"{name}: its bytes are not those of its digest"
        for name, digest in held.items()
        if sha256_hex(files[name]) != digest
    ]
    named = {sha for entry in entries if entry.kind != "bundle:exported" for sha in entry.artifacts}
    problems += [
        f"artifact {sha[:16]}…: the record names it, the bundle lacks it"
        for sha in sorted(named - set(held.values()) - set(manifest.missing))
    ]
    return entries, head, problems


def _named_digest(name: str) -> str:
    return name.removeprefix("artifacts/")[:64]


def _last(entries: list[chain.LedgerEntry]) -> str:
    return entries[-1].hash if entries else chain.GENESIS


def _head(wanted: str, head: str, last: str) -> list[str]:
    if len(wanted) < _SHORTEST_HEAD:
        return [f"head: expected at least {_SHORTEST_HEAD} digits to compare, found {len(wanted)}"]
    if head.startswith(wanted) or last.startswith(wanted):
        return []
    return [
        f"head: the thread says {wanted[:16]}…, the record ends at {last[:16]}…: entries were cut off, added or replaced"
    ]
