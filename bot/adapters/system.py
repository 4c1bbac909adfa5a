"""The clock and the source of ids of a running bot."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TIME_CHARS = 10
_RANDOM_BITS = 80


class SystemClock:
    """Implements `bot.ports.Clock`."""

    def now(self) -> datetime:
        """Return the time, aware, in UTC."""
        return datetime.now(UTC)


class Ulids:
    """Job ids that sort by time; implements `bot.ports.Ids`."""

    def __init__(self, clock: SystemClock | None = None) -> None:
        self._clock = clock or SystemClock()

    def job_id(self) -> str:
        """Return a fresh ULID."""
        milliseconds = int(self._clock.now().timestamp() * 1000)
        number = (milliseconds << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)
        length = _TIME_CHARS + _RANDOM_BITS // 5
        return "".join(_ALPHABET[(number >> (5 * place)) & 31] for place in reversed(range(length)))
