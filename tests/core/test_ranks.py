"""Which rank of a launch over several nodes failed first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from playbooks.judging.finding import Finding
from playbooks.judging.ranks import RankEnd, RankOf, first_of, merge, without_rank
from playbooks.vocabulary import ErrorClass, JobOutcome, Outcome, Stage

AT = datetime(2026, 12, 1, 3, 0, tzinfo=UTC)


def found(error_class: ErrorClass) -> Finding:
    return Finding(
        stage=Stage.ENGINE_INIT,
        reached=Stage.WEIGHT_LOADING,
        error_class=error_class,
        root_line=1,
        root_text="x",
        confidence="certain",
        input_kind="vllm_log",
        decision=None,
        catalogue="c",
    )


def rank(
    number: int,
    outcome: Outcome = Outcome.FAILED,
    error_class: ErrorClass = ErrorClass.OOM_WEIGHT_LOAD,
    *,
    after_s: float | None = 0,
    job: JobOutcome = JobOutcome.DONE,
    why: str = "",
) -> RankEnd:
    return RankEnd(
        rank=number,
        node=f"gpu-a{number + 1}",
        job_id=f"J{number}",
        job_outcome=job,
        outcome=outcome,
        why=why,
        finding=found(error_class) if job is JobOutcome.DONE else None,
        failed_at=None if after_s is None or outcome is Outcome.READY else AT + timedelta(seconds=after_s),
    )


UNKNOWN, LOST_A_PEER = ErrorClass.UNKNOWN, ErrorClass.RENDEZVOUS_FAILED
ENDED = {"outcome": Outcome.NOT_OBSERVED, "error_class": ErrorClass.NONE, "after_s": None}


@pytest.mark.parametrize(
    ("ends", "outcome", "first"),
    [
        pytest.param([rank(0, Outcome.READY), rank(1, Outcome.READY)], Outcome.READY, (), id="all ready"),
        pytest.param([rank(0), rank(1, **ENDED)], Outcome.FAILED, (0,), id="one failed, the other was ended for it"),
        pytest.param([rank(0, after_s=9), rank(1, after_s=2)], Outcome.FAILED, (1,), id="the earlier one"),
        pytest.param([rank(0, after_s=2.8), rank(1, after_s=2)], Outcome.FAILED, (0, 1), id="too near to tell"),
        pytest.param(
            [rank(0, error_class=LOST_A_PEER, after_s=0), rank(1, after_s=30)],
            Outcome.FAILED,
            (1,),
            id="a lost peer is no root beside a cause of its own, whatever the clocks say",
        ),
        pytest.param(
            [rank(0, error_class=LOST_A_PEER, after_s=9), rank(1, error_class=LOST_A_PEER, after_s=2)],
            Outcome.FAILED,
            (1,),
            id="where all lost a peer, the earlier one",
        ),
        pytest.param(
            [rank(0, Outcome.STOPPED_BY_LIMIT, UNKNOWN, after_s=0), rank(1, error_class=UNKNOWN, after_s=5)],
            Outcome.FAILED,
            (1,),
            id="silence is what waiting for a dead peer looks like",
        ),
        pytest.param(
            [rank(0, job=JobOutcome.INCONCLUSIVE, **ENDED), rank(1, Outcome.STOPPED_BY_LIMIT, UNKNOWN)],
            Outcome.STOPPED_BY_LIMIT,
            (1,),
            id="a follower alone",
        ),
        pytest.param(
            [rank(0, Outcome.READY), rank(1, after_s=5)],
            Outcome.FAILED,
            (1,),
            id="a head that was ready, and a follower that died",
        ),
        pytest.param(
            [rank(0, **ENDED), rank(1, job=JobOutcome.LOST, why="the worker died", **ENDED)],
            Outcome.NOT_OBSERVED,
            (),
            id="a lost rank is not observed",
        ),
        pytest.param([rank(0), rank(1, job=JobOutcome.LOST, **ENDED)], Outcome.FAILED, (0,), id="failed, and one lost"),
    ],
)
def test_the_first_rank_to_fail(ends: list[RankEnd], outcome: Outcome, first: tuple[int, ...]) -> None:
    merged = merge(ends)
    assert (merged.outcome, merged.first) == (outcome, first)
    assert first_of(ends, merged).rank == (first[0] if len(first) == 1 else first_of(ends, merged).rank)
    assert merged.why


def test_why_nothing_was_observed_names_rank_node_and_reason() -> None:
    merged = merge([rank(0, **ENDED), rank(1, job=JobOutcome.LOST, why="the worker died", **ENDED)])
    assert merged.why == "rank 1 on gpu-a2: the worker died"


def test_of_ranks_named_together_the_earlier_finding_stands_for_the_attempt() -> None:
    ends = [rank(0, after_s=0.4), rank(1, after_s=0.1)]
    assert first_of(ends, merge(ends)).rank == 1


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        pytest.param(
            {"rank": 0, "master_addr": "10.0.0.1", "master_port": 29501},
            "--nnodes 2 --node-rank 0 --master-addr 10.0.0.1 --master-port 29501",
            id="the head serves",
        ),
        pytest.param(
            {"rank": 1, "master_addr": "10.0.0.1", "master_port": 29501},
            "--nnodes 2 --node-rank 1 --master-addr 10.0.0.1 --master-port 29501 --headless",
            id="a follower is headless",
        ),
        pytest.param(
            {"rank": 1}, "--nnodes 2 --node-rank 1 --headless", id="what the baseline names is not given again"
        ),
    ],
)
def test_arguments_of_a_rank(place: dict[str, Any], expected: str) -> None:
    assert " ".join(RankOf(group="G", nodes=("a", "b"), **place).arguments()) == expected


COMMAND = (
    "serve /m --nnodes 2 --node-rank 1 --headless --master-addr 10.0.0.1 --master-port 29501 --tensor-parallel-size 8"
)


@pytest.mark.parametrize(
    ("alone", "left"),
    [
        pytest.param(
            False, "serve /m --master-addr 10.0.0.1 --master-port 29501 --tensor-parallel-size 8", id="several"
        ),
        pytest.param(True, "serve /m --tensor-parallel-size 8", id="one node meets nobody"),
    ],
)
def test_a_pasted_command_of_one_rank_is_read_as_the_launch_of_all(alone: bool, left: str) -> None:
    argv, taken = without_rank(tuple(COMMAND.split()), alone=alone)
    assert " ".join(argv) == left
    assert {option.name for option in taken} >= {"--headless", "--nnodes", "--node-rank"}
    assert without_rank(argv, alone=alone) == (argv, ())
