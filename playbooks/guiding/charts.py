"""The four charts of a case: stages of all attempts, memory of one, requests of a cache probe, rungs of a ladder.

Each is made of what the record says, and None where the record holds nothing to draw. A value that is not of the expected
form is left out of the picture and stays in the record.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from playbooks.evidence.entries import AttemptRecorded, CacheProbed, LadderClimbed
from playbooks.guiding.chart_forms import (
    MOST_LINES,
    MOST_ROWS,
    Bars,
    Boundary,
    Curve,
    Key,
    Line,
    Mark,
    Row,
    Segment,
    Shape,
    Subject,
    Tone,
    Unit,
    thinned,
)
from playbooks.vocabulary import LAUNCH_STAGES, Outcome

_LARGE_ROWS = 12
"""With more attempts the older ones lose their text: the picture stays readable on a phone."""
_TONES = dict(
    zip(
        [stage.value for stage in LAUNCH_STAGES],
        (Tone.FIRST, Tone.SECOND, Tone.THIRD, Tone.FOURTH, Tone.FIFTH),
        strict=True,
    )
)
_SHAPES = {
    Outcome.READY: Shape.DISC,
    Outcome.FAILED: Shape.CROSS,
    Outcome.STOPPED_BY_LIMIT: Shape.SQUARE,
    Outcome.NOT_OBSERVED: Shape.RING,
}
_WORDS = {
    Outcome.READY: "ready",
    Outcome.FAILED: "failed",
    Outcome.STOPPED_BY_LIMIT: "limit",
    Outcome.NOT_OBSERVED: "not observed",
}
GIB = 1 << 30
_NAME = re.compile(r"chart-(stages|memory|cache|ladder)-(\d+)\.png")


def timeline(attempts: Sequence[AttemptRecorded]) -> Bars | None:
    """Return the stages of all attempts, oldest first; None when no attempt was watched by a node."""
    if not any(attempt.stages for attempt in attempts):
        return None
    shown = attempts[-MOST_ROWS:]
    rows = tuple(_attempt(attempt) for attempt in shown)
    named = {segment.tone for row in rows for segment in row.segments}
    keys = [Key(stage, tone, number=tone.value) for stage, tone in _TONES.items() if tone in named]
    if Tone.OTHER in named:
        keys.append(Key("other", Tone.OTHER, number="?"))
    if any(segment.unended for row in rows for segment in row.segments):
        keys.append(Key("not seen to end", Tone.OTHER, unended=True))
    outcomes = {attempt.outcome for attempt in shown}
    keys += [Key(_WORDS[outcome], shape=shape) for outcome, shape in _SHAPES.items() if outcome in outcomes]
    if any(mark.shape is Shape.LINE for row in rows for mark in row.marks):
        keys.append(Key("stage limit", shape=Shape.LINE))
    return Bars(
        subject=Subject.STAGES,
        attempt=shown[-1].attempt,
        title=f"stages of attempts {shown[0].attempt}-{shown[-1].attempt}"
        if len(shown) > 1
        else f"stages of attempt {shown[0].attempt}",
        unit=Unit.MILLISECONDS,
        rows=rows,
        keys=tuple(keys),
        head=("first failing stage, class, time",),
        small=max(0, len(rows) - _LARGE_ROWS),
        left_out=len(attempts) - len(shown),
    )


def memory(attempt: AttemptRecorded, gpus: Sequence[tuple[str, Sequence[tuple[int, int]]]]) -> Curve | None:
    """Return the memory in use of an attempt; None without two samples.

    gpus: names with their samples (milliseconds since the start, bytes), oldest first.
    """
    lines = tuple(
        Line(f"{name} max {max(used for _, used in points) / GIB:.1f} GiB", thinned(points))
        for name, points in gpus
        if len(points) > 1
    )
    if not lines:
        return None
    spans = [(stage, start) for stage, start, _end in _spans(attempt)]
    return Curve(
        subject=Subject.MEMORY,
        attempt=attempt.attempt,
        title=f"GPU memory used, attempt {attempt.attempt}",
        lines=lines[:MOST_LINES],
        boundaries=tuple(Boundary(start, _number(stage)) for stage, start in spans),
        keys=tuple(Key(stage, _tone(stage), number=_number(stage)) for stage in dict(spans)),
        left_out=max(0, len(lines) - MOST_LINES),
    )


def cache_table(probe: CacheProbed) -> Bars | None:
    """Return the requests of a probe, expected cached tokens against those that were counted; None without requests."""
    if not probe.rows:
        return None
    rows = probe.rows[:MOST_ROWS]
    return Bars(
        subject=Subject.CACHE,
        attempt=probe.attempt,
        title=f"prefix cache, attempt {probe.attempt}: {probe.verdict}",
        unit=Unit.TOKENS,
        rows=tuple(_shot(row) for row in rows),
        keys=(
            Key("request length", Tone.OTHER),
            Key("expected", Tone.FRAME),
            Key("counted hits", Tone.THIRD),
            Key("cached_tokens", shape=Shape.LINE),
        ),
        head=("tokens", "expected", "hits", "cached", "TTFT"),
        left_out=len(probe.rows) - len(rows),
    )


def ladder(climbed: LadderClimbed) -> Bars | None:
    """Return the rungs with first token, latency and rate; None when none was tried."""
    if not climbed.rows:
        return None
    rows = climbed.rows[:MOST_ROWS]
    keys = [Key("TTFT", Tone.FIRST), Key("latency", Tone.SECOND)]
    if climbed.failed is not None:
        keys.append(Key("first failing rung", shape=Shape.CROSS))
    return Bars(
        subject=Subject.LADDER,
        attempt=climbed.attempt,
        title=f"ladder, attempt {climbed.attempt}: {climbed.verdict}",
        unit=Unit.MILLISECONDS,
        rows=tuple(_rung(row, failed=number == climbed.failed) for number, row in enumerate(rows)),
        keys=tuple(keys),
        head=("done", "TTFT", "latency", "tok/s"),
        left_out=len(climbed.rows) - len(rows),
    )


def name_of(subject: Subject, attempt: int) -> str:
    """Return the name of a chart's file."""
    return f"chart-{subject.value}-{attempt}.png"


def told_of(name: str) -> str | None:
    """Return what a file shows by its name, as `stages, attempt 3`; None when it is no chart of ours."""
    found = _NAME.fullmatch(name)
    return None if found is None else f"{found[1]}, attempt {found[2]}"


def shown_time(milliseconds: int) -> str:
    """Return a duration as people read it: `480 ms`, `4.2 s`, `95 s`, `12.5 min`, `3.1 h`."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    if milliseconds < 10_000:
        return f"{milliseconds / 1000:.1f} s"
    if milliseconds < 180_000:
        return f"{milliseconds / 1000:.0f} s"
    if milliseconds < 3 * 3_600_000:
        return f"{milliseconds / 60_000:.1f} min"
    return f"{milliseconds / 3_600_000:.1f} h"


# an attempt


def _attempt(attempt: AttemptRecorded) -> Row:
    spans = _spans(attempt)
    begun = max((max(start, end or 0) for _, start, end in spans), default=0)
    over = max(begun, attempt.ready_ms or 0, attempt.stopped_after_ms or 0)
    segments = tuple(
        Segment(start, over if end is None else end, _tone(stage), _number(stage), unended=end is None)
        for stage, start, end in spans
    )
    marks = [Mark(over, _SHAPES[attempt.outcome])]
    if (limit := _limit_at(attempt, spans)) is not None:
        marks.insert(0, Mark(min(limit, over), Shape.LINE))
    return Row(
        label=f"{attempt.attempt} {_WORDS[attempt.outcome]}",
        figures=(", ".join([*_first_failure(attempt), shown_time(over) if over else "no times"]),),
        segments=segments,
        marks=tuple(marks),
        strong=attempt.outcome in {Outcome.FAILED, Outcome.STOPPED_BY_LIMIT},
    )


def _first_failure(attempt: AttemptRecorded) -> list[str]:
    """Name stage and class, or the limit in place of a class that nobody knows."""
    if attempt.outcome in {Outcome.READY, Outcome.NOT_OBSERVED}:
        return []
    stage, error = (str(attempt.finding.get(name) or "unknown") for name in ("stage", "error_class"))
    limit = attempt.limit or {}
    if not limit:
        return [stage, error]
    said = f"{limit.get('kind')} {limit.get('limit_s')} s"
    return [stage, said] if error == "unknown" else [stage, error, said]


def _limit_at(attempt: AttemptRecorded, spans: Sequence[tuple[str, int, int | None]]) -> int | None:
    """Return where the limit that ended the attempt lay; a limit of silence ends where the attempt did."""
    limit = attempt.limit or {}
    begun = next((start for stage, start, _ in reversed(spans) if stage == limit.get("stage")), None)
    seconds = _whole(limit.get("limit_s"))
    if limit.get("kind") == "total" and begun is not None and seconds is not None:
        return begun + seconds * 1000
    return None


def _spans(attempt: AttemptRecorded) -> list[tuple[str, int, int | None]]:
    found: list[tuple[str, int, int | None]] = []
    for span in attempt.stages:
        start, end = _whole(span.get("started_ms")), _whole(span.get("ended_ms"))
        if start is not None:
            found.append((str(span.get("stage")), start, None if end is None else max(start, end)))
    return sorted(found, key=lambda one: one[1])


def _tone(stage: str) -> Tone:
    return _TONES.get(stage, Tone.OTHER)


def _number(stage: str) -> str:
    tone = _tone(stage)
    return "?" if tone is Tone.OTHER else tone.value


# a request of a cache probe, and a rung


def _shot(row: Mapping[str, Any]) -> Row:
    tokens, expected, counted, cached = (_whole(row.get(name)) for name in ("tokens", "expected", "counted", "cached"))
    segments = [Segment(0, tokens, Tone.OTHER)] if tokens else []
    if counted:
        segments.append(Segment(0, counted, Tone.THIRD))
    if expected:
        segments.append(Segment(0, expected, Tone.FRAME))
    ttft = _whole(row.get("ttft_ms"))
    figures = (
        _figure(tokens),
        _figure(expected),
        _figure(counted),
        _figure(cached),
        "-" if ttft is None else shown_time(ttft),
    )
    return Row(
        label=f"{row.get('round', '-')} {row.get('name', '-')}",
        figures=figures,
        segments=tuple(segments),
        marks=(Mark(cached, Shape.LINE),) if cached else (),
        strong=counted is not None and expected is not None and counted < expected,
    )


def _rung(row: Mapping[str, Any], *, failed: bool) -> Row:
    ttft, latency, rate = (_whole(row.get(name)) for name in ("ttft_ms", "latency_ms", "tokens_s"))
    segments = []
    if latency:
        segments.append(Segment(0, latency, Tone.SECOND))
    if ttft:
        segments.append(Segment(0, ttft, Tone.FIRST))
    figures = (
        f"{_figure(_whole(row.get('complete')))}/{_figure(_whole(row.get('of')))}",
        "-" if ttft is None else shown_time(ttft),
        "-" if latency is None else shown_time(latency),
        _figure(rate),
    )
    grown = {"input": row.get("input"), "output": row.get("output"), "concurrency": row.get("at_once")}
    question = str(row.get("question", "-"))
    label = f"{question} {grown[question]}" if question in grown else question
    return Row(
        label=f"{label} failed" if failed else label,
        figures=figures,
        segments=tuple(segments),
        marks=(Mark(max(ttft or 0, latency or 0), Shape.CROSS),) if failed else (),
        strong=failed,
    )


def _figure(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _whole(value: object) -> int | None:
    """Return a whole number from 0, else None: rows are JSON of other versions too."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62 else None
