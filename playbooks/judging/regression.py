"""Runs of the fixed request: stable, unstable, once, failed or inconclusive (R7.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, Protocol

Verdict = Literal["stable", "unstable", "once", "failed", "inconclusive"]


class Run(Protocol):
    """What is judged of a run of the fixed request."""

    @property
    def complete(self) -> bool: ...  # noqa: D102 - a field
    @property
    def error(self) -> str | None: ...  # noqa: D102 - a field
    @property
    def http_status(self) -> int | None: ...  # noqa: D102 - a field
    @property
    def finish_reason(self) -> str | None: ...  # noqa: D102 - a field


def judge(runs: Sequence[Run]) -> tuple[Verdict, str]:
    """Judge N runs of one fixed request, and say why.

    stable        N of N complete, at least two
    once          the only run completed: one success is never "stable"
    unstable      some completed, some did not
    failed        none completed
    inconclusive  nothing was run, or no answer said anything about the engine
    """
    if not runs:
        return "inconclusive", "no run was made"
    complete = sum(run.complete for run in runs)
    of = len(runs)
    if complete == of:
        if of == 1:
            return "once", "1 of 1 complete: one success is one success; it takes several to call it stable"
        return "stable", f"{complete} of {of} complete"
    why = _reasons([run for run in runs if not run.complete])
    if complete:
        return "unstable", f"{complete} of {of} complete; the others: {why}"
    if all(run.http_status in {400, 401, 403, 404, 422} for run in runs):
        return (
            "inconclusive",
            f"the request itself was refused {of} of {of} times ({why}): correct the sample, then repeat",
        )
    return "failed", f"0 of {of} complete: {why}"


def _reasons(runs: Sequence[Run]) -> str:
    counted = Counter(_reason(run) for run in runs)
    return ", ".join(f"{text} ({count})" if count > 1 else text for text, count in counted.most_common(3))


def _reason(run: Run) -> str:
    if run.error:
        return run.error[:120]
    if run.http_status is not None and run.http_status != 200:
        return f"HTTP {run.http_status}"
    return f"finish reason {run.finish_reason}" if run.finish_reason else "no finish reason"
