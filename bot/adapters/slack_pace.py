"""How fast each Slack method may be called: one token bucket per method (and per channel for posts).

Slack's tiers are per method, app and workspace; a `Retry-After` closes a method for as long as Slack said.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

POST_PER_CHANNEL = (1.0, 3)
"""About one message a second and channel, short bursts allowed."""
METHODS: dict[str, tuple[float, int]] = {
    "chat.postMessage": (5.0, 10),
    "chat.update": (50 / 60, 5),
    "chat.postEphemeral": (100 / 60, 10),
    "files.getUploadURLExternal": (100 / 60, 10),
    "files.completeUploadExternal": (100 / 60, 10),
    "files.info": (50 / 60, 10),
    "conversations.replies": (50 / 60, 5),
    "conversations.history": (50 / 60, 5),
    "views.publish": (100 / 60, 10),
}
"""Calls per second and burst, a little under Slack's tier each."""


@dataclass(slots=True)
class _Bucket:
    rate: float
    burst: int
    tokens: float
    at: float
    closed_until: float = 0.0

    def wait(self, now: float) -> float:
        """Refill and return the seconds until one call may go."""
        self.tokens = min(self.burst, self.tokens + (now - self.at) * self.rate)
        self.at = now
        if now < self.closed_until:
            return self.closed_until - now
        return 0.0 if self.tokens >= 1 else (1 - self.tokens) / self.rate


class Pace:
    """Token buckets by method and channel; `monotonic` is a clock in seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._buckets: dict[str, _Bucket] = {}

    def wait(self, method: str, channel: str = "") -> float:
        """Return the seconds to wait before this call; 0 = now."""
        return max(bucket.wait(self._now()) for bucket in self._of(method, channel))

    def spend(self, method: str, channel: str = "") -> None:
        """Count one call."""
        for bucket in self._of(method, channel):
            bucket.wait(self._now())
            bucket.tokens -= 1

    def close(self, method: str, seconds: float) -> None:
        """Close a method for as long as Slack asked."""
        for bucket in self._of(method, ""):
            bucket.closed_until = max(bucket.closed_until, self._now() + seconds)

    def _of(self, method: str, channel: str) -> list[_Bucket]:
        rate, burst = METHODS.get(method, (1.0, 3))
        found = [self._bucket(method, rate, burst)]
        if method == "chat.postMessage" and channel:
            found.append(self._bucket(f"{method}:{channel}", *POST_PER_CHANNEL))
        return found

    def _bucket(self, key: str, rate: float, burst: int) -> _Bucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(rate, burst, float(burst), self._now())
        return bucket
