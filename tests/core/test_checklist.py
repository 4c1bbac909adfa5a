"""The checklist: how each item closes, and the one step that comes next, from the first word to the last."""

from __future__ import annotations

import pytest

from playbooks.catalog import load_playbook
from playbooks.evidence import entries as e
from playbooks.guiding.checklist import items, next_step
from playbooks.guiding.items import open_items
from playbooks.vocabulary import DriverVerdict, JobKind, JobOutcome, Outcome, Phase
from tests.support.cases import (
    CPU_CONTAINER,
    CPU_HOST,
    GPU_CONTAINER,
    GPU_HOST,
    REFUSED,
    CaseLines,
    cpu_scene,
    docker_baseline,
    finding,
    frozen_scene,
    ok,
    process_baseline,
)

K3 = load_playbook("kimi-k3")
GENERIC = load_playbook("generic-vllm")
BASE = docker_baseline()
TINY = process_baseline()


def item(lines: CaseLines, name: str, playbook=K3):
    return next(found for found in items(lines.case, playbook) if found.id == name)


def state(lines: CaseLines, name: str, playbook=K3):
    found = item(lines, name, playbook)
    return found.state, found.evidence


class TestItems:
    def test_the_list_is_the_playbook_s(self):
        listed = items(CaseLines().opened().case, K3)
        assert [found.id for found in listed] == [step.id for step in K3.steps()]
        assert all(found.label and found.why and found.how for found in listed)

    def test_a_fresh_case_has_the_scene_open(self):
        case = CaseLines().opened().case
        assert len(open_items(case, K3, Phase.FREEZE)) == 8
        assert open_items(case, K3, Phase.CLOSED) == ()

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("host-driver", "driver.loaded 580.95.05"),
            ("image-identity", "image.digest sha256:" + "41" * 32),
            (
                "runtime-versions",
                "vllm.version 0.29.0 · python.version 3.12.11 · torch.version 2.9.1+cu130 · torch.cuda 13.0",
            ),
            ("gpu-visibility", "nvml.count 8"),
            ("sides-compared", "both sides agree"),
        ],
    )
    def test_a_fingerprint_proves_with_its_number(self, name, value):
        found = item(CaseLines().opened().fingerprint(), name)
        assert (found.state, found.evidence, found.value, found.kind) == ("proven", 3, value, "machine")

    def test_a_field_that_was_refused_proves_nothing(self):
        assert state(CaseLines().opened().fingerprint({"driver.loaded": REFUSED}), "host-driver") == ("open", None)

    def test_no_driver_is_a_fact_too(self):
        found = item(CaseLines().opened().fingerprint(CPU_HOST, CPU_CONTAINER), "host-driver")
        assert (found.state, found.value) == ("proven", "driver.loaded absent")

    def test_a_saved_nvidia_smi_proves_the_driver(self):
        assert state(CaseLines().opened().scene({"nvidia-smi": "n" * 64}), "host-driver") == ("proven", 3)

    @pytest.mark.parametrize("name", ["image.digest", "image.id", "container.image_id"])
    def test_any_identity_of_the_image_proves_it(self, name):
        assert state(CaseLines().opened().fingerprint(GPU_HOST, {name: ok("x")}), "image-identity") == ("proven", 3)

    def test_packages_stand_in_for_the_image_of_a_process(self):
        lines = CaseLines().opened().fingerprint(CPU_HOST, CPU_CONTAINER, source="python /venv/bin/python")
        found = item(lines, "image-identity")
        assert found.state == "proven"
        assert "python.executable /venv/bin/python" in found.value

    def test_packages_do_not_stand_in_for_a_container_s_image(self):
        lines = CaseLines().opened().fingerprint(CPU_HOST, CPU_CONTAINER, source="exec k3")
        assert state(lines, "image-identity") == ("open", None)

    @pytest.mark.parametrize("missing", ["python.version", "torch.version", "torch.cuda", "vllm.version"])
    def test_every_version_is_needed(self, missing):
        container = {name: value for name, value in GPU_CONTAINER.items() if name != missing}
        assert state(CaseLines().opened().fingerprint(GPU_HOST, container), "runtime-versions") == ("open", None)

    def test_a_newer_fingerprint_of_the_host_alone_hides_nothing(self):
        lines = CaseLines().opened().fingerprint().fingerprint(GPU_HOST, {})
        assert item(lines, "runtime-versions").state == "proven"
        assert item(lines, "host-driver").evidence == 5

    def test_disagreements_are_counted(self):
        lines = CaseLines().opened().fingerprint(disagreements=[{"text": "8 against 0"}])
        assert item(lines, "sides-compared").value == "1 disagreements"

    def test_the_command_as_pasted_closes_with_the_opening(self):
        assert state(CaseLines().opened(command="vllm serve x"), "launch-command") == ("proven", 1)

    def test_the_container_s_command_closes(self):
        lines = CaseLines().opened().scene(container={"container.cmd": ok(["--model", "x"])})
        found = item(lines, "launch-command")
        assert (found.state, found.evidence, found.value) == ("proven", 3, "command of the container")

    def test_the_baseline_is_the_command(self):
        lines = CaseLines().opened(command="vllm serve x").frozen(BASE)
        assert state(lines, "launch-command") == ("proven", 2)

    @pytest.mark.parametrize(
        ("add", "value"),
        [
            pytest.param(lambda lines: lines.scene({"log": "l" * 64}), "container log", id="collected"),
            pytest.param(lambda lines: lines.attempt(1, BASE, log_name="a.log"), "a.log", id="attempt"),
            pytest.param(lambda lines: lines.attempt(1, BASE), "log", id="attempt without a name"),
            pytest.param(
                lambda lines: lines.add(e.LogAnalysed(sha256="a" * 64, name="b.log", finding={})), "b.log", id="dropped"
            ),
        ],
    )
    def test_a_kept_log_closes_the_first_stack(self, add, value):
        lines = add(CaseLines().opened())
        found = item(lines, "first-stack")
        assert (found.state, found.evidence, found.value) == ("proven", lines.seq, value)

    def test_an_attempt_without_a_log_keeps_nothing(self):
        assert state(CaseLines().opened().attempt(1, BASE, log=None), "first-stack") == ("open", None)

    def test_a_question_closes_by_value_and_name(self):
        found = item(CaseLines().opened().answer("change-history", "none", actor="user:U7"), "change-history")
        assert (found.state, found.evidence, found.value, found.by) == ("answered", 2, "none", "user:U7")
        assert (found.kind, found.answerable) == ("human", True)

    def test_an_empty_answer_closes_nothing(self):
        assert state(CaseLines().opened().answer("change-history", " "), "change-history") == ("open", None)

    def test_what_a_machine_can_prove_is_not_ticked(self):
        lines = CaseLines().opened().answer("host-driver", "580")
        assert state(lines, "host-driver") == ("open", None)
        assert not item(lines, "host-driver").answerable

    @pytest.mark.parametrize(
        "name", ["host-driver", "image-identity", "runtime-versions", "gpu-visibility", "first-stack"]
    )
    def test_without_a_node_people_answer(self, name):
        lines = CaseLines().opened(node=None).answer(name, "as told")
        assert state(lines, name) == ("answered", 2)

    @pytest.mark.parametrize("outcome", [JobOutcome.INCONCLUSIVE, JobOutcome.REFUSED, JobOutcome.LOST])
    def test_what_the_machine_could_not_read_people_answer(self, outcome):
        lines = CaseLines().opened().ask(JobKind.FINGERPRINT).ended(outcome).answer("host-driver", "580")
        assert state(lines, "host-driver") == ("answered", lines.seq)
        assert state(lines.answer("first-stack", "none"), "first-stack") == ("open", None)

    @pytest.mark.parametrize(
        "name", ["driver-verdict", "sides-compared", "two-attempts", "stability", "fixed-request", "approve"]
    )
    def test_a_verdict_is_never_a_tick(self, name):
        lines = CaseLines().opened().ask(JobKind.FINGERPRINT).ended().answer(name, "fine")
        assert item(lines, name).state == "open"

    def test_no_container_side_without_a_node(self):
        found = item(CaseLines().opened(node=None), "sides-compared")
        assert found.state == "not_needed"
        assert found.value == "No node is attached; the facts are those that people recorded."

    def test_no_driver_boundary_without_cuda(self):
        found = item(cpu_scene(), "driver-verdict", GENERIC)
        assert (found.state, found.value) == (
            "not_needed",
            "The engine is built without CUDA, so no driver boundary applies.",
        )
        assert found.evidence == 3

    @pytest.mark.parametrize(
        ("container", "needed"),
        [
            pytest.param({"vllm.metadata_version": ok("0.32.0+cpu")}, False, id="by the metadata"),
            pytest.param({"torch.version": ok("2.13.0+cpu")}, False, id="by torch"),
            pytest.param({"vllm.version": ok("0.29.0"), "torch.cuda": ok("13.0")}, True, id="CUDA build"),
            pytest.param({"torch.cuda": REFUSED}, True, id="not told"),
        ],
    )
    def test_a_build_without_cuda_is_shown_by_a_field(self, container, needed):
        lines = CaseLines().opened().fingerprint(GPU_HOST, container)
        assert (item(lines, "driver-verdict").state == "open") is needed

    @pytest.mark.parametrize(
        ("verdict", "expected"),
        [(verdict, "proven" if verdict is DriverVerdict.SUPPORTED else "open") for verdict in DriverVerdict],
    )
    def test_only_a_supported_driver_closes_the_boundary(self, verdict, expected):
        assert item(CaseLines().opened().boundary(verdict), "driver-verdict").state == expected

    def test_attempts_score_and_request(self):
        lines = CaseLines().opened().frozen(BASE)
        assert state(lines, "minimal-command") == ("proven", 2)
        lines.attempt(1, BASE, Outcome.READY)
        assert state(lines, "two-attempts") == ("open", None)
        lines.attempt(2, BASE, Outcome.READY)
        assert state(lines, "two-attempts") == ("proven", lines.seq)
        assert state(lines, "stability") == ("open", None)
        assert item(lines.score(1, 2, None), "stability").state == "open"
        assert item(lines.score(1, 2, 1), "stability").state == "open"
        found = item(lines.score(1, 2, 2), "stability")
        assert (found.state, found.evidence, found.value) == ("proven", lines.seq, "score 2")
        assert item(lines.requested(2, "once", 1, 1), "fixed-request").state == "open"
        found = item(lines.requested(2), "fixed-request")
        assert (found.state, found.evidence, found.value) == ("proven", lines.seq, "stable, 5 of 5")

    def test_a_proposal_and_its_approval(self):
        base = CaseLines().opened().attempt(1, BASE)
        assert item(base, "propose").state == "open"
        lines = base.proposed()
        found = item(lines, "propose")
        assert (found.state, found.evidence, found.value) == ("proven", lines.seq, "fix_files")
        assert item(lines, "approve").state == "open"
        lines.approved()
        assert (item(lines, "approve").state, item(lines, "approve").evidence) == ("proven", lines.seq)
        assert item(lines, "propose").state == "proven"

    def test_a_void_proposal_is_none(self):
        lines = CaseLines().opened().proposed().attempt(1, BASE)
        assert item(lines, "propose").state == "open"

    def test_what_is_not_carried_out_says_so_and_stays_open(self):
        found = item(CaseLines().opened().answer("drain-node", "done"), "drain-node")
        assert (found.state, found.carried_out, found.answerable) == ("open", False, False)
        assert found.how.startswith("Not carried out by this version of Baseline. By the platform")
        assert open_items(CaseLines().opened().case, K3, Phase.CHANGE) == ()

    def test_people_are_asked_only_what_the_decision_turns_on(self):
        found = item(CaseLines().opened(), "node-drain")
        assert (found.state, found.value) == ("not_needed", "The decision does not turn on it as things stand.")
        blocked = CaseLines().opened().boundary(DriverVerdict.BLOCKED)
        assert item(blocked, "node-drain").state == "open"
        assert item(blocked, "fork-team").state == "not_needed"
        assert item(blocked, "propose").state == "open"
        assert item(blocked.answer("node-drain", "yes"), "node-drain").state == "answered"

    def test_choices_are_offered(self):
        assert item(CaseLines().opened(), "maintenance-window").choices == ("now", "scheduled", "none")
        assert item(CaseLines().opened(), "cluster-owner").choices == ()


def step(lines: CaseLines, playbook=K3):
    return next_step(lines.case, playbook)


def at_launch() -> CaseLines:
    return frozen_scene().boundary().entered(Phase.BOUNDARY).entered(Phase.LAUNCH)


def recorded() -> CaseLines:
    """An incident without a node: two logs of attempts elsewhere."""
    lines = CaseLines().opened(node=None, command="docker run k3")
    for name in (
        "host-driver",
        "image-identity",
        "runtime-versions",
        "gpu-visibility",
        "failing-request",
        "change-history",
    ):
        lines.answer(name, "as told")
    lines.frozen(BASE).attempt(1, BASE, origin="recorded").attempt(2, BASE, origin="recorded")
    return lines.score(1, 2, 2)


STEPS = [
    pytest.param(CaseLines().opened(), ("job", "host-driver", JobKind.FINGERPRINT), id="a job before a question"),
    pytest.param(
        CaseLines().opened().ask(JobKind.FINGERPRINT),
        ("wait", None, JobKind.FINGERPRINT),
        id="a running job is waited for",
    ),
    pytest.param(CaseLines().opened().fingerprint(), ("job", "first-stack", JobKind.COLLECT), id="then the scene"),
    pytest.param(CaseLines().opened().fingerprint().scene(), ("answer", "launch-command", None), id="then people"),
    pytest.param(
        CaseLines().opened().ask(JobKind.FINGERPRINT).ended(),
        ("job", "first-stack", JobKind.COLLECT),
        id="a fingerprint that failed is not asked for again",
    ),
    pytest.param(
        CaseLines().opened().ask(JobKind.FINGERPRINT).ended().scene(),
        ("answer", "host-driver", None),
        id="but people are",
    ),
    pytest.param(
        CaseLines().opened(node=None), ("answer", "host-driver", None), id="without a node people are asked at once"
    ),
    pytest.param(
        CaseLines().opened(command="x").fingerprint().scene(),
        ("answer", "failing-request", None),
        id="the next question",
    ),
    pytest.param(
        CaseLines().opened(command="x").fingerprint().scene().answer("failing-request", "none"),
        ("answer", "first-stack", None),
        id="a log nobody kept",
    ),
    pytest.param(frozen_scene(), ("job", "driver-verdict", JobKind.FINGERPRINT), id="frozen, no verdict yet"),
    pytest.param(
        frozen_scene().entered(Phase.BOUNDARY).boundary(),
        ("answer", "minimal-command", None),
        id="supported: the minimal command",
    ),
    pytest.param(
        frozen_scene().boundary(DriverVerdict.BLOCKED).entered(Phase.BOUNDARY),
        ("answer", "node-drain", None),
        id="blocked: what the decision lacks",
    ),
    pytest.param(
        frozen_scene().boundary(DriverVerdict.BLOCKED).entered(Phase.BOUNDARY).answer("node-drain", "no"),
        ("decide", "propose", None),
        id="blocked, no drain: propose",
    ),
    pytest.param(
        frozen_scene().boundary(DriverVerdict.UNKNOWN).entered(Phase.BOUNDARY),
        ("job", "driver-verdict", JobKind.FINGERPRINT),
        id="unknown: read it",
    ),
    pytest.param(cpu_scene(), ("answer", "minimal-command", None), id="a CPU machine goes on to the minimal command"),
    pytest.param(at_launch().frozen(BASE), ("job", "two-attempts", JobKind.LAUNCH), id="first attempt"),
    pytest.param(
        at_launch().frozen(BASE).attempt(1, BASE), ("job", "two-attempts", JobKind.LAUNCH), id="second attempt"
    ),
    pytest.param(
        at_launch().frozen(BASE).attempt(1, BASE).attempt(2, BASE).score(1, 2, None),
        ("job", "two-attempts", JobKind.LAUNCH),
        id="no score: repeat",
    ),
    pytest.param(
        at_launch().frozen(BASE).attempt(1, BASE).attempt(2, BASE).score(1, 2, 2),
        ("decide", "propose", None),
        id="it repeats: decide",
    ),
    pytest.param(
        at_launch().frozen(BASE).attempt(1, BASE).attempt(2, BASE).score(1, 2, 0),
        ("job", None, JobKind.FINGERPRINT),
        id="score 0: freeze again",
    ),
    pytest.param(
        at_launch().frozen(BASE).attempt(1, BASE).attempt(2, BASE).score(1, 2, 1).fingerprint(),
        ("job", "two-attempts", JobKind.LAUNCH),
        id="score 1, looked around: once more",
    ),
    pytest.param(
        at_launch().frozen(BASE).attempt(1, BASE).attempt(2, BASE).score(1, 2, 1).attempt(3, BASE).score(2, 3, 0),
        ("answer", "official-image", None),
        id="nothing repeats twice",
    ),
    pytest.param(
        at_launch()
        .frozen(BASE)
        .attempt(1, BASE)
        .attempt(2, BASE)
        .score(1, 2, 1)
        .attempt(3, BASE)
        .score(2, 3, 0)
        .answer("official-image", "yes"),
        ("decide", "propose", None),
        id="nothing repeats on the official image",
    ),
    pytest.param(
        at_launch().frozen(BASE).attempt(1, BASE).attempt(2, BASE).score(1, 2, 2).proposed(),
        ("approve", "approve", None),
        id="proposed",
    ),
    pytest.param(
        at_launch().frozen(BASE).attempt(1, BASE).attempt(2, BASE).score(1, 2, 2).proposed().approved(),
        ("job", "two-attempts", JobKind.LAUNCH),
        id="approved repair: run again",
    ),
    pytest.param(
        at_launch().frozen(BASE).attempt(1, BASE).attempt(2, BASE).score(1, 2, 2).proposed().rejected(),
        ("decide", "propose", None),
        id="rejected",
    ),
    pytest.param(
        at_launch()
        .frozen(BASE)
        .attempt(1, BASE)
        .attempt(2, BASE)
        .score(1, 2, 2)
        .proposed()
        .attempt(3, BASE)
        .score(2, 3, 2),
        ("decide", "propose", None),
        id="void by a newer report",
    ),
    pytest.param(
        at_launch().frozen(BASE).attempt(1, BASE).proposed("hold"),
        ("job", "two-attempts", JobKind.LAUNCH),
        id="a hold needs no approver",
    ),
    pytest.param(
        at_launch().frozen(BASE).attempt(1, BASE).attempt(2, BASE).proposed("fix_config").approved(),
        ("answer", "minimal-command", None),
        id="approved configuration: freeze it",
    ),
    pytest.param(
        at_launch().frozen(BASE).proposed("replace_image").approved(),
        ("answer", "minimal-command", None),
        id="approved image: freeze it",
    ),
    pytest.param(
        at_launch().frozen(BASE).proposed("roll_back").approved(),
        ("answer", "minimal-command", None),
        id="approved rollback: freeze it",
    ),
    pytest.param(
        at_launch().frozen(BASE).proposed("fix_config").approved().frozen(docker_baseline(("serve", "b"))),
        ("job", "two-attempts", JobKind.LAUNCH),
        id="changed baseline: run it",
    ),
    pytest.param(
        at_launch().frozen(BASE).proposed("isolate").approved(), ("close", None, None), id="approved isolation: export"
    ),
    pytest.param(
        at_launch().frozen(BASE).proposed("upgrade_driver").approved(),
        ("close", None, None),
        id="approved upgrade: not ours to carry out",
    ),
    pytest.param(
        recorded().proposed("fix_files").approved(), ("close", None, None), id="approved repair elsewhere: export"
    ),
    pytest.param(
        at_launch().frozen(BASE).proposed("fix_files").approved().attempt(1, BASE),
        ("job", "two-attempts", JobKind.LAUNCH),
        id="after the repair: second attempt",
    ),
    pytest.param(recorded(), ("decide", "propose", None), id="recorded attempts repeat: decide"),
    pytest.param(
        CaseLines().opened(node=None).entered(Phase.LAUNCH).frozen(BASE).attempt(1, BASE, origin="recorded"),
        ("answer", "two-attempts", None),
        id="recorded: drop the second log",
    ),
    pytest.param(
        CaseLines().opened(node=None).entered(Phase.LAUNCH).frozen(BASE),
        ("answer", "two-attempts", None),
        id="recorded: drop the first log",
    ),
    pytest.param(
        CaseLines()
        .opened(node=None)
        .entered(Phase.LAUNCH)
        .frozen(BASE)
        .attempt(1, BASE, origin="recorded")
        .attempt(2, BASE, origin="recorded")
        .score(1, 2, 1),
        ("answer", "two-attempts", None),
        id="recorded, score 1: another log",
    ),
    pytest.param(
        at_launch().frozen(BASE).attempt(1, BASE, Outcome.READY).attempt(2, BASE, Outcome.READY).score(1, 2, 2),
        ("job", "two-attempts", JobKind.LAUNCH),
        id="ready twice, nothing held: start it again",
    ),
    pytest.param(
        at_launch()
        .frozen(BASE)
        .attempt(1, BASE, Outcome.READY)
        .attempt(2, BASE, Outcome.READY, held_until="2026-12-01T04:00:00Z")
        .score(1, 2, 2),
        ("request", "fixed-request", JobKind.REQUEST),
        id="ready twice and held: the fixed request",
    ),
    pytest.param(
        at_launch()
        .frozen(BASE)
        .attempt(1, BASE, Outcome.READY)
        .attempt(2, BASE, Outcome.READY, held_until="x")
        .score(1, 2, 2)
        .add(e.HeldEnded(attempt=2, how="expired")),
        ("job", "two-attempts", JobKind.LAUNCH),
        id="no longer held",
    ),
    pytest.param(
        at_launch()
        .frozen(BASE)
        .attempt(1, BASE, Outcome.READY)
        .attempt(2, BASE, Outcome.READY, held_until="x")
        .score(1, 2, 2)
        .requested(2, "once", 1, 1),
        ("request", "fixed-request", JobKind.REQUEST),
        id="one answer is not stable",
    ),
    pytest.param(
        at_launch()
        .frozen(BASE)
        .attempt(1, BASE, Outcome.READY)
        .attempt(2, BASE, Outcome.READY, held_until="x")
        .score(1, 2, 2)
        .entered(Phase.REGRESSION)
        .requested(2),
        ("add_back", "bring", None),
        id="stable: prefix caching comes back first",
    ),
    pytest.param(
        at_launch()
        .frozen(BASE)
        .attempt(1, BASE, Outcome.READY)
        .attempt(2, BASE, Outcome.READY, held_until="x")
        .score(1, 2, 2)
        .requested(2, "failed", 0),
        ("decide", "propose", None),
        id="requests fail",
    ),
    pytest.param(
        at_launch()
        .frozen(BASE)
        .attempt(1, BASE, Outcome.READY)
        .attempt(2, BASE, Outcome.READY, log=None)
        .score(1, 2, 2),
        ("answer", "minimal-command", None),
        id="gate open where nobody can answer",
    ),
    pytest.param(
        at_launch()
        .frozen(docker_baseline(("s", "--reasoning-parser")))
        .attempt(1, docker_baseline(("s", "--reasoning-parser")), Outcome.READY)
        .attempt(2, docker_baseline(("s", "--reasoning-parser")), Outcome.READY)
        .score(1, 2, 2),
        ("answer", "minimal-command", None),
        id="gate: features in the command",
    ),
    pytest.param(
        recorded()
        .attempt(3, BASE, Outcome.READY, origin="recorded")
        .attempt(4, BASE, Outcome.READY, origin="recorded")
        .score(3, 4, 2),
        ("decide", "propose", None),
        id="recorded and ready: nothing to send to",
    ),
    pytest.param(
        frozen_scene().entered(Phase.DECISION),
        ("job", "driver-verdict", JobKind.FINGERPRINT),
        id="decision phase: what is missing",
    ),
    pytest.param(
        CaseLines().opened(node=None).entered(Phase.DECISION),
        ("decide", "propose", None),
        id="decision phase without a node",
    ),
    pytest.param(CaseLines().opened().add(e.IncidentClosed(reason="x")), ("close", None, None), id="closed"),
]


@pytest.mark.parametrize(("lines", "expected"), STEPS)
def test_the_one_step_that_comes_next(lines, expected):
    found = step(lines)
    assert (found.kind, found.item, found.job) == expected
    assert found.text
    assert found.kind == "wait" or found.how


def test_the_gpu_count_is_asked_of_people_only_where_no_machine_can_read_it():
    lines = CaseLines().opened().entered(Phase.LAUNCH).frozen(BASE)
    lines.attempt(1, BASE, Outcome.READY, ask=False).attempt(2, BASE, Outcome.READY, ask=False).score(1, 2, 2)
    found = step(lines)
    assert (found.kind, found.item, found.job) == ("job", "host-driver", JobKind.FINGERPRINT)
    assert found.text == "Gate item 1 is open: Loaded driver saved, not the package version."
    lines.ask(JobKind.FINGERPRINT).ended()
    assert (step(lines).kind, step(lines).item) == ("answer", "host-driver")


def test_a_playbook_without_a_minimal_command_does_not_ask_for_one():
    phases = tuple(
        phase.model_copy(update={"steps": tuple(s for s in phase.steps if s.id != "minimal-command")})
        for phase in K3.phases
    )
    found = step(at_launch(), K3.model_copy(update={"phases": phases}))
    assert (found.kind, found.item) == ("job", "two-attempts")


def test_scores_below_two_say_where_to_look():
    zero = at_launch().frozen(BASE).attempt(1, BASE).attempt(2, BASE).score(1, 2, 0)
    assert step(zero).text.startswith("Score 0: Freeze again: loaded driver, GPUs in the container")
    one = at_launch().frozen(BASE).attempt(1, BASE).attempt(2, BASE).score(1, 2, 1)
    assert step(one).text == "Score 1: Look for leftovers and shared resources first."
    assert step(one.fingerprint()).why.endswith("Look for leftovers and shared resources first.")


def test_the_waiting_text_names_node_and_entry():
    found = step(CaseLines().opened().ask(JobKind.COLLECT))
    assert found.text == "Waiting for gpu-a1: collect."
    assert found.why == "Asked for in #2."


def test_a_stop_is_not_waited_for():
    assert step(CaseLines().opened().ask(JobKind.STOP)).kind == "job"


def test_the_approval_names_what_waits():
    found = step(recorded().proposed(headline="Fix the files."))
    assert found.text == f"The proposed decision #{recorded().seq + 1} waits for an approver: Fix the files."


def test_an_approved_repair_asks_first_for_what_an_attempt_here_needs():
    lines = CaseLines().opened().fingerprint().attempt(1, BASE, origin="recorded").attempt(2, BASE, origin="recorded")
    lines.proposed("fix_files", headline="Fix the files.").approved()
    found = step(lines)
    assert found.job is not JobKind.LAUNCH, "an attempt would be refused while these items are open"
    assert found.item in {one.id for one in items(lines.case, K3) if one.state == "open"}
    assert found.why.startswith("Approved: Fix the files. No attempt runs here before this is known.")


def test_an_upgrade_is_not_ours_to_carry_out():
    found = step(recorded().proposed("upgrade_driver", headline="Upgrade.").approved())
    assert found.text == "Approved: Upgrade. Export the bundle, carry it out, and close the case."
    assert found.why == "Not carried out by this version of Baseline."


def test_the_whole_way_on_a_cpu_machine_with_a_broken_model_directory():
    lines = cpu_scene()
    assert step(lines, GENERIC).item == "minimal-command"
    lines.entered(Phase.BOUNDARY).entered(Phase.LAUNCH).frozen(TINY)
    assert step(lines, GENERIC).job is JobKind.LAUNCH
    lines.attempt(1, TINY).attempt(2, TINY).score(1, 2, 2)
    assert step(lines, GENERIC).kind == "decide"
    lines.proposed("fix_files").approved()
    assert step(lines, GENERIC).job is JobKind.LAUNCH
    repaired = TINY.model_copy(update={"driver": "none"})
    lines.frozen(repaired, {"variable": "model files", "before": "broken", "after": "whole"})
    lines.attempt(3, repaired, Outcome.READY, changed=["model files"])
    assert step(lines, GENERIC).job is JobKind.LAUNCH
    lines.attempt(4, repaired, Outcome.READY, held_until="x").score(3, 4, 2)
    assert step(lines, GENERIC).kind == "request"
    assert step(lines.entered(Phase.REGRESSION).requested(4), GENERIC).kind == "add_back"


def test_a_finding_that_names_no_class_is_held():
    lines = at_launch().frozen(BASE)
    for number in (1, 2):
        lines.attempt(number, BASE, found=finding("unknown", "engine_init"))
    assert step(lines.score(1, 2, 2)).item == "official-image"


def test_a_class_whose_finding_names_no_action_is_proposed_with_the_usual_one():
    lines = at_launch().frozen(BASE)
    for number in (1, 2):
        lines.attempt(number, BASE, found=finding("nccl_init_failed", "engine_init"))
    found = step(lines.score(1, 2, 2))
    assert (found.kind, found.text) == ("decide", "Propose a decision from what is known.")


def test_a_proposal_says_what_it_will_be():
    lines = at_launch().frozen(BASE).attempt(1, BASE).attempt(2, BASE).score(1, 2, 2)
    assert step(lines).text == "Propose: Fix the files, as the one change; then the same baseline twice."
