"""HTTP to the inference engine: health, served model, and the fixed request with its stream of events.

One request is one connection, so that no pooled connection outlives its engine. Loopback or container addresses only;
proxies of the environment are not used.
"""

from __future__ import annotations

import hashlib
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

import httpx

from playbooks.judging.baseline import FixedSample
from playbooks.judging.cache_facts import Scrape
from playbooks.judging.feature_facts import FeatureTry
from playbooks.messages import RequestRun
from workers.ports import Answer

_HEAD_CHARS = 200
_MOST_BYTES = 16 << 20
_ERROR_CHARS = 500
_TOKENIZED = (
    "model",
    "messages",
    "prompt",
    "tools",
    "chat_template",
    "chat_template_kwargs",
    "add_generation_prompt",
    "add_special_tokens",
)
"""What of a request decides on its tokens."""


class HttpxEngineHttp:
    """The port `EngineHttp` over httpx."""

    def health(self, endpoint: str, *, timeout_s: float = 2) -> int | None:
        """Return the status of `/health`; None when nobody answers."""
        try:
            with client_of(timeout_s) as client:
                return client.get(f"{endpoint}/health").status_code
        except httpx.HTTPError:
            return None

    def model_name(self, endpoint: str, *, headers: Mapping[str, str]) -> str | None:
        """Return the name of the first served model."""
        try:
            with client_of(10) as client:
                content = client.get(f"{endpoint}/v1/models", headers=dict(headers)).json()
            return str(content["data"][0]["id"])
        except (httpx.HTTPError, ValueError, KeyError, IndexError, TypeError):
            return None

    def model_length(self, endpoint: str, *, headers: Mapping[str, str]) -> int | None:
        """Return the most tokens the first served model takes; None when the engine does not say."""
        try:
            with client_of(10) as client:
                content = client.get(f"{endpoint}/v1/models", headers=dict(headers)).json()
            length = content["data"][0]["max_model_len"]
        except (httpx.HTTPError, ValueError, KeyError, IndexError, TypeError):
            return None
        return length if isinstance(length, int) and length > 0 else None

    def tokens(self, endpoint: str, text: str, *, model: str | None, headers: Mapping[str, str]) -> list[int] | None:
        """Return the token ids of a text, without special ones; None when the engine has no `/tokenize`."""
        body = {"prompt": text, "add_special_tokens": False, **({"model": model} if model else {})}
        try:
            with client_of(10) as client:
                found = client.post(f"{endpoint}/tokenize", json=body, headers=dict(headers)).json()["tokens"]
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            return None
        return found if isinstance(found, list) and all(isinstance(token, int) for token in found) else None

    def prompt_tokens(self, endpoint: str, body: Mapping[str, Any], *, headers: Mapping[str, str]) -> list[int] | None:
        """Return the token ids of a whole request (chat or completion) as the engine makes them; None when it cannot tell."""
        kept = {name: body[name] for name in _TOKENIZED if name in body}
        try:
            with client_of(30) as client:
                found = client.post(f"{endpoint}/tokenize", json=kept, headers=dict(headers)).json()["tokens"]
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            return None
        return found if isinstance(found, list) and all(isinstance(token, int) for token in found) else None

    def text_of(self, endpoint: str, tokens: list[int], *, model: str | None, headers: Mapping[str, str]) -> str | None:
        """Return tokens as text; None when the engine has no `/detokenize`."""
        body = {"tokens": tokens, **({"model": model} if model else {})}
        try:
            with client_of(10) as client:
                return str(client.post(f"{endpoint}/detokenize", json=body, headers=dict(headers)).json()["prompt"])
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            return None

    def metrics(self, endpoint: str, *, headers: Mapping[str, str]) -> str | None:
        """Return the text of `/metrics`; None when there is none."""
        try:
            with client_of(10) as client, client.stream("GET", f"{endpoint}/metrics", headers=dict(headers)) as answer:
                return bounded(answer).decode(errors="replace") if answer.is_success else None
        except httpx.HTTPError:
            return None

    def chat(
        self,
        endpoint: str,
        body: Mapping[str, Any],
        *,
        n: int,
        asked: str,
        timeout_s: float,
        headers: Mapping[str, str],
    ) -> FeatureTry:
        """Send one chat request (`engine_chat`)."""
        from workers.adapters.engine_chat import chat

        return chat(endpoint, body, n=n, asked=asked, timeout_s=timeout_s, headers=headers)

    @staticmethod
    def read_metrics(text: str) -> tuple[Scrape, dict[str, str]] | None:
        """Read a scrape (`engine_metrics`)."""
        from workers.adapters.engine_metrics import read_metrics

        return read_metrics(text)

    def ask(
        self,
        endpoint: str,
        sample: FixedSample,
        *,
        n: int,
        timeout_s: float,
        model: str | None,
        headers: Mapping[str, str],
    ) -> Answer:
        """Send the fixed request once and record when what came back.

        A sample without a model gets the served one's name; a sample that streams is read event by event.
        """
        body: dict[str, Any] = json.loads(sample.body)
        if "model" not in body and model is not None:
            body["model"] = model
        seen = _Seen(n, model=str(body.get("model") or ""))
        with client_of(timeout_s) as client:
            # a peer that sends a byte now and then keeps every read alive: the whole request has a time of its own
            watchdog = threading.Timer(timeout_s, client.close)
            watchdog.daemon = True
            watchdog.start()
            try:
                with client.stream(
                    "POST", endpoint + sample.path, json=body, headers={**headers, "User-Agent": sample.client}
                ) as response:
                    seen.status = response.status_code
                    if response.is_success and body.get("stream"):
                        for event in events_of(response, seen.start, timeout_s):
                            seen.event(event)
                    else:
                        seen.whole(bounded(response))
            except httpx.TimeoutException:
                seen.error = _late(timeout_s)
            except (httpx.HTTPError, httpx.StreamError, RuntimeError, OSError) as error:
                over = seen.elapsed_ms() >= timeout_s * 1000
                seen.error = _late(timeout_s) if over else f"{type(error).__name__}: {error}"
            finally:
                watchdog.cancel()
        return seen.answer()


class _Seen:
    """What came back of one request, as it comes."""

    def __init__(self, n: int, *, model: str = "") -> None:
        self.n = n
        self._model = model
        self.started_at = datetime.now(UTC)
        self.start = time.monotonic()
        self.status: int | None = None
        self.error: str | None = None
        self._first_ms: int | None = None
        self._text: list[str] = []
        self._finish: str | None = None
        self._usage: dict[str, Any] = {}
        self._fingerprint: str | None = None
        self._done = False

    def event(self, data: str) -> None:
        if data == "[DONE]":
            self._done = True
            return
        try:
            content = json.loads(data)
        except ValueError:
            self.error = f"expected JSON events, found {data[:80]!r}"
            return
        self._take(content)

    def whole(self, raw: bytes) -> None:
        try:
            content = json.loads(raw)
        except ValueError:
            content = None
        if self.status is None or self.status >= 400 or not isinstance(content, dict):
            self.error = self.error or raw[:_ERROR_CHARS].decode(errors="replace") or f"HTTP {self.status}, empty body"
            return
        self._take(content)
        self._done = True

    def _take(self, content: dict[str, Any]) -> None:
        if "error" in content and not content.get("choices"):
            self.error = json.dumps(content["error"])[:_ERROR_CHARS]
            return
        answered = content.get("model")
        if self._model and isinstance(answered, str) and answered != self._model:
            self.error = f"expected an answer of {self._model[:80]}, found one of {answered[:80]}"
        self._fingerprint = content.get("system_fingerprint") or self._fingerprint
        self._usage = content.get("usage") or self._usage
        for choice in content.get("choices") or ():
            text = _text_of(choice)
            if text and self._first_ms is None:
                self._first_ms = self.elapsed_ms()
            self._text.append(text)
            self._finish = choice.get("finish_reason") or self._finish

    def elapsed_ms(self) -> int:
        return round((time.monotonic() - self.start) * 1000)

    def answer(self) -> Answer:
        text = "".join(self._text)
        if self.error is None and not self._done:
            self.error = "the stream ended without its last event"
        details = self._usage.get("prompt_tokens_details") or {}
        run = RequestRun(
            n=self.n,
            started_at=self.started_at,
            first_token_ms=self._first_ms,
            ended_ms=self.elapsed_ms(),
            http_status=self.status,
            finish_reason=self._finish,
            complete=self.error is None and self._finish is not None,
            error=self.error,
            prompt_tokens=self._usage.get("prompt_tokens"),
            completion_tokens=self._usage.get("completion_tokens"),
            cached_tokens=details.get("cached_tokens"),
            output_sha256=hashlib.sha256(text.encode()).hexdigest() if text else None,
            output_head="".join(c if c.isprintable() else "·" for c in text[:_HEAD_CHARS]),
            system_fingerprint=self._fingerprint,
        )
        return Answer(run, text)


def _text_of(choice: dict[str, Any]) -> str:
    part = choice.get("delta") or choice.get("message")
    if part is None:
        return choice.get("text") or ""
    # a model that never closes its thinking puts the whole answer into `reasoning`
    return (part.get("reasoning") or part.get("reasoning_content") or "") + (part.get("content") or "")


def events_of(response: httpx.Response, started: float, timeout_s: float) -> Iterator[str]:
    """Yield the data of a stream's events, looking at the clock and the size at every piece. started: on the monotonic clock.

    Raises:
        httpx.ReadTimeout: it goes on past its time.
        httpx.DecodingError: it is larger than any answer of a bounded request.
    """
    for line in _lines(response, started, timeout_s):
        if line.startswith("data:"):
            yield line.removeprefix("data:").strip()


def _lines(response: httpx.Response, started: float, timeout_s: float) -> Iterator[str]:
    rest, size = b"", 0
    for piece in response.iter_bytes():
        size += len(piece)
        if time.monotonic() - started > timeout_s:
            raise httpx.ReadTimeout("the stream went on past its time")
        if size > _MOST_BYTES:
            raise httpx.DecodingError(f"the stream is larger than {_MOST_BYTES >> 20} MiB")
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)
    if rest:
        yield rest.decode(errors="replace")


def bounded(response: httpx.Response) -> bytes:
    """Read a body as far as an answer of a bounded request can reach.

    Raises:
        httpx.DecodingError: it is larger.
    """
    parts, size = [], 0
    for piece in response.iter_bytes():
        parts.append(piece)
        size += len(piece)
        if size > _MOST_BYTES:
            raise httpx.DecodingError(f"the body is larger than {_MOST_BYTES >> 20} MiB")
    return b"".join(parts)


def _late(timeout_s: float) -> str:
    return f"no complete answer within {timeout_s:.0f} s"


@cache
def _tls() -> ssl.SSLContext:
    """Return the one context of all clients: making it reads every certificate of the machine, tens of milliseconds each time."""
    return ssl.create_default_context()


def client_of(timeout_s: float) -> httpx.Client:
    """Return a client for one request: no proxies, no redirects."""
    return httpx.Client(timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, 2)), trust_env=False, verify=_tls())
