"""What a pressure ladder brings from the node: its rungs, the requests of each try, and the engine's counters around them."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from playbooks.judging.cache_facts import Scrape
from playbooks.judging.request_run import RequestRun


class Question(StrEnum):
    """What a rung asks, in the order of R7.2: the one thing that grows on it."""

    SHORT = "short"
    INPUT = "input"
    OUTPUT = "output"
    CONCURRENCY = "concurrency"


class Ended(StrEnum):
    """Why a ladder ended."""

    TOP = "top"
    FAILED_TWICE = "failed_twice"
    DIED = "died"
    TIME = "time"
    TOKENS = "tokens"


class _Fact(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Rung(_Fact):
    """One rung. input_tokens, output_tokens: of each request; concurrency: requests at once; requests: of a try."""

    question: Question
    input_tokens: int
    output_tokens: int
    concurrency: int
    requests: int

    @property
    def tokens(self) -> int:
        """Tokens that one try asks for, at most."""
        return self.requests * (self.input_tokens + self.output_tokens)


class RungTry(_Fact):
    """One try of a rung. Peaks: seen while it ran; None = the engine or the node does not tell."""

    runs: tuple[RequestRun, ...]
    duration_ms: int
    before: Scrape = Scrape()
    after: Scrape = Scrape()
    waiting_peak: int | None = None
    kv_peak_permille: int | None = None
    memory_peak_bytes: int | None = None
    alive: bool = True

    @property
    def held(self) -> bool:
        """Whether each request completed, by an engine that lived on."""
        return self.alive and bool(self.runs) and all(run.complete for run in self.runs)


class Climbed(_Fact):
    """A rung and its tries; a second one only after a failed first."""

    rung: Rung
    tries: tuple[RungTry, ...]


class LadderFacts(_Fact):
    """A ladder as climbed. rungs: those tried; planned: how many there were; token_exact: lengths were made of token ids."""

    target: str
    planned: int
    rungs: tuple[Climbed, ...] = ()
    ended: Ended
    token_exact: bool = False
    max_len: int | None = None
    engine_alive: bool = True
    log_sha256: str | None = None
    """The engine's log, when it died on the way."""
