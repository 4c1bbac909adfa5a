"""A small bundle, and the record it is made of."""

from __future__ import annotations

from datetime import UTC, datetime

from playbooks.evidence import bundle, chain
from playbooks.evidence.canonical import sha256_hex
from playbooks.evidence.signing import SigningKey

AT = datetime(2026, 12, 1, 2, 41, tzinfo=UTC)
KEY = SigningKey.from_text(SigningKey.generate().to_text())
LOG = b"ERROR root line\nlast line\n"


def entries(count: int = 3, incident: str = "INC-0001") -> list[chain.LedgerEntry]:
    found: list[chain.LedgerEntry] = []
    for seq in range(1, count + 1):
        content = {
            "incident": incident, "seq": seq, "previous": found[-1].hash if found else chain.GENESIS, "kind": "answer:recorded",
            "actor": "user:U1", "at": AT, "payload": {"item": "x", "value": str(seq)}, "artifacts": (sha256_hex(LOG),) if seq == 2 else (),
        }  # fmt: skip
        found.append(chain.LedgerEntry(hash=chain.entry_hash(**content), **content))
    return found


def ledger(found: list[chain.LedgerEntry]) -> bytes:
    return b"".join(chain.dump_line(entry) + b"\n" for entry in found)


def made(**changes: object) -> bytes:
    values = {
        "incident": "INC-0001", "page": "# INC-0001\n", "ledger": ledger(entries()), "key": KEY, "created_at": AT,
        "files": {f"artifacts/{sha256_hex(LOG)}-engine.log": LOG},
    }  # fmt: skip
    return bundle.build(**{**values, **changes})  # type: ignore[arg-type]


GOOD = made()
