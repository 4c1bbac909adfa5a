"""One rank of a launch over several nodes: what it is started with, and how it lives and ends with the others."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest

from playbooks.messages import GroupWord, JobReport, LaunchFacts, Limits, RankOf, StageLimit
from playbooks.vocabulary import JobKind, JobOutcome, Outcome, Stage
from tests.support.node_builders import TestNode, baseline, job, policy, script
from workers.adapters import process_table

START = "INFO 12-01 00:00:00 [api_server.py:1] vLLM API server version 0.32.0"
NODES = ("gpu-a1", "gpu-a2")
FATAL = ["Traceback (most recent call last):", '  File "/x/a.py", line 1, in f', "    f()", "ValueError: boom"]


def rank_of(rank: int, **changes: Any) -> RankOf:
    """Return the test node's place: rank 0 or 1 of two."""
    nodes = NODES if rank == 0 else NODES[::-1]
    return RankOf(
        **{"group": "G", "rank": rank, "nodes": nodes, "master_addr": "127.0.0.1", "master_port": 29510, **changes}
    )


@pytest.fixture(autouse=True)
def _cluster(node: TestNode) -> None:
    object.__setattr__(node.deps, "policy", policy(node.folder, address="127.0.0.1"))


def report_of(node: TestNode, rank: RankOf, *, hold_s: int = 0, limits: Limits | None = None, **what: Any) -> JobReport:
    path = script(node.folder, **what)
    node.deliver(
        job(
            JobKind.LAUNCH,
            attempt=1,
            baseline=baseline(node.folder, env={"SCRIPT": path}),
            rank=rank,
            params={"hold_s": hold_s},
            limits=limits or Limits(total_s=60),
        )
    )
    report = node.bot.report_of("job-1")
    assert report is not None
    return report


def facts_of(node: TestNode, rank: RankOf, **what: Any) -> LaunchFacts:
    report = report_of(node, rank, **what)
    assert report.outcome is JobOutcome.DONE, report.error
    return LaunchFacts.model_validate(report.facts)


def log_of(node: TestNode) -> str:
    return (node.folder / "engines" / "job-1" / "engine.log").read_text(encoding="utf-8")


def test_the_head_is_given_its_rank_and_serves(node: TestNode) -> None:
    facts = facts_of(node, rank_of(0), lines=[START, "argv {argv}"], serve=True)
    assert facts.outcome is Outcome.READY
    assert "--nnodes 2 --node-rank 0 --master-addr 127.0.0.1 --master-port 29510 --host" in log_of(node)


def test_a_follower_is_headless_and_ready_when_the_head_is(node: TestNode) -> None:
    def told_later() -> None:
        while not node.bot.beats:
            time.sleep(0.05)
        node.bot.group["job-1"] = GroupWord(ready=True)

    teller = threading.Thread(target=told_later)
    teller.start()
    facts = facts_of(node, rank_of(1), lines=[START, "argv {argv}"], hold_s=60)
    teller.join()
    assert facts.outcome is Outcome.READY
    assert facts.probe is None
    assert facts.failed_at is None
    assert facts.held is not None
    assert facts.held.endpoint == ""
    assert "--node-rank 1 --master-addr 127.0.0.1 --master-port 29510 --headless" in log_of(node)
    assert "--port" not in log_of(node).replace("--master-port", "")


def test_a_rank_ends_with_another_one_and_says_for_which(node: TestNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.jobs.watching.PEER_GRACE_S", 0.1)
    node.bot.group["job-1"] = GroupWord(ended="rank 0 on gpu-a2 failed")
    facts = facts_of(node, rank_of(1), lines=[START], children=1, ignore_term=True)
    assert (facts.outcome, facts.ended_for) == (Outcome.NOT_OBSERVED, "rank 0 on gpu-a2 failed")
    assert facts.left_behind == ()
    ours = {"BASELINE_JOB": "job-1", "BASELINE_WORKER": node.deps.journal.instance}
    assert all(not ours.items() <= process_table.environment(row.pid).items() for row in process_table.processes())


def test_a_failure_of_its_own_is_told_though_another_rank_ended(
    node: TestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.jobs.watching.PEER_GRACE_S", 30.0)
    node.bot.group["job-1"] = GroupWord(ended="rank 0 on gpu-a2 failed")
    facts = facts_of(node, rank_of(1), lines=[START, *FATAL], exit=1)
    assert (facts.outcome, facts.ended_for) == (Outcome.FAILED, "")
    assert facts.failed_at is not None


def test_a_follower_alone_is_noticed_by_the_silence_limit(node: TestNode) -> None:
    limits = Limits(total_s=60, stages={Stage.CONTAINER_INIT: StageLimit(silence_s=1, total_s=30)})
    facts = facts_of(node, rank_of(1), lines=["INFO waiting for the head node"], limits=limits)
    assert facts.outcome is Outcome.STOPPED_BY_LIMIT
    assert facts.limit is not None
    assert facts.limit.kind == "silence"
    assert facts.failed_at is not None


def test_without_the_bot_a_ranks_own_limits_end_it(node: TestNode) -> None:
    def bot_goes_down() -> None:
        while not node.bot.beats:
            time.sleep(0.05)
        node.bot.down = True

    teller = threading.Thread(target=bot_goes_down)
    teller.start()
    limits = Limits(total_s=60, stages={Stage.CONTAINER_INIT: StageLimit(silence_s=2, total_s=30)})
    path = script(node.folder, lines=["INFO waiting for the head node"])
    node.deliver(
        job(
            JobKind.LAUNCH,
            attempt=1,
            baseline=baseline(node.folder, env={"SCRIPT": path}),
            rank=rank_of(1),
            limits=limits,
        )
    )
    teller.join()
    [report] = node.deps.journal.unacknowledged()
    facts = LaunchFacts.model_validate(report.facts)
    assert facts.outcome is Outcome.STOPPED_BY_LIMIT
    assert facts.left_behind == ()


def test_a_taken_meeting_port_starts_nothing(node: TestNode) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        object.__setattr__(node.deps, "policy", policy(node.folder, address="127.0.0.1", cluster_ports=(port, port)))
        report = report_of(node, rank_of(0, master_port=port), lines=[START], serve=True)
    assert report.outcome is JobOutcome.INCONCLUSIVE
    assert "on which the ranks were to meet, is taken" in str(report.error)
    assert not (node.folder / "engines").exists()


@pytest.mark.parametrize(
    ("rank", "changes", "why"),
    [
        pytest.param(
            rank_of(0),
            {"address": None},
            "expected `address`, under which other nodes reach this one, found none in the policy (rule cluster)",
            id="no address of its own",
        ),
        pytest.param(
            rank_of(0, master_port=80),
            {},
            "expected a port for the ranks from 29500 to 29599, found 80 (rule cluster)",
            id="port out of range",
        ),
        pytest.param(
            rank_of(1, master_addr="10.9.9.9"),
            {},
            "--master-addr: expected an address of ['127.0.0.1'], found 10.9.9.9 (rule endpoint)",
            id="a stranger",
        ),
        pytest.param(
            rank_of(1, nodes=NODES),
            {},
            "expected gpu-a1 as rank 1 of ['gpu-a1', 'gpu-a2'], found it not there (rule cluster)",
            id="another node's rank",
        ),
    ],
)
def test_what_the_policy_does_not_open_is_refused(
    node: TestNode, rank: RankOf, changes: dict[str, Any], why: str
) -> None:
    object.__setattr__(node.deps, "policy", policy(node.folder, **{"address": "127.0.0.1", **changes}))
    report = report_of(node, rank, lines=[START], serve=True)
    assert report.outcome is JobOutcome.REFUSED
    assert why in str(report.error)
