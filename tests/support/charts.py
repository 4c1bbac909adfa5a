"""Records to draw: attempts with the times of their stages, a probe of the cache, a ladder."""

from __future__ import annotations

from typing import Any

from playbooks.evidence.entries import AttemptRecorded, CacheProbed, LadderClimbed
from playbooks.vocabulary import LAUNCH_STAGES, Outcome

GIB = 1 << 30


def an_attempt(
    number: int, times_ms: tuple[int, ...] = (), outcome: Outcome = Outcome.FAILED, **changes: Any
) -> AttemptRecorded:
    """Return an attempt whose stages took these times; the last one is not seen to end unless it became ready."""
    stages: list[dict[str, Any]] = []
    at = 0
    for stage, time_ms in zip(LAUNCH_STAGES, times_ms, strict=False):
        stages.append({"stage": stage.value, "started_ms": at, "ended_ms": at + time_ms})
        at += time_ms
    if stages and outcome is not Outcome.READY:
        stages[-1]["ended_ms"] = None
    return AttemptRecorded(
        **{
            "attempt": number,
            "baseline_digest": "b" * 64,
            "origin": "observed",
            "outcome": outcome,
            "finding": {"stage": "weight_loading", "error_class": "kv_cache_no_memory"},
            "stages": stages,
            "ready_ms": at if outcome is Outcome.READY else None,
            "stopped_after_ms": None if outcome is Outcome.READY else at,
            **changes,
        }
    )


def some_attempts() -> list[AttemptRecorded]:
    """Return one attempt of each outcome, and a second failure."""
    limit = {"stage": "engine_init", "kind": "total", "limit_s": 600}
    late = {"stage": "engine_init", "error_class": "unknown"}
    return [
        an_attempt(1, (4000, 9000), finding={"stage": "device_recognition", "error_class": "driver_incompatible"}),
        an_attempt(2, (4000, 9000, 250_000)),
        an_attempt(3, (4000, 9000, 255_000)),
        an_attempt(4, (5000, 8000, 240_000, 607_000), Outcome.STOPPED_BY_LIMIT, limit=limit, finding=late),
        an_attempt(5, (), Outcome.NOT_OBSERVED, finding={}),
        an_attempt(6, (4000, 9000, 250_000, 180_000, 40_000), Outcome.READY, finding={}),
    ]


def a_probe(**changes: Any) -> CacheProbed:
    """Return a probe of two rounds, whose fourth request hit less than was expected."""
    expected = {"A1": 0, "A2": 4096, "A3": 2048, "A4": 2048, "N1": 0, "N2": 0}
    rows = [
        {
            "round": turn, "name": name, "tokens": 4100, "expected": tokens, "cached": tokens,
            "counted": 1024 if name == "A4" else tokens, "ttft_ms": 81 if tokens else 812,
        }
        for turn in (1, 2)
        for name, tokens in expected.items()
    ]  # fmt: skip
    return CacheProbed(**{"job_id": "j", "attempt": 3, "verdict": "miss", "grounds": "", "rows": rows, **changes})


def a_ladder(**changes: Any) -> LadderClimbed:
    """Return a ladder that sixteen requests at once ended."""
    asked = [("short", 32, 16, 1), ("input", 512, 16, 1), ("input", 131_072, 16, 1), ("output", 32, 1024, 1)]
    asked += [("concurrency", 32, 16, at_once) for at_once in (1, 2, 4, 8, 16)]
    rows = [
        {
            "question": question, "input": tokens, "output": made, "at_once": at_once, "complete": 2 * at_once, "of": 2 * at_once,
            "tries": 1, "latency_ms": 300 + made * 19 + tokens // 9, "ttft_ms": 40 + tokens // 10, "tokens_s": 51 * at_once,
        }
        for question, tokens, made, at_once in asked
    ]  # fmt: skip
    rows[-1] |= {"complete": 0, "latency_ms": None, "ttft_ms": None, "tokens_s": None}
    changes = {"verdict": "scheduling", "rows": rows, "failed": len(rows) - 1, **changes}
    return LadderClimbed(**{"job_id": "j", "attempt": 3, "grounds": "", **changes})


def samples(seconds: int, *, gib: float = 70, begins_at_s: int = 10) -> tuple[tuple[int, int], ...]:
    """Return a sample a second: memory that fills, then stays."""
    return tuple((at * 1000, int(min(1.0, at / begins_at_s) * gib * GIB)) for at in range(seconds))
