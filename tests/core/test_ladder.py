"""The pressure ladder: its rungs, and what the first one that fails says (R7.2, R7.3)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbooks.judging.cache_facts import Scrape
from playbooks.judging.finding import Finding
from playbooks.judging.ladder import LadderVerdict, judge, plan
from playbooks.judging.ladder_facts import Climbed, Ended, LadderFacts, Question, Rung, RungTry
from playbooks.judging.request_run import RequestRun
from tests.support.cases import finding

AT = datetime(2026, 12, 1, tzinfo=UTC)
BOUNDS: dict[str, int] = {"longest_input": 4096, "longest_output": 256, "most_at_once": 8}
RUNGS = plan(2048, **BOUNDS)


def run(error: str | None = None, status: int | None = 200, **more: Any) -> RequestRun:
    base = {"n": 1, "started_at": AT, "ended_ms": 100, "first_token_ms": 20, "http_status": status, "error": error}
    done = {"complete": error is None, "completion_tokens": 16, "finish_reason": None if error else "length"}
    return RequestRun.model_validate({**base, **done, **more})


def one_try(rung: Rung, error: str | None = None, *, alive: bool = True, **more: Any) -> RungTry:
    runs = tuple(
        run(error, prompt_tokens=rung.input_tokens, completion_tokens=rung.output_tokens) for _ in range(rung.requests)
    )
    return RungTry(**{"runs": runs, "duration_ms": 1000, "alive": alive, **more})


def climbed_to(question: Question, error: str, *, at: int = -1, alive: bool = True, **more: Any) -> LadderFacts:
    """A ladder that held until a rung of this question (`at`: which of them), and failed there as given."""
    wanted = [rung for rung in RUNGS if rung.question is question][at]
    below = RUNGS[: RUNGS.index(wanted)]
    failed = one_try(wanted, error, alive=alive)
    top = Climbed(rung=wanted, tries=(failed, failed) if alive else (failed,))
    rungs = (*(Climbed(rung=rung, tries=(one_try(rung),)) for rung in below), top)
    base: dict[str, Any] = {
        "target": "attempt 2",
        "planned": len(RUNGS),
        "rungs": rungs,
        "ended": Ended.FAILED_TWICE if alive else Ended.DIED,
        "token_exact": True,
        "engine_alive": alive,
    }
    return LadderFacts(**{**base, **more})


def whole(ended: Ended = Ended.TOP, upto: int | None = None, **more: Any) -> LadderFacts:
    rungs = tuple(Climbed(rung=rung, tries=(one_try(rung),)) for rung in RUNGS[:upto])
    return LadderFacts(
        **{"target": "attempt 2", "planned": len(RUNGS), "rungs": rungs, "ended": ended, "token_exact": True, **more}
    )


class TestPlan:
    def test_the_order_is_short_input_output_concurrency(self) -> None:
        assert [(r.question.value, r.input_tokens, r.output_tokens, r.concurrency) for r in RUNGS] == [
            ("short", 32, 16, 1),
            ("input", 128, 16, 1),
            ("input", 512, 16, 1),
            ("input", 2016, 16, 1),
            ("output", 32, 64, 1),
            ("output", 32, 256, 1),
            ("concurrency", 32, 16, 1),
            ("concurrency", 32, 16, 2),
            ("concurrency", 32, 16, 4),
            ("concurrency", 32, 16, 8),
        ]

    @given(
        st.one_of(st.none(), st.integers(min_value=24, max_value=2_000_000)),
        st.integers(min_value=1, max_value=300_000),
        st.integers(min_value=1, max_value=9000),
        st.integers(min_value=1, max_value=64),
    )
    def test_one_thing_grows_and_nothing_exceeds_the_engine_or_the_bounds(
        self, max_len: int | None, longest_input: int, longest_output: int, most_at_once: int
    ) -> None:
        rungs = plan(max_len, longest_input=longest_input, longest_output=longest_output, most_at_once=most_at_once)
        short = rungs[0]
        assert short.question is Question.SHORT
        for rung in rungs:
            assert rung.input_tokens >= 1
            assert rung.output_tokens >= 1
            assert max_len is None or rung.input_tokens + rung.output_tokens <= max_len
            assert rung.concurrency <= most_at_once
            assert rung.requests >= 2
            changed = sum(
                getattr(rung, name) != getattr(short, name) for name in ("input_tokens", "output_tokens", "concurrency")
            )
            assert changed <= 1


CUDA = "RuntimeError: CUDA error: an illegal memory access was encountered"
LATE = "no complete answer within 120 s"
ATTRIBUTED = [
    pytest.param(climbed_to(Question.INPUT, LATE), "capacity", id="long input fails, short is stable"),
    pytest.param(climbed_to(Question.INPUT, CUDA), "capacity", id="long input fails with a CUDA error"),
    pytest.param(climbed_to(Question.OUTPUT, LATE), "capacity", id="long output fails, short is stable"),
    pytest.param(climbed_to(Question.CONCURRENCY, LATE), "scheduling", id="several at once fail, single is stable"),
    pytest.param(climbed_to(Question.CONCURRENCY, LATE, at=0), "short_unstable", id="the single request fails after all"),
    pytest.param(climbed_to(Question.SHORT, CUDA), "environment", id="the short request fails by CUDA"),
    pytest.param(climbed_to(Question.SHORT, "NCCL WARN timeout"), "environment", id="the short request fails by communication"),
    pytest.param(climbed_to(Question.SHORT, LATE), "short_unstable", id="the short request fails otherwise"),
    pytest.param(climbed_to(Question.INPUT, "ReadError", alive=False), "capacity", id="the engine died under a long input"),
    pytest.param(climbed_to(Question.CONCURRENCY, "ReadError", alive=False), "scheduling", id="the engine died under several"),
    pytest.param(whole(), "climbed", id="every rung held"),
    pytest.param(whole(Ended.TIME, 3), "inconclusive", id="time was over"),
    pytest.param(whole(Ended.TOKENS, 3), "inconclusive", id="tokens were used up"),
    pytest.param(whole(Ended.TIME, 0), "inconclusive", id="nothing was tried"),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "verdict"), ATTRIBUTED)
def test_where_it_ended_says_which_layer(facts: LadderFacts, verdict: str) -> None:
    judged = judge(facts)
    assert judged.verdict == verdict, judged
    assert (judged.failed == len(facts.rungs) - 1) == (verdict not in {"climbed", "inconclusive"})
    assert len(judged.rows) == len(facts.rungs)


def test_a_refused_request_says_nothing_about_the_engine() -> None:
    facts = climbed_to(Question.INPUT, "too long")
    refused = run("too long", 400)
    last = facts.rungs[-1].model_copy(update={"tries": (RungTry(runs=(refused,), duration_ms=9),) * 2})
    judged = judge(facts.model_copy(update={"rungs": (*facts.rungs[:-1], last)}))
    assert judged.verdict is LadderVerdict.INCONCLUSIVE
    assert "refused" in judged.grounds


def test_a_dead_engine_is_told_by_its_first_failure() -> None:
    facts = climbed_to(Question.SHORT, "ReadError", alive=False)
    found = Finding.model_validate(finding("gpu_kernel_fault", "endpoint_ready", root_text=CUDA))
    judged = judge(facts, found)
    assert judged.verdict is LadderVerdict.ENVIRONMENT
    assert "illegal memory access" in judged.grounds


def test_the_figures_of_a_rung() -> None:
    rung = RUNGS[-1]
    before = Scrape(preemptions=3, started_ms=1)
    held = one_try(rung, before=before, after=Scrape(preemptions=5, started_ms=1), waiting_peak=7, kv_peak_permille=310)
    row = judge(whole(rungs=(Climbed(rung=rung, tries=(held,)),))).rows[0]
    assert (row["complete"], row["of"], row["latency_ms"], row["ttft_ms"]) == (16, 16, 100, 20)
    assert (row["tokens_s"], row["preemptions"], row["waiting"], row["restarts"]) == (256, 2, 7, 0)
    assert row["memory_bytes"] is None


REMARKS = [
    pytest.param({"token_exact": False}, {}, "words, not tokens", id="no tokenizer"),
    pytest.param({}, {"before": Scrape(started_ms=1), "after": Scrape(started_ms=2)}, "started anew", id="a restart"),
    pytest.param({}, {"before": Scrape(preemptions=1), "after": Scrape(preemptions=2)}, "pre-empted", id="a pre-emption"),
    pytest.param({}, {"runs": (run(prompt_tokens=500),)}, "counted 500", id="another length"),
    pytest.param({}, {"runs": (run(completion_tokens=3),)}, "ended before their length", id="a short answer"),
]  # fmt: skip


@pytest.mark.parametrize(("of_all", "of_try", "says"), REMARKS)
def test_what_weakens_a_rung_is_said(of_all: dict[str, Any], of_try: dict[str, Any], says: str) -> None:
    rung = RUNGS[0]
    facts = whole(rungs=(Climbed(rung=rung, tries=(one_try(rung, **of_try),)),), **of_all)
    assert says in " ".join(judge(facts).remarks)


def test_failing_once_is_no_end_and_is_said() -> None:
    rung = RUNGS[0]
    judged = judge(whole(rungs=(Climbed(rung=rung, tries=(one_try(rung, LATE), one_try(rung))),)))
    assert judged.verdict is LadderVerdict.CLIMBED
    assert any("failed once, held when tried again" in remark for remark in judged.remarks)
