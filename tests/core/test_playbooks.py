"""Playbooks as data: what ships is valid, what is not valid says where and what was expected."""

from __future__ import annotations

import json
from datetime import date

import pytest
import yaml

from playbooks.catalog import load_boundaries, load_catalogue, load_playbook, playbook_bytes, playbook_names, read_input
from playbooks.errors import InvalidDefinition, UnreadableInput
from playbooks.guiding.checks import PREDICATES, parse_check
from playbooks.guiding.playbook import NOT_CARRIED_OUT, StepKind, as_json, parse_playbook, source_texts
from playbooks.vocabulary import ErrorClass, JobKind, Phase, Stage


def content(name="generic-vllm"):
    return yaml.safe_load(playbook_bytes(name))


def parsed(data):
    return parse_playbook(yaml.safe_dump(data).encode(), file="mine.yaml")


def test_two_playbooks_ship():
    assert playbook_names() == ("generic-vllm", "kimi-k3")


@pytest.mark.parametrize("name", playbook_names())
class TestShipped:
    def test_its_id_is_its_file_name_and_it_is_loaded_once(self, name):
        assert load_playbook(name).id == name
        assert load_playbook(name) is load_playbook(name)

    def test_it_has_the_eight_items_of_the_scene(self, name):
        freeze = load_playbook(name).phase(Phase.FREEZE)
        assert [step.requirement for step in freeze.steps] == [f"R1.{n}" for n in range(1, 9)]

    def test_it_asks_people_the_ten_facts_of_a_decision(self, name):
        decision = load_playbook(name).phase(Phase.DECISION)
        assert sum(step.requirement == "R11.2" and step.kind is StepKind.ANSWER for step in decision.steps) == 10

    def test_it_has_all_phases_in_order(self, name):
        phases = [phase.id for phase in load_playbook(name).phases]
        assert phases == [phase for phase in Phase if phase is not Phase.CLOSED]

    def test_what_is_not_carried_out_is_declared(self, name):
        playbook = load_playbook(name)
        carried = {phase.id: phase.carried_out for phase in playbook.phases}
        assert {phase for phase, out in carried.items() if not out} == {Phase.CHANGE, Phase.OBSERVE}
        assert sum(step.kind is StepKind.CHANGE for step in playbook.steps()) == 8
        assert sum(step.kind is StepKind.OBSERVE for step in playbook.steps()) == 4

    def test_the_limits_cover_every_stage_of_a_launch(self, name):
        limits = load_playbook(name).limits
        assert set(limits.stages) == set(Stage) - {Stage.NONE, Stage.SERVING}
        assert all(stage.silence_s <= stage.total_s <= limits.total_s for stage in limits.stages.values())
        assert limits.total_s < 3600, "the engine's own time-out is an hour"

    def test_every_text_is_there_and_translatable(self, name):
        texts = source_texts(load_playbook(name))
        assert NOT_CARRIED_OUT in texts
        assert load_playbook(name).title in texts
        for step in load_playbook(name).steps():
            assert {step.label, step.why, step.how} <= set(texts)
            assert step.label
            assert step.why
            assert step.how
        assert "" not in texts

    def test_the_fixed_request_is_capped_and_deterministic(self, name):
        body = json.loads(load_playbook(name).fixed_sample().body)
        assert body["max_tokens"] == 16
        assert body["temperature"] == 0
        assert "model" not in body
        assert json.loads(load_playbook(name).fixed_sample("tiny").body) == {**body, "model": "tiny"}

    def test_the_first_command_holds_no_cache_and_no_tools(self, name):
        assert {
            "--enable-prefix-caching",
            "--enable-auto-tool-choice",
            "--tool-call-parser",
            "--reasoning-parser",
            "--speculative-config",
        } <= set(load_playbook(name).excluded_options)

    def test_it_is_plain_json_too(self, name):
        data = as_json(load_playbook(name))
        assert json.loads(json.dumps(data))["id"] == name
        assert data["schema"] == "baseline-playbook/1"
        steps = {step["id"]: step["carried_out"] for phase in data["phases"] for step in phase["steps"]}
        assert steps["host-driver"] is True
        assert steps["pressure-ladder"] is True
        assert steps["drain-node"] is False
        assert [phase["carried_out"] for phase in data["phases"]] == [True, True, True, True, True, True, False, False]


def test_kimi_k3_has_its_boundaries_and_the_generic_one_takes_any():
    assert load_playbook("kimi-k3").boundaries == "kimi-k3"
    assert load_playbook("generic-vllm").boundaries is None


def test_a_step_and_a_phase_are_found_by_id():
    playbook = load_playbook("kimi-k3")
    assert playbook.step("host-driver").requirement == "R1.1"
    assert playbook.step("no-such-step") is None
    assert playbook.phase(Phase.CLOSED) is None


def test_a_step_names_the_job_that_proves_it():
    assert {kind: kind.job for kind in StepKind if kind.job} == {
        StepKind.COLLECT: JobKind.COLLECT,
        StepKind.FINGERPRINT: JobKind.FINGERPRINT,
        StepKind.LAUNCH: JobKind.LAUNCH,
        StepKind.REQUEST: JobKind.REQUEST,
        StepKind.LADDER: JobKind.LADDER,
        StepKind.PROBE: JobKind.CACHE_PROBE,
    }


def test_the_digest_is_that_of_the_bytes():
    assert load_playbook("kimi-k3").sha256 != load_playbook("generic-vllm").sha256
    data = playbook_bytes("kimi-k3")
    assert parse_playbook(data, file="x").sha256 == load_playbook("kimi-k3").sha256
    assert parse_playbook(data + b"\n", file="x").sha256 != load_playbook("kimi-k3").sha256


def test_an_unknown_playbook_says_which_there_are():
    with pytest.raises(InvalidDefinition, match="no playbook 'nope'; there are: generic-vllm, kimi-k3"):
        load_playbook("nope")


def change(path, value):
    def apply(data):
        place = data
        for key in path[:-1]:
            place = place[key]
        if value is None:
            del place[path[-1]]
        else:
            place[path[-1]] = value
        return data

    return apply


STEP = ("phases", 0, "steps", 0)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        pytest.param(
            change(("schema",), "baseline-playbook/9"), "mine.yaml: expected schema baseline-playbook/1", id="schema"
        ),
        pytest.param(change(("title",), None), "mine.yaml: title: Field required", id="no title"),
        pytest.param(change(("surplus",), 1), "mine.yaml: surplus: Extra inputs are not permitted", id="unknown key"),
        pytest.param(change((*STEP, "id"), "Host_Driver"), "phases[0].steps[0].id: expected kebab-case", id="id"),
        pytest.param(change((*STEP, "kind"), "magic"), "phases[0].steps[0].kind: Input should be", id="kind"),
        pytest.param(change((*STEP, "done_when"), None), "a step of kind fingerprint needs done_when", id="no check"),
        pytest.param(
            change((*STEP, "not_needed_why"), "x"), "not_needed_when and not_needed_why go together", id="why only"
        ),
        pytest.param(
            change((*STEP, "done_when"), {"check": "magic"}),
            "phases[0].steps[0].done_when.check: no predicate 'magic'; there are: added_back, answered, attempts",
            id="predicate",
        ),
        pytest.param(
            change((*STEP, "done_when"), {"check": "field_read", "side": "moon", "names": ["a"]}),
            "phases[0].steps[0].done_when.side: Input should be 'host' or 'container'",
            id="side",
        ),
        pytest.param(
            change((*STEP, "done_when"), {"check": "field_read", "side": "host", "names": ["a"], "x": 1}),
            "done_when.x: Extra inputs",
            id="parameter",
        ),
        pytest.param(
            change((*STEP, "done_when"), "driver"),
            "done_when: expected a mapping with check, all, any or not, found 'driver'",
            id="text",
        ),
        pytest.param(
            change((*STEP, "done_when"), {"any": []}),
            "done_when.any: expected a list of checks, found []",
            id="empty join",
        ),
        pytest.param(
            change((*STEP, "done_when"), {"all": {"check": "no_node"}}),
            "done_when.all: expected a list of checks",
            id="join of no list",
        ),
        pytest.param(
            change((*STEP, "done_when"), {"any": [{"check": "no_node"}], "check": "x"}),
            "any stands alone, found beside it ['check']",
            id="two at once",
        ),
        pytest.param(
            change((*STEP, "done_when"), {"any": [{"check": "nope"}]}),
            "done_when.any[0].check: no predicate 'nope'",
            id="nested",
        ),
        pytest.param(
            change((*STEP, "done_when"), {"not": {"check": "nope"}}),
            "done_when.not[0].check: no predicate 'nope'",
            id="nested not",
        ),
        pytest.param(
            change((*STEP, "not_needed_when"), {"check": "nope"}),
            "steps[0].not_needed_when.check: no predicate",
            id="not needed",
        ),
        pytest.param(
            change(("phases", 0, "steps", 1, "id"), "host-driver"), "step host-driver appears twice", id="twice"
        ),
        pytest.param(
            change(("phases", 0, "id"), "launch"),
            "phases: expected each once, in the order freeze, boundary",
            id="order",
        ),
        pytest.param(change(("phases", 0), 1), "mine.yaml: phases[0]: Input should be", id="phase"),
        pytest.param(change((*STEP,), 1), "mine.yaml: phases[0].steps[0]: Input should be", id="step"),
        pytest.param(change(("phases",), None), "mine.yaml: phases: Field required", id="no phases"),
        pytest.param(
            change(("sample", "body"), {"prompt": "x"}),
            "sample.body: the fixed request needs a whole number max_tokens",
            id="no cap",
        ),
        pytest.param(
            change(("sample", "body", "max_tokens"), True), "needs a whole number max_tokens", id="cap of another kind"
        ),
        pytest.param(
            change(("sample", "runs"), 1), "sample.runs: Input should be greater than or equal to 2", id="one run"
        ),
        pytest.param(
            change(("limits", "stages", "engine_init", "silence_s"), 0),
            "limits.stages.engine_init.silence_s: Input should be greater than 0",
            id="limit",
        ),
    ],
)
def test_a_bad_playbook_says_file_place_and_expected_form(edit, message):
    with pytest.raises(InvalidDefinition) as caught:
        parsed(edit(content()))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"a: b: c", "mine.yaml:1: not YAML", id="not YAML"),
        pytest.param(b"\xff\xfe\xff", "mine.yaml: not YAML", id="not text"),
        pytest.param(b"[]", "mine.yaml: expected a mapping that begins with schema: baseline-playbook/1", id="a list"),
    ],
)
def test_bytes_that_are_no_playbook(data, message):
    with pytest.raises(InvalidDefinition) as caught:
        parse_playbook(data, file="mine.yaml")
    assert message in str(caught.value)


def test_a_wrong_step_beside_good_ones_is_found_without_a_crash():
    data = content()
    data["phases"][1]["steps"] = None
    with pytest.raises(InvalidDefinition, match=r"phases\[1\].steps"):
        parsed(data)


def test_an_answer_needs_no_check_and_what_is_not_carried_out_neither():
    data = content()
    for step in data["phases"][0]["steps"]:
        step["kind"] = "answer"
        step.pop("done_when", None)
    data["phases"][6]["steps"][0].pop("done_when", None)
    assert parsed(data).phase(Phase.FREEZE).steps[0].done_when is None


def test_every_predicate_is_used_or_offered():
    with pytest.raises(InvalidDefinition) as caught:
        parse_check({}, "here")
    assert all(name in str(caught.value) for name in PREDICATES)


def test_the_catalogue_knows_every_error_class():
    assert set(load_catalogue().classes) == set(ErrorClass) - {ErrorClass.NONE, ErrorClass.UNKNOWN}
    assert load_catalogue() is load_catalogue()


def test_the_newest_boundaries_ship_with_source_and_day():
    boundaries = load_boundaries()
    assert boundaries.id.startswith(load_playbook("kimi-k3").boundaries)
    assert boundaries.source
    assert boundaries.age_days(date(2026, 12, 1)) >= 0


def test_input_is_read_from_a_file(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_bytes(b"x")
    assert read_input(path) == b"x"


def test_input_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UnreadableInput, match=r"gone.yaml: No such file or directory"):
        read_input(tmp_path / "gone.yaml")
