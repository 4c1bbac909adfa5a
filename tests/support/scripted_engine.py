"""A program that acts as `vllm serve`: prints a recorded log in time, opens the HTTP API, hangs, dies, leaves children.

Runs on the standard library alone. What it does stands in a JSON file named by the environment variable `SCRIPT`:

    lines       list of texts, or of [seconds, text]: printed in order
    pause_s     before each line that names no time of its own
    serve       open the API after the lines (default false)
    exit        exit code after the lines; without it and without `serve` it hangs
    ignore_term swallow SIGTERM and SIGINT
    children    how many processes to fork that outlive it, in sessions of their own when `escape`
    die_after_requests  exit after that many completions
    hang_after_requests  answer no more after that many completions
    most_at_once  more completions than that at once are answered 503
    slow_s      how long a completion takes
    status      HTTP status of completions
    health_after_s  seconds until /health says 200
    ranks       by --node-rank: what replaces the above for that rank
    meet        let the ranks meet at --master-addr before the lines, as torch does: one whose peer is gone says so and exits
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SCRIPT = json.loads(Path(os.environ["SCRIPT"]).read_text(encoding="utf-8")) if "SCRIPT" in os.environ else {}


PEER_GONE = (
    "Traceback (most recent call last):",
    '  File "/x/parallel_state.py", line 1, in barrier',
    "    store.wait()",
    "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed.",
)


def option(name: str, default: str) -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


SCRIPT |= SCRIPT.get("ranks", {}).get(option("--node-rank", "0"), {})


class Api(BaseHTTPRequestHandler):
    count = 0
    at_once = 0
    lock = threading.Lock()
    born = time.monotonic()

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/health":
            self.answer(200 if time.monotonic() - self.born >= SCRIPT.get("health_after_s", 0) else 503, {})
        elif self.path == "/v1/models":
            self.answer(200, {"data": [{"id": "tiny", "created": int(time.time())}]})
        else:
            self.answer(404, {"error": {"type": "NotFoundError"}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            self.answer(404, {"error": {"type": "NotFoundError"}})
            return
        with Api.lock:
            Api.count += 1
            Api.at_once += 1
        try:
            self.complete(body)
        finally:
            with Api.lock:
                Api.at_once -= 1

    def complete(self, body: dict[str, object]) -> None:
        time.sleep(SCRIPT.get("slow_s", 0) if Api.count <= SCRIPT.get("hang_after_requests", Api.count) else 300)
        last = SCRIPT.get("die_after_requests") == Api.count
        full = Api.at_once > SCRIPT.get("most_at_once", 1000)
        status = 503 if full else SCRIPT.get("status", 200)
        if status != 200:
            self.answer(status, {"error": {"message": "scripted failure", "type": "InternalServerError"}})
        elif body.get("stream"):
            self.stream(body)
        else:
            self.answer(
                200, {"choices": [{"text": "one two", "finish_reason": "length"}], "usage": {"prompt_tokens": 3}}
            )
        if last:
            self.wfile.flush()
            os._exit(1)

    def stream(self, body: dict[str, object]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for text, finish in (("one ", None), ("two", "length")):
            event = {
                "system_fingerprint": "scripted-1",
                "choices": [{"index": 0, "text": text, "finish_reason": finish}],
            }
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        usage = {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 0}}
        self.wfile.write(f"data: {json.dumps({'choices': [], 'usage': usage})}\n\ndata: [DONE]\n\n".encode())

    def answer(self, status: int, content: dict[str, object]) -> None:
        raw = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def meet() -> None:
    """Wait for the other ranks, then watch them from a thread."""
    place = (option("--master-addr", "127.0.0.1"), int(option("--master-port", "29501")))
    peers: list[socket.socket] = []
    if option("--node-rank", "0") == "0":
        with socket.create_server(place) as server:
            peers += [server.accept()[0] for _ in range(int(option("--nnodes", "1")) - 1)]
    else:
        while not peers:
            try:
                peers.append(socket.create_connection(place, timeout=1))
            except OSError:
                time.sleep(0.05)
    for peer in peers:
        peer.settimeout(None)
        threading.Thread(target=watch, args=(peer,), daemon=True).start()


def watch(peer: socket.socket) -> None:
    """End as an engine does whose peer is gone."""
    try:
        gone = not peer.recv(1)
    except OSError:
        gone = True
    if gone:
        for line in PEER_GONE:
            say(line)
        os._exit(1)


def main() -> None:
    if SCRIPT.get("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    for _ in range(SCRIPT.get("children", 0)):
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)",
            ],
            start_new_session=SCRIPT.get("escape", False),
        )
    if SCRIPT.get("meet"):
        meet()
    for line in SCRIPT.get("lines", ()):
        pause, text = line if isinstance(line, list) else (SCRIPT.get("pause_s", 0), line)
        time.sleep(pause)
        say(text.replace("{port}", option("--port", "8000")).replace("{argv}", " ".join(sys.argv[1:])))
    if SCRIPT.get("serve"):
        server = ThreadingHTTPServer((option("--host", "127.0.0.1"), int(option("--port", "8000"))), Api)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    elif "exit" in SCRIPT:
        sys.stdout.flush()
        os._exit(SCRIPT["exit"])
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
