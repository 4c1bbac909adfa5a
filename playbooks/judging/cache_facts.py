"""What a probe of the prefix cache brings from the node: configuration, requests, and the counters around each."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from playbooks.judging.request_run import RequestRun


class _Fact(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class CacheConfig(_Fact):
    """What the engine says of its cache; None = it does not say. block, unit, max_len: tokens."""

    enabled: bool | None = None
    block: int | None = None
    unit: int | None = None
    max_len: int | None = None
    hybrid: bool = False
    retention: str | None = None
    engines: int = 1


class Scrape(_Fact):
    """Counters of `/metrics` at one moment, summed over engines; None = not there. Tokens, unless `in_blocks`."""

    queries: int | None = None
    hits: int | None = None
    in_blocks: bool = False
    cached: int | None = None
    computed: int | None = None
    preemptions: int | None = None
    running: int | None = None
    waiting: int | None = None
    kv_permille: int | None = None
    drafts: int | None = None
    """Drafts of speculative decoding; None = it is off."""
    accepted: int | None = None
    started_ms: int | None = None
    engines: int = 0


class CacheShot(_Fact):
    """One request of a probe. tokens: its length as planned; salt: which of the two salts it carries."""

    name: Literal["A1", "A2", "A3", "A4", "N1", "N2"]
    round: int
    tokens: int
    salt: Literal["own", "other", "none"]
    run: RequestRun
    before: Scrape
    after: Scrape


class CacheProbeFacts(_Fact):
    """A probe. why_not: why no request could be sized; expected_*: cached tokens of A2, and of A3 and A4."""

    target: str
    """`attempt 3`, or an endpoint."""
    config: CacheConfig
    prefix_tokens: int | None = None
    tail_tokens: int | None = None
    expected_repeat: int | None = None
    expected_prefix: int | None = None
    why_not: str = ""
    token_exact: bool = False
    salted: bool = False
    shots: tuple[CacheShot, ...] = ()
    engine_alive: bool = True
