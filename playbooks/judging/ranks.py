"""A launch over several nodes: each node's place in it, how each rank ended, and which of them failed first.

An engine whose peer went away fails too, often with an imposing text; so the first rank is found by cause before it is found
by time, and ranks whose clocks cannot tell them apart are named together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict

from playbooks.judging.finding import Finding
from playbooks.judging.option_words import Option, options_of, program_of
from playbooks.vocabulary import ErrorClass, JobOutcome, Outcome

ASSIGNED = frozenset({"--headless", "--nnodes", "--node-rank"})
"""Options that say which rank a command is for: the product gives them to each rank, so no baseline holds them."""
MEETING = frozenset({"--master-addr", "--master-port"})
"""Where the ranks meet: given by the product unless the command names it; then it is a variable like any other."""
OF_A_PEER = frozenset({ErrorClass.RENDEZVOUS_FAILED, ErrorClass.COLLECTIVE_HANG})
"""What a rank prints that lost, or never found, another one; on one rank only, beside a failure of its own on another."""
NEAR = timedelta(seconds=1)
"""Clock offsets are measured over one HTTP exchange: ends nearer than this have no order."""


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


def without_rank(argv: tuple[str, ...], *, alone: bool) -> tuple[tuple[str, ...], tuple[Option, ...]]:
    """Return a command without the options that say which rank it is for, and those options.

    alone: where the ranks meet is taken out too, for one node meets nobody.
    """
    names = ASSIGNED | (MEETING if alone else frozenset())
    options = options_of(argv)
    taken = tuple(option for option in options if option.name in names)
    if not taken:
        return argv, ()
    kept = [word for option in options if option.name not in names for word in option.words]
    return (*program_of(argv), *kept), taken


class RankOf(_Value):
    """A job's place in a launch over several nodes. nodes: head first; a node's position is its rank."""

    group: str
    rank: int
    nodes: tuple[str, ...]
    master_addr: str | None = None
    """None: the baseline itself names it."""
    master_port: int | None = None
    """None: as `master_addr`."""

    @property
    def is_head(self) -> bool:
        """Whether this rank serves the API."""
        return self.rank == 0

    def arguments(self) -> tuple[str, ...]:
        """Return what the product adds to the frozen arguments for this rank."""
        given = ["--nnodes", str(len(self.nodes)), "--node-rank", str(self.rank)]
        if self.master_addr is not None:
            given += ["--master-addr", self.master_addr]
        if self.master_port is not None:
            given += ["--master-port", str(self.master_port)]
        return (*given, *(() if self.is_head else ("--headless",)))


class GroupWord(_Value):
    """What a rank is told of the others with each heartbeat."""

    ready: bool = False
    """The head has answered the fixed request."""
    ended: str = ""
    """Why the launch is over, by the first other rank that ended without being ready."""


class RankEnd(_Value):
    """How one rank ended. failed_at: by the bot's clock, when its first fatal line was read or its end was seen."""

    rank: int
    node: str
    job_id: str
    job_outcome: JobOutcome
    outcome: Outcome
    why: str = ""
    """Why there are no facts, or for which other rank it was ended."""
    finding: Finding | None = None
    failed_at: datetime | None = None
    launch: dict[str, Any] = {}
    """Further fields of `attempt:recorded`, as they are for this rank."""

    @property
    def by_itself(self) -> bool:
        """Whether this rank failed, and was not ended for another one."""
        return self.outcome in {Outcome.FAILED, Outcome.STOPPED_BY_LIMIT}


@dataclass(frozen=True, slots=True)
class Merged:
    """One attempt of several ranks. first: ranks named as the first to fail, more than one when no clock tells them apart."""

    outcome: Outcome
    first: tuple[int, ...]
    why: str


def merge(ends: Sequence[RankEnd]) -> Merged:
    """Say how a launch over several nodes ended.

    1. Every rank ready: ready.
    2. A rank that failed of a cause of its own comes before those that lost a peer, and before those that a limit
       ended: silence is what waiting for a dead peer looks like.
    3. Among equals the earliest counts, by the bot's clock; those within `NEAR` of it are named together.
    4. No rank failed by itself, but one was lost, refused or cancelled: not observed.
    """
    failed = [end for end in ends if end.by_itself]
    if not failed:
        if ends and all(end.outcome is Outcome.READY for end in ends):
            return Merged(Outcome.READY, (), "every rank was ready")
        missing = why_unobserved(ends)
        return Merged(Outcome.NOT_OBSERVED, (), f"rank {missing.rank} on {missing.node}: {missing.why or 'no facts'}")
    strongest = min(_weakness(end) for end in failed)
    roots = [end for end in failed if _weakness(end) == strongest]
    times = [end.failed_at for end in roots if end.failed_at is not None]
    if times:
        roots = [end for end in roots if end.failed_at is not None and end.failed_at - min(times) <= NEAR]
    first = min(roots, key=lambda end: (end.failed_at is None, end.failed_at, end.rank))
    named = tuple(sorted(end.rank for end in roots))
    return Merged(first.outcome, named, _why(first, failed, named))


def why_unobserved(ends: Sequence[RankEnd]) -> RankEnd:
    """Return the rank for whose sake a launch was not observed: one that is lost or was refused before one that was called off."""
    order = (JobOutcome.REFUSED, JobOutcome.LOST, JobOutcome.INCONCLUSIVE, JobOutcome.CANCELLED, JobOutcome.DONE)
    waiting = [end for end in ends if end.outcome is not Outcome.READY] or list(ends)
    return min(waiting, key=lambda end: (order.index(end.job_outcome), end.rank))


def first_of(ends: Sequence[RankEnd], merged: Merged) -> RankEnd:
    """Return the rank whose finding stands for the attempt: of those named first the earliest, else the head."""
    named = [end for end in ends if end.rank in merged.first]
    return min(named or ends, key=lambda end: (end.failed_at is None, end.failed_at, end.rank))


def _weakness(end: RankEnd) -> int:
    """Return 0 for a cause of the rank's own, 1 for a lost peer, 2 for a silence that nothing explains."""
    error_class = end.finding.error_class if end.finding is not None else ErrorClass.UNKNOWN
    if error_class in OF_A_PEER:
        return 1
    if end.outcome is Outcome.STOPPED_BY_LIMIT and error_class in {ErrorClass.UNKNOWN, ErrorClass.NONE}:
        return 2
    return 0


def _why(first: RankEnd, failed: Sequence[RankEnd], named: tuple[int, ...]) -> str:
    others = [end for end in failed if end.rank not in named]
    if len(named) > 1:
        return f"ranks {', '.join(map(str, named))} failed within {NEAR.total_seconds():.0f} s: no clock tells which was first"
    if not others:
        return f"rank {first.rank} on {first.node} is the only one that failed by itself"
    if any(_weakness(end) > _weakness(first) for end in others):
        return f"rank {first.rank} on {first.node} failed of a cause of its own; the others lost a peer"
    return f"rank {first.rank} on {first.node} failed first by the clocks, offsets taken out"
