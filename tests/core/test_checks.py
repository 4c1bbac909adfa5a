"""Checks: named predicates over a case, joined by all, any and not; each carries its grounds."""

from __future__ import annotations

import pytest

from playbooks.guiding import seen
from playbooks.guiding.checks import parse_check
from playbooks.vocabulary import FieldStatus, JobKind, JobOutcome, Outcome
from tests.support.cases import (
    ABSENT,
    CPU_CONTAINER,
    CPU_HOST,
    GPU_HOST,
    REFUSED,
    CaseLines,
    docker_baseline,
    ok,
    process_baseline,
)

BASE = docker_baseline()


def judge(data, lines: CaseLines):
    return parse_check(data, "here").judge(lines.case)


def answered(item):
    return {"check": "answered", "item": item}


class TestJoins:
    LINES = CaseLines().opened().answer("a", "1").answer("b", "2")

    def test_all_holds_with_the_newest_grounds(self):
        proof = judge({"all": [answered("b"), answered("a")]}, self.LINES)
        assert (proof.holds, proof.evidence, proof.value) == (True, 3, "2 · 1")

    def test_all_fails_with_one(self):
        proof = judge({"all": [answered("a"), answered("c")]}, self.LINES)
        assert (proof.holds, proof.evidence, proof.value) == (False, None, None)

    def test_any_holds_with_the_first_that_does(self):
        proof = judge({"any": [answered("c"), answered("b"), answered("a")]}, self.LINES)
        assert (proof.holds, proof.evidence, proof.value) == (True, 3, "2")

    def test_any_fails_without(self):
        assert not judge({"any": [answered("c")]}, self.LINES).holds

    def test_not_turns_it_and_has_no_grounds(self):
        assert not judge({"not": answered("a")}, self.LINES).holds
        proof = judge({"not": answered("c")}, self.LINES)
        assert (proof.holds, proof.evidence) == (True, None)

    def test_all_without_values_has_none(self):
        proof = judge({"all": [{"not": answered("c")}]}, self.LINES)
        assert (proof.holds, proof.evidence, proof.value) == (True, None, None)


FIELDS = {"check": "field_read", "side": "host", "names": ["a.b", "c.d"]}


class TestFields:
    @pytest.mark.parametrize(
        ("host", "all_read", "any_read", "all_there", "any_there"),
        [
            pytest.param({"a.b": ok(1), "c.d": ok(2)}, True, True, True, True, id="both read"),
            pytest.param({"a.b": ok(1), "c.d": ABSENT}, True, True, False, True, id="one absent"),
            pytest.param({"a.b": ABSENT, "c.d": ABSENT}, True, True, False, False, id="both absent"),
            pytest.param({"a.b": ok(1), "c.d": REFUSED}, False, True, False, True, id="one refused"),
            pytest.param({"a.b": REFUSED}, False, False, False, False, id="refused"),
            pytest.param({}, False, False, False, False, id="not there"),
        ],
    )
    def test_read_and_present(self, host, all_read, any_read, all_there, any_there):
        lines = CaseLines().opened().fingerprint(host)
        results = [
            judge(FIELDS | {"check": check, "need": need}, lines).holds
            for check in ("field_read", "field_present")
            for need in ("all", "any")
        ]
        assert results == [all_read, any_read, all_there, any_there]

    def test_all_is_what_is_needed_unless_said(self):
        assert not judge(FIELDS, CaseLines().opened().fingerprint({"a.b": ok(1)})).holds

    def test_grounds_are_the_newest_entry_and_all_values(self):
        lines = CaseLines().opened().fingerprint({"a.b": ok(1)}).fingerprint({"c.d": ABSENT})
        proof = judge(FIELDS, lines)
        assert (proof.evidence, proof.value) == (5, "a.b 1, c.d absent")
        proof = judge(FIELDS | {"check": "field_present", "need": "any"}, lines)
        assert (proof.evidence, proof.value) == (3, "a.b 1")

    def test_the_side_matters(self):
        lines = CaseLines().opened().fingerprint({"a.b": ok(1), "c.d": ok(1)}, {})
        assert not judge(FIELDS | {"side": "container"}, lines).holds

    @pytest.mark.parametrize(
        ("value", "holds"),
        [
            pytest.param(ok("0.32.0+cpu"), True, id="held"),
            pytest.param(ok("0.32.0"), False, id="not held"),
            pytest.param(ABSENT, False, id="absent"),
            pytest.param({"status": "error", "value": "cpu"}, False, id="not read"),
        ],
    )
    def test_contains(self, value, holds):
        check = {"check": "field_contains", "side": "container", "names": ["x.y", "v.w"], "text": "cpu"}
        proof = judge(check, CaseLines().opened().fingerprint({}, {"v.w": value}))
        assert proof.holds is holds
        assert (proof.evidence, proof.value) == ((3, "v.w 0.32.0+cpu") if holds else (None, None))


class TestRecords:
    def test_roles_of_a_scene(self):
        lines = CaseLines().opened().scene({"inspect": "i", "log": "l"}).scene({"log": "m"})
        proof = judge({"check": "scene_saved", "roles": ["log", "inspect"]}, lines)
        assert (proof.holds, proof.evidence, proof.value) == (True, 5, "log")
        proof = judge({"check": "scene_saved", "roles": ["inspect", "log"]}, CaseLines(lines=lines.lines[:3]))
        assert (proof.evidence, proof.value) == (3, "inspect, log")
        assert not judge({"check": "scene_saved", "roles": ["kernel-log"]}, lines).holds

    @pytest.mark.parametrize(
        ("lines", "engine"),
        [
            pytest.param(CaseLines().opened(), None, id="nothing known"),
            pytest.param(CaseLines().opened().frozen(process_baseline()), "process", id="baseline"),
            pytest.param(CaseLines().opened().frozen(process_baseline()).frozen(BASE), "docker", id="newest baseline"),
            pytest.param(CaseLines().opened().fingerprint(source="python /x"), "process", id="interpreter"),
            pytest.param(CaseLines().opened().fingerprint(source="exec k3"), "docker", id="container"),
            pytest.param(
                CaseLines().opened().fingerprint(source="python /x").fingerprint(source=None),
                "process",
                id="host alone says nothing",
            ),
            pytest.param(
                CaseLines().opened().scene(container={"container.id": ok("x")}), "docker", id="scene of a container"
            ),
            pytest.param(CaseLines().opened().scene({"docker-info": "x"}), None, id="scene of the host"),
            pytest.param(CaseLines().opened().attempt(1, BASE), "recorded", id="attempt alone"),
        ],
    )
    def test_the_engine_kind(self, lines, engine):
        assert seen.engine_of(lines.case) == engine
        for kind in ("docker", "process", "recorded"):
            proof = judge({"check": "engine_is", "kinds": [kind]}, lines)
            assert (proof.holds, proof.value) == (kind == engine, engine)

    def test_a_node_or_none(self):
        assert judge({"check": "no_node"}, CaseLines().opened(node=None)).holds
        assert not judge({"check": "no_node"}, CaseLines().opened()).holds

    def test_a_build_without_cuda(self):
        proof = judge({"check": "cpu_build"}, CaseLines().opened().fingerprint(CPU_HOST, CPU_CONTAINER))
        assert (proof.holds, proof.evidence, proof.value) == (True, 3, "torch.cuda absent")
        assert not judge({"check": "cpu_build"}, CaseLines().opened().fingerprint()).holds

    def test_attempts_of_the_newest_baseline(self):
        other = docker_baseline(("other",))
        lines = CaseLines().opened().attempt(1, other).attempt(2, BASE)
        check = {"check": "attempts", "at_least": 2}
        proof = judge(check, lines)
        assert (proof.holds, proof.evidence, proof.value) == (False, 5, "1 attempts of one baseline")
        assert judge(check, lines.attempt(3, BASE)).holds
        assert not judge(check, CaseLines().opened()).holds

    def test_verdicts(self):
        check = {"check": "driver_verdict", "verdicts": ["blocked", "compat_only"]}
        assert not judge(check, CaseLines().opened()).holds
        proof = judge(check, CaseLines().opened().boundary())
        assert (proof.holds, proof.evidence, proof.value) == (False, 2, "supported")
        check = {"check": "request_verdict", "verdicts": ["once", "stable"]}
        assert not judge(check, CaseLines().opened()).holds
        proof = judge(check, CaseLines().opened().requested(1, "failed").requested(1, "once", 1, 1))
        assert (proof.holds, proof.evidence, proof.value) == (True, 5, "once, 1 of 1")

    def test_an_answer_that_is_blank_is_none(self):
        assert not judge(answered("a"), CaseLines().opened().answer("a", " ")).holds

    def test_the_command_of_a_container_that_was_refused(self):
        lines = CaseLines().opened().scene(container={"container.cmd": REFUSED})
        assert not judge({"check": "command_recorded"}, lines).holds

    def test_a_baseline_without_arguments_is_no_command(self):
        lines = CaseLines().opened().frozen(docker_baseline(()))
        assert not judge({"check": "command_recorded"}, lines).holds
        assert judge({"check": "command_recorded"}, lines.frozen(BASE).frozen(docker_baseline(()))).evidence == 3


class TestSeen:
    def test_one_part_of_a_name_may_be_anything(self):
        lines = (
            CaseLines().opened().fingerprint({"gpu.1.uuid": ok("b"), "gpu.0.uuid": ok("a"), "gpu.0.x.uuid": ok("c")})
        )
        found = seen.field(lines.case, "host", "gpu.*.uuid")
        assert (found.name, found.value) == ("gpu.0.uuid", "a")
        assert seen.field(lines.case, "host", "gpu.*.name") is None

    def test_a_dot_is_a_dot(self):
        lines = CaseLines().opened().fingerprint({"gpux0.uuid": ok("a")})
        assert seen.field(lines.case, "host", "gpu.*.uuid") is None

    def test_a_reading_outranks_a_newer_refusal(self):
        lines = CaseLines().opened().fingerprint({"driver.loaded": ok("580")}).fingerprint({"driver.loaded": REFUSED})
        assert seen.field(lines.case, "host", "driver.loaded").value == "580"

    def test_the_newest_reading_counts(self):
        lines = CaseLines().opened().fingerprint({"driver.loaded": ok("580")}).fingerprint({"driver.loaded": ABSENT})
        assert seen.field(lines.case, "host", "driver.loaded").text == "driver.loaded absent"

    def test_only_refusals_are_shown_as_such(self):
        lines = CaseLines().opened().fingerprint({"driver.loaded": REFUSED})
        found = seen.field(lines.case, "host", "driver.loaded")
        assert (found.status, found.was_read, found.seq) == (FieldStatus.REFUSED, False, 3)

    def test_the_value_of_what_is_there(self):
        lines = CaseLines().opened().fingerprint({"a.b": ok(1), "c.d": ABSENT, "e.f": REFUSED})
        assert [seen.value(lines.case, "host", name) for name in ("a.b", "c.d", "e.f", "g.h")] == [1, None, None, None]

    def test_a_scene_has_a_container_side_and_no_host_side(self):
        lines = CaseLines().opened().scene(container={"image.id": ok("x")})
        assert seen.field(lines.case, "container", "image.id").seq == 3
        assert seen.field(lines.case, "host", "image.id") is None

    def test_scenes_and_fingerprints_are_read_newest_first(self):
        lines = CaseLines().opened().fingerprint({}, {"image.id": ok("a")}).scene(container={"image.id": ok("b")})
        assert seen.field(lines.case, "container", "image.id").value == "b"
        assert seen.field(lines.fingerprint({}, {"image.id": ok("c")}).case, "container", "image.id").value == "c"

    def test_a_field_of_another_form_is_passed_over(self):
        lines = CaseLines().opened().fingerprint({"driver.loaded": "580", "x.y": {}})
        assert seen.field(lines.case, "host", "driver.loaded") is None
        assert seen.field(lines.case, "host", "x.y").status is FieldStatus.ERROR

    def test_the_newest_fingerprint_with_a_container_side(self):
        lines = CaseLines().opened().fingerprint().fingerprint(GPU_HOST, {})
        assert seen.container_read(lines.case) == 3
        assert seen.container_read(CaseLines().opened().fingerprint(GPU_HOST, {}).case) is None

    def test_a_judgement_given_again_replaces_the_first(self):
        lines = CaseLines().opened().attempt(1, BASE).attempt(1, BASE, Outcome.READY)
        assert seen.newest_attempt(lines.case).payload.outcome is Outcome.READY
        (found,) = seen.attempts_of(lines.case, BASE.digest)
        assert found.payload.outcome is Outcome.READY

    def test_a_score_given_again_replaces_the_first(self):
        lines = CaseLines().opened().attempt(1, BASE).attempt(2, BASE).score(1, 2, 0).score(1, 2, 2)
        assert [n.payload.score for n in seen.scores_of(lines.case, BASE.digest)] == [2]
        assert seen.newest_score(lines.case).payload.score == 2
        assert seen.newest_score(CaseLines().opened().case) is None

    def test_jobs_that_run(self):
        lines = CaseLines().opened().ask(JobKind.COLLECT)
        assert [n.payload.job_id for n in seen.running_jobs(lines.case)] == ["job-1"]
        assert not seen.tried(lines.case, JobKind.COLLECT)
        lines.ended(JobOutcome.LOST, JobKind.COLLECT)
        assert seen.running_jobs(lines.case) == ()
        assert seen.tried(lines.case, JobKind.COLLECT)
        assert not seen.tried(lines.case, JobKind.FINGERPRINT)

    @pytest.mark.parametrize("kind", [JobKind.STOP, JobKind.SWEEP])
    def test_jobs_without_facts_are_not_waited_for(self, kind):
        assert seen.running_jobs(CaseLines().opened().ask(kind).case) == ()

    def test_the_engine_that_is_held(self):
        lines = CaseLines().opened().attempt(1, BASE, Outcome.READY, held_until="x")
        assert seen.held_attempt(lines.case) == 1
        assert seen.held_attempt(lines.attempt(2, BASE, Outcome.READY, held_until="x").case) == 2
        assert seen.held_attempt(CaseLines().opened().attempt(1, BASE, Outcome.READY).case) is None

    def test_proposals_that_stand(self):
        lines = CaseLines().opened().proposed()
        assert seen.standing_proposal(lines.case).seq == 2
        assert seen.approved_proposal(lines.case) is None
        lines.approved()
        assert seen.standing_proposal(lines.case) is None
        assert seen.approved_proposal(lines.case).seq == 2
        assert seen.standing_proposal(CaseLines().opened().proposed().rejected().case) is None
        assert seen.standing_proposal(CaseLines().opened().proposed().boundary().case) is None
        assert seen.standing_proposal(CaseLines().opened().case) is None

    def test_the_last_stable_ready_baseline_before_an_entry(self):
        lines = CaseLines().opened().attempt(1, BASE, Outcome.READY).attempt(2, BASE, Outcome.READY).score(1, 2, 2)
        at = lines.seq
        assert seen.last_stable_ready(lines.case, before=at + 1).seq == at
        assert seen.last_stable_ready(lines.case, before=at) is None
