"""The gate: ten items, each proven by evidence, and which phase may be entered."""

from __future__ import annotations

import pytest

from playbooks.catalog import load_playbook
from playbooks.errors import PhaseClosed
from playbooks.evidence import entries as e
from playbooks.guiding.gate import BEFORE_AN_ATTEMPT, evaluate, may_attempt, may_enter, next_phase
from playbooks.judging.baseline import FixedSample
from playbooks.vocabulary import DriverVerdict, JobKind, Outcome, Phase
from tests.support.cases import (
    ABSENT,
    CPU_CONTAINER,
    CPU_HOST,
    GPU_CONTAINER,
    GPU_HOST,
    GPUS,
    REFUSED,
    SAMPLE,
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


def item(lines: CaseLines, number: int, playbook=K3):
    found = evaluate(lines.case, playbook).items[number - 1]
    assert found.no == number
    return found


def closed_gate() -> CaseLines:
    """All ten closed: ready twice on a GPU node."""
    lines = frozen_scene().boundary().entered(Phase.BOUNDARY).entered(Phase.LAUNCH).frozen(BASE)
    return lines.attempt(1, BASE, Outcome.READY).attempt(2, BASE, Outcome.READY).score(1, 2, 2)


def test_a_fresh_case_has_all_but_the_sample_open():
    gate = evaluate(CaseLines().opened().case, K3)
    assert [found.no for found in gate.items] == list(range(1, 11))
    assert gate.open == (1, 2, 3, 4, 5, 6, 7, 8, 9)
    assert all(found.how and found.text for found in gate.items)


def test_every_item_is_closed_by_evidence():
    lines = closed_gate()
    gate = evaluate(lines.case, K3)
    assert gate.open == ()
    assert all(found.evidence is not None for found in gate.items)
    assert all(found.evidence <= lines.seq for found in gate.items)


def test_a_cpu_machine_with_a_process_engine_closes_all_ten():
    base = process_baseline()
    lines = cpu_scene().frozen(base).attempt(1, base, Outcome.READY).attempt(2, base, Outcome.READY).score(1, 2, 2)
    gate = evaluate(lines.case, GENERIC)
    assert gate.open == ()
    read = cpu_scene().case.fingerprints[-1].seq
    assert [found.evidence for found in gate.items[:4]] == [read] * 4
    assert gate.items[0].value == "driver.loaded absent"
    assert gate.items[1].value == "interpreter /venv/bin/python with its packages"
    assert gate.items[2].value == "the engine is built without CUDA: no GPU is expected"


def test_a_person_may_answer_what_was_read_on_a_node_and_nothing_that_the_record_proves():
    items = {found.no: found.item for found in evaluate(CaseLines().opened().case, K3).items if found.item is not None}
    assert items == {1: "host-driver", 2: "image-identity", 3: "gpu-visibility", 4: "runtime-versions"}


class TestDriver:
    def test_read(self):
        lines = CaseLines().opened().fingerprint()
        found = item(lines, 1)
        assert (found.closed, found.evidence, found.value) == (True, 3, "driver.loaded 580.95.05")

    def test_refused_to_the_machine_is_open_and_a_person_may_answer(self):
        lines = CaseLines().opened().fingerprint({"driver.loaded": REFUSED})
        assert not item(lines, 1).closed
        found = item(lines.answer("host-driver", "580.95.05 from /proc"), 1)
        assert (found.closed, found.evidence, found.value) == (True, lines.seq, "580.95.05 from /proc (user:U1)")

    def test_a_person_cannot_tick_what_a_machine_has_not_tried(self):
        assert not item(CaseLines().opened().answer("host-driver", "580"), 1).closed

    def test_without_a_node_a_person_answers(self):
        assert item(CaseLines().opened(node=None).answer("host-driver", "580"), 1).closed

    def test_an_empty_answer_closes_nothing(self):
        assert not item(CaseLines().opened(node=None).answer("host-driver", "  "), 1).closed

    def test_a_playbook_without_the_item_takes_no_answer(self):
        phases = tuple(
            phase.model_copy(update={"steps": tuple(s for s in phase.steps if s.id != "host-driver")})
            for phase in K3.phases
        )
        bare = K3.model_copy(update={"phases": phases})
        assert not item(CaseLines().opened(node=None).answer("host-driver", "580"), 1, bare).closed

    def test_the_machine_outranks_the_person(self):
        lines = CaseLines().opened().fingerprint().answer("host-driver", "575")
        assert item(lines, 1).value == "driver.loaded 580.95.05"


class TestImage:
    @pytest.mark.parametrize("name", ["image.digest", "image.id", "container.image_id"])
    def test_any_identity(self, name):
        lines = CaseLines().opened().fingerprint(GPU_HOST, {name: ok("sha256:41")})
        found = item(lines, 2)
        assert (found.closed, found.evidence, found.value) == (True, 3, f"{name} sha256:41")

    def test_an_absent_digest_is_no_identity(self):
        assert not item(CaseLines().opened().fingerprint(GPU_HOST, {"image.digest": ABSENT}), 2).closed

    def test_the_tag_alone_is_no_identity(self):
        assert not item(CaseLines().opened().fingerprint(GPU_HOST, {"image.reference": ok("k3")}), 2).closed

    def test_an_interpreter_stands_in_for_a_process_only(self):
        container = {"python.executable": ok("/usr/bin/python3")}
        assert not item(CaseLines().opened().fingerprint(GPU_HOST, container), 2).closed
        lines = CaseLines().opened().fingerprint(GPU_HOST, container, source="python /usr/bin/python3")
        assert item(lines, 2).closed

    @pytest.mark.parametrize("container", [{"python.executable": ABSENT}, {"python.version": ok("3.12")}])
    def test_a_process_whose_interpreter_was_not_read(self, container):
        lines = CaseLines().opened().fingerprint({}, container, source="python /x")
        assert not item(lines, 2).closed

    def test_a_scene_counts_too(self):
        lines = CaseLines().opened().scene(container={"container.image_id": ok("sha256:41")})
        assert item(lines, 2).closed


class TestGpus:
    def test_equal_counts(self):
        found = item(CaseLines().opened().fingerprint(), 3)
        assert (found.closed, found.evidence, found.value) == (True, 3, "8 GPUs, as recorded")

    def test_the_container_sees_fewer(self):
        lines = CaseLines().opened().fingerprint(GPU_HOST, GPU_CONTAINER | {"torch.device_count": ok(0)})
        found = item(lines, 3)
        assert (found.closed, found.evidence) == (False, 3)
        assert found.value == "expected 8 GPUs, the container sees 0"
        assert found.how == (
            "Look at GPU visibility, container runtime and device permissions first; no memory analysis before that."
        )

    def test_one_gpu_on_both_sides_is_enough(self):
        found = item(CaseLines().opened().fingerprint({"nvml.count": ok(1)}, {"torch.device_count": ok(1)}), 3)
        assert (found.closed, found.value) == (True, "1 GPUs, as recorded")

    def test_none_on_both_sides_is_no_equality(self):
        lines = CaseLines().opened().fingerprint({"nvml.count": ok(0)}, {"torch.device_count": ok(0)})
        assert not item(lines, 3).closed

    def test_absent_on_both_sides_is_no_equality(self):
        lines = CaseLines().opened().fingerprint({"nvml.count": ABSENT}, {"torch.device_count": ABSENT})
        found = item(lines, 3)
        assert (found.closed, found.value) == (False, "expected 0 GPUs, the container sees 0")

    def test_the_baseline_names_the_expected_ones(self):
        lines = CaseLines().opened().fingerprint().frozen(docker_baseline(gpus=GPUS[:4]))
        assert item(lines, 3).value == "expected 4 GPUs, the container sees 8"
        lines = CaseLines().opened().fingerprint({}, None).frozen(docker_baseline(gpus=GPUS))
        assert item(lines, 3).closed

    @pytest.mark.parametrize(
        ("host", "container"),
        [
            pytest.param(GPU_HOST, {}, id="container side not read"),
            pytest.param({}, GPU_CONTAINER, id="host side not read"),
            pytest.param({"nvml.count": REFUSED}, GPU_CONTAINER, id="host side refused"),
        ],
    )
    def test_one_side_alone_is_open_and_says_nothing(self, host, container):
        found = item(CaseLines().opened().fingerprint(host, container), 3)
        assert (found.closed, found.evidence, found.value) == (False, None, None)

    @pytest.mark.parametrize("name", ["nvml.count", "proc.gpu_count", "pci.gpu_count"])
    def test_the_host_is_counted_in_several_ways(self, name):
        assert item(CaseLines().opened().fingerprint({name: ok(8)}), 3).closed

    @pytest.mark.parametrize("name", ["torch.device_count", "cuda.count", "nvml.count"])
    def test_the_container_is_counted_in_several_ways(self, name):
        assert item(CaseLines().opened().fingerprint(GPU_HOST, {name: ok(8)}), 3).closed

    def test_a_person_cannot_answer_away_a_count_that_was_read_on_a_node(self):
        lines = CaseLines().opened(node=None).answer("gpu-visibility", "8 and 8, from nvidia-smi -L")
        assert item(lines, 3).closed


class TestVersions:
    def test_read(self):
        found = item(CaseLines().opened().fingerprint(), 4)
        assert found.closed
        assert found.evidence == 3
        assert found.value == "torch.cuda 13.0, torch.version 2.9.1+cu130, vllm.version 0.29.0"

    @pytest.mark.parametrize("name", ["torch.cuda", "torch.version", "vllm.version"])
    def test_each_is_needed(self, name):
        container = {key: value for key, value in GPU_CONTAINER.items() if key != name}
        assert not item(CaseLines().opened().fingerprint(GPU_HOST, container), 4).closed

    @pytest.mark.parametrize(
        ("name", "other"),
        [("torch.cuda", "cuda.version_file"), ("torch.version", "package.torch"), ("vllm.version", "package.vllm")],
    )
    def test_another_reading_does(self, name, other):
        container = {key: value for key, value in GPU_CONTAINER.items() if key != name} | {other: ok("1")}
        assert item(CaseLines().opened().fingerprint(GPU_HOST, container), 4).closed

    def test_the_newest_of_several_fingerprints_is_the_evidence(self):
        lines = CaseLines().opened().fingerprint(GPU_HOST, {"torch.cuda": ok("13.0"), "torch.version": ok("2")})
        lines.fingerprint(GPU_HOST, {"vllm.version": ok("0.29.0")})
        assert item(lines, 4).evidence == lines.seq


class TestCommand:
    def test_frozen(self):
        lines = CaseLines().opened().frozen(BASE)
        found = item(lines, 5)
        assert (found.closed, found.evidence, found.value) == (True, 2, f"baseline {BASE.digest[:12]}")

    def test_pasted_is_not_frozen(self):
        assert not item(CaseLines().opened(command="vllm serve"), 5).closed

    def test_a_baseline_without_arguments_is_no_command(self):
        assert not item(CaseLines().opened().frozen(docker_baseline(())), 5).closed

    def test_features_in_the_first_command_are_named(self):
        base = docker_baseline(("serve", "m", "--enable-prefix-caching", "--tool-call-parser", "kimi_k3"))
        found = item(CaseLines().opened().frozen(base), 6)
        assert (found.closed, found.evidence) == (False, 2)
        assert found.value == "--enable-prefix-caching, --tool-call-parser"
        assert "Take out --enable-prefix-caching, --tool-call-parser" in found.how

    def test_a_minimal_command_closes(self):
        found = item(CaseLines().opened().frozen(BASE), 6)
        assert (found.closed, found.evidence, found.value) == (True, 2, "nothing of it in the command")

    def test_what_was_added_back_may_stay(self):
        cached = docker_baseline(("serve", "/models/k3", "--enable-prefix-caching"))
        change = {"variable": "argument --enable-prefix-caching", "before": None, "after": "on"}
        lines = CaseLines().opened().frozen(BASE).frozen(cached, change)
        assert item(lines, 6).closed
        other = docker_baseline(("serve", "/models/k3", "--enable-prefix-caching", "--tool-call-parser", "x"))
        assert item(lines.frozen(other, CHANGE), 6).value == "--tool-call-parser"


CHANGE = {"variable": "--max-model-len", "before": None, "after": "8192"}
CHANGED = docker_baseline(("serve", "/models/k3", "--max-model-len", "8192"))
TWICE = docker_baseline(("serve", "/models/k3", "--max-model-len", "8192", "--max-num-seqs", "4"))


class TestOneVariable:
    def test_the_first_baseline_differs_from_nothing(self):
        found = item(CaseLines().opened().frozen(BASE), 7)
        assert (found.closed, found.evidence, found.value) == (True, 2, "first baseline: nothing to differ from")

    def test_one_change_against_the_stable_baseline(self):
        lines = closed_gate().frozen(CHANGED, CHANGE)
        found = item(lines, 7)
        assert (found.closed, found.evidence) == (True, lines.seq)
        assert "--max-model-len" in found.value

    def test_two_changes_are_named_and_refused(self):
        lines = closed_gate().frozen(TWICE)
        found = item(lines, 7)
        assert (found.closed, found.evidence) == (False, lines.seq)
        assert found.value == "argument --max-model-len, argument --max-num-seqs"
        assert "Keep one of them" in found.how

    def test_two_steps_away_from_the_stable_baseline_are_two_changes(self):
        lines = closed_gate().frozen(CHANGED, CHANGE).attempt(3, CHANGED).frozen(TWICE, CHANGE)
        assert not item(lines, 7).closed

    def test_without_a_stable_one_the_baseline_before_counts(self):
        lines = CaseLines().opened().frozen(BASE).frozen(CHANGED, CHANGE).frozen(TWICE, CHANGE)
        assert item(lines, 7).closed

    def test_back_to_the_stable_baseline_is_no_change(self):
        lines = closed_gate().frozen(TWICE, CHANGE).attempt(3, TWICE).frozen(BASE)
        found = item(lines, 7)
        assert (found.closed, found.evidence, found.value) == (True, lines.seq, "a stable baseline itself")

    def test_what_ran_elsewhere_is_no_reference_for_what_runs_here(self):
        recorded = docker_baseline(("serve", "x", "--a", "1", "--b", "2")).model_copy(update={"engine": "recorded"})
        lines = CaseLines().opened().frozen(recorded).attempt(1, recorded, origin="recorded").frozen(BASE)
        assert item(lines, 7).value == "first baseline: nothing to differ from"

    def test_a_repeat_that_moved_is_no_repeat(self):
        lines = CaseLines().opened().frozen(BASE).attempt(1, BASE)
        lines.attempt(2, BASE, changed=["driver.loaded: 580.65 → 580.95"])
        found = item(lines, 7)
        assert (found.closed, found.evidence) == (False, lines.seq)
        assert found.value == "driver.loaded: 580.65 → 580.95"
        assert found.how.startswith(
            "This was to be a repeat, and more moved: driver.loaded: 580.65 → 580.95. Put it back"
        )

    def test_the_first_attempt_of_a_baseline_may_name_its_change(self):
        lines = CaseLines().opened().frozen(BASE).attempt(1, BASE, changed=["--max-model-len"])
        assert item(lines, 7).closed

    def test_the_first_attempt_of_a_baseline_may_not_bring_a_second_change(self):
        lines = CaseLines().opened().frozen(BASE).attempt(1, BASE, changed=["--max-model-len", "driver.loaded"])
        found = item(lines, 7)
        assert (found.closed, found.evidence, found.value) == (False, lines.seq, "--max-model-len; driver.loaded")
        assert found.how.startswith("This was to be one change, and more moved: --max-model-len; driver.loaded. Put it")

    def test_a_baseline_that_cannot_be_read(self):
        lines = CaseLines().opened().frozen(BASE)
        lines.add(e.BaselineFrozen(digest="x" * 64, baseline={"engine": "magic", "argv": ["a"]}))
        found = item(lines, 7)
        assert (found.closed, found.evidence) == (False, lines.seq)
        assert found.how == "A baseline of this case cannot be read; freeze it again."

    def test_a_baseline_frozen_again_before_it_is_stable_differs_in_nothing(self):
        found = item(CaseLines().opened().frozen(BASE).frozen(BASE), 7)
        assert (found.closed, found.evidence, found.value) == (True, 3, "no variable differs")


class TestResult:
    def test_ready(self):
        found = item(CaseLines().opened().attempt(1, BASE, Outcome.READY), 8)
        assert (found.closed, found.evidence, found.value) == (True, 3, "ready")

    def test_first_failing_stage(self):
        found = item(CaseLines().opened().attempt(1, BASE), 8)
        assert (found.closed, found.evidence, found.value) == (True, 3, "first failing stage weight_loading")

    def test_not_observed(self):
        found = finding("unknown", "weight_loading")
        assert not item(CaseLines().opened().attempt(1, BASE, Outcome.NOT_OBSERVED, found), 8).closed

    @pytest.mark.parametrize("stage", ["none", None])
    def test_a_failure_without_a_stage(self, stage):
        assert not item(CaseLines().opened().attempt(1, BASE, found=finding("unknown", stage)), 8).closed

    def test_the_newest_attempt_counts(self):
        lines = CaseLines().opened().attempt(1, BASE).attempt(2, BASE, Outcome.NOT_OBSERVED)
        assert not item(lines, 8).closed

    def test_the_log_is_kept(self):
        found = item(CaseLines().opened().attempt(1, BASE), 9)
        assert (found.closed, found.evidence, found.value) == (True, 3, "sha256 llllllllllll")

    def test_the_log_is_not_kept(self):
        assert not item(CaseLines().opened().attempt(1, BASE, log=None), 9).closed


class TestSample:
    def test_the_playbook_s_until_a_baseline_has_its_own(self):
        found = item(CaseLines().opened(), 10)
        assert (found.closed, found.evidence, found.value) == (True, 1, "of the playbook kimi-k3 1")

    def test_the_baseline_s(self):
        found = item(CaseLines().opened().frozen(BASE), 10)
        assert (found.closed, found.evidence, found.value) == (True, 2, "of the baseline")

    @pytest.mark.parametrize("body", ['{"prompt":"x"}', '{"max_tokens":"16"}', '{"max_tokens":true}', "[]", "x"])
    def test_a_sample_without_a_cap(self, body):
        base = BASE.model_copy(update={"sample": FixedSample(body=body)})
        found = item(CaseLines().opened().frozen(base), 10)
        assert (found.closed, found.evidence) == (False, 2)
        assert found.how == "Give the fixed request a whole number max_tokens."

    @pytest.mark.parametrize("sample", [{"path": "/v1/completions"}, {"body": 16}, "16"])
    def test_a_sample_that_cannot_be_read_is_open(self, sample):
        lines = CaseLines().opened().add(e.BaselineFrozen(digest="x" * 64, baseline={"argv": ["a"], "sample": sample}))
        assert not item(lines, 10).closed

    def test_a_baseline_without_one_falls_back_to_the_playbook(self):
        lines = CaseLines().opened().frozen(BASE.model_copy(update={"sample": None}))
        assert item(lines, 10).evidence == 1
        assert SAMPLE.path == "/v1/completions"


class TestMayAttempt:
    def test_refused_with_the_open_items(self):
        with pytest.raises(PhaseClosed, match="No attempt yet; open: 1 Loaded driver saved") as caught:
            may_attempt(CaseLines().opened().case, K3)
        assert [int(text.split()[0]) for text in caught.value.items] == [1, 2, 4, 5, 6, 7]

    def test_allowed_before_anything_ran(self):
        may_attempt(CaseLines().opened().fingerprint().frozen(BASE).case, K3)

    def test_a_repair_on_the_node_does_not_stop_the_second_attempt(self):
        lines = closed_gate().attempt(3, BASE, Outcome.READY, changed=["model.files: broken → whole"]).score(2, 3, None)
        assert evaluate(lines.case, K3).open == (7,)
        assert item(lines, 7).by_attempt
        may_attempt(lines.case, K3)
        lines.attempt(4, BASE, Outcome.READY).score(3, 4, 2)
        assert evaluate(lines.case, K3).open == ()
        assert not item(lines, 7).by_attempt

    def test_a_second_variable_in_the_baseline_does_stop_one(self):
        with pytest.raises(PhaseClosed, match="7 At most one variable"):
            may_attempt(closed_gate().frozen(TWICE).attempt(3, TWICE, changed=["x", "y"]).case, K3)

    def test_what_only_an_attempt_answers_does_not_stop_one(self):
        assert set(range(1, 11)) - set(BEFORE_AN_ATTEMPT) == {3, 8, 9}


def skip(lines: CaseLines, phase: Phase) -> CaseLines:
    return lines.entered(phase, skipped=True, reason="seen by hand")


def missing(lines: CaseLines, phase: Phase, playbook=K3):
    with pytest.raises(PhaseClosed) as caught:
        may_enter(lines.case, playbook, phase)
    return caught.value


class TestPhases:
    def test_the_scene_comes_first(self):
        error = missing(CaseLines().opened(), Phase.BOUNDARY)
        assert len(error.items) == 8
        assert str(error).startswith("Official boundaries: not yet; open: Driver loaded on the host; ")

    def test_a_frozen_scene_opens_the_boundary(self):
        may_enter(frozen_scene().case, K3, Phase.BOUNDARY)

    def test_each_layer_opens_the_next(self):
        lines = CaseLines().opened()
        error = missing(lines, Phase.LAUNCH)
        assert "Driver loaded on the host" in error.items
        assert "May the loaded driver run this image" in error.items

    @pytest.mark.parametrize("verdict", [DriverVerdict.BLOCKED, DriverVerdict.UNKNOWN, DriverVerdict.COMPAT_ONLY])
    def test_a_driver_that_is_not_supported_closes_the_launch(self, verdict):
        error = missing(frozen_scene().boundary(verdict).entered(Phase.BOUNDARY), Phase.LAUNCH)
        assert error.items == ("May the loaded driver run this image",)

    def test_a_supported_driver_opens_the_launch(self):
        may_enter(frozen_scene().boundary().entered(Phase.BOUNDARY).case, K3, Phase.LAUNCH)

    def test_a_decision_passes_a_boundary_that_is_not_met(self):
        lines = frozen_scene().boundary(DriverVerdict.BLOCKED).entered(Phase.BOUNDARY).proposed("isolate").approved()
        may_enter(lines.case, K3, Phase.LAUNCH)

    def test_a_newer_verdict_voids_that_decision(self):
        lines = frozen_scene().boundary(DriverVerdict.BLOCKED).entered(Phase.BOUNDARY).proposed("isolate").approved()
        missing(lines.boundary(DriverVerdict.BLOCKED), Phase.LAUNCH)

    def test_a_decision_before_any_verdict_passes_nothing(self):
        lines = frozen_scene().entered(Phase.BOUNDARY).proposed("isolate").approved()
        missing(lines, Phase.LAUNCH)

    def test_no_driver_boundary_without_cuda(self):
        may_enter(cpu_scene().entered(Phase.BOUNDARY).case, GENERIC, Phase.LAUNCH)

    def test_score_two_and_ten_items_open_the_fixed_request(self):
        may_enter(closed_gate().case, K3, Phase.REGRESSION)

    def test_a_failure_that_repeats_opens_nothing_but_a_decision(self):
        lines = frozen_scene().boundary().entered(Phase.LAUNCH).frozen(BASE).attempt(1, BASE).attempt(2, BASE)
        error = missing(lines.score(1, 2, 2), Phase.REGRESSION)
        assert error.items == ("The newest attempt is ready",)
        may_enter(lines.case, K3, Phase.DECISION)

    def test_score_one_opens_nothing(self):
        lines = frozen_scene().boundary().entered(Phase.LAUNCH).frozen(BASE)
        lines.attempt(1, BASE, Outcome.READY).attempt(2, BASE, Outcome.READY).score(1, 2, 1)
        assert missing(lines, Phase.REGRESSION).items == ("The same result twice (score 2)",)

    def test_a_third_attempt_needs_its_own_score(self):
        lines = closed_gate().attempt(3, BASE, Outcome.READY)
        assert "The same result twice (score 2)" in missing(lines, Phase.REGRESSION).items

    def test_an_open_item_is_named_with_its_number(self):
        lines = closed_gate().attempt(3, BASE, Outcome.READY, log=None).score(2, 3, 2)
        assert missing(lines, Phase.REGRESSION).items == ("9 Complete logs before and after the failure kept",)

    def test_no_attempt_at_all(self):
        lines = frozen_scene().boundary().entered(Phase.LAUNCH)
        assert "The newest attempt is ready" in missing(lines, Phase.REGRESSION).items

    def test_a_stable_fixed_request_opens_the_features(self):
        may_enter(closed_gate().entered(Phase.REGRESSION).requested(2).case, K3, Phase.ADD_BACK)

    def test_an_unstable_request_is_named_first(self):
        lines = closed_gate().entered(Phase.REGRESSION).requested(2, "once", 1, 1)
        assert missing(lines, Phase.ADD_BACK).items == ("The fixed request, several runs",)

    def test_a_change_wants_an_approved_decision(self):
        lines = closed_gate().entered(Phase.REGRESSION).requested(2).entered(Phase.DECISION)
        assert missing(lines, Phase.CHANGE).items == ("Decision approved by a second person",)
        error = missing(lines.proposed("upgrade_driver").approved(), Phase.CHANGE)
        assert str(error) == "Change and rollout: Not carried out by this version of Baseline."

    def test_a_change_needs_no_feature_added_back(self):
        lines = closed_gate().entered(Phase.REGRESSION).requested(2)
        assert missing(lines, Phase.CHANGE).items == ("Decision approved by a second person",)

    @pytest.mark.parametrize("phase", [Phase.DECISION, Phase.CLOSED, Phase.FREEZE])
    def test_always_open(self, phase):
        may_enter(CaseLines().opened().case, K3, phase)

    def test_an_earlier_phase_may_be_entered_again(self):
        may_enter(closed_gate().entered(Phase.REGRESSION).case, K3, Phase.BOUNDARY)

    def test_what_is_not_carried_out_is_refused_from_any_phase(self):
        error = missing(closed_gate().entered(Phase.DECISION).proposed().approved(), Phase.OBSERVE)
        assert str(error).endswith("Not carried out by this version of Baseline.")

    def test_an_approver_skips_what_lies_before(self):
        lines = skip(CaseLines().opened(), Phase.LAUNCH)
        error = missing(lines, Phase.REGRESSION)
        assert "Driver loaded on the host" not in error.items
        assert "Two attempts of one baseline" in error.items

    def test_a_phase_passed_is_not_judged_again(self):
        lines = closed_gate()
        assert lines.case.phase is Phase.LAUNCH
        may_enter(lines.boundary(DriverVerdict.UNKNOWN).case, K3, Phase.REGRESSION)

    def test_a_phase_the_playbook_does_not_have(self):
        short = K3.model_copy(update={"phases": K3.phases[:2]})
        error = missing(CaseLines().opened(), Phase.LAUNCH, short)
        assert str(error) == "The playbook kimi-k3 has no phase launch"


class TestNextPhase:
    @pytest.mark.parametrize(
        ("lines", "expected"),
        [
            pytest.param(CaseLines().opened(), None, id="scene open"),
            pytest.param(frozen_scene(), Phase.BOUNDARY, id="scene frozen"),
            pytest.param(frozen_scene().entered(Phase.BOUNDARY), None, id="no verdict"),
            pytest.param(frozen_scene().boundary().entered(Phase.BOUNDARY), Phase.LAUNCH, id="supported"),
            pytest.param(closed_gate(), Phase.REGRESSION, id="ready twice"),
            pytest.param(
                closed_gate().entered(Phase.REGRESSION).requested(2), Phase.ADD_BACK, id="the fixed request is stable"
            ),
            pytest.param(CaseLines().opened().entered(Phase.ADD_BACK), None, id="a decision is not entered by itself"),
            pytest.param(CaseLines().opened().entered(Phase.OBSERVE), None, id="nothing follows"),
            pytest.param(CaseLines().opened().add(e.IncidentClosed(reason="x")), None, id="closed"),
        ],
    )
    def test_what_may_be_entered_now(self, lines, expected):
        assert next_phase(lines.case, K3) == expected


def test_a_job_that_found_nothing_lets_a_person_answer():
    lines = CaseLines().opened().ask(JobKind.FINGERPRINT).ended()
    assert item(lines.answer("image-identity", "sha256:41, read by hand"), 2).closed


def test_cpu_facts_are_what_the_tests_say():
    assert CPU_HOST["driver.loaded"] is ABSENT
    assert CPU_CONTAINER["torch.cuda"] is ABSENT
