"""Two workers of this machine as two nodes: they live and end together, and the first to fail is named."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.flows.cancel_job import cancel_job
from bot.ports import JobState
from playbooks.messages import Limits, StageLimit
from playbooks.vocabulary import JobKind, Stage
from tests.support.bot_services import payloads
from tests.support.two_nodes import LOADING, NODES, OOM, START, TwoNodes, two_nodes, until

pytestmark = pytest.mark.timeout(300)
SERVES = {"0": {"lines": [START], "serve": True}, "1": {"lines": [START]}}
SHORT = {stage: StageLimit(silence_s=2, total_s=60) for stage in Stage if stage is not Stage.NONE}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoNodes]:
    with two_nodes(tmp_path_factory.mktemp("two")) as started:
        yield started


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[TwoNodes]:
    """Nodes of one test alone: it kills them."""
    with two_nodes(tmp_path) as started:
        yield started


def test_ready_together_held_together_and_gone_together(nodes: TwoNodes) -> None:
    head, follower = nodes.launch(meet=True, ranks=SERVES, hold_s=600)
    attempt = nodes.attempt(head)
    assert attempt["outcome"] == "ready"
    assert [rank["outcome"] for rank in attempt["ranks"]] == ["ready", "ready"]
    assert nodes.engines(head)
    assert nodes.engines(follower)
    os.kill(nodes.engine_of(head), signal.SIGKILL)
    nodes.gone(follower)
    [ended] = until(lambda: payloads(nodes.bot, head.incident, "held:ended"), "the end of the held engines")
    assert ended["how"] == "died"


def test_a_sweep_spares_both_and_a_stop_of_one_ends_both(nodes: TwoNodes) -> None:
    head, follower = nodes.launch(meet=True, ranks=SERVES, hold_s=600)
    assert nodes.attempt(head)["outcome"] == "ready"
    for node in NODES:
        nodes.ask(head.incident, JobKind.SWEEP, node)
    until(lambda: len(payloads(nodes.bot, head.incident, "job:ended")) == 2, "both sweeps")
    assert nodes.engines(head)
    assert nodes.engines(follower)
    nodes.ask(head.incident, JobKind.STOP, NODES[1], attempt=1)
    for job in (head, follower):
        nodes.gone(job)
    [ended] = until(lambda: payloads(nodes.bot, head.incident, "held:ended"), "the end of the held engines")
    assert ended["how"] in {"stopped", "died"}


def test_a_second_attempt_takes_the_place_of_the_first_on_every_node_and_is_scored(nodes: TwoNodes) -> None:
    first = nodes.launch(meet=True, ranks=SERVES, hold_s=600, repeat=1)
    [score] = until(lambda: payloads(nodes.bot, first[0].incident, "score:given"), "a score")
    assert score["score"] == 2
    for job in first:
        nodes.gone(job)
    with nodes.bot.store.read() as reading:
        jobs = reading.jobs(incident=first[0].incident, active_only=False)
    second = [job for job in jobs if job.request.attempt == 2]
    assert [job.node for job in second] == list(NODES)
    assert all(nodes.engines(job) for job in second)
    nodes.ask(first[0].incident, JobKind.STOP, NODES[0], attempt=2)
    for job in second:
        nodes.gone(job)
    until(lambda: len(payloads(nodes.bot, first[0].incident, "held:ended")) == 2, "the ends of both attempts' engines")


def test_the_time_of_a_held_launch_is_over_on_every_node(nodes: TwoNodes) -> None:
    head, follower = nodes.launch(ranks=SERVES, hold_s=2)
    assert nodes.attempt(head)["outcome"] == "ready"
    for job in (head, follower):
        nodes.gone(job)
    [ended] = until(lambda: payloads(nodes.bot, head.incident, "held:ended"), "the end of the held engines")
    assert ended["how"] == "expired"


def test_the_head_dies_and_the_follower_goes_with_it(nodes: TwoNodes) -> None:
    dies = {"0": {"lines": [START, LOADING, [0.5, OOM[0]], *OOM[1:]], "exit": 1}, "1": {"lines": [START, LOADING]}}
    head, follower = nodes.launch(ranks=dies, ignore_term=True)
    attempt = nodes.attempt(head)
    nodes.gone(follower)
    assert attempt["first_ranks"] == [0]
    assert attempt["finding"]["error_class"] == "oom_weight_load"
    assert attempt["ranks"][1]["why"] == "ended, because rank 0 on gpu-a1 failed"


def test_a_follower_that_fails_first_is_named_though_the_head_says_more(nodes: TwoNodes) -> None:
    dies = {"0": {"lines": [START, LOADING]}, "1": {"lines": [START, LOADING, [0.5, OOM[0]], *OOM[1:]], "exit": 1}}
    head, _follower = nodes.launch(meet=True, ranks=dies)
    attempt = nodes.attempt(head)
    assert attempt["first_ranks"] == [1]
    assert attempt["finding"]["error_class"] == "oom_weight_load"
    assert attempt["ranks"][0]["error_class"] == "rendezvous_failed"


def test_a_cancel_ends_both(nodes: TwoNodes) -> None:
    head, follower = nodes.launch(lines=[START], ignore_term=True)
    for job in (head, follower):
        nodes.engine_of(job)
    cancel_job(nodes.bot.services, follower.id, by="user:U1")
    for job in (head, follower):
        nodes.gone(job)
    until(lambda: len(payloads(nodes.bot, head.incident, "job:ended")) == 2, "both ends")


def test_two_groups_at_once_run_one_after_the_other(nodes: TwoNodes) -> None:
    ends = {"lines": [START, [0.3, OOM[0]], *OOM[1:]], "exit": 1}
    groups = [nodes.launch(meet=True, **ends) for _ in range(2)]
    attempts = [nodes.attempt(group[0], 120) for group in groups]
    assert [attempt["outcome"] for attempt in attempts] == ["failed", "failed"]
    times = [sorted(at for job in group if (at := nodes.now_of(job).claimed_at) is not None) for group in groups]
    assert [len(found) for found in times] == [2, 2]
    first, second = sorted(times)
    assert first[-1] < second[0]


@pytest.mark.services  # a start of its own: too long for the default run
def test_a_follower_alone_is_noticed_by_the_silence_limit(fresh: TwoNodes) -> None:
    fresh.workers[NODES[0]].end()
    head, follower = fresh.launch(meet=True, lines=[START], limits=Limits(total_s=60, stages=SHORT))
    attempt = fresh.attempt(head)
    fresh.gone(follower)
    assert (attempt["outcome"], attempt["first_ranks"]) == ("stopped_by_limit", [1])
    assert attempt["limit"]["kind"] == "silence"
    assert attempt["ranks"][0]["why"].startswith("not started, because rank 1 on gpu-a2 was stopped by a limit")
    assert fresh.now_of(head).state is JobState.ENDED


@pytest.mark.services  # a start of its own: too long for the default run
def test_a_killed_worker_is_a_lost_rank_and_the_other_one_ends(fresh: TwoNodes) -> None:
    head, follower = fresh.launch(lines=[START])
    for job in (head, follower):
        fresh.engine_of(job)
    until(lambda: fresh.now_of(follower).state is JobState.CLAIMED, "a claim")
    worker = fresh.workers[NODES[1]]
    assert worker.process is not None
    for pid in (worker.process.pid, *worker.children()):
        os.kill(pid, signal.SIGKILL)
    worker.process.wait()
    worker.start()
    attempt = fresh.attempt(head)
    for job in (head, follower):
        fresh.gone(job)
    assert attempt["outcome"] == "not_observed"
    assert attempt["ranks"][1]["job_outcome"] == "lost"
    assert "rank 1 on gpu-a2" in attempt["first_why"]
