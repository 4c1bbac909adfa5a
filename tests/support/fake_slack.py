"""A Slack Web API on a loopback port that does what a test tells it: keeps messages, refuses, or loses an answer."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

Answer = dict[str, Any]
LOST = "lost"
"""Scripted instead of an answer: the call takes effect and its answer is lost on the way."""


@dataclass
class Message:
    """A message as it stands in the channel."""

    channel: str
    ts: str
    text: str
    blocks: list[dict[str, Any]]
    thread_ts: str | None = None
    metadata: dict[str, Any] | None = None
    edits: int = 0


@dataclass
class FakeSlack:
    """What was called, and what is answered next."""

    url: str = ""
    calls: list[tuple[str, Answer]] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    downloads: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """Path to content type and bytes."""
    responses: list[Answer] = field(default_factory=list)
    """What was sent to response URLs."""
    authorizations: list[str | None] = field(default_factory=list)
    script: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    groups: dict[str, list[str]] = field(default_factory=dict)
    """User groups and who is in them."""
    never_shares: bool = False
    """Whether files are taken and never shown, as Slack does at times."""
    _ts: int = 1_800_000_000

    def named(self, method: str) -> list[Answer]:
        """Return the arguments of every call of a method."""
        return [arguments for name, arguments in self.calls if name == method]

    def thread(self, ts: str) -> list[str]:
        """Return the texts of a thread's replies, oldest first."""
        return [message.text for message in self.messages if message.thread_ts == ts]

    def answer(self, method: str, arguments: Answer) -> Answer:  # noqa: PLR0912 - a case a method
        """Do what the method does."""
        match method:
            case "auth.test":
                return {"team_id": "T0HOME", "user_id": "U0BOT", "bot_id": "B0BOT", "team": "home", "url": self.url}
            case "chat.postMessage":
                self._ts += 1
                ts = f"{self._ts}.000100"
                self.messages.append(
                    Message(
                        arguments["channel"],
                        ts,
                        arguments.get("text", ""),
                        arguments.get("blocks", []),
                        arguments.get("thread_ts"),
                        arguments.get("metadata"),
                    )
                )
                return {"ts": ts, "channel": arguments["channel"]}
            case "chat.update":
                for message in self.messages:
                    if message.ts == arguments["ts"]:
                        message.text, message.blocks = arguments["text"], arguments["blocks"]
                        message.edits += 1
                        return {"ts": message.ts}
                return {"ok": False, "error": "message_not_found"}
            case "conversations.replies" | "conversations.history":
                wanted = arguments.get("ts")
                found = [m for m in self.messages if m.channel == arguments["channel"] and m.thread_ts == wanted]
                return {"messages": [{"ts": m.ts, "text": m.text, "metadata": m.metadata} for m in found]}
            case "files.getUploadURLExternal":
                file_id = f"F{len(self.files) + 1:04d}"
                self.files[file_id] = {
                    "name": arguments["filename"],
                    "data": None,
                    "shares": {},
                    "alt": arguments.get("alt_txt", ""),
                }
                return {"upload_url": f"{self.url}upload/{file_id}", "file_id": file_id}
            case "files.completeUploadExternal":
                file = self.files[arguments["files"][0]["id"]]
                if file["data"] is None:
                    return {"ok": False, "error": "file_not_found"}
                if self.never_shares:
                    return {"files": [{"id": arguments["files"][0]["id"]}]}
                file["shares"] = {"public": {arguments["channel_id"]: [{"thread_ts": arguments.get("thread_ts")}]}}
                return {"files": [{"id": arguments["files"][0]["id"]}]}
            case "usergroups.users.list":
                users = self.groups.get(str(arguments.get("usergroup")))
                return {"ok": False, "error": "no_such_subteam"} if users is None else {"users": users}
            case "files.info":
                return {"file": {"shares": self.files[arguments["file"]]["shares"]}}
            case _:
                return {}


@contextmanager
def fake_slack() -> Iterator[FakeSlack]:
    """Serve until the block ends."""
    slack = FakeSlack()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            slack.authorizations.append(self.headers.get("Authorization"))
            kind, data = slack.downloads.get(self.path, ("text/plain", b""))
            if kind.startswith("redirect:"):
                self.send_response(302)
                self.send_header("Location", kind.removeprefix("redirect:"))
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(200 if self.path in slack.downloads else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if "/upload/" in self.path:
                slack.files[self.path.rpartition("/")[2]]["data"] = body
                self._send(200, {}, {"ok": True})
                return
            if self.path == "/respond":
                slack.responses.append(json.loads(body))
                self._send(200, {}, {"ok": True})
                return
            method = self.path.partition("/api/")[2].partition("?")[0]
            is_json = "json" in self.headers.get("Content-Type", "")
            query = self.path.partition("?")[2]
            arguments = json.loads(body) if is_json and body else dict(parse_qsl(body.decode() + "&" + query))
            slack.calls.append((method, arguments))
            scripted = slack.script[method].pop(0) if slack.script[method] else None
            if scripted == LOST:
                slack.answer(method, arguments)
                self.close_connection = True
                self.connection.close()
            elif isinstance(scripted, tuple):
                self._send(*scripted)
            elif scripted is not None:
                self._send(200, {}, {"ok": False, "error": scripted})
            else:
                self._send(200, {}, {"ok": True, **slack.answer(method, arguments)})

        def _send(self, status: int, headers: dict[str, str], body: Answer) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(data)),
                **headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    slack.url = f"http://127.0.0.1:{server.server_port}/"
    try:
        yield slack
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)
