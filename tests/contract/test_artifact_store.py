"""The artifact store keeps bytes by digest, whole or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.adapters.artifact_store import FsspecArtifacts
from bot.errors import ArtifactsUnavailable, DigestMismatch, UnknownArtifact

DATA = b"evidence\n" * 300_000
SHA = hashlib.sha256(DATA).hexdigest()


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> FsspecArtifacts:
    return FsspecArtifacts(str(tmp_path / "files") if request.param == "disk" else f"memory://{tmp_path.name}")


def test_what_was_put_is_got_by_its_digest(store: FsspecArtifacts) -> None:
    assert store.put(DATA) == SHA
    assert store.put(DATA) == SHA
    assert store.get(SHA) == DATA
    assert store.has(SHA)
    with store.open(SHA) as chunks:
        sizes = [len(chunk) for chunk in chunks]
    assert sum(sizes) == len(DATA)
    assert max(sizes) <= 1 << 20


def test_a_stream_with_other_bytes_is_not_kept(store: FsspecArtifacts) -> None:
    with pytest.raises(DigestMismatch, match="found"):
        store.put_stream(iter([b"other"]), expected=SHA)
    assert not store.has(SHA)
    with pytest.raises(UnknownArtifact, match="no stored file"):
        store.get(SHA)


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "A" * 64, SHA[:-1]])
def test_only_digests_are_names(store: FsspecArtifacts, name: str) -> None:
    assert not store.has(name)
    with pytest.raises(UnknownArtifact, match="64 hex digits"):
        store.get(name)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "files").write_text("in the way")
    with pytest.raises(ArtifactsUnavailable, match="does not answer or is full"):
        FsspecArtifacts(str(tmp_path / "files")).put(DATA)


def test_a_file_that_was_altered_on_disk_is_not_handed_out_as_evidence(tmp_path: Path) -> None:
    store = FsspecArtifacts(str(tmp_path))
    store.put(DATA)
    (tmp_path / SHA[:2] / SHA).write_bytes(DATA[:-1] + b"x")
    with pytest.raises(DigestMismatch, match="was altered"):
        store.get(SHA)


def test_a_stream_that_breaks_off_leaves_nothing_behind(tmp_path: Path) -> None:
    def breaks() -> Iterator[bytes]:
        yield DATA
        raise ConnectionResetError

    store = FsspecArtifacts(str(tmp_path))
    with pytest.raises(ConnectionResetError):
        store.put_stream(breaks(), expected=SHA)
    assert not store.has(SHA)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
