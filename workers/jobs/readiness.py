"""Ready means: the engine that was started, not an older one on the same port, has answered one fixed request.

A thread of its own asks, so that a slow answer never delays the reading of the log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from playbooks.judging.baseline import FixedSample
from workers.ports import Answer, EngineHttp

DEFAULT_SAMPLE = FixedSample(
    path="/v1/completions",
    body='{"max_tokens":16,"prompt":"The capital of France is","seed":0,"stream":true,'
    '"stream_options":{"include_usage":true},"temperature":0}',
)
"""Asked when the baseline names no sample; the served model's name is filled in."""
_POLL_S = 0.1
_HEALTHY = 200


@dataclass(frozen=True, slots=True)
class Target:
    """Where and what is asked. `is_ours`: whether the started engine listens there; None = cannot tell (yet)."""

    endpoint: str
    sample: FixedSample
    headers: Mapping[str, str]
    timeout_s: float
    is_ours: Callable[[], bool | None]


class NoProbe:
    """Of a follower, which opens no API: nothing is asked, the head's readiness is its own."""

    answer: Answer | None = None
    healthy = False
    foreign = False

    def start(self) -> None:
        """Ask nothing."""

    def close(self) -> None:
        """Ask nothing."""


class ReadyProbe:
    """Polls `/health`, then asks the fixed request once."""

    def __init__(self, http: EngineHttp, target: Target) -> None:
        self._http = http
        self._target = target
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ready-probe", daemon=True)
        self.answer: Answer | None = None
        self.healthy = False
        self.foreign = False
        """Somebody else answers on the port."""

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def close(self) -> None:
        """Ask no more; a request under way ends with its engine or its time-out."""
        self._stop.set()

    def _run(self) -> None:
        target = self._target
        while not self._stop.wait(_POLL_S):
            if self._http.health(target.endpoint) != _HEALTHY:
                continue
            if target.is_ours() is False:
                self.foreign = True
                continue
            self.foreign = False
            self.healthy = True
            model = self._http.model_name(target.endpoint, headers=target.headers)
            if self._stop.is_set():
                return
            self.answer = self._http.ask(
                target.endpoint, target.sample, n=1, timeout_s=target.timeout_s, model=model, headers=target.headers
            )
            return
