"""Runs of the fixed request: what counts is complete answers, and one success is never stable (R7.1)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from playbooks.judging.regression import judge
from playbooks.messages import RequestRun

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def run(complete=True, **more):
    return RequestRun(
        n=1, started_at=NOW, ended_ms=5, complete=complete, **({"http_status": 200, "finish_reason": "stop"} | more)
    )


GOOD, CUT = run(), run(False, finish_reason=None)
REFUSED = run(False, http_status=400, error="HTTP 400: no such model")
BROKEN = run(False, http_status=None, error="connection reset")


@pytest.mark.parametrize(
    ("runs", "verdict", "why"),
    [
        pytest.param([], "inconclusive", "no run was made", id="no run"),
        pytest.param([GOOD], "once", "1 of 1 complete: one success", id="one success is never stable"),
        pytest.param([GOOD, GOOD], "stable", "2 of 2 complete", id="two of two"),
        pytest.param([GOOD] * 5, "stable", "5 of 5 complete", id="five of five"),
        pytest.param([GOOD, CUT], "unstable", "1 of 2 complete; the others: no finish reason", id="one of two"),
        pytest.param([BROKEN, BROKEN, GOOD], "unstable", "connection reset (2)", id="one of three, late"),
        pytest.param([GOOD, REFUSED], "unstable", "HTTP 400", id="a refusal among successes is no stable engine"),
        pytest.param([BROKEN], "failed", "0 of 1 complete: connection reset", id="one failure"),
        pytest.param([BROKEN, run(False, http_status=500)], "failed", "HTTP 500", id="all failed"),
        pytest.param([REFUSED, REFUSED], "inconclusive", "the request itself was refused 2 of 2 times", id="the request is wrong, not the engine"),
        pytest.param([REFUSED, BROKEN], "failed", "0 of 2 complete", id="refused once, broken once"),
        pytest.param([run(False, finish_reason="abort")], "failed", "finish reason abort", id="aborted"),
    ],
)  # fmt: skip
def test_verdict(runs, verdict, why):
    found, told = judge(runs)
    assert found == verdict
    assert why in told
