"""The node's side of the bot's HTTP interface: signed both ways, tried again while nobody answers.

Learns from every answer how far this node's clock is from the bot's.
"""

from __future__ import annotations

import base64
import secrets
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import httpx
import stamina
from pydantic import BaseModel, ValidationError

from playbooks.errors import MessageError
from playbooks.evidence.signing import open_envelope, sign
from playbooks.messages import (
    ArtifactOffer,
    ArtifactRef,
    Claim,
    ClaimReply,
    Heartbeat,
    HeartbeatReply,
    HelloReply,
    JobReport,
    NodeHello,
    Progress,
    Refusal,
    ReportReply,
    WatchedOffer,
    WatchedReply,
)
from workers.errors import BotRefused, BotUnreachable
from workers.settings import NodeKey

M = TypeVar("M", bound=BaseModel)


class BotClient:
    """Talks to the bot as one node."""

    def __init__(
        self, url: str, key: NodeKey, *, timeout_s: float = 10, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._key = key
        self._http = httpx.Client(
            base_url=url.rstrip("/"), timeout=httpx.Timeout(timeout_s, connect=3), transport=transport
        )
        self._lock = threading.Lock()
        self._offset_ms: int | None = None

    @property
    def clock_offset_ms(self) -> int | None:
        """Node minus bot at the last answer; None = not heard yet."""
        with self._lock:
            return self._offset_ms

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def hello(self, hello: NodeHello) -> HelloReply:
        """Say who is here and what runs. Tried once: the next one comes soon."""
        return self._post(f"/nodes/{self._key.node}/hello", hello, HelloReply)

    def claim(self, job_id: str, *, patience_s: float) -> ClaimReply:
        """Ask whether a job may start. Raises BotUnreachable after `patience_s`."""
        nonce = secrets.token_hex(8)  # the same for every repetition: a lost answer is no second delivery

        def ask() -> ClaimReply:
            claim = Claim(job_id=job_id, node=self._key.node, nonce=nonce, at=datetime.now(UTC))
            return self._post(f"/jobs/{job_id}/claim", claim, ClaimReply)

        return self._patiently(ask, patience_s)

    def heartbeat(self, beat: Heartbeat) -> HeartbeatReply:
        """Say that a job goes on; the answer may carry a cancel. Tried once."""
        return self._post(f"/jobs/{beat.job_id}/heartbeat", beat, HeartbeatReply)

    def progress(self, progress: Progress) -> None:
        """Say how far a job is. Lossy: tried once."""
        self._send("POST", f"/jobs/{progress.job_id}/progress", content=self._envelope(progress))

    def report(self, report: JobReport, *, patience_s: float) -> ReportReply:
        """Hand a report over. Raises BotUnreachable after `patience_s`; the journal still has it."""
        return self._patiently(lambda: self._post(f"/jobs/{report.job_id}/report", report, ReportReply), patience_s)

    def put_artifact(self, ref: ArtifactRef, path: Path, *, job_id: str) -> None:
        """Upload a file that lies in the spool."""
        offer = ArtifactOffer(
            sha256=ref.sha256,
            size_bytes=ref.size_bytes,
            media_type=ref.media_type,
            name=ref.name,
            job_id=job_id,
            node=self._key.node,
            at=datetime.now(UTC),
        )
        with path.open("rb") as data:
            self._send(
                "PUT",
                f"/artifacts/{ref.sha256}",
                content=iter(lambda: data.read(1 << 16), b""),
                headers={
                    "Baseline-Envelope": base64.b64encode(self._envelope(offer)).decode(),
                    "Content-Length": str(ref.size_bytes),
                    "Content-Type": ref.media_type,
                },
            )

    def put_watched(self, path: Path, *, incident: str, sha256: str, patience_s: float) -> WatchedReply:
        """Hand over the file of a launch that was looked on. Raises BotUnreachable after `patience_s`."""

        def put() -> WatchedReply:
            size = path.stat().st_size
            offer = WatchedOffer(
                incident=incident,
                node=self._key.node,
                sha256=sha256,
                size_bytes=size,
                name=path.name,
                at=datetime.now(UTC),
            )
            with path.open("rb") as data:
                response = self._send(
                    "PUT",
                    f"/watched/{incident}",
                    content=iter(lambda: data.read(1 << 16), b""),
                    headers={
                        "Baseline-Envelope": base64.b64encode(self._envelope(offer)).decode(),
                        "Content-Length": str(size),
                        "Content-Type": "text/plain",
                    },
                )
            return self._opened(f"/watched/{incident}", response, WatchedReply)

        return self._patiently(put, patience_s)

    def _post(self, path: str, body: BaseModel, expect: type[M]) -> M:
        sent_at = datetime.now(UTC)
        reply = self._opened(path, self._send("POST", path, content=self._envelope(body)), expect)
        bot_time = getattr(reply, "bot_time", None)
        if isinstance(bot_time, datetime):
            now = datetime.now(UTC)
            middle = sent_at + (now - sent_at) / 2
            with self._lock:
                self._offset_ms = round((middle - bot_time).total_seconds() * 1000)
        return reply

    def _opened(self, path: str, response: httpx.Response, expect: type[M]) -> M:
        try:
            return open_envelope(response.json(), {"bot": self._key.bot}, expect)
        except (ValueError, MessageError) as error:
            raise BotUnreachable(f"{path}: expected an answer signed by the bot, found none ({error})") from error

    def _envelope(self, body: BaseModel) -> bytes:
        return sign(body, self._key.signing, self._key.key_id).model_dump_json(by_alias=True).encode()

    def _send(self, method: str, path: str, **kwargs: object) -> httpx.Response:
        headers = {"Content-Type": "application/json", **(kwargs.pop("headers", None) or {})}  # type: ignore[dict-item]
        try:
            response = self._http.request(method, path, headers=headers, **kwargs)  # type: ignore[arg-type]
        except httpx.HTTPError as error:
            raise BotUnreachable(f"{path}: {type(error).__name__}: {error}") from error
        if response.is_success:
            return response
        if response.is_server_error or response.status_code == httpx.codes.TOO_MANY_REQUESTS:
            raise BotUnreachable(f"{path}: HTTP {response.status_code}")
        raise BotRefused(f"{path}: {_refusal(response)}", status=response.status_code)

    @staticmethod
    def _patiently(call: Callable[[], M], patience_s: float) -> M:
        for attempt in stamina.retry_context(
            on=BotUnreachable, attempts=None, timeout=patience_s, wait_initial=0.2, wait_max=5, wait_jitter=0.5
        ):
            with attempt:
                return call()
        raise BotUnreachable(f"no answer within {patience_s:.0f} s")


def _refusal(response: httpx.Response) -> str:
    try:
        refusal = Refusal.model_validate_json(response.content)
    except ValidationError:
        return f"HTTP {response.status_code}"
    return f"{refusal.error}: {refusal.detail}" if refusal.detail else refusal.error
