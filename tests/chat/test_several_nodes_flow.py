"""A case with several nodes as people work it: opened, read on every node, one node first, then all of them if they are alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bot.errors import Refused
from bot.flows.answer_item import answer_item
from bot.flows.compare_nodes import let_differences_stand
from bot.flows.forms import attempt_form, open_form
from bot.flows.freeze_baseline import Wanted
from bot.flows.node_jobs import request_node_job
from bot.flows.request_attempts import freeze_or_run
from bot.handlers.views import submitted
from playbooks.evidence.entries import AttemptRecorded, BoundaryJudged, FingerprintRecorded, SceneCollected
from playbooks.evidence.signing import SigningKey
from playbooks.vocabulary import DriverVerdict, JobKind, Outcome
from tests.support.bot_services import RESPONDER, TestBot, make_bot, open_case, payloads, say_hello
from tests.support.cases import CPU_CONTAINER, CPU_HOST, finding, ok
from tests.support.people import approver, record, responder, said, words

NODES = ("gpu-a1", "gpu-a2", "gpu-a3")
TWO = NODES[:2]
POLICY = {"address": "10.0.0.1", "cluster_ports": [29500, 29599], "interpreters": ["/venv/bin/python"]}
COMMAND = "vllm serve /models/tiny --tensor-parallel-size 8"
SPREAD = f"{COMMAND} --nnodes 2 --node-rank 1 --headless --pipeline-parallel-size 2"


@pytest.fixture
def bot(tmp_path: Path) -> TestBot:
    keys = {node: SigningKey.generate().public for node in NODES}
    made = make_bot(tmp_path, nodes=NODES, node_keys=keys)
    for node in NODES:
        say_hello(made, node=node, policy=POLICY)
    return made


def fingerprint(node: str, **container: Any) -> FingerprintRecorded:
    facts = {
        "host": CPU_HOST,
        "container": {**CPU_CONTAINER, **container},
        "container_source": "python /venv/bin/python",
        "duration_ms": 4,
    }
    return FingerprintRecorded(job_id=f"JOB-{node}", node=node, facts=facts, stable_sha256="2" * 64)


def ready_case(bot: TestBot, *, nodes: tuple[str, ...] = TWO, read: tuple[str, ...] = TWO, **other: Any) -> str:
    """Return a case whose gate is open, with the fingerprints of `read`; `other`: fields of the second node's."""
    case = open_case(bot, node=nodes[0], nodes=list(nodes), command=COMMAND)
    record(bot, case, SceneCollected(job_id="JOB-A", node=nodes[0], saved={"log": "1" * 64}))
    record(bot, case, *(fingerprint(node, **(other if node == nodes[1] else {})) for node in read))
    unknown = DriverVerdict.UNKNOWN
    record(bot, case, BoundaryJudged(verdict=unknown, grounds=["no driver"], rule="B-09", snapshot="s", age_days=1))
    for item, value in (("failing-request", "none"), ("change-history", "none"), ("first-stack", "in the log")):
        answer_item(bot.services, responder(), case, item, value=value)
    return case


def run(bot: TestBot, case: str, command: str = "", nodes: tuple[str, ...] = ()) -> Any:
    return freeze_or_run(bot.services, responder(), case, wanted=Wanted(command, nodes=nodes), runs=1)


def one_node_attempt(bot: TestBot, case: str, outcome: Outcome = Outcome.READY, error_class: str = "none") -> None:
    """Let the one node's attempt come to its end."""
    with bot.store.read() as reading:
        job = reading.jobs(incident=case)[-1]
    assert job.request.baseline is not None
    assert job.request.attempt is not None
    attempt = AttemptRecorded(
        attempt=job.request.attempt,
        baseline_digest=job.request.baseline.digest,
        origin="observed",
        outcome=outcome,
        finding=finding(error_class, "none" if error_class == "none" else "weight_loading"),
        job_id=job.id,
        node=job.node,
        log_sha256="3" * 64,
    )
    record(bot, case, attempt)
    with bot.store.write() as tx:
        tx.update_job(job.id, state="ended", outcome="done")


def launched(bot: TestBot, case: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the nodes and arguments of the jobs that are on their way."""
    with bot.store.read() as reading:
        jobs = [job for job in reading.jobs(incident=case) if job.kind is JobKind.LAUNCH]
    return [(job.node, job.request.baseline.argv if job.request.baseline is not None else ()) for job in jobs]


# opened


def test_the_form_takes_a_head_and_further_nodes(bot: TestBot) -> None:
    form = open_form(bot.services, responder())
    assert [block["block_id"] for block in form["blocks"] if "node" in block.get("block_id", "")] == [
        "node",
        "more_nodes",
    ]
    values = {
        "title": {"title": {"value": "K3 over two nodes"}},
        "node": {"node": {"selected_option": {"value": "gpu-a2"}}},
        "more_nodes": {"more_nodes": {"selected_options": [{"value": "gpu-a1"}, {"value": "gpu-a2"}]}},
    }
    view = {"callback_id": "open_incident", "private_metadata": form["private_metadata"], "state": {"values": values}}
    submitted(bot.services, responder(), view)
    with bot.store.read() as reading:
        [incident] = reading.incidents()
    assert (incident.case.opened.payload.node, incident.case.opened.payload.nodes) == ("gpu-a2", ["gpu-a2", "gpu-a1"])
    asked = [(entry["node"], entry["job_kind"]) for entry in payloads(bot, incident.id, "job:requested")]
    assert asked == [(node, kind) for node in ("gpu-a2", "gpu-a1") for kind in ("collect", "fingerprint")]


def test_fingerprints_are_read_on_every_node_that_can_be_asked(bot: TestBot) -> None:
    case = open_case(bot, node=NODES[0], nodes=list(NODES))
    bot.clock.forward(minutes=5)
    for node in TWO:
        say_hello(bot, node=node, policy=POLICY)
    message = request_node_job(bot.services, responder(), case, JobKind.FINGERPRINT)
    assert [entry["node"] for entry in payloads(bot, case, "job:requested")] == list(TWO)
    assert "gpu-a3 was last heard of" in said(message)


# one node first


def test_the_attempt_form_offers_one_node_first(bot: TestBot) -> None:
    form = attempt_form(bot.services, responder(), ready_case(bot))
    [nodes] = [block for block in form["blocks"] if block.get("block_id") == "nodes"]
    assert [option["value"] for option in nodes["element"]["options"]] == ["gpu-a1", "gpu-a1,gpu-a2"]
    assert nodes["element"]["initial_option"]["value"] == "gpu-a1"


def test_several_nodes_before_one_is_clean_are_refused(bot: TestBot) -> None:
    case = ready_case(bot)
    with pytest.raises(Refused) as refused:
        run(bot, case, COMMAND, TWO)
    assert "2 nodes before CUDA initialises and one node is clean" in words(refused)
    assert launched(bot, case) == []


@pytest.mark.parametrize(
    ("outcome", "error_class"),
    [
        pytest.param(Outcome.READY, "none", id="one node was ready"),
        pytest.param(Outcome.FAILED, "oom_weight_load", id="the model does not fit on one node"),
    ],
)
def test_all_nodes_are_one_change_after_one_node(bot: TestBot, outcome: Outcome, error_class: str) -> None:
    case = ready_case(bot)
    run(bot, case, SPREAD.replace(" --pipeline-parallel-size 2", ""))
    assert launched(bot, case) == [
        ("gpu-a1", ("/models/tiny", "--no-enable-prefix-caching", "--tensor-parallel-size", "8"))
    ]
    one_node_attempt(bot, case, outcome, error_class)
    message = run(bot, case, SPREAD, TWO)
    both = (
        "/models/tiny",
        "--no-enable-prefix-caching",
        *"--pipeline-parallel-size 2 --tensor-parallel-size 8".split(),
    )
    assert launched(bot, case) == [("gpu-a1", both), ("gpu-a2", both)]
    assert "gpu-a1, gpu-a2" in message.text
    frozen = payloads(bot, case, "baseline:frozen")[-1]
    assert frozen["change"]["variable"] == "nodes"
    assert frozen["change"]["after"] == "gpu-a1, gpu-a2; --pipeline-parallel-size 2; --tensor-parallel-size 8"
    assert frozen["baseline"]["nodes"] == list(TWO)


def test_a_failure_of_one_node_alone_is_cleared_first(bot: TestBot) -> None:
    case = ready_case(bot)
    run(bot, case, COMMAND)
    one_node_attempt(bot, case, Outcome.FAILED, "cuda_unknown_error")
    with pytest.raises(Refused) as refused:
        run(bot, case, nodes=TWO)
    assert "several nodes come after one" in words(refused)


def test_a_command_for_another_number_of_nodes_is_refused(bot: TestBot) -> None:
    case = ready_case(bot)
    run(bot, case, COMMAND)
    one_node_attempt(bot, case)
    with pytest.raises(Refused) as refused:
        run(bot, case, SPREAD.replace("--nnodes 2", "--nnodes 4"), TWO)
    assert "says --nnodes 4, and 2 nodes are chosen" in words(refused)


def test_nodes_that_are_not_the_cases_are_passed_over(bot: TestBot) -> None:
    case = ready_case(bot)
    run(bot, case, COMMAND, ("gpu-a3", "gpu-a2"))
    assert [node for node, _argv in launched(bot, case)] == ["gpu-a2"]


# alike before the start


def second_launch(bot: TestBot, case: str) -> Any:
    run(bot, case, COMMAND)
    one_node_attempt(bot, case)
    return run(bot, case, nodes=TWO)


def test_a_node_without_a_fingerprint_is_named(bot: TestBot) -> None:
    case = ready_case(bot, read=TWO[:1])
    with pytest.raises(Refused) as refused:
        second_launch(bot, case)
    assert "gpu-a2 cannot be compared yet" in words(refused)


def test_nodes_that_differ_are_refused_with_the_field_and_an_approver_may_let_it_stand(bot: TestBot) -> None:
    case = ready_case(bot, **{"vllm.version": ok("0.31.0")})
    with pytest.raises(Refused) as refused:
        second_launch(bot, case)
    assert "vLLM differs: 0.32.0 on gpu-a1, 0.31.0 on gpu-a2" in words(refused)
    assert launched(bot, case) == []
    with pytest.raises(Refused):
        let_differences_stand(bot.services, responder(), case)
    let_differences_stand(bot.services, approver(), case)
    assert payloads(bot, case, "answer:recorded")[-1]["item"] == "nodes-differ"
    run(bot, case, nodes=TWO)
    assert [node for node, _argv in launched(bot, case)] == list(TWO)


def test_what_was_let_stand_is_no_leave_for_another_difference(bot: TestBot) -> None:
    case = ready_case(bot, **{"vllm.version": ok("0.31.0")})
    with pytest.raises(Refused):
        second_launch(bot, case)
    let_differences_stand(bot.services, approver(), case)
    record(bot, case, fingerprint("gpu-a2", **{"vllm.version": ok("0.30.0")}))
    with pytest.raises(Refused) as refused:
        run(bot, case, nodes=TWO)
    assert "0.30.0 on gpu-a2" in words(refused)


def test_nothing_to_let_stand_is_said(bot: TestBot) -> None:
    with pytest.raises(Refused) as refused:
        let_differences_stand(bot.services, approver(), ready_case(bot))
    assert "do not differ" in words(refused)


def test_the_owner_of_the_case_is_no_second_person(bot: TestBot) -> None:
    case = ready_case(bot, **{"vllm.version": ok("0.31.0")})
    with bot.store.write() as tx:
        tx.set_owner(case, approver().user)
    with pytest.raises(Refused):
        let_differences_stand(bot.services, approver(), case)
    assert approver().user != RESPONDER
