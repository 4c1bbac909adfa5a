"""One chat request to the inference engine, and everything its answer holds: text, reasoning, calls, how it ended."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from playbooks.judging.feature_facts import FeatureTry, ToolCall
from workers.adapters.engine_http import bounded, client_of, events_of

_MOST_TEXT = 4_000
_MOST_CALLS = 20
PATH = "/v1/chat/completions"


def chat(
    endpoint: str, body: Mapping[str, Any], *, n: int, asked: str, timeout_s: float, headers: Mapping[str, str]
) -> FeatureTry:
    """Send one chat request and return its answer; nothing is raised for what the engine does.

    A peer that goes on for ever is cut at `timeout_s`.
    """
    seen = _Answer()
    started = time.monotonic()
    stream = bool(body.get("stream"))
    status: int | None = None
    error: str | None = None
    with client_of(timeout_s) as client:
        watchdog = threading.Timer(timeout_s, client.close)
        watchdog.daemon = True
        watchdog.start()
        try:
            with client.stream("POST", endpoint + PATH, json=dict(body), headers=dict(headers)) as response:
                status = response.status_code
                if response.is_success and stream:
                    for event in events_of(response, started, timeout_s):
                        seen.event(event)
                else:
                    seen.whole(bounded(response), fine=response.is_success)
        except httpx.TimeoutException:
            error = f"no complete answer within {timeout_s:.0f} s"
        except (httpx.HTTPError, httpx.StreamError, RuntimeError, OSError) as failed:
            late = time.monotonic() - started >= timeout_s
            error = f"no complete answer within {timeout_s:.0f} s" if late else f"{type(failed).__name__}: {failed}"
        finally:
            watchdog.cancel()
    return FeatureTry(
        n=n,
        asked=asked,
        stream=stream,
        http_status=status,
        error=(error or seen.error or "")[:_MOST_TEXT] or None,
        finish_reason=seen.finish,
        content="".join(seen.content)[:_MOST_TEXT],
        reasoning="".join(seen.reasoning)[:_MOST_TEXT],
        tool_calls=tuple(
            ToolCall(name=one["name"], arguments=one["arguments"][:_MOST_TEXT]) for one in seen.calls.values()
        ),
        done=seen.done and error is None,
        ended_ms=round((time.monotonic() - started) * 1000),
        prompt_tokens=seen.usage.get("prompt_tokens"),
        completion_tokens=seen.usage.get("completion_tokens"),
    )


@dataclass
class _Answer:
    """What came of one answer, whole or event by event."""

    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: dict[int, dict[str, str]] = field(default_factory=dict)
    finish: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    done: bool = False

    def event(self, data: str) -> None:
        if data == "[DONE]":
            self.done = True
            return
        try:
            content = json.loads(data)
        except ValueError:
            self.error = f"expected JSON events, found {data[:80]!r}"
            return
        if isinstance(content, dict):
            self._take(content)

    def whole(self, raw: bytes, *, fine: bool) -> None:
        try:
            content = json.loads(raw)
        except ValueError:
            content = None
        if not fine or not isinstance(content, dict):
            self.error = raw.decode(errors="replace")[:_MOST_TEXT] or "an empty body"
            return
        self._take(content)
        self.done = bool(content.get("choices"))

    def _take(self, content: dict[str, Any]) -> None:
        if "error" in content and not content.get("choices"):
            self.error = json.dumps(content["error"])
            return
        usage = content.get("usage")
        self.usage = usage if isinstance(usage, dict) else self.usage
        for choice in content.get("choices") or ():
            if not isinstance(choice, dict):
                continue
            self.finish = choice.get("finish_reason") or self.finish
            part = choice.get("delta") or choice.get("message") or {}
            self.content.append(_text(part.get("content")))
            self.reasoning.append(_text(part.get("reasoning")) or _text(part.get("reasoning_content")))
            for position, call in enumerate(part.get("tool_calls") or ()):
                self._call(call, position)

    def _call(self, call: Any, position: int) -> None:
        """Put together what comes in pieces: the name first, then the arguments."""
        if not isinstance(call, dict):
            return
        index = call.get("index")
        place = index if isinstance(index, int) else position
        if place not in self.calls and len(self.calls) >= _MOST_CALLS:
            return
        kept = self.calls.setdefault(place, {"name": "", "arguments": ""})
        function = call.get("function") or {}
        kept["name"] += _text(function.get("name"))
        kept["arguments"] += _text(function.get("arguments"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
