"""The request client's own time against bare httpx in the same run: `python benchmarks/requests.py [--requests N] [--at-once 32]`.

Both ask the same local server, which answers a stream of two events at once, from as many threads. Bare httpx opens a
connection a request too and reads the bytes; what the client does more - reading events, watching time and size, keeping
the record - is its own time. Bar: at most 2 ms a request at 32 at once.
"""

from __future__ import annotations

import argparse
import multiprocessing
import socketserver
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from playbooks.judging.baseline import FixedSample
from workers.adapters.engine_http import HttpxEngineHttp

BODY = '{"max_tokens":4,"model":"tiny","prompt":"x","stream":true}'
EVENTS = (
    b'data: {"model":"tiny","choices":[{"index":0,"text":"one","finish_reason":null}]}\n\n'
    b'data: {"model":"tiny","choices":[{"index":0,"text":" two","finish_reason":"length"}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\ndata: [DONE]\n\n'
)
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(
    EVENTS
)


class Server(socketserver.ThreadingTCPServer):
    """Answers everything alike."""

    request_queue_size = 256
    allow_reuse_address = True
    daemon_threads = True


class Answer(socketserver.BaseRequestHandler):
    """Reads a request to its end and answers it."""

    def handle(self) -> None:
        """Read head and body, then send."""
        data = b""
        while b'"stream":true}' not in data:
            piece = self.request.recv(65536)
            if not piece:
                return
            data += piece
        self.request.sendall(ANSWER + EVENTS)


def serve(ready: object) -> None:
    """Serve on a free port, in a process of its own."""
    with Server(("127.0.0.1", 0), Answer) as server:
        ready.put(server.server_address[1])  # type: ignore[attr-defined]
        server.serve_forever()


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--requests", type=int, default=640)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    ready: multiprocessing.Queue[int] = multiprocessing.Queue()
    child = multiprocessing.Process(target=serve, args=(ready,), daemon=True)
    child.start()
    url = f"http://127.0.0.1:{ready.get(timeout=10)}"
    http, sample = HttpxEngineHttp(), FixedSample(path="/v1/completions", body=BODY)

    def ours(n: int) -> None:
        answer = http.ask(url, sample, n=n, timeout_s=20, model="tiny", headers={})
        assert answer.run.complete, answer.run.error

    def bare(_n: int) -> None:
        with (
            httpx.Client(timeout=20, trust_env=False, verify=False) as client,
            client.stream(
                "POST", f"{url}/v1/completions", content=BODY, headers={"Content-Type": "application/json"}
            ) as response,
        ):
            assert b"[DONE]" in response.read()

    times: dict[str, list[float]] = {"ours": [], "bare": []}
    for _ in range(options.rounds):
        for name, ask in (("bare", bare), ("ours", ours)):
            times[name].append(_each_ms(ask, options.requests, options.at_once))
    own, peer = statistics.median(times["ours"]), statistics.median(times["bare"])
    child.terminate()
    print(
        f"{options.at_once} at once: ours {own:.2f} ms a request, bare httpx {peer:.2f} ms, ratio {own / peer:.2f},"
        f" own time {own - peer:.2f} ms (bar 2 ms)"
    )
    return 0 if own - peer <= 2 else 1


def _each_ms(ask: Callable[[int], None], count: int, at_once: int) -> float:
    begun = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(ask, range(count)))
    return (time.perf_counter() - begun) / count * 1000


if __name__ == "__main__":
    sys.exit(main())
