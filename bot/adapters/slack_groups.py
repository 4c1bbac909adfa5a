"""Members of Slack's user groups, for roles that are given to groups: read every few minutes, and failing closed.

What was read last holds for an hour; when Slack says nothing for longer, nobody is a member, and `unreadable` says why.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from bot.adapters.slack_calls import SlackCalls
from bot.errors import SlackError

EVERY_S = 300.0
AGAIN_S = 30.0
"""After a reading that failed; the method is of Slack's second tier."""
HOLDS_S = 3600.0
log = structlog.get_logger(__name__)


class SlackGroups:
    """Implements `bot.flows.services.Groups` by `usergroups.users.list`."""

    def __init__(
        self, calls: SlackCalls, groups: frozenset[str], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._calls = calls
        self._groups = sorted(groups)
        self._monotonic = monotonic
        self._read: dict[str, tuple[float, frozenset[str]]] = {}
        self._why: dict[str, str] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def members(self, group: str) -> frozenset[str]:
        """Return who is in a group, as last read; nobody when that is too long ago."""
        return self._read[group][1] if self._holds(group) else frozenset()

    @property
    def unreadable(self) -> dict[str, str]:
        """Groups that count for nothing now, and why: Slack's word, or that they were not read yet."""
        return {group: self._why.get(group, "not read yet") for group in self._groups if not self._holds(group)}

    def _holds(self, group: str) -> bool:
        found = self._read.get(group)
        return found is not None and self._monotonic() - found[0] <= HOLDS_S

    def refresh(self) -> bool:
        """Read every group once; returns whether all could be read."""
        for group in self._groups:
            try:
                answer = self._calls.call_form("usergroups.users.list", usergroup=group)
            except SlackError as error:
                self._why[group] = str(error)
                log.warning("user group not read", group=group, why=str(error))
                continue
            users = answer.get("users")
            self._read[group] = (self._monotonic(), frozenset(map(str, users if isinstance(users, list) else ())))
            self._why.pop(group, None)
        return not self._why

    def start(self) -> None:
        """Read in a thread of its own, now and from time to time."""
        if self._groups:
            self._thread = threading.Thread(target=self._loop, name="slack-groups", daemon=True)
            self._thread.start()

    def stop(self, *, timeout_s: float = 5.0) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=timeout_s)

    def _loop(self) -> None:
        while not self._stop.is_set():
            self._stop.wait(EVERY_S if self.refresh() else AGAIN_S)
