"""What a forger may hand in: every answer is a verdict or a refusal in words, never a crash and never a pass."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest

from playbooks.errors import BrokenBundle
from playbooks.evidence import bundle
from playbooks.evidence.canonical import canonical_bytes, sha256_hex
from playbooks.evidence.signing import SigningKey, sign
from tests.support.bundle_sample import GOOD, KEY, LOG, entries, ledger, made

FILES, _ = bundle._unpack(GOOD)
MANIFEST = json.loads(FILES[bundle.MANIFEST])


def problems(data: bytes, **options: Any) -> str:
    verdict = bundle.verify(data, **options)
    assert not verdict.holds
    return "\n".join(verdict.problems)


def test_each_single_byte_counts() -> None:
    """Every third byte, so that each header, name, content and check sum has its turn; Hypothesis takes any."""
    passed = []
    for place in range(0, len(GOOD), 3):
        changed = bytearray(GOOD)
        changed[place] ^= 1 << place % 8
        try:
            if bundle.verify(bytes(changed)).holds:
                passed.append(place)
        except BrokenBundle as error:
            assert str(error)
    assert passed == []


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_changed_byte_names_the_file_it_stands_in(name: str) -> None:
    content = FILES[name]
    at = GOOD.index(content) + len(content) // 2
    changed = GOOD[:at] + bytes([GOOD[at] ^ 1]) + GOOD[at + 1 :]
    assert name in bundle.verify(changed).problems[0]


@pytest.mark.parametrize("cut", range(1, 120, 7))
def test_a_cut_archive_does_not_pass(cut: int) -> None:
    with pytest.raises(BrokenBundle, match="expected a bundle archive"):
        bundle.verify(GOOD[:-cut])


def with_comment() -> bytes:
    buffer = io.BytesIO(GOOD)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.comment = b"hello"
    return buffer.getvalue()


def compressed() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def with_two_pages() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("README.mx", b"# All is well\n")
        for name, content in FILES.items():
            archive.writestr(name, content)
    return buffer.getvalue().replace(b"README.mx", b"README.md")


@pytest.mark.parametrize(
    ("data", "named"),
    [
        pytest.param(GOOD + b"\0", "archive: byte", id="a byte after the end"),
        pytest.param(b"\0" + GOOD, "archive: byte 0", id="a byte before the start"),
        pytest.param(with_comment(), "archive: byte", id="a comment"),
        pytest.param(with_two_pages(), "README.md: stands in the archive twice", id="two pages"),
        pytest.param(bundle._pack({**FILES, "bad\nname": b""}), "no name of a file in a bundle", id="an odd name"),
        pytest.param(bundle._pack({**FILES, "x" * 301: b""}), "no name of a file in a bundle", id="a long name"),
    ],
)
def test_another_archive_of_the_same_files_is_named(data: bytes, named: str) -> None:
    assert named in problems(data)


def test_compressed_files_are_refused_unread() -> None:
    with pytest.raises(BrokenBundle, match="compressed files"):
        bundle.verify(compressed())


def test_an_archive_that_lists_more_than_it_has_is_refused() -> None:
    central = GOOD.rindex(b"PK\x01\x02")
    swollen = GOOD[: central + 24] + b"\xff\xff\xff\x7f" + GOOD[central + 28 :]
    with pytest.raises(BrokenBundle, match="more bytes of files than it has"):
        bundle.verify(swollen)


def test_a_file_that_starts_outside_the_archive_is_missing() -> None:
    central = GOOD.rindex(b"PK\x01\x02")
    moved = GOOD[: central + 42] + b"\xff\xff\xff\x00" + GOOD[central + 46 :]
    assert "missing" in problems(moved)


def forged(*, key: SigningKey = KEY, **changes: Any) -> bytes:
    """Sign another manifest over the same files, as whoever holds the key could."""
    said = {**MANIFEST, **{name.rstrip("_"): value for name, value in changes.items()}}
    manifest = canonical_bytes({name: value for name, value in said.items() if value is not ...})
    seal = sign(bundle.ManifestSeal(sha256=sha256_hex(manifest)), key, "bot").model_dump(mode="json")
    packed = {**FILES, bundle.MANIFEST: manifest, bundle.SIGNATURE: canonical_bytes(seal)}
    return bundle._pack(packed)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"schema": "baseline-bundle/9"}, "expected schema baseline-bundle/1, found 'baseline-bundle/9'"),
        ({"schema": ...}, "manifest.json: schema: Field required"),
        ({"missing": 7}, "manifest.json: missing: "),
        ({"missing": [7]}, "manifest.json: missing.0: "),
        ({"files": []}, "manifest.json: files: "),
        ({"files": {"README.md": "x"}}, "manifest.json: files.README.md: "),
        ({"ledger": None}, "manifest.json: ledger: "),
        ({"colour": "red"}, "manifest.json: colour: "),
        ({"key_": "no key"}, "expected a public key"),
        ({"incident": "INC-0009"}, "expected an entry of INC-0009, found one of INC-0001"),
        ({"ledger": {"entries": 2, "head": "0" * 64, "last": "0" * 64}}, "the manifest states another"),
        ({"files": {**MANIFEST["files"], "README.md": {"sha256": "0" * 64, "size_bytes": 1}}}, "README.md: altered"),
    ],
)
def test_a_signed_manifest_that_says_something_else_is_named(changes: dict[str, Any], named: str) -> None:
    assert named in problems(forged(**changes))


def test_a_manifest_that_is_no_object_is_named() -> None:
    assert "manifest.json" in problems(bundle._pack({**FILES, bundle.MANIFEST: b"[]"}))
    assert "manifest.json: altered" in problems(bundle._pack({**FILES, bundle.MANIFEST: b"{"}))


@pytest.mark.parametrize("signature", [b"", b"{}", b"[]", b'"x"', b'{"schema":1}', canonical_bytes({"a": 1})])
def test_a_signature_that_is_none_is_named(signature: bytes) -> None:
    assert "signature.json: not valid" in problems(bundle._pack({**FILES, bundle.SIGNATURE: signature}))


def test_a_signature_over_another_manifest_is_named() -> None:
    other, _ = bundle._unpack(made(page="# other\n"))
    swapped = {**FILES, bundle.SIGNATURE: other[bundle.SIGNATURE]}
    assert "manifest.json: altered; it is not the one that was signed" in problems(bundle._pack(swapped))


def test_a_record_forged_from_start_to_end_shows_against_key_and_head() -> None:
    mine = SigningKey.generate()
    fake = made(key=mine, ledger=ledger(entries(2)), files={f"artifacts/{sha256_hex(LOG)}-engine.log": LOG})
    assert bundle.verify(fake).holds, "without key and head nothing can be said but that it is whole"
    assert "by the key that was given" in problems(fake, key=KEY.public)
    assert "entries were cut off" in problems(fake, head=entries()[-1].hash)


def test_a_forger_who_names_the_bots_key_but_signs_with_another_is_named() -> None:
    assert "does not fit the message" in problems(forged(key=SigningKey.generate()))


def test_a_manifest_that_names_another_key_than_the_one_it_is_signed_with_is_named() -> None:
    other = SigningKey.generate().public_text
    assert "names another key than the one that was given" in problems(forged(key_=other), key=KEY.public)


def test_a_bundle_of_an_empty_record_says_so() -> None:
    verdict = bundle.verify(made(ledger=b"", files={}))
    assert (verdict.holds, verdict.entries, verdict.last_hash) == (True, 0, "")


def test_odd_names_are_never_packed() -> None:
    with pytest.raises(BrokenBundle, match="expected printable names"):
        made(files={"a\nb": b""})
