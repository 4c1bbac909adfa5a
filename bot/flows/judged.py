"""What judging a report is given, and what it comes to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from bot.ports import OutboxKind

if TYPE_CHECKING:
    from bot.flows.services import Services
    from bot.ports import ArtifactMeta, Job, Writing
    from playbooks.evidence.entries import Payload
    from playbooks.guiding.case import Case
    from playbooks.messages import JobReport

FollowUp = Callable[["Writing", "Services", datetime], None]
"""What happens by itself after the entries, in the same transaction."""


@dataclass(frozen=True, slots=True)
class Context:
    """A report and the case it comes into."""

    job: Job
    report: JobReport
    case: Case
    reports: Mapping[str, str]
    """Job ids of earlier attempts, with the digests of their reports."""
    now: datetime
    language: str = "en"
    """The incident's."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file that is shown in the thread: a log, or a report."""

    sha256: str
    name: str
    title: str

    @property
    def kind(self) -> OutboxKind:
        """The kind of outbox row that posts it."""
        return OutboxKind.FILE

    def payload(self) -> dict[str, Any]:
        """The outbox row's payload."""
        return {"sha256": self.sha256, "name": self.name, "title": self.title}


@dataclass(frozen=True, slots=True)
class Judged:
    """Entries to append, oldest first: the node's facts, then the bot's verdicts about them."""

    entries: tuple[Payload, ...]
    log: LogFile | None = None
    made: tuple[ArtifactMeta, ...] = ()
    """Files that the bot made of the facts and stored; they belong to the first entry."""
    follow_ups: tuple[FollowUp, ...] = ()
    note: str = ""
    """For the worker's own log: why the facts were not judged."""
    by_bot: bool = False
    """Whether even the first entry is the bot's own word."""
