"""The bundle: deterministic, verified from itself alone, and any changed byte is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbooks.errors import BrokenBundle, BrokenChain
from playbooks.evidence import bundle, chain
from playbooks.evidence.canonical import sha256_hex
from playbooks.evidence.signing import SigningKey
from tests.support.bundle_sample import GOOD, KEY, LOG, entries, ledger, made


def test_a_whole_bundle_holds_and_says_what_it_covers() -> None:
    verdict = bundle.verify(GOOD, key=KEY.public, head=entries()[-1].hash[:12])
    assert verdict.holds
    assert (verdict.incident, verdict.entries, verdict.key) == ("INC-0001", 3, KEY.public_text)


def test_the_same_material_gives_the_same_bytes() -> None:
    assert made() == GOOD


@given(st.integers(min_value=0, max_value=len(GOOD) - 1), st.integers(min_value=1, max_value=255))
def test_any_changed_byte_is_named(place: int, by: int) -> None:
    changed = bytearray(GOOD)
    changed[place] = (changed[place] + by) % 256
    try:
        verdict = bundle.verify(bytes(changed))
    except BrokenBundle as error:
        assert str(error)
    else:
        assert verdict.problems


@pytest.mark.parametrize(
    ("data", "names"),
    [
        pytest.param(GOOD + b"x", "archive", id="trailing bytes"),
        pytest.param(GOOD.replace(b"root line", b"r00t line"), "engine.log", id="an artifact's byte"),
        pytest.param(GOOD.replace(b"# INC-0001", b"# INC-0002"), "README.md", id="the first page"),
    ],
)
def test_what_is_wrong_is_named(data: bytes, names: str) -> None:
    assert any(names in problem for problem in bundle.verify(data).problems)


def repacked(**files: bytes | None) -> bytes:
    unpacked, _ = bundle._unpack(GOOD)
    for name, data in files.items():
        real = {"page": "README.md", "ledger": "ledger.jsonl", "signature": "signature.json"}.get(name, name)
        unpacked.pop(real, None)
        if data is not None:
            unpacked[real] = data
    return bundle._pack(unpacked)


@pytest.mark.parametrize(
    ("found", "names"),
    [
        pytest.param(entries()[:2], "manifest states another", id="cut tail"),
        pytest.param([entries()[0], entries()[2]], "#2", id="removed entry"),
        pytest.param([entries()[1], entries()[0], entries()[2]], "#1", id="swapped pair"),
    ],
)
def test_a_tampered_record_is_named_even_when_it_is_packed_well(found: list[chain.LedgerEntry], names: str) -> None:
    problems = bundle.verify(repacked(ledger=ledger(found))).problems
    assert any(names in problem for problem in problems)


def test_a_forged_payload_is_named() -> None:
    forged = ledger(entries()).replace(b'"value":"2"', b'"value":"9"')
    assert any("#2" in p and "altered" in p for p in bundle.verify(repacked(ledger=forged)).problems)


@pytest.mark.parametrize("name", ["page", "ledger", "signature"])
def test_a_missing_file_is_named(name: str) -> None:
    assert any("missing" in problem for problem in bundle.verify(repacked(**{name: None})).problems)


def test_a_file_that_nobody_listed_is_named() -> None:
    assert any("extra.txt: not in the manifest" in p for p in bundle.verify(repacked(**{"extra.txt": b"x"})).problems)


def test_without_its_manifest_it_is_no_bundle() -> None:
    with pytest.raises(BrokenBundle, match=r"expected manifest\.json"):
        bundle.verify(repacked(**{"manifest.json": None}))


@pytest.mark.parametrize("data", [b"", b"not a zip", GOOD[: len(GOOD) // 2]], ids=["empty", "text", "cut in half"])
def test_bytes_that_are_no_archive_are_refused_in_words(data: bytes) -> None:
    with pytest.raises(BrokenBundle, match="expected a bundle archive"):
        bundle.verify(data)


def test_another_key_is_named() -> None:
    other = SigningKey.generate()
    problems = bundle.verify(GOOD, key=other.public).problems
    assert any("by the key that was given" in problem for problem in problems)
    assert bundle.verify(made(key=other), key=KEY.public).problems


@pytest.mark.parametrize(("head", "fine"), [(entries()[-1].hash, True), ("f" * 64, False), ("abc", False)])
def test_the_head_from_the_thread_shows_a_cut_tail(head: str, fine: bool) -> None:
    assert bundle.verify(GOOD, head=head).holds is fine
    assert bundle.verify(GOOD, head=chain.verify(entries())[1]).holds


def test_a_broken_record_is_never_packed() -> None:
    with pytest.raises(BrokenChain):
        made(ledger=ledger([entries()[1]]))
    with pytest.raises(BrokenBundle, match=r"README\.md given twice"):
        made(files={"README.md": b""})


def test_a_lacking_artifact_is_named_unless_the_manifest_says_so() -> None:
    assert any("the bundle lacks it" in p for p in bundle.verify(made(files={})).problems)
    assert bundle.verify(made(files={}, missing=(sha256_hex(LOG),))).holds


def test_a_file_under_another_digest_is_named() -> None:
    files = {f"artifacts/{'0' * 64}-x": LOG, f"artifacts/{sha256_hex(LOG)}-engine.log": LOG}
    assert any("not those of its digest" in p for p in bundle.verify(made(files=files)).problems)
