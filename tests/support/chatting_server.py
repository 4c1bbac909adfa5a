"""A server that answers chat requests as it is told to: whole, streamed, cut, refused, or not at all."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]


@dataclass
class Said:
    """One answer. pieces: how many events a streamed text comes in; cut: the stream ends without its last event."""

    content: str | None = ""
    reasoning: str | None = None
    calls: list[tuple[str, str]] = field(default_factory=list)
    finish: str = "stop"
    status: int = 200
    error: str = ""
    cut: bool = False
    hang_up: bool = False


@dataclass
class Chatting:
    """The server's state; `answer` is told the request's body and its number from 1."""

    answer: Callable[[Body, int], Said]
    url: str = ""
    max_len: int | None = 4096
    drafts: list[int] = field(default_factory=list)
    """Drafts that each scrape of the metrics tells; empty = there are no such counters."""
    seen: list[Body] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    unit: int | None = None
    """Block of the prefix cache in tokens; None = not told."""


@contextmanager
def chatting(state: Chatting) -> Iterator[Chatting]:
    """Serve until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/v1/models":
                card = {"id": "tiny", **({"max_model_len": state.max_len} if state.max_len else {})}
                self._send(200, json.dumps({"data": [card]}))
            elif self.path == "/metrics":
                lines = ['vllm:num_requests_running{engine="0"} 0']
                if state.unit is not None:
                    lines.append(f'vllm:cache_config_info{{block_size="{state.unit}",prefix_match_unit="None"}} 1.0')
                if state.drafts:
                    drafts = state.drafts.pop(0)
                    lines += [
                        f"vllm:spec_decode_num_drafts_total {drafts}",
                        f"vllm:spec_decode_num_accepted_tokens_total {2 * drafts}",
                    ]
                self._send(200, "\n".join(lines) + "\n")
            else:
                self._send(404, "")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path in {"/tokenize", "/detokenize"}:
                self._tokens(body)
                return
            state.seen.append(body)
            said = state.answer(body, len(state.seen))
            if said.hang_up:
                self.close_connection = True
                self.connection.close()
            elif said.status != 200:
                self._send(said.status, json.dumps({"error": {"message": said.error, "code": said.status}}))
            elif body.get("stream"):
                self._stream(said)
            else:
                calls = [
                    {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
                    for n, (name, arguments) in enumerate(said.calls)
                ]
                message = {
                    "role": "assistant",
                    "content": said.content,
                    "reasoning": said.reasoning,
                    "tool_calls": calls,
                }
                choice = {"index": 0, "message": message, "finish_reason": said.finish}
                self._send(
                    200, json.dumps({"choices": [choice], "usage": {"prompt_tokens": 2000, "completion_tokens": 9}})
                )

        def _tokens(self, body: Body) -> None:
            """A token is a word of the prompt as a template writes it: tools first, then the messages."""
            if "tokens" in body:
                self._send(200, json.dumps({"prompt": " ".join(state.words[token] for token in body["tokens"])}))
            elif not {"messages", "prompt"} & body.keys():
                self._send(400, "{}")
            else:
                text = f"{json.dumps(body.get('tools', []))} {json.dumps(body.get('messages', body.get('prompt')))}"
                for word in text.split():
                    if word not in state.words:
                        state.words.append(word)
                self._send(200, json.dumps({"tokens": [state.words.index(word) for word in text.split()]}))

        def _stream(self, said: Said) -> None:
            deltas: list[Body] = [{"role": "assistant"}]
            deltas += [{"reasoning": part} for part in _halves(said.reasoning or "")]
            deltas += [{"content": part} for part in _halves(said.content or "")]
            for index, (name, arguments) in enumerate(said.calls):
                deltas.append(
                    {"tool_calls": [{"index": index, "id": "c", "function": {"name": name, "arguments": ""}}]}
                )
                deltas += [
                    {"tool_calls": [{"index": index, "function": {"arguments": part}}]} for part in _halves(arguments)
                ]
            events = [json.dumps({"choices": [{"delta": delta}]}) for delta in deltas]
            if not said.cut:
                events += [json.dumps({"choices": [{"delta": {}, "finish_reason": said.finish}]}), "[DONE]"]
            self._send(200, "".join(f"data: {event}\n\n" for event in events), "text/event-stream")

        def _send(self, status: int, text: str, kind: str = "application/json") -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [part for part in (text[:middle], text[middle:]) if part]
