"""The node's clocks."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class SystemClock:
    """The node's clocks."""

    def now(self) -> datetime:
        """Return aware UTC time."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that only go forward."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
