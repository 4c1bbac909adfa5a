"""The ledger's chain: any single change is found, and the first bad entry is named."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbooks.errors import BrokenChain
from playbooks.evidence import chain
from playbooks.evidence.canonical import canonical_bytes
from playbooks.evidence.chain import GENESIS, LedgerEntry

AT = datetime(2026, 12, 1, 2, 41, 7, 250_001, tzinfo=UTC)
DIGEST = "d" * 64
PAYLOADS: list[dict[str, Any]] = [
    {"title": "K3 does not start", "node": None},
    {"item": "when", "value": "02:41"},
    {"text": "驱动太旧 ✓", "nested": {"a": [1, -2, True, None]}},
    {"text": 'quote " backslash \\ tab \t', "digits": "12345678901234567890"},
    {"emoji": "\U0001f600", "\ufb33": 1, "\U0001f600": 2},
    {},
]


def built(
    payloads: list[dict[str, Any]] = PAYLOADS, *, incident: str = "INC-0001", actor: str = "user:U1"
) -> list[LedgerEntry]:
    entries: list[LedgerEntry] = []
    for seq, payload in enumerate(payloads, start=1):
        content: dict[str, Any] = {
            "incident": incident,
            "seq": seq,
            "previous": entries[-1].hash if entries else GENESIS,
            "kind": "answer:recorded",
            "actor": actor,
            "at": AT + timedelta(seconds=seq),
            "payload": payload,
            "artifacts": (DIGEST, "e" * 64)[: seq % 3],
        }
        entries.append(LedgerEntry(hash=chain.entry_hash(**content), **content))
    return entries


def dumped(entries: list[LedgerEntry]) -> bytes:
    return b"".join(chain.dump_line(entry) + b"\n" for entry in entries)


ENTRIES = built()
DATA = dumped(ENTRIES)


def test_a_whole_ledger_holds_and_is_read_as_it_was_written() -> None:
    head = chain.head_hash("INC-0001", 6, ENTRIES[-1].hash)
    assert chain.verify(ENTRIES, incident="INC-0001", head=head) == (6, head)
    assert chain.verify_ledger(DATA, incident="INC-0001", head=head) == (ENTRIES, head)
    assert list(chain.parse_ledger(DATA)) == ENTRIES


def test_an_empty_ledger_has_a_head_too() -> None:
    assert chain.verify([]) == (0, chain.head_hash("", 0, GENESIS))
    assert chain.verify_ledger(b"", incident="INC-0001") == ([], chain.head_hash("INC-0001", 0, GENESIS))


def test_hashes_are_pinned_so_that_old_ledgers_still_verify() -> None:
    assert ENTRIES[1].hash == chain.entry_hash(
        incident="INC-0001",
        seq=2,
        previous=ENTRIES[0].hash,
        kind="answer:recorded",
        actor="user:U1",
        at=AT + timedelta(seconds=2),
        payload={"value": "02:41", "item": "when"},
        artifacts=(DIGEST, "e" * 64),
    )
    assert chain.head_hash("INC-0001", 0, GENESIS) == PINNED_HEAD
    assert ENTRIES[0].hash == PINNED_ENTRY


PINNED_HEAD = "755e4b3d0b99dbb24e85490116a640acab3f0166fcde421232016f60e96d3e09"
PINNED_ENTRY = "a6cf149971cecd041bb378b945d6f809ff2c9965229b449192f01ed44dd77df4"


def test_an_entry_hash_can_never_stand_for_a_head() -> None:
    assert chain.ENTRY_PREFIX != chain.HEAD_PREFIX
    assert not chain.ENTRY_PREFIX.startswith(chain.HEAD_PREFIX[:-1])


def changed(entry: LedgerEntry, **changes: Any) -> LedgerEntry:
    return dataclasses.replace(entry, **changes)


@pytest.mark.parametrize(
    ("entries", "seq", "message"),
    [
        pytest.param([changed(ENTRIES[0], payload={}), *ENTRIES[1:]], 1, "altered", id="forged payload"),
        pytest.param(
            [*ENTRIES[:2], changed(ENTRIES[2], actor="user:U2"), *ENTRIES[3:]], 3, "altered", id="forged actor"
        ),
        pytest.param([*ENTRIES[:2], changed(ENTRIES[2], at=AT), *ENTRIES[3:]], 3, "altered", id="forged time"),
        pytest.param([*ENTRIES[:2], changed(ENTRIES[2], kind="x"), *ENTRIES[3:]], 3, "altered", id="forged kind"),
        pytest.param(
            [*ENTRIES[:2], changed(ENTRIES[2], artifacts=(DIGEST,)), *ENTRIES[3:]], 3, "altered", id="added file"
        ),
        pytest.param([*ENTRIES[:2], changed(ENTRIES[2], hash="0" * 64), *ENTRIES[3:]], 3, "altered", id="forged hash"),
        pytest.param([*ENTRIES[:2], *ENTRIES[3:]], 3, "expected entry #3, found #4", id="removed entry"),
        pytest.param([ENTRIES[0], ENTRIES[2], ENTRIES[1], *ENTRIES[3:]], 2, "found #3", id="swapped pair"),
        pytest.param([ENTRIES[0], ENTRIES[0], *ENTRIES[1:]], 2, "found #1", id="repeated entry"),
        pytest.param(ENTRIES[1:], 1, "found #2", id="the first is missing"),
        pytest.param(
            [*ENTRIES[:3], built([{"x": 1}] * 6)[3], *ENTRIES[4:]], 4, "hash of its predecessor", id="of another record"
        ),
        pytest.param(
            [*ENTRIES[:3], built(incident="INC-0002")[3]], 4, "found one of INC-0002", id="of another incident"
        ),
    ],
)
def test_what_was_done_to_a_ledger_is_named(entries: list[LedgerEntry], seq: int, message: str) -> None:
    with pytest.raises(BrokenChain, match=message) as caught:
        chain.verify(entries)
    assert caught.value.seq == seq
    with pytest.raises(BrokenChain, match=message) as read:
        chain.verify_ledger(dumped(entries))
    assert read.value.seq == seq


def test_a_cut_tail_shows_against_the_head_of_the_thread() -> None:
    _, head = chain.verify(ENTRIES)
    for check in (
        lambda: chain.verify(ENTRIES[:-1], head=head),
        lambda: chain.verify_ledger(dumped(ENTRIES[:-1]), head=head),
    ):
        with pytest.raises(BrokenChain, match="entries were cut off") as caught:
            check()
        assert caught.value.seq == 6


def test_the_incident_may_be_given() -> None:
    for check in (chain.verify(ENTRIES), chain.verify_ledger(DATA)):
        assert check[1] == chain.head_hash("INC-0001", 6, ENTRIES[-1].hash)
    with pytest.raises(BrokenChain, match="expected an entry of INC-0009"):
        chain.verify(ENTRIES, incident="INC-0009")
    with pytest.raises(BrokenChain, match="expected an entry of INC-0009"):
        chain.verify_ledger(DATA, incident="INC-0009")


def test_an_entry_that_has_no_canonical_bytes_breaks_the_chain_and_not_the_reader() -> None:
    with pytest.raises(BrokenChain, match="float"):
        chain.verify([changed(ENTRIES[0], payload={"x": 1.5})])


@given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
def test_any_changed_byte_is_found(place: int, by: int) -> None:
    data = bytearray(DATA)
    data[place] = (data[place] + by) % 256
    with pytest.raises(BrokenChain):
        chain.verify_ledger(bytes(data), head=chain.verify(ENTRIES)[1])


@given(
    st.lists(st.dictionaries(st.text(), st.text() | st.integers(-9, 9), max_size=3), min_size=1, max_size=4), st.text()
)
def test_both_readers_agree_on_any_ledger(payloads: list[dict[str, Any]], actor: str) -> None:
    entries = built(payloads, actor=actor)
    data = dumped(entries)
    assert chain.verify_ledger(data)[0] == list(chain.parse_ledger(data)) == entries


LINE = json.loads(chain.dump_line(ENTRIES[1]))


def line(**changes: Any) -> bytes:
    return canonical_bytes({name: value for name, value in {**LINE, **changes}.items() if value is not ...})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"\n", "found an empty line", id="an empty line"),
        pytest.param(b"{}", "the last line has no line feed", id="cut in a line"),
        pytest.param(b"\xff\n", "expected UTF-8", id="no UTF-8"),
        pytest.param(b"{\n", "expected JSON", id="no JSON"),
        pytest.param(b"[]\n", r"expected a JSON object, found \[\]", id="a list"),
        pytest.param(line(actor=...) + b"\n", "the field `actor` is missing", id="a missing field"),
        pytest.param(line(colour="red") + b"\n", "the field `colour` does not belong", id="an unknown field"),
        pytest.param(line(seq="1") + b"\n", "seq: expected a whole number, found '1'", id="seq as text"),
        pytest.param(line(seq=True) + b"\n", "seq: expected a whole number, found True", id="seq as a truth value"),
        pytest.param(line(kind=7) + b"\n", "kind: expected text, found 7", id="kind as number"),
        pytest.param(line(payload=[]) + b"\n", r"payload: expected an object, found \[\]", id="payload as list"),
        pytest.param(line(artifacts={}) + b"\n", "artifacts: expected a list of digests", id="artifacts as object"),
        pytest.param(line(artifacts=["x"]) + b"\n", "artifacts: expected 64 hex digits, found 'x'", id="no digest"),
        pytest.param(
            line(artifacts=[1]) + b"\n", "artifacts: expected 64 hex digits, found 1", id="a number as digest"
        ),
        pytest.param(line(hash="A" * 64) + b"\n", "hash: expected 64 hex digits", id="hash in capitals"),
        pytest.param(line(previous="0") + b"\n", "previous: expected 64 hex digits, found '0'", id="a short previous"),
        pytest.param(line(at="yesterday") + b"\n", "at: expected a time like", id="no time"),
        pytest.param(
            line(at="2026-13-01T00:00:00.000000Z") + b"\n", "at: expected a time like", id="a thirteenth month"
        ),
        pytest.param(line().replace(b":", b": ", 1) + b"\n", "another spelling", id="a space"),
        pytest.param(line(payload={"x": 1}).replace(b'"x":1', b'"x":1.0') + b"\n", "whole numbers", id="a float"),
        pytest.param(line(kind="x" * 99, seq="y" * 99) + b"\n", "…", id="long values are cut in the message"),
    ],
)
def test_each_malformed_line_has_its_own_message(data: bytes, message: str) -> None:
    with pytest.raises(BrokenChain, match=message) as caught:
        list(chain.parse_ledger(data))
    assert caught.value.seq == 1
    with pytest.raises(BrokenChain, match=message):
        chain.verify_ledger(data)


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"[1]", "payload: expected an object"),
        (b'{"a": 1}', "another spelling"),
        (b'{"b":1,"a":1}', "another spelling"),
        (b'{"a":1}x', "expected JSON|another"),
    ],
)
def test_a_line_that_hashes_right_must_be_canonical_too(payload: bytes, message: str) -> None:
    """Whoever writes the ledger cannot make two readers see two things in it."""
    import hashlib

    front = b'{"actor":"bot","artifacts":[],"at":"2026-12-01T00:00:00.000000Z",'
    back = b'"incident":"I","kind":"k","payload":%b,"previous":"%b","seq":1}' % (payload, GENESIS.encode())
    digest = hashlib.sha256(chain.ENTRY_PREFIX + front + back).hexdigest()
    with pytest.raises(BrokenChain, match=message):
        chain.verify_ledger(front + b'"hash":"%b",' % digest.encode() + back + b"\n")
