"""Files by digest, on disk or any fsspec place (`s3://bucket/prefix`); written whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import fsspec

from bot.errors import ArtifactsUnavailable, DigestMismatch, UnknownArtifact

_CHUNK_BYTES = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")


class FsspecArtifacts:
    """Implements `bot.ports.ArtifactStore`; may be used from any thread."""

    def __init__(self, place: str) -> None:
        self._fs, root = fsspec.core.url_to_fs(place)
        self._root = str(root).rstrip("/")

    def put(self, data: bytes) -> str:
        """Store and return the digest; storing the same bytes again is nothing.

        Raises:
            ArtifactsUnavailable: the place does not answer or is full.
        """
        digest = hashlib.sha256(data).hexdigest()
        self.put_stream([data], expected=digest)
        return digest

    def put_stream(self, chunks: Iterable[bytes], *, expected: str) -> int:
        """Store a stream under the digest it must have; returns its size in bytes.

        Raises:
            DigestMismatch: the bytes are others; nothing was kept.
            ArtifactsUnavailable: the place does not answer or is full.
        """
        path = self._path(expected)
        draft = f"{self._root}/drafts/{uuid.uuid4().hex}"
        with _edge():
            self._fs.makedirs(f"{self._root}/drafts", exist_ok=True)
        try:
            found, size = self._write(draft, chunks)
            if found != expected:
                raise DigestMismatch(f"expected bytes of sha256 {expected[:16]}…, found {found[:16]}…")
            with _edge():
                if not self._fs.exists(path):
                    self._fs.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
                    self._fs.mv(draft, path)
        finally:
            with _edge():
                if self._fs.exists(draft):
                    self._fs.rm(draft)
        return size

    def _write(self, draft: str, chunks: Iterable[bytes]) -> tuple[str, int]:
        """Write a draft; return its digest and size. What the sender of the chunks raises is left as it is."""
        digest, size = hashlib.sha256(), 0
        with _edge():
            out = self._fs.open(draft, "wb")
        try:
            for chunk in chunks:
                digest.update(chunk)
                size += len(chunk)
                with _edge():
                    out.write(chunk)
            with _edge():
                _to_disk(out)
        finally:
            with _edge():
                out.close()
        return digest.hexdigest(), size

    def get(self, sha256: str) -> bytes:
        """Return the bytes.

        Raises:
            UnknownArtifact: no stored file of that digest.
            DigestMismatch: the bytes are others than were stored.
            ArtifactsUnavailable: the place does not answer.
        """
        with self.open(sha256) as chunks:
            return b"".join(chunks)

    @contextlib.contextmanager
    def open(self, sha256: str) -> Iterator[Iterator[bytes]]:
        """Read in pieces of 1 MiB.

        Raises:
            UnknownArtifact: no stored file of that digest.
            DigestMismatch: at the end, when the bytes are others than were stored.
            ArtifactsUnavailable: the place does not answer.
        """
        path = self._path(sha256)
        with _edge():
            if not self._fs.exists(path):
                raise UnknownArtifact(f"no stored file of sha256 {sha256[:16]}…")
            source = self._fs.open(path, "rb")
        with contextlib.closing(source):
            yield _chunks(source, sha256)

    def has(self, sha256: str) -> bool:
        """Whether the bytes are stored.

        Raises:
            ArtifactsUnavailable: the place does not answer.
        """
        with _edge():
            return bool(_SHA256.fullmatch(sha256)) and bool(self._fs.exists(self._path(sha256)))

    def forget_drafts(self, *, before: datetime) -> int:
        """Delete what was begun before this time and never finished, as when its process was killed; returns how many files.

        Raises:
            ArtifactsUnavailable: the place does not answer.
        """
        gone = 0
        with _edge():
            folder = f"{self._root}/drafts"
            for draft in self._fs.ls(folder, detail=False) if self._fs.exists(folder) else ():
                if self._fs.modified(draft).astimezone(UTC) < before:
                    self._fs.rm(draft)
                    gone += 1
        return gone

    def _path(self, sha256: str) -> str:
        if not _SHA256.fullmatch(sha256):
            raise UnknownArtifact(f"expected 64 hex digits, found {sha256[:20]!r}")
        return f"{self._root}/{sha256[:2]}/{sha256}"


def _chunks(source: Any, expected: str) -> Iterator[bytes]:
    digest = hashlib.sha256()
    while True:
        with _edge():
            chunk = source.read(_CHUNK_BYTES)
        if not chunk:
            break
        digest.update(chunk)
        yield chunk
    if digest.hexdigest() != expected:
        raise DigestMismatch(f"the stored file {expected[:16]}… was altered: its sha256 is {digest.hexdigest()[:16]}…")


def _to_disk(out: Any) -> None:
    """Write a local file through, so that its name never stands for bytes that a power cut took."""
    out.flush()
    with contextlib.suppress(AttributeError, io.UnsupportedOperation):
        os.fsync(out.fileno())


@contextlib.contextmanager
def _edge() -> Iterator[None]:
    """Turn what files and object stores raise into ours."""
    try:
        yield
    except FileNotFoundError as error:
        raise UnknownArtifact(f"no such file in the artifact store: {error.filename or error}") from error
    except OSError as error:
        raise ArtifactsUnavailable(
            f"the artifact store does not answer or is full: {error.strerror or error}"
        ) from error
