"""The pressure ladder: which rungs there are, and what the first one that fails says (R7.2, R7.3).

One thing grows from rung to rung: the same short request, longer input, longer output, then several at once. A rung that
fails is tried once more; failing twice it ends the ladder. Where it ended says which layer to look at, and only as much:
a bound that was reached is no failure, and a refused request says nothing about the engine.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Any, assert_never

from playbooks.judging.finding import Finding
from playbooks.judging.ladder_facts import Climbed, Ended, LadderFacts, Question, Rung, RungTry
from playbooks.judging.request_run import RequestRun

SHORT_INPUT, SHORT_OUTPUT = 32, 16
_SHORT_REQUESTS = 5
_REPEATS = 2
"""Requests of an input or output rung: one success is never stable."""
_INPUT_FIRST, _OUTPUT_FIRST, _FACTOR = 128, 64, 4
_SPARE = 16
"""Tokens left free below the engine's longest sequence: an engine may count one or two of its own."""
_REFUSED = frozenset({400, 401, 403, 404, 413, 422})
_ENVIRONMENT = re.compile(
    r"\bCUDA\b|cudaError|CUBLAS|CUDNN|NCCL|Xid|illegal memory access|device-side assert|RDMA|InfiniBand|collective",
    re.IGNORECASE,
)
_OFF_BY = 8
"""Tokens by which an engine's own count may differ from the planned one: begin-of-text and the like."""


class LadderVerdict(StrEnum):
    """What a ladder says; the layers are those of R7.3."""

    CLIMBED = "climbed"
    CAPACITY = "capacity"
    SCHEDULING = "scheduling"
    ENVIRONMENT = "environment"
    SHORT_UNSTABLE = "short_unstable"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class LadderJudged:
    """A verdict with its grounds; rows: figures of each rung; failed: the row that ended it, counted from 0."""

    verdict: LadderVerdict
    grounds: str
    rows: tuple[dict[str, Any], ...]
    failed: int | None = None
    remarks: tuple[str, ...] = ()


def plan(max_len: int | None, *, longest_input: int, longest_output: int, most_at_once: int) -> tuple[Rung, ...]:
    """Return the rungs, lowest first, within the engine's longest sequence (None = not told) and the given bounds."""
    room = (max_len or longest_input + longest_output + _SPARE) - _SPARE
    short_output = max(1, min(SHORT_OUTPUT, room // 4))
    short_input = max(1, min(SHORT_INPUT, room - short_output))
    rungs = [_rung(Question.SHORT, short_input, short_output, 1, _SHORT_REQUESTS)]
    rungs += [
        _rung(Question.INPUT, length, short_output, 1, _REPEATS)
        for length in _growing(_INPUT_FIRST, min(longest_input, room - short_output))
    ]
    rungs += [
        _rung(Question.OUTPUT, short_input, length, 1, _REPEATS)
        for length in _growing(_OUTPUT_FIRST, min(longest_output, room - short_input))
    ]
    at_once = 1
    while at_once <= most_at_once:
        rungs.append(_rung(Question.CONCURRENCY, short_input, short_output, at_once, _REPEATS * at_once))
        at_once *= 2
    return tuple(rungs)


def judge(facts: LadderFacts, finding: Finding | None = None) -> LadderJudged:
    """Judge a ladder. finding: what the launch analyser says of the log of an engine that died on the way."""
    rows = tuple(_row(climbed) for climbed in facts.rungs)
    remarks = tuple(_remarks(facts))
    if not facts.rungs:
        return LadderJudged(LadderVerdict.INCONCLUSIVE, "no rung was tried", rows, remarks=remarks)
    last = facts.rungs[-1]
    match facts.ended:
        case Ended.TOP:
            return LadderJudged(
                LadderVerdict.CLIMBED,
                f"{len(rows)} of {facts.planned} rungs held, one thing at a time",
                rows,
                None,
                remarks,
            )
        case Ended.TIME | Ended.TOKENS:
            bound = "time" if facts.ended is Ended.TIME else "tokens"
            held = sum(climbed.tries[-1].held for climbed in facts.rungs if climbed.tries)
            said = f"its bound of {bound} ended it: {held} of {facts.planned} rungs held, the others were not tried"
            return LadderJudged(LadderVerdict.INCONCLUSIVE, said, rows, None, remarks)
        case Ended.FAILED_TWICE | Ended.DIED:
            verdict, why = _attributed(last, facts, finding)
            return LadderJudged(verdict, why, rows, len(rows) - 1, remarks)
        case _ as never:
            assert_never(never)


def _attributed(last: Climbed, facts: LadderFacts, finding: Finding | None) -> tuple[LadderVerdict, str]:
    """Say which layer the rung that failed points to: R7.3 by its question, the environment only for a short request."""
    runs = [run for one in last.tries for run in one.runs if not run.complete]
    if runs and all(run.http_status in _REFUSED for run in runs) and last.tries[-1].alive:
        return LadderVerdict.INCONCLUSIVE, f"{told(last.rung)}: the request itself was refused ({_reasons(runs)})"
    how = "the engine died" if facts.ended is Ended.DIED else f"failed {len(last.tries)} times"
    if finding is not None and finding.root_text:
        how = f"{how}, first failure {finding.error_class}: {finding.root_text[:160]}"
    elif runs:
        how = f"{how} ({_reasons(runs)})"
    said = f"{told(last.rung)}: {how}"
    match last.rung.question:
        case Question.SHORT if _ENVIRONMENT.search(f"{how} {_reasons(runs)}"):
            return LadderVerdict.ENVIRONMENT, f"{said}; the short request alone fails so"
        case Question.SHORT:
            return LadderVerdict.SHORT_UNSTABLE, said
        case Question.INPUT | Question.OUTPUT:
            return LadderVerdict.CAPACITY, f"{said}; the short request was stable"
        case Question.CONCURRENCY if last.rung.concurrency == 1:
            return LadderVerdict.SHORT_UNSTABLE, f"{said}; the same request had completed on the first rung"
        case Question.CONCURRENCY:
            return LadderVerdict.SCHEDULING, f"{said}; single requests were stable"
        case _ as never:
            assert_never(never)


def told(rung: Rung) -> str:
    """Return a rung in words, by what grows on it."""
    match rung.question:
        case Question.SHORT:
            return f"short request of {rung.input_tokens} + {rung.output_tokens} tokens"
        case Question.INPUT:
            return f"input of {rung.input_tokens} tokens"
        case Question.OUTPUT:
            return f"output of {rung.output_tokens} tokens"
        case Question.CONCURRENCY:
            return f"{rung.concurrency} at once"
        case _ as never:
            assert_never(never)


def _row(climbed: Climbed) -> dict[str, Any]:
    """Return the figures of a rung's last try; whole milliseconds, None = not told. tokens_s: of the whole try."""
    one = climbed.tries[-1]
    done = [run for run in one.runs if run.complete]
    firsts = [run.first_token_ms for run in done if run.first_token_ms is not None]
    made = [run.completion_tokens for run in done if run.completion_tokens is not None]
    return {
        "question": climbed.rung.question.value,
        "input": climbed.rung.input_tokens,
        "output": climbed.rung.output_tokens,
        "at_once": climbed.rung.concurrency,
        "complete": len(done),
        "of": len(one.runs),
        "tries": len(climbed.tries),
        "latency_ms": round(median(run.ended_ms for run in done)) if done else None,
        "slowest_ms": max((run.ended_ms for run in done), default=None),
        "ttft_ms": round(median(firsts)) if firsts else None,
        "tokens_s": round(sum(made) * 1000 / one.duration_ms) if made and one.duration_ms > 0 else None,
        "preemptions": _moved(one, "preemptions"),
        "waiting": one.waiting_peak,
        "kv_permille": one.kv_peak_permille,
        "memory_bytes": one.memory_peak_bytes,
        "restarts": _restarts(one),
        "errors": _reasons([run for run in one.runs if not run.complete]),
    }


def _remarks(facts: LadderFacts) -> Iterator[str]:
    if not facts.token_exact:
        yield "the engine's tokenizer could not be asked: lengths are words, not tokens"
    for climbed in facts.rungs:
        if len(climbed.tries) > 1 and climbed.tries[-1].held:
            yield f"{told(climbed.rung)}: failed once, held when tried again"
        if any(_restarts(one) for one in climbed.tries):
            yield f"{told(climbed.rung)}: the server's process started anew meanwhile"
        if any(_moved(one, "preemptions") for one in climbed.tries):
            yield f"{told(climbed.rung)}: requests were pre-empted, so the cache of keys and values was full"
    off = [
        (climbed.rung.input_tokens, run.prompt_tokens)
        for climbed in facts.rungs
        for one in climbed.tries
        for run in one.runs
        if run.prompt_tokens is not None and abs(run.prompt_tokens - climbed.rung.input_tokens) > _OFF_BY
    ]
    if off and facts.token_exact:
        yield f"the engine counted other lengths: planned {off[0][0]} tokens, counted {off[0][1]}"
    short = [
        run.completion_tokens
        for climbed in facts.rungs
        for one in climbed.tries
        for run in one.runs
        if run.complete and run.completion_tokens is not None and run.completion_tokens < climbed.rung.output_tokens
    ]
    if short:
        yield f"{len(short)} answers ended before their length: the output rungs ask less than planned"


def _moved(one: RungTry, name: str) -> int | None:
    before, after = getattr(one.before, name), getattr(one.after, name)
    return None if before is None or after is None or after < before else after - before


def _restarts(one: RungTry) -> int | None:
    before, after = one.before.started_ms, one.after.started_ms
    return None if before is None or after is None else int(before != after)


def _reasons(runs: Sequence[RequestRun]) -> str:
    counted = Counter((run.error or f"finish reason {run.finish_reason}")[:120] for run in runs)
    return ", ".join(f"{text} ({count})" if count > 1 else text for text, count in counted.most_common(2))


def _growing(first: int, last: int) -> Iterator[int]:
    """Yield lengths that grow by a factor, and the longest one allowed as the last."""
    length = first
    while length < last:
        yield length
        length *= _FACTOR
    if last >= first:
        yield last


def _rung(question: Question, input_tokens: int, output_tokens: int, concurrency: int, requests: int) -> Rung:
    return Rung(
        question=question,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        concurrency=concurrency,
        requests=requests,
    )
