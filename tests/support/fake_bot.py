"""The bot's node interface in this process: real HTTP, real signatures, answers that a test sets."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from playbooks.evidence.signing import SigningKey, open_envelope, sign
from playbooks.messages import (
    ArtifactOffer,
    Claim,
    ClaimReply,
    GroupWord,
    Heartbeat,
    HeartbeatReply,
    HelloReply,
    JobReport,
    JobRequest,
    NodeHello,
    Progress,
    ReportReply,
    WatchedOffer,
    WatchedReply,
)
from workers.settings import NodeKey


@dataclass
class FakeBot:
    """What the bot heard, and what it is to answer."""

    node: str = "gpu-a1"
    bot_key: SigningKey = field(default_factory=SigningKey.generate)
    node_signing: SigningKey = field(default_factory=SigningKey.generate)
    claims: list[str] = field(default_factory=list)
    hellos: list[NodeHello] = field(default_factory=list)
    beats: list[Heartbeat] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)
    reports: list[JobReport] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    watched: list[tuple[WatchedOffer, bytes]] = field(default_factory=list)
    refuse_claim: str = ""
    cancel: set[str] = field(default_factory=set)
    group: dict[str, GroupWord] = field(default_factory=dict)
    down: bool = False
    clock_off_s: int = 0
    url: str = ""

    @property
    def key(self) -> NodeKey:
        return NodeKey(self.node, self.node_signing, self.bot_key.public)

    @property
    def key_file(self) -> str:
        return json.dumps(
            {
                "schema": "baseline-node-key/1",
                "node": self.node,
                "private_key": self.node_signing.to_text(),
                "bot_public_key": self.bot_key.public_text,
            }
        )

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.clock_off_s)

    def envelope(self, request: JobRequest) -> dict[str, Any]:
        return sign(request, self.bot_key, "bot").model_dump(mode="json", by_alias=True)

    def report_of(self, job_id: str) -> JobReport | None:
        return next((report for report in self.reports if report.job_id == job_id), None)

    def answer(self, path: str, raw: bytes) -> Any:
        keys = {f"node:{self.node}": self.node_signing.public}
        content = json.loads(raw)
        _, _, rest = path.partition("/jobs/")
        job_id, _, verb = rest.partition("/")
        now = self.now()
        if path.endswith("/hello"):
            self.hellos.append(open_envelope(content, keys, NodeHello))
            return HelloReply(node=self.node, bot_time=now)
        match verb:
            case "claim":
                open_envelope(content, keys, Claim)
                self.claims.append(job_id)
                granted = not self.refuse_claim
                return ClaimReply.model_validate(
                    {
                        "job_id": job_id,
                        "granted": granted,
                        "fence": len(self.claims) if granted else None,
                        "reason": self.refuse_claim or "granted",
                        "bot_time": now,
                    }
                )
            case "heartbeat":
                self.beats.append(open_envelope(content, keys, Heartbeat))
                return HeartbeatReply(
                    job_id=job_id,
                    cancel=job_id in self.cancel,
                    cancelled_by="U1",
                    group=self.group.get(job_id),
                    bot_time=now,
                )
            case "progress":
                self.progress.append(open_envelope(content, keys, Progress))
                return None
            case _:
                report = open_envelope(content, keys, JobReport)
                self.reports.append(report)
                missing = tuple(ref.sha256 for ref in report.artifacts if ref.sha256 not in self.files)
                return ReportReply(job_id=job_id, recorded=True, missing=missing, bot_time=now)


@contextmanager
def serving(bot: FakeBot) -> Iterator[FakeBot]:
    """Serve the fake bot on a free loopback port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            if bot.down:
                self.reply(503, b"")
                return
            body = bot.answer(self.path, raw)
            if body is None:
                self.reply(204, b"")
            else:
                self.reply(200, sign(body, bot.bot_key, "bot").model_dump_json(by_alias=True).encode())

        def do_PUT(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            envelope = json.loads(base64.b64decode(self.headers["Baseline-Envelope"]))
            keys = {f"node:{bot.node}": bot.node_signing.public}
            if bot.down:
                self.reply(503, b"")
                return
            if self.path.startswith("/watched/"):
                offer = open_envelope(envelope, keys, WatchedOffer)
                bot.watched.append((offer, data))
                told = WatchedReply(incident=offer.incident, seq=9, detail="recorded as entry 9", bot_time=bot.now())
                self.reply(200, sign(told, bot.bot_key, "bot").model_dump_json(by_alias=True).encode())
                return
            open_envelope(envelope, keys, ArtifactOffer)
            if hashlib.sha256(data).hexdigest() != self.path.rsplit("/", 1)[1]:
                self.reply(409, b'{"error": "digest mismatch"}')
            else:
                bot.files[hashlib.sha256(data).hexdigest()] = data
                self.reply(204, b"")

        def reply(self, status: int, raw: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    bot.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield bot
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
