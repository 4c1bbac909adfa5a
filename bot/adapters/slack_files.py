"""Files to and from Slack.

Out: `files.getUploadURLExternal` → bytes → `files.completeUploadExternal` → wait for the share, which Slack makes later or
never. In: `url_private_download` with the token, to Slack's hosts or the configured API's host only and never along a
redirect; HTML instead of a file means that a scope is missing.
"""

from __future__ import annotations

import gzip
import http.client
import io
import sys
import urllib.request
import zlib
from collections.abc import Iterator
from functools import partial
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from bot.adapters.slack_calls import TIMEOUT_S, SlackCalls
from bot.errors import FileNotReadable, SlackOutcomeUnclear, SlackRefused

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAX_FILE_BYTES = 256 * 1024 * 1024
"""Larger logs are analysed with `baseline analyze FILE` where they lie."""
CHUNK_BYTES = 256 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        """Follow nothing: the token must not travel to where an answer points."""


_OPENER = urllib.request.build_opener(_NoRedirect)


class SlackFiles:
    """Uploads into threads, downloads of dropped files."""

    def __init__(self, calls: SlackCalls, *, token: str, hosts: frozenset[str]) -> None:
        self._calls = calls
        self._token = token
        self._hosts = hosts

    def reserve(self, name: str, size_bytes: int, *, alt: str = "") -> tuple[str, str]:
        """Return (upload URL, file id); nothing is visible yet. alt: what a picture shows, for who does not see it.

        Raises:
            SlackError: one of its kinds.
        """
        told = {"alt_txt": alt} if alt else {}
        answer = self._calls.call_form("files.getUploadURLExternal", filename=name, length=size_bytes, **told)
        return str(answer["upload_url"]), str(answer["file_id"])

    def upload(self, url: str, data: bytes) -> None:
        """Send the bytes to the reserved URL.

        Raises:
            SlackOutcomeUnclear: not accepted, or no answer; the file is not shared yet, so it may be reserved anew.
        """
        headers = {"Content-Type": "application/octet-stream"}
        request = urllib.request.Request(url, data=data, method="POST", headers=headers)  # noqa: S310 - the URL is Slack's own answer
        try:
            with _OPENER.open(request, timeout=TIMEOUT_S * 4) as response:
                response.read(1024)
        except (URLError, OSError, http.client.HTTPException) as error:
            raise SlackOutcomeUnclear(f"upload: {error}", error="no_answer") from error

    def complete(self, file_id: str, title: str, *, channel: str, thread_ts: str | None) -> None:
        """Share the uploaded file into a thread.

        Raises:
            SlackError: one of its kinds.
        """
        place = {"channel_id": channel, **({"thread_ts": thread_ts} if thread_ts else {})}
        self._calls.call("files.completeUploadExternal", files=[{"id": file_id, "title": title}], **place)

    def shared(self, file_id: str, channel: str) -> bool:
        """Whether the file is visible in the channel; Slack's `ok` before that means nothing.

        Raises:
            SlackError: one of its kinds.
        """
        shares = self._calls.call_form("files.info", file=file_id).get("file", {}).get("shares", {})
        return any(channel in places for places in shares.values() if isinstance(places, dict))

    def download_url(self, file: dict[str, Any]) -> str:
        """Return where a dropped file is read from, asking Slack when the event did not say.

        Raises:
            FileNotReadable: Slack knows no such file or gives no address.
        """
        url = file.get("url_private_download") or file.get("url_private")
        if not url:
            try:
                known = self._calls.call_form("files.info", file=str(file.get("id", ""))).get("file", {})
            except SlackRefused as error:
                raise FileNotReadable(f"Slack does not give the file: {error.error}") from error
            url = known.get("url_private_download") or known.get("url_private")
        if not url:
            raise FileNotReadable(
                "Slack gives no address to read the file from; it may be a file from outside or a deleted one"
            )
        return str(url)

    def read(self, file: dict[str, Any]) -> Iterator[bytes]:
        """Yield the file's bytes, unpacked when it is gzip or zstd; never more than `MAX_FILE_BYTES`.

        Raises:
            FileNotReadable: too large, gone, a foreign host, a redirect, HTML instead of a file, broken packing.
            SlackOutcomeUnclear: no answer; worth another try.
        """
        size = int(file.get("size") or 0)
        if size > MAX_FILE_BYTES:
            raise FileNotReadable(
                f"it has {size // 2**20} MiB, the limit is {MAX_FILE_BYTES // 2**20} MiB; run `baseline analyze FILE` where it lies"
            )
        url = self.download_url(file)
        if urlsplit(url).netloc not in self._hosts and urlsplit(url).hostname not in self._hosts:
            raise FileNotReadable(
                f"it lies on {urlsplit(url).hostname}, which is not Slack; the token is not sent there"
            )
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self._token}"})  # noqa: S310 - host checked above
        try:
            with _OPENER.open(request, timeout=TIMEOUT_S) as response:
                kind = response.headers.get_content_type()
                if kind == "text/html" and not str(file.get("mimetype", "")).startswith("text/html"):
                    raise FileNotReadable(
                        "Slack answered with a web page instead of the file: the app lacks the scope files:read"
                    )
                yield from _capped(_unpacked(response))
        except HTTPError as error:
            if error.code >= 500 or error.code == 429:
                raise SlackOutcomeUnclear(f"download: HTTP {error.code}", error=str(error.code)) from error
            what = (
                "redirects elsewhere, which is not followed"
                if 300 <= error.code < 400
                else f"answers HTTP {error.code}"
            )
            raise FileNotReadable(f"its address {what}") from error
        except (zlib.error, EOFError, gzip.BadGzipFile, zstd.ZstdError) as error:
            raise FileNotReadable(f"it begins like a packed file and does not unpack: {error}") from error
        except (URLError, OSError, http.client.HTTPException) as error:
            raise SlackOutcomeUnclear(f"download: {error}", error="no_answer") from error


class _Again(io.RawIOBase):
    """A response whose first bytes were read already, from the start."""

    def __init__(self, first: bytes, rest: IO[bytes]) -> None:
        self._first = first
        self._rest = rest

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer; 0 at the end."""
        data = self._first[: len(buffer)] or self._rest.read(len(buffer))
        self._first = self._first[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)


def _unpacked(response: IO[bytes]) -> Iterator[bytes]:
    first = response.read(CHUNK_BYTES)
    if first.startswith(_ZSTD_MAGIC):
        with zstd.open(_Again(first, response), "rb") as unpacked:
            yield from iter(partial(unpacked.read, CHUNK_BYTES), b"")
        return
    if not first.startswith(_GZIP_MAGIC):
        while first:
            yield first
            first = response.read(CHUNK_BYTES)
        return
    unpack = zlib.decompressobj(wbits=31)
    while first:
        yield unpack.decompress(first, CHUNK_BYTES * 16)
        while unpack.unconsumed_tail:
            yield unpack.decompress(unpack.unconsumed_tail, CHUNK_BYTES * 16)
        first = response.read(CHUNK_BYTES)
    if not unpack.eof:
        raise EOFError("the end is missing")


def _capped(chunks: Iterator[bytes]) -> Iterator[bytes]:
    total = 0
    for chunk in chunks:
        total += len(chunk)
        if total > MAX_FILE_BYTES:
            raise FileNotReadable(f"unpacked it is larger than {MAX_FILE_BYTES // 2**20} MiB")
        if chunk:
            yield chunk
