"""A server that answers as vLLM does, with a prefix cache of whole blocks - and lies in the ways it is told to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BLOCK = 128


@dataclass
class Lying:
    """State of the server; every field after `url` is a lie that is told."""

    url: str = ""
    details: bool = True
    """Whether answers tell cached tokens."""
    usage: bool = True
    counters: bool = True
    old_names: bool = False
    caching: bool = True
    caches_nothing: bool = False
    quick_repeats: bool = False
    slow: float = 0
    backwards: bool = False
    inflated: int = 0
    other_model: bool = False
    unavailable: int = 0
    half_closed: bool = False
    slow_loris: bool = False
    huge: bool = False
    comments: bool = False
    twice_done: bool = False
    no_tokenize: bool = False
    refuses_salt: bool = False
    busy: bool = False
    foreign: bool = False
    reset_after: int = 0
    """Empty the cache after that many completions; 0 = never."""
    max_len: int = 2048
    seen: list[dict[str, Any]] = field(default_factory=list)
    cache: set[tuple[str, tuple[Any, ...]]] = field(default_factory=set)
    queries: int = 0
    hits: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def complete(self, body: dict[str, Any]) -> tuple[int, int]:
        """Look a prompt up and keep it; returns its length and its cached tokens."""
        prompt = body["prompt"] if isinstance(body["prompt"], list) else body["prompt"].split()
        salt = str(body.get("cache_salt", ""))
        with self.lock:
            self.seen.append(body)
            hit = 0
            if self.caching:
                blocks = [(salt, tuple(prompt[:end])) for end in range(BLOCK, len(prompt), BLOCK)]
                hit = sum(1 for block in blocks if block in self.cache) * BLOCK
                if not self.caches_nothing:
                    self.cache |= set(blocks)
                self.queries += len(prompt) + (500 if self.foreign else 0)
                self.hits += hit + self.inflated
            if self.backwards:
                self.queries, self.hits = self.queries - 2 * len(prompt), 0
            if self.reset_after and len(self.seen) == self.reset_after:
                self.cache.clear()
        return len(prompt), hit

    def metrics(self) -> str:
        names = ("gpu_prefix_cache", 1 / BLOCK) if self.old_names else ("prefix_cache", 1)
        text = f'process_start_time_seconds 1.5e9\nvllm:num_requests_running{{engine="0"}} {3 if self.busy else 0}\nvllm:num_requests_waiting{{engine="0"}} 0\n'
        text += (
            f'vllm:cache_config_info{{block_size="{BLOCK}",enable_prefix_caching="{self.caching}",engine="0"}} 1.0\n'
        )
        if self.counters:
            for name, value in (("queries", self.queries), ("hits", self.hits)):
                text += f"# TYPE vllm:{names[0]}_{name} counter\n"
                for engine, share in (
                    (("0", value - value // 4), ("1", value // 4)) if not self.old_names else (("0", value),)
                ):
                    text += f'vllm:{names[0]}_{name}_total{{engine="{engine}"}} {share * names[1]}\n'
                    text += f'vllm:{names[0]}_{name}_created{{engine="{engine}"}} 1.7e9\n'
        return text


@contextmanager
def serving(lying: Lying) -> Iterator[Lying]:
    """Serve on a free loopback port."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            if self.path == "/metrics":
                self.answer(200, lying.metrics().encode(), "text/plain")
            elif self.path == "/v1/models":
                self.json(200, {"data": [{"id": "tiny", "max_model_len": lying.max_len}]})
            else:
                self.json(200 if self.path == "/health" else 404, {})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path == "/tokenize":
                if lying.no_tokenize:
                    self.json(404, {"detail": "Not Found"})
                else:
                    self.json(
                        200,
                        {
                            "tokens": [
                                1000 + len(word) * 100 + index for index, word in enumerate(body["prompt"].split())
                            ]
                        },
                    )
                return
            if lying.unavailable:
                lying.unavailable -= 1
                self.json(503, {"error": {"message": "warming up"}})
                return
            if lying.refuses_salt and "cache_salt" in body:
                self.json(400, {"error": {"message": "Extra inputs are not permitted: cache_salt"}})
                return
            length, hit = lying.complete(body)
            time.sleep(lying.slow if not (lying.quick_repeats and len(lying.seen) % 6 != 1) else 0)
            self.stream(length, hit)

        def stream(self, length: int, hit: int) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            if lying.slow_loris:
                for _ in range(200):
                    self.wfile.write(b"d")
                    self.wfile.flush()
                    time.sleep(0.05)
                return
            if lying.huge:
                while True:
                    self.wfile.write(b"data: " + b"x" * (1 << 20) + b"\n\n")
            model = "another" if lying.other_model else "tiny"
            if lying.comments:
                self.wfile.write(b": keep-alive\n\n" * 50)
            self.event({"model": model, "choices": [{"index": 0, "text": "one", "finish_reason": None}]})
            if lying.half_closed:
                return
            self.event({"model": model, "choices": [{"index": 0, "text": " two", "finish_reason": "length"}]})
            details = {"cached_tokens": hit} if lying.details else None
            if lying.usage:
                self.event(
                    {
                        "model": model,
                        "choices": [],
                        "usage": {"prompt_tokens": length, "completion_tokens": 2, "prompt_tokens_details": details},
                    }
                )
            self.wfile.write(b"data: [DONE]\n\n" * (2 if lying.twice_done else 1))

        def event(self, content: dict[str, Any]) -> None:
            self.wfile.write(f"data: {json.dumps(content)}\n\n".encode())

        def json(self, status: int, content: dict[str, Any]) -> None:
            self.answer(status, json.dumps(content).encode(), "application/json")

        def answer(self, status: int, data: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass

    server = Quiet(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    lying.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield lying
    finally:
        server.shutdown()
        server.server_close()
