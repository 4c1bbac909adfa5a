"""The hash chain of an incident's ledger: entry hash, head hash, and what breaks them.

An entry's hash covers its place, its predecessor's hash and all its content. The head hash covers the number of entries
and the last entry's hash under another prefix, so that neither can stand in for the other.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from playbooks.errors import BrokenChain, NotCanonical
from playbooks.evidence.canonical import canonical_bytes, parse_canonical, parse_canonical_text, read_utc, utc_text

GENESIS = "0" * 64
"""`previous` of the first entry, and the entry hash of an empty ledger's head."""
ENTRY_PREFIX = b"baseline-entry/1\n"
HEAD_PREFIX = b"baseline-head/1\n"
_HASH = re.compile(r"[0-9a-f]{64}")
_SHOWN_CHARS = 40


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One record of an incident; satisfies `playbooks.guiding.case.EntryLike`."""

    incident: str
    seq: int
    previous: str
    hash: str
    kind: str
    actor: str
    """`user:U123`, `node:gpu-a1`, `bot`."""
    at: datetime
    payload: dict[str, Any]
    artifacts: tuple[str, ...]


def entry_hash(
    *,
    incident: str,
    seq: int,
    previous: str,
    kind: str,
    actor: str,
    at: datetime,
    payload: dict[str, Any],
    artifacts: tuple[str, ...] = (),
) -> str:
    """Return the hash that names an entry and everything before it.

    Raises:
        NotCanonical: the content has no canonical bytes.
    """
    content = {
        "incident": incident,
        "seq": seq,
        "previous": previous,
        "kind": kind,
        "actor": actor,
        "at": utc_text(at),
        "payload": payload,
        "artifacts": list(artifacts),
    }
    return _digest(ENTRY_PREFIX, canonical_bytes(content))


def head_hash(incident: str, seq: int, last_hash: str) -> str:
    """Return the hash of a ledger with `seq` entries whose last has this hash; what is posted to the thread."""
    return _digest(HEAD_PREFIX, canonical_bytes({"incident": incident, "seq": seq, "last": last_hash}))


def verify(entries: Iterable[LedgerEntry], *, incident: str | None = None, head: str | None = None) -> tuple[int, str]:
    """Check a whole ledger, oldest first; return the number of its entries and its head hash.

    incident: the one that all entries must belong to; by default the first entry's.
    head: the head hash that the ledger must have, from the thread; shows a cut tail.

    Raises:
        BrokenChain: an entry is missing, moved, added or altered, or the head is another; `seq` is the first bad one.
    """
    count, last = 0, GENESIS
    for entry in entries:
        incident = entry.incident if incident is None else incident
        check_link(entry, seq=count + 1, previous=last, incident=incident)
        count, last = count + 1, entry.hash
    return count, _checked_head(incident, count, last, head)


def _checked_head(incident: str | None, count: int, last: str, head: str | None) -> str:
    found = head_hash(incident or "", count, last)
    if head is not None and head != found:
        raise BrokenChain(
            f"expected head {head[:16]}…, found {found[:16]}… after #{count}: entries were cut off, added or replaced",
            seq=count + 1,
        )
    return found


def verify_ledger(
    data: bytes, *, incident: str | None = None, head: str | None = None
) -> tuple[list[LedgerEntry], str]:
    """Read and check a whole `ledger.jsonl`; return its entries, oldest first, and its head hash.

    incident, head: as for `verify`.

    Raises:
        BrokenChain: a line is no entry, or the chain does not hold; `seq` is the first bad one.
    """
    entries: list[LedgerEntry] = []
    last = GENESIS
    for seq, line in enumerate(_lines(data), start=1):
        entry = _read_whole(line, seq, last)
        if entry is None or entry.incident != (incident or entry.incident):
            entry = parse_line(line, seq=seq)
            check_link(entry, seq=seq, previous=last, incident=incident or entry.incident)
        incident = incident or entry.incident
        entries.append(entry)
        last = entry.hash
    return entries, _checked_head(incident, len(entries), last, head)


def check_link(entry: LedgerEntry, *, seq: int, previous: str, incident: str) -> None:
    """Check one entry against its place.

    Raises:
        BrokenChain: it does not belong there, or its hash is not that of its content.
    """
    if entry.incident != incident:
        raise BrokenChain(f"#{seq}: expected an entry of {incident}, found one of {entry.incident}", seq=seq)
    if entry.seq != seq:
        raise BrokenChain(f"#{seq}: expected entry #{seq}, found #{entry.seq}", seq=seq)
    if entry.previous != previous:
        raise BrokenChain(
            f"#{seq}: expected the hash of its predecessor {previous[:16]}…, found {entry.previous[:16]}…", seq=seq
        )
    try:
        computed = entry_hash(
            incident=entry.incident,
            seq=entry.seq,
            previous=entry.previous,
            kind=entry.kind,
            actor=entry.actor,
            at=entry.at,
            payload=entry.payload,
            artifacts=entry.artifacts,
        )
    except NotCanonical as error:
        raise BrokenChain(f"#{seq}: {error}", seq=seq) from error
    if computed != entry.hash:
        raise BrokenChain(
            f"#{seq}: its content hashes to {computed[:16]}…, but it says {entry.hash[:16]}…: altered", seq=seq
        )


def dump_line(entry: LedgerEntry) -> bytes:
    """Return an entry as its line of `ledger.jsonl`, without the line feed."""
    return canonical_bytes(
        {
            "incident": entry.incident,
            "seq": entry.seq,
            "previous": entry.previous,
            "hash": entry.hash,
            "kind": entry.kind,
            "actor": entry.actor,
            "at": utc_text(entry.at),
            "payload": entry.payload,
            "artifacts": list(entry.artifacts),
        }
    )


def parse_ledger(data: bytes) -> Iterator[LedgerEntry]:
    """Read `ledger.jsonl`, oldest entry first.

    Raises:
        BrokenChain: a line that is no entry; `seq` is its line number, which is the sequence number it should have.
    """
    for number, line in enumerate(_lines(data), start=1):
        yield parse_line(line, seq=number)


def _lines(data: bytes) -> list[bytes]:
    if data and not data.endswith(b"\n"):
        raise BrokenChain("the last line has no line feed: the file was cut", seq=data.count(b"\n") + 1)
    return data.split(b"\n")[:-1]


_PLAIN = r'[^"\\\x00-\x1f]*'
_FRONT = re.compile(
    rf'\{{"actor":"({_PLAIN})","artifacts":\[((?:"[0-9a-f]{{64}}"(?:,"[0-9a-f]{{64}}")*)?)\],'
    r'"at":"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z)",("hash":"([0-9a-f]{64})",)'
    rf'"incident":"({_PLAIN})","kind":"({_PLAIN})","payload":'
)
"""An ordinary line up to its payload. `entry_hash` covers the same line without the fourth group, byte for byte."""


def _read_whole(line: bytes, seq: int, previous: str) -> LedgerEntry | None:
    """Return the entry of a line that is ordinary, in its place and whole; None for any other.

    Such a line is taken apart by one pattern, several times as fast as by `parse_line`, which names what is wrong.
    """
    back = f',"previous":"{previous}","seq":{seq}}}'
    try:
        text = line.decode()
        front = _FRONT.match(text)
        if front is None or not text.endswith(back):
            return None
        actor, artifacts, at, _, stated, incident, kind = front.groups()
        content = (text[: front.start(4)] + text[front.end(4) :]).encode()
        if hashlib.sha256(ENTRY_PREFIX + content).hexdigest() != stated:
            return None
        payload = parse_canonical_text(text[front.end() : -len(back)])
        when = datetime.fromisoformat(at)
    except (NotCanonical, ValueError):
        return None
    if type(payload) is not dict:
        return None
    named = tuple(artifacts.replace('"', "").split(",")) if artifacts else ()
    return LedgerEntry(incident, seq, previous, stated, kind, actor, when, payload, named)


def parse_line(line: bytes, *, seq: int) -> LedgerEntry:
    """Read one line strictly: exactly the fields of an entry, each of its type, in canonical form.

    Raises:
        BrokenChain: each malformed case with a message of its own.
    """
    if not line:
        raise BrokenChain(f"#{seq}: expected an entry, found an empty line", seq=seq)
    try:
        raw = parse_canonical(line)
    except NotCanonical as error:
        raise BrokenChain(f"#{seq}: {error}", seq=seq) from error
    if not isinstance(raw, dict):
        raise BrokenChain(f"#{seq}: expected a JSON object, found {_shown(raw)}", seq=seq)
    _check_fields(raw, seq)
    try:
        at = read_utc(raw["at"])
    except NotCanonical as error:
        raise BrokenChain(f"#{seq}: at: {error}", seq=seq) from error
    return LedgerEntry(**{**raw, "at": at, "artifacts": tuple(raw["artifacts"])})


_FIELDS: dict[str, tuple[type, str]] = {
    "incident": (str, "text"),
    "seq": (int, "a whole number"),
    "previous": (str, "64 hex digits"),
    "hash": (str, "64 hex digits"),
    "kind": (str, "text"),
    "actor": (str, "text"),
    "at": (str, "a time"),
    "payload": (dict, "an object"),
    "artifacts": (list, "a list of digests"),
}


def _check_fields(raw: dict[str, Any], seq: int) -> None:
    if raw.keys() != _FIELDS.keys():
        for name in _FIELDS:
            if name not in raw:
                raise BrokenChain(f"#{seq}: the field `{name}` is missing", seq=seq)
        unknown = next(name for name in raw if name not in _FIELDS)
        raise BrokenChain(f"#{seq}: the field `{unknown[:_SHOWN_CHARS]}` does not belong to an entry", seq=seq)
    for name, (kind, expected) in _FIELDS.items():
        if type(raw[name]) is not kind:
            raise BrokenChain(f"#{seq}: {name}: expected {expected}, found {_shown(raw[name])}", seq=seq)
    for name in ("previous", "hash"):
        if not _HASH.fullmatch(raw[name]):
            raise BrokenChain(f"#{seq}: {name}: expected 64 hex digits, found {_shown(raw[name])}", seq=seq)
    for digest in raw["artifacts"]:
        if not isinstance(digest, str) or not _HASH.fullmatch(digest):
            raise BrokenChain(f"#{seq}: artifacts: expected 64 hex digits, found {_shown(digest)}", seq=seq)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"


def _digest(prefix: bytes, content: bytes) -> str:
    return hashlib.sha256(prefix + content).hexdigest()
