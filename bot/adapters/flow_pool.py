"""The async edge to the flows: a bounded thread pool with a time limit, behind a circuit breaker for the store.

A store that does not answer costs its caller at most the limit, and after a few such calls nothing at all: they are
refused at once, in words, until a probe comes through.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from bot.adapters.deadline import CURRENT, Call
from bot.errors import StoreBusy, StoreUnavailable

P = ParamSpec("P")
T = TypeVar("T")
Observe = Callable[[str, float, str], None]
"""Told of each call: the flow's name, its seconds, and `ok`, `refused`, `busy`, `unavailable` or `error`."""

LIMIT_S = 2.0
"""An answer in words must be out after 2.5 s (design §13)."""
_COMMIT_GRACE_S = 0.4
_FAILURES_TO_OPEN = 5
_OPEN_S = 1.0


class Breaker:
    """Opens after failures in a row; then lets one call a second through as a probe."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._probe_at = 0.0

    @property
    def is_open(self) -> bool:
        """Whether calls are refused at once."""
        return self._failures >= _FAILURES_TO_OPEN

    def let_through(self) -> None:
        """Let a call through.

        Raises:
            StoreUnavailable: the store has not answered lately, and it is not yet time for a probe.
        """
        if not self.is_open:
            return
        now = self._clock()
        if now < self._probe_at:
            raise StoreUnavailable("the incident store has not answered lately; nothing was recorded")
        self._probe_at = now + _OPEN_S

    def succeeded(self) -> None:
        """Note an answer."""
        self._failures = 0

    def failed(self) -> None:
        """Note that the store did not answer."""
        self._failures += 1
        if self._failures == _FAILURES_TO_OPEN:
            self._probe_at = self._clock() + _OPEN_S


class FlowPool:
    """Runs synchronous flows for async callers; implements `bot.flows.services.FlowRunner`."""

    def __init__(
        self,
        *,
        threads: int = 16,
        most_waiting: int = 400,
        limit_s: float = LIMIT_S,
        breaker: Breaker | None = None,
        observe: Observe | None = None,
        name: str = "flow",
    ) -> None:
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix=name)
        self._limit_s = limit_s
        self._breaker = breaker or Breaker()
        self._observe = observe or _nobody
        self._running = 0
        self._most = threads + most_waiting

    async def __call__(self, flow: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a flow and return its value.

        Raises:
            StoreUnavailable, StoreBusy: the store did not answer in time; the message says whether anything was recorded.
        """
        started = time.monotonic()
        outcome = "error"
        try:
            result = await self._run(flow, *args, **kwargs)
        except StoreUnavailable:
            outcome = "unavailable"
            raise
        except StoreBusy:
            outcome = "busy"
            raise
        else:
            outcome = "ok"
            return result
        finally:
            self._observe(getattr(flow, "__name__", "flow"), time.monotonic() - started, outcome)

    async def _run(self, flow: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        self._breaker.let_through()
        if self._running >= self._most:
            raise StoreBusy("too many requests wait for the incident store; nothing was recorded")
        call = Call()
        context = contextvars.copy_context()
        context.run(CURRENT.set, call)

        def body() -> T:
            if call.given_up:
                raise StoreBusy("given up before it began; nothing was recorded")
            return flow(*args, **kwargs)

        self._running += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, lambda: context.run(body))
        future.add_done_callback(self._ended)
        try:
            return await self._wait(future, call)
        except (StoreUnavailable, StoreBusy):
            self._breaker.failed()
            raise

    async def _wait(self, future: asyncio.Future[T], call: Call) -> T:
        done, _ = await asyncio.wait({future}, timeout=self._limit_s)
        if not done and not call.give_up():
            done, _ = await asyncio.wait({future}, timeout=_COMMIT_GRACE_S)
            if not done:
                raise StoreUnavailable("the incident store took the words but did not confirm; look before repeating")
        if not done:
            raise StoreUnavailable("the incident store did not answer in time; nothing was recorded")
        if not isinstance(future.exception(), StoreUnavailable | StoreBusy):
            self._breaker.succeeded()  # a refusal is an answer too
        return future.result()

    def _ended(self, future: asyncio.Future[Any]) -> None:
        self._running -= 1
        if not future.cancelled():
            future.exception()  # seen: a call that was given up may still end with an error of its own

    def close(self) -> None:
        """Take no more calls; those that run end by themselves."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _nobody(_flow: str, _seconds: float, _outcome: str) -> None:
    return None
