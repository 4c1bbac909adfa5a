"""A real vLLM over two nodes of this machine: ready together, gone together, and a follower that waits for a head."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from playbooks.judging.baseline import Baseline, Interpreter
from playbooks.messages import Limits, StageLimit
from playbooks.vocabulary import Stage
from tests.support.bot_services import payloads
from tests.support.real_engine import ENV, PYTHON, SHORT, TINY, VLLM
from tests.support.two_nodes import NODES, TwoNodes, two_nodes, until

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]
OVER_TWO = Baseline(
    engine="process",
    interpreter=Interpreter(python=str(PYTHON)),
    argv=(str(TINY), *SHORT, "--distributed-executor-backend", "mp", "--tensor-parallel-size", "2"),
    env=ENV,
    nodes=NODES,
)
REAL = f'[[interpreters]]\npython = "{PYTHON}"\nvllm = "{VLLM}"\n'


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[TwoNodes]:
    with two_nodes(tmp_path, more_policy=REAL, models=TINY.parent) as started:
        yield started


def test_both_ranks_are_ready_together_and_the_death_of_the_head_ends_the_follower(nodes: TwoNodes) -> None:
    head, follower = nodes.launch(baseline=OVER_TWO, hold_s=300, limits=Limits(total_s=300))
    attempt = nodes.attempt(head, 300)
    assert attempt["outcome"] == "ready", attempt["first_why"]
    assert [rank["outcome"] for rank in attempt["ranks"]] == ["ready", "ready"]
    for pid in nodes.engines(head):
        os.kill(pid, signal.SIGKILL)
    nodes.gone(follower, 60)
    [ended] = until(lambda: payloads(nodes.bot, head.incident, "held:ended"), "the end of the held engines")
    assert ended["how"] == "died"


def test_a_follower_whose_head_never_came_is_noticed_by_its_silence(nodes: TwoNodes) -> None:
    nodes.workers[NODES[0]].end()
    limits = {stage: StageLimit(silence_s=20, total_s=200) for stage in Stage if stage is not Stage.NONE}
    head, follower = nodes.launch(baseline=OVER_TWO, limits=Limits(total_s=300, stages=limits))
    attempt = nodes.attempt(head, 200)
    nodes.gone(follower, 60)
    assert (attempt["outcome"], attempt["first_ranks"]) == ("stopped_by_limit", [1])
    assert attempt["limit"]["kind"] == "silence"
