"""The decision rules as scenarios: facts to kind and rule, total over the closed sets."""

from __future__ import annotations

import itertools
from importlib import resources

import pytest
from pydantic import ValidationError

from playbooks import safe_yaml
from playbooks.errors import InvalidDefinition
from playbooks.guiding import decision_words as w
from playbooks.guiding.decision import DecisionFacts, decide, facts_of, parse_facts, with_usual
from playbooks.guiding.decision_facts import ANSWER_ITEMS
from playbooks.guiding.decision_rules import RULES
from playbooks.guiding.decision_terms import CARRY_OUT
from playbooks.guiding.decision_words import DRIVER_CAN_EXPLAIN, MEMORY, NEVER
from playbooks.vocabulary import DecisionKind, DriverVerdict, ErrorClass, Outcome, Phase
from tests.support.cases import (
    CPU_CONTAINER,
    CPU_HOST,
    CaseLines,
    docker_baseline,
    finding,
    frozen_scene,
    process_baseline,
)

BLOCKED = {"driver_verdict": "blocked", "driver_grounds": ("driver 575.57.08 is below 580",)}
GOOD = {"driver_verdict": "supported"}
UPGRADE = {
    "cluster_owner": "platform team",
    "node_drain": True,
    "maintenance_window": "now",
    "change_rollback": True,
    "model_stays": True,
    "recovery_goal": "can-wait",
}


def fails(error_class="model_path_not_found", points_to="fix_files", stage="weight_loading", score=2, **more):
    return {
        "outcome": "failed",
        "stage": stage,
        "error_class": error_class,
        "points_to": points_to,
        "score": score,
        "attempts": 2 if score is not None else 1,
    } | more


READY = {"outcome": "ready", "stage": "none", "error_class": "none", "attempts": 2, "score": 2}
DEVICE = fails("driver_below_boundary", "upgrade_driver", "device_recognition")


def row(rule, kind, facts, **ident):
    return pytest.param(facts, rule, kind, **ident)


SCENARIOS = [
    # contradictions
    row("D-01", "hold", READY | BLOCKED, id="ready twice on a driver judged too old is a wrong reading"),
    row(
        "D-01", "hold", READY | BLOCKED | {"score": None}, id="ready once on a driver judged too old is a wrong reading"
    ),
    row("D-02", "hold", DEVICE | GOOD, id="log names an old driver, loaded one fits"),
    row("D-02", "hold", DEVICE | GOOD | {"score": None}, id="log names an old driver once, loaded one fits"),
    row("D-02", "hold", DEVICE | GOOD | {"outcome": "stopped_by_limit"}, id="a limit's failure contradicts too"),
    # version risk
    row("D-03", "replace_image", BLOCKED | {"official_image_for_driver": True}, id="official image for this driver"),
    row("D-03", "replace_image", BLOCKED | UPGRADE | {"official_image_for_driver": True}, id="image before upgrade"),
    row("D-04", "isolate", BLOCKED | {"node_drain": False}, id="no drain"),
    row("D-04", "isolate", BLOCKED | {"maintenance_window": "none"}, id="no window"),
    row("D-04", "isolate", BLOCKED | {"change_rollback": False}, id="upgrade without a way back"),
    row("D-04", "isolate", BLOCKED | {"jobs_affected": True}, id="running jobs harmed"),
    row("D-04", "isolate", BLOCKED | {"model_stays": False}, id="model is a guest"),
    row("D-04", "isolate", BLOCKED | {"cluster_owner": "unknown"}, id="nobody answers for the cluster"),
    row("D-04", "isolate", BLOCKED | UPGRADE | {"jobs_affected": True}, id="all confirmed but jobs are harmed"),
    row("D-04", "isolate", BLOCKED | {"node_drain": False, "isolated_environment": True}, id="no drain, place found"),
    row(
        "D-05", "isolate", BLOCKED | {"maintenance_window": "scheduled", "recovery_goal": "now"}, id="bridge to window"
    ),
    row(
        "D-05",
        "isolate",
        BLOCKED | UPGRADE | {"maintenance_window": "scheduled", "recovery_goal": "now"},
        id="bridge although all is confirmed",
    ),
    row("D-06", "upgrade_driver", BLOCKED | UPGRADE, id="everything confirmed, window now"),
    row(
        "D-06",
        "upgrade_driver",
        BLOCKED | UPGRADE | {"maintenance_window": "scheduled"},
        id="window scheduled, goal waits",
    ),
    row("D-06", "upgrade_driver", BLOCKED | UPGRADE | {"recovery_goal": "now"}, id="goal now, window now"),
    row("D-06", "upgrade_driver", BLOCKED | UPGRADE | {"boundary_age_days": 30}, id="boundary at its limit is fresh"),
    row(
        "D-06",
        "upgrade_driver",
        BLOCKED | UPGRADE | {"boundary_age_days": 102, "boundary_rechecked": True},
        id="old boundary rechecked",
    ),
    row(
        "D-06",
        "upgrade_driver",
        BLOCKED | UPGRADE | {"maintenance_window": "scheduled", "recovery_goal": "now", "isolated_environment": False},
        id="no place to bridge in",
    ),
    row(
        "D-06",
        "upgrade_driver",
        BLOCKED | UPGRADE | {"jobs_affected": True, "isolated_environment": False},
        id="jobs are moved, nowhere to isolate",
    ),
    row(
        "D-06", "upgrade_driver", UPGRADE | DEVICE, id="recorded logs alone: the failure itself names the driver twice"
    ),
    row(
        "D-06",
        "upgrade_driver",
        UPGRADE | GOOD | fails("driver_library_mismatch", "upgrade_driver", "device_recognition"),
        id="library mismatch",
    ),
    row(
        "D-06",
        "upgrade_driver",
        UPGRADE | GOOD | fails("ptx_toolchain_mismatch", "upgrade_driver", "engine_init"),
        id="PTX newer than a supported driver",
    ),
    row("D-06", "upgrade_driver", {"driver_verdict": "compat_only"} | UPGRADE, id="compat only is a version risk"),
    row(
        "D-06",
        "upgrade_driver",
        BLOCKED | UPGRADE | fails("oom_weight_load", "fix_capacity"),
        id="version risk before memory",
    ),
    row(
        "D-06",
        "upgrade_driver",
        BLOCKED | UPGRADE | fails("model_path_not_found", "fix_files"),
        id="version risk before files",
    ),
    row(
        "D-07",
        "rebuild_image",
        BLOCKED | {"node_drain": False, "isolated_environment": False, "fork_team": True},
        id="a team rebuilds",
    ),
    row(
        "D-08",
        "stop_route",
        BLOCKED | {"node_drain": False, "isolated_environment": False, "fork_team": False},
        id="nothing is open",
    ),
    row("D-09", "hold", BLOCKED, id="blocked, nobody asked yet"),
    row("D-09", "hold", BLOCKED | UPGRADE | {"boundary_age_days": 31}, id="everything but fresh boundaries"),
    row(
        "D-09",
        "hold",
        BLOCKED | UPGRADE | {"boundary_age_days": 31, "boundary_rechecked": False},
        id="boundaries not rechecked",
    ),
    row(
        "D-09",
        "hold",
        BLOCKED | {"node_drain": False, "isolated_environment": False},
        id="is there a team for a rebuild",
    ),
    *(
        row("D-09", "hold", BLOCKED | {k: v for k, v in UPGRADE.items() if k != name}, id=f"everything but {name}")
        for name in UPGRADE
    ),
    row("D-09", "hold", DEVICE, id="driver failure twice, nobody asked"),
    row("D-09", "hold", {"driver_verdict": "compat_only"} | READY, id="ready on compat libraries stays a version risk"),
    # other official minima
    row("D-10", "isolate", GOOD | {"hardware_below": "4 of 8 GPUs"}, id="too few GPUs"),
    row(
        "D-10",
        "isolate",
        GOOD | fails("oom_weight_load", "fix_capacity", hardware_below="4 of 8"),
        id="minimum before memory",
    ),
    row(
        "D-11",
        "stop_route",
        GOOD | {"hardware_below": "4 of 8 GPUs", "isolated_environment": False},
        id="too few GPUs, no other place",
    ),
    row("D-12", "replace_image", GOOD | {"engine_below": "0.26 < 0.27.1"}, id="engine too old for the model"),
    row(
        "D-52",
        "hold",
        GOOD | READY | {"engine_below": "0.26", "hardware_below": "4 of 8"},
        id="ready below the minimum is no failure",
    ),
    row(
        "D-09", "hold", BLOCKED | {"hardware_below": "4 of 8", "engine_below": "0.26"}, id="driver before other minima"
    ),
    # broken by a change
    row(
        "D-13",
        "isolate",
        GOOD | fails("oom_engine_init", "fix_config", stable_ready_before=True, change_rollback=False),
        id="broke a stable baseline, no way back",
    ),
    row(
        "D-14",
        "roll_back",
        GOOD | fails("oom_engine_init", "fix_config", stable_ready_before=True),
        id="broke a stable baseline",
    ),
    row(
        "D-14",
        "roll_back",
        GOOD | fails(score=None, stable_ready_before=True),
        id="broke it once is enough to roll back",
    ),
    row(
        "D-14",
        "roll_back",
        fails("unknown", None, score=1, stable_ready_before=True),
        id="moved to another class: not a fix",
    ),
    # unjudged driver
    row("D-15", "hold", fails("oom_weight_load", "fix_capacity"), id="memory, driver not judged"),
    row(
        "D-15",
        "hold",
        fails("oom_engine_init", "fix_config") | {"driver_verdict": "unknown"},
        id="memory, driver unknown",
    ),
    row("D-15", "hold", fails("unknown", None), id="unknown failure, driver not judged"),
    row(
        "D-15",
        "hold",
        fails("driver_below_boundary", "upgrade_driver", score=None),
        id="driver failure once, not judged",
    ),
    row("D-15", "hold", fails("no_cuda_device", "fix_container_runtime"), id="no device, driver not judged"),
    row(
        "D-16",
        "hold",
        GOOD | fails("oom_runtime", "fix_capacity", "serving"),
        id="run-time memory without the fixed request",
    ),
    row(
        "D-16",
        "hold",
        GOOD | fails("oom_runtime", "fix_capacity", "serving", regression="stable"),
        id="run-time memory, fixed request fine",
    ),
    # routes of a stable first failure
    row("D-20", "fix_config", fails("launch_args_invalid", "fix_config", "container_init"), id="bad argument twice"),
    row(
        "D-20",
        "fix_config",
        GOOD | fails("oom_engine_init", "fix_config", "engine_init"),
        id="memory at engine init, driver fits",
    ),
    row("D-21", "fix_files", fails(), id="model path twice, driver irrelevant"),
    row("D-21", "fix_files", fails() | {"outcome": "stopped_by_limit"}, id="a limit's failure routes too"),
    row("D-21", "fix_files", fails(jobs_affected=True), id="a known repair needs no isolation"),
    row(
        "D-22",
        "fix_container_runtime",
        GOOD | fails("no_cuda_device", "fix_container_runtime"),
        id="no device, driver fits",
    ),
    row("D-23", "fix_communication", fails("nccl_init_failed", "fix_communication", "engine_init"), id="NCCL twice"),
    row("D-24", "fix_capacity", GOOD | fails("oom_weight_load", "fix_capacity"), id="weights do not fit"),
    row(
        "D-24",
        "fix_capacity",
        GOOD | fails("oom_runtime", "fix_capacity", "serving", regression="failed"),
        id="run-time memory, fixed request fails",
    ),
    row(
        "D-24",
        "fix_capacity",
        GOOD | fails("oom_runtime", "fix_capacity", "serving", regression="unstable"),
        id="run-time memory, fixed request fails often",
    ),
    row("D-25", "fix_hardware", fails("gpu_hardware_fault", "fix_hardware", "device_recognition"), id="hardware twice"),
    row("D-26", "replace_image", fails("python_import_broken", "replace_image", "container_init"), id="broken image"),
    row("D-27", "report_upstream", fails("engine_code_bug", "report_upstream", "engine_init"), id="engine bug"),
    row(
        "D-28",
        "roll_back",
        fails("engine_code_bug", "roll_back", "engine_init"),
        id="the log names a rolled-back build",
    ),
    row(
        "D-29",
        "isolate",
        GOOD | fails("gpu_occupied", "isolate", "device_recognition"),
        id="GPUs occupied, driver fits",
    ),
    row(
        "D-29",
        "isolate",
        {"driver_needed": False} | fails("engine_process_killed", "isolate"),
        id="killed, no driver needed",
    ),
    row("D-30", "hold", fails("engine_process_killed", "isolate", "engine_init"), id="isolate only after the boundary"),
    row("D-31", "isolate", GOOD | fails("unknown", None, official_image=True), id="unexplained on the official image"),
    row("D-32", "hold", GOOD | fails("unknown", None), id="unexplained, image not confirmed"),
    row("D-32", "hold", GOOD | fails("unknown", None, official_image=False), id="unexplained on a modified image"),
    row("D-32", "hold", fails("nccl_init_failed", None), id="class known, action not"),
    row("D-32", "hold", fails("nccl_init_failed", "hold"), id="a log cannot point to hold"),
    row("D-32", "hold", fails("nccl_init_failed", "rebuild_image"), id="a log cannot point to a rebuild"),
    row("D-32", "hold", fails("nccl_init_failed", "stop_route"), id="a log cannot end a route"),
    row(
        "D-32",
        "hold",
        {"driver_needed": False} | fails("driver_not_installed", "upgrade_driver"),
        id="no driver needed",
    ),
    # no stable failure
    row(
        "D-40",
        "isolate",
        fails(score=0, unstable_scores=2, official_image=True),
        id="nothing repeats on the official image",
    ),
    row(
        "D-40",
        "isolate",
        READY | {"score": 0, "unstable_scores": 3, "official_image": True},
        id="flips between ready and failed",
    ),
    row("D-41", "hold", fails(score=1, unstable_scores=2), id="nothing repeats, image not confirmed"),
    row("D-41", "hold", fails(score=1, unstable_scores=2, official_image=False), id="nothing repeats on an own image"),
    row("D-42", "isolate", fails(score=None, change_rollback=False), id="irreversible change, nothing stable"),
    row("D-43", "isolate", fails(score=0, unstable_scores=1, jobs_affected=True), id="rounds harm running jobs"),
    row("D-44", "isolate", GOOD | fails(score=0, unstable_scores=1, other_jobs_disturb=True), id="other jobs disturb"),
    row("D-44", "isolate", GOOD | fails(score=1, unstable_scores=1, versions_frozen=False), id="versions move"),
    row("D-44", "isolate", GOOD | fails(score=1, unstable_scores=1, other_tenants=True), id="tenants were seen"),
    row("D-45", "hold", fails(score=0, unstable_scores=1, other_jobs_disturb=True), id="disturbed, boundary unchecked"),
    row("D-45", "hold", GOOD | fails(score=1, unstable_scores=1), id="same stage, other class, once"),
    row("D-45", "hold", READY | {"score": 0, "unstable_scores": 1}, id="failed, then ready"),
    row("D-46", "hold", fails(score=None), id="one failure may be chance"),
    # ready
    row("D-50", "hold", READY | {"regression": "stable"}, id="nothing fails at this layer"),
    row("D-51", "hold", READY | {"regression": "failed"}, id="ready, requests fail"),
    row("D-51", "hold", READY | {"regression": "unstable"}, id="ready, requests fail at random"),
    row("D-52", "hold", READY, id="ready twice"),
    row("D-52", "hold", READY | {"regression": "once"}, id="one answer is not stable"),
    row("D-52", "hold", READY | {"regression": "inconclusive"}, id="inconclusive requests"),
    row("D-53", "hold", READY | {"score": None, "attempts": 1}, id="ready once"),
    row("D-53", "hold", READY | {"score": None, "regression": "stable"}, id="requests before the second attempt"),
    row("D-54", "hold", {"outcome": "not_observed"}, id="nobody saw it"),
    row("D-99", "hold", {}, id="nothing known"),
    row("D-99", "hold", GOOD, id="boundary alone is no attempt"),
    row("D-99", "hold", {"driver_verdict": "unknown"}, id="unknown driver, no attempt"),
    # what no rule may take for something else
    row("D-32", "hold", DEVICE | GOOD | {"driver_needed": False}, id="no driver needed, none contradicts"),
    row("D-52", "hold", READY | BLOCKED | {"driver_needed": False}, id="no driver needed, none is too old"),
    row(
        "D-54",
        "hold",
        GOOD | {"outcome": "not_observed", "error_class": "driver_below_boundary"},
        id="what was not observed contradicts nothing",
    ),
    row(
        "D-31",
        "isolate",
        GOOD | {"outcome": "failed", "score": 2, "official_image": True},
        id="a class that nobody stated is not known",
    ),
    row("D-52", "hold", READY | {"stable_ready_before": True}, id="ready after a change is nothing to roll back"),
    row("D-46", "hold", GOOD | fails("gpu_occupied", "isolate", score=None), id="occupied once may be chance"),
    row("D-45", "hold", fails(score=0, unstable_scores=1, official_image=True), id="one round that differs is not two"),
    row(
        "D-52",
        "hold",
        READY | {"unstable_scores": 2, "official_image": True},
        id="two that agree outweigh the rounds before, on the official image",
    ),
    row("D-52", "hold", READY | {"unstable_scores": 2}, id="two that agree outweigh the rounds before"),
    row(
        "D-54", "hold", {"outcome": "not_observed", "score": 2}, id="a score of before says nothing of what nobody saw"
    ),
    # two rules apply: the one asked first decides
    row("D-02", "hold", DEVICE | GOOD | {"official_image_for_driver": True}, id="contradiction before the image"),
    row(
        "D-03",
        "replace_image",
        BLOCKED | {"node_drain": False, "official_image_for_driver": True},
        id="image before isolation",
    ),
    row(
        "D-04",
        "isolate",
        BLOCKED | {"node_drain": False, "maintenance_window": "scheduled", "recovery_goal": "now"},
        id="a window without a drain is no window to bridge to",
    ),
    row(
        "D-06",
        "upgrade_driver",
        BLOCKED | UPGRADE | {"jobs_affected": True, "isolated_environment": False, "fork_team": True},
        id="upgrade before a rebuild",
    ),
    row(
        "D-10",
        "isolate",
        GOOD | {"hardware_below": "4 of 8", "engine_below": "0.26"},
        id="hardware before the engine's version",
    ),
    row(
        "D-11",
        "stop_route",
        GOOD | {"hardware_below": "4 of 8", "engine_below": "0.26", "isolated_environment": False},
        id="no newer engine helps hardware that is too small",
    ),
    row(
        "D-12",
        "replace_image",
        GOOD | fails(engine_below="0.26", stable_ready_before=True, change_rollback=False),
        id="an engine below the minimum before what a change broke",
    ),
    row("D-14", "roll_back", fails("oom_weight_load", "fix_capacity", stable_ready_before=True), id="roll back first"),
    row("D-15", "hold", fails("oom_runtime", "fix_capacity", "serving"), id="driver before run-time memory"),
    row("D-16", "hold", GOOD | fails("oom_runtime", "fix_config", "serving"), id="fixed request before configuration"),
    row(
        "D-29",
        "isolate",
        GOOD | fails("unknown", "isolate", official_image=True),
        id="what the log points to before the class that is not known",
    ),
    row(
        "D-40",
        "isolate",
        fails(score=0, unstable_scores=2, official_image=True, change_rollback=False),
        id="nothing repeats before no way back",
    ),
    row(
        "D-41",
        "hold",
        fails(score=0, unstable_scores=2, change_rollback=False, jobs_affected=True),
        id="the official image before isolation",
    ),
    row(
        "D-42",
        "isolate",
        fails(score=0, unstable_scores=1, change_rollback=False, jobs_affected=True),
        id="no way back before running jobs",
    ),
    row(
        "D-43",
        "isolate",
        GOOD | fails(score=0, unstable_scores=1, jobs_affected=True, other_jobs_disturb=True),
        id="harm to others before disturbance by others",
    ),
]


@pytest.mark.parametrize(("facts", "rule", "kind"), SCENARIOS)
def test_decision(facts, rule, kind):
    decision = decide(DecisionFacts(**facts))
    assert (decision.rule, decision.kind.value) == (rule, kind)


def test_the_table_has_a_scenario_for_each_rule_and_kind():
    assert {param.values[1] for param in SCENARIOS} == {rule.id for rule in RULES}
    assert {param.values[2] for param in SCENARIOS} == {kind.value for kind in DecisionKind}
    assert {rule.kind for rule in RULES} == set(DecisionKind)
    assert len(SCENARIOS) >= 60


def test_rule_ids_are_unique_and_in_order():
    ids = [rule.id for rule in RULES]
    assert ids == sorted(set(ids))


@pytest.fixture(scope="module")
def classes():
    """The error classes as defined: id to its entry."""
    data = (resources.files("playbooks") / "definitions" / "error-classes.yaml").read_bytes()
    return {ErrorClass(entry["id"]): entry for entry in safe_yaml.load(data)["classes"]}


@pytest.fixture(scope="module")
def usual(classes):
    return {error: DecisionKind(entry["points_to"]) for error, entry in classes.items()}


def test_every_combination_of_the_closed_sets_is_decided(usual):
    for error, verdict, score, outcome in itertools.product(
        ErrorClass, (None, *DriverVerdict), (None, 0, 1, 2), (None, *Outcome)
    ):
        facts = with_usual(
            DecisionFacts(error_class=error, driver_verdict=verdict, score=score, outcome=outcome), usual
        )
        decision = decide(facts)
        assert (decision.kind is DecisionKind.HOLD) == bool(decision.missing)
        assert len(decision.missing) == len(decision.missing_items)
        assert decision.would_change
        assert decision.not_concluded
        if verdict in {DriverVerdict.BLOCKED, DriverVerdict.COMPAT_ONLY}:
            assert decision.rule in {"D-01", "D-09"}, "version risk comes before everything else"
        if error in MEMORY and verdict in {None, DriverVerdict.UNKNOWN}:
            assert decision.kind is DecisionKind.HOLD, "no memory talk before the driver is judged"


def test_every_class_that_repeats_on_a_fitting_driver_leads_somewhere(usual):
    for error in set(ErrorClass) - {ErrorClass.NONE, ErrorClass.UNKNOWN}:
        facts = DecisionFacts(**fails(error.value, usual[error].value), **GOOD, regression="failed")
        decision = decide(facts)
        if usual[error] is DecisionKind.UPGRADE_DRIVER:
            assert decision.rule in {"D-02", "D-09"}
        else:
            assert decision.kind is usual[error]


def test_memory_and_driver_classes_are_those_of_the_definitions(classes):
    family = {error: entry["family"] for error, entry in classes.items()}
    assert {error for error, name in family.items() if name == "memory"} == MEMORY
    expected = {error for error, name in family.items() if name in {"memory", "driver_device", "compile_kernel"}}
    assert expected | {ErrorClass.UNKNOWN} == DRIVER_CAN_EXPLAIN


def test_what_is_never_concluded_is_said_by_some_rule():
    said = {key for rule in RULES for key in rule.never}
    assert said | {"recorded"} == set(NEVER)


@pytest.mark.parametrize(
    ("facts", "items"),
    [
        pytest.param(
            BLOCKED,
            ("node-drain", "maintenance-window", "recovery-goal", "cluster-owner", "change-rollback", "model-stays"),
            id="blocked: people's facts, cheapest first",
        ),
        pytest.param(BLOCKED | UPGRADE | {"boundary_age_days": 31}, ("boundary-rechecked",), id="only the recheck"),
        pytest.param(
            BLOCKED | {"node_drain": True, "boundary_age_days": 31},
            (
                "maintenance-window",
                "recovery-goal",
                "cluster-owner",
                "change-rollback",
                "model-stays",
                "boundary-rechecked",
            ),
            id="what is answered is not asked again",
        ),
        pytest.param(
            BLOCKED | {"node_drain": False, "isolated_environment": False}, ("fork-team",), id="only the team"
        ),
        pytest.param(fails("oom_weight_load", "fix_capacity"), ("driver-verdict",), id="the driver alone"),
        pytest.param(
            fails("oom_weight_load", "fix_capacity", score=None),
            ("driver-verdict", "two-attempts"),
            id="driver, repeat",
        ),
        pytest.param(GOOD | fails("unknown", None), ("official-image", "first-stack"), id="image, cause"),
        pytest.param(
            GOOD | fails("unknown", None, official_image=True) | {"error_class": "nccl_init_failed"},
            ("first-stack",),
            id="cause",
        ),
        pytest.param(
            fails("nccl_init_failed", None), ("driver-verdict", "official-image", "first-stack"), id="all three"
        ),
        pytest.param({}, ("driver-verdict", "two-attempts"), id="nothing known"),
        pytest.param(GOOD, ("two-attempts",), id="only attempts"),
        pytest.param({"driver_needed": False}, ("two-attempts",), id="no driver needed"),
        pytest.param(READY | BLOCKED, ("sides-compared", "boundary-rechecked"), id="contradiction"),
        pytest.param(DEVICE | GOOD, ("sides-compared", "two-attempts"), id="log against reading"),
        pytest.param(fails("engine_process_killed", "isolate"), ("driver-verdict",), id="boundary before isolation"),
        pytest.param(fails(score=1, unstable_scores=2), ("official-image", "gpu-visibility"), id="nothing repeats"),
        pytest.param(fails(score=1, unstable_scores=1), ("gpu-visibility", "two-attempts"), id="differs once"),
        pytest.param(fails(score=None), ("two-attempts",), id="once more"),
        pytest.param(READY, ("fixed-request",), id="request"),
        pytest.param(READY | {"regression": "failed"}, ("first-stack",), id="the engine's log"),
        pytest.param(READY | {"regression": "stable"}, ("prefix-caching",), id="next layer"),
        pytest.param(READY | {"score": None}, ("two-attempts",), id="ready once more"),
        pytest.param({"outcome": "not_observed"}, ("two-attempts",), id="see it"),
        pytest.param(GOOD | fails("oom_runtime", "fix_capacity", "serving"), ("fixed-request",), id="fixed request"),
    ],
)
def test_hold_lists_exactly_what_is_missing_cheapest_first(facts, items):
    decision = decide(DecisionFacts(**facts))
    assert decision.kind is DecisionKind.HOLD
    assert decision.missing_items == items


def test_what_is_missing_says_how_to_get_it():
    asked = decide(DecisionFacts(**BLOCKED)).missing
    assert asked[0] == "Ask whether the node may be drained."
    assert all(text.startswith("Ask ") for text in asked)


def test_missing_items_are_items_of_the_playbooks():
    from playbooks.catalog import load_playbook, playbook_names

    wanted = set(ANSWER_ITEMS.values())
    for param in SCENARIOS:
        wanted |= set(decide(DecisionFacts(**param.values[0])).missing_items)
    for name in playbook_names():
        assert wanted <= {step.id for step in load_playbook(name).steps()}


def test_reasons_carry_values_and_evidence():
    facts = DecisionFacts(
        **BLOCKED, node_drain=False, jobs_affected=True, evidence={"driver_verdict": 8, "node_drain": 13, "stage": 9}
    )
    decision = decide(facts)
    assert decision.reasons == (
        "driver and image do not fit: blocked; driver 575.57.08 is below 580 (#8, #9)",
        "this cluster cannot change now: the node may not be drained, running jobs are harmed (#13)",
        "nothing says that an exclusive environment is out of reach",
    )
    assert decision.evidence == (8, 9, 13)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        pytest.param(BLOCKED | {"cluster_owner": "Nobody"}, "nobody answers for the cluster", id="owner"),
        pytest.param(DEVICE, "the failure itself says so, twice: device_recognition, driver_below_boundary", id="log"),
        pytest.param(fails(), "the first failure repeats, score 2: weight_loading, model_path_not_found", id="failure"),
        pytest.param(fails(), "its class points to fix_files: model_path_not_found", id="route"),
        pytest.param(
            fails(score=None), "the newest attempt failed: weight_loading, model_path_not_found", id="one failure"
        ),
        pytest.param(fails(score=0), "the last two attempts differ: score 0", id="score"),
        pytest.param(fails(score=0, unstable_scores=2), "2 scores below 2 in a row", id="rounds"),
        pytest.param(
            GOOD | fails(score=0, other_jobs_disturb=True), "moves the rounds: other jobs disturb the rounds", id="jobs"
        ),
        pytest.param({"outcome": "failed", "score": 2}, "stage unknown, class unknown", id="unknown"),
    ],
)
def test_reasons_say_why(facts, words):
    assert any(words in reason for reason in decide(DecisionFacts(**facts)).reasons)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        pytest.param(
            fails(score=1, one_cause=True),
            "the root lines of the two attempts differ and are of one cause; the score stays",
            id="one cause",
        ),
        pytest.param(
            BLOCKED | {"node_drain": False, "boundary_age_days": 102},
            "the boundary data is 102 days old, more than 30: check it again before this is carried out",
            id="age",
        ),
        pytest.param(
            {"outcome": "failed", "score": 2, "points_to": "fix_files"}, "its class points to fix_files", id="no class"
        ),
    ],
)
def test_the_last_reason_is(facts, reason):
    assert decide(DecisionFacts(**facts)).reasons[-1] == reason


def test_everything_that_stands_against_a_change_is_named():
    refused = {
        "node_drain": False,
        "maintenance_window": "none",
        "change_rollback": False,
        "jobs_affected": True,
        "model_stays": False,
        "cluster_owner": "unknown",
    }
    assert (
        "this cluster cannot change now: the node may not be drained, there is no window, the change cannot be rolled"
        " back, running jobs are harmed, the model is not to stay here, nobody answers for the cluster"
    ) in decide(DecisionFacts(**BLOCKED, **refused)).reasons


def test_everything_that_moves_the_rounds_is_named():
    disturbed = {"other_jobs_disturb": True, "versions_frozen": False, "other_tenants": True}
    assert (
        "something outside the engine moves the rounds: other jobs disturb the rounds, versions cannot be frozen,"
        " other work was on the GPUs"
    ) in decide(DecisionFacts(**GOOD, **fails(score=0), **disturbed)).reasons


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        pytest.param(fails(), "of one cause", id="root lines are not said to differ"),
        pytest.param(READY | {"one_cause": True}, "of one cause", id="one cause of a failure only"),
        pytest.param(fails(boundary_age_days=102), "days old", id="age matters to a driver decision only"),
        pytest.param(BLOCKED | {"node_drain": False, "boundary_age_days": 30}, "days old", id="fresh boundary"),
        pytest.param(BLOCKED | {"node_drain": False}, "no window", id="unasked is no refusal"),
        pytest.param(BLOCKED | {"node_drain": False}, "nobody answers", id="unasked owner is no refusal"),
    ],
)
def test_reasons_say_nothing_that_is_not_so(facts, words):
    assert not any(words in reason for reason in decide(DecisionFacts(**facts)).reasons)


@pytest.mark.parametrize(
    ("facts", "never"),
    [
        pytest.param(DEVICE, "memory", id="a driver decision says nothing about memory"),
        pytest.param(READY, "answers-is-recovered", id="it answers is not recovered"),
        pytest.param(READY | {"score": None}, "one-success", id="one success is not stable"),
        pytest.param(READY | {"regression": "stable"}, "no-oom-once", id="no OOM once"),
        pytest.param(READY | {"regression": "stable"}, "faster-is-hit", id="faster is no hit"),
        pytest.param(READY | {"regression": "stable"}, "one-node-several", id="one node is not several"),
        pytest.param(fails(), "last-error", id="the last error is not the root"),
        pytest.param(fails(stable_ready_before=True), "other-error-fixed", id="another error is not fixed"),
        pytest.param(DEVICE | GOOD, "host-is-container", id="host packages are not the container's"),
        pytest.param(READY | BLOCKED, "runtime-is-driver", id="the runtime is not the driver"),
        pytest.param(BLOCKED | {"node_drain": False}, "no-gpu-evidence", id="a place without GPUs is no evidence"),
        pytest.param(BLOCKED | {"node_drain": False}, "own-build-official", id="an own build is not official"),
        pytest.param(BLOCKED | UPGRADE, "model-works", id="an upgrade does not make the model work"),
        pytest.param(fails(recorded_only=True), "recorded", id="recorded logs are a person's word"),
    ],
)
def test_what_is_never_concluded(facts, never):
    assert NEVER[never] in decide(DecisionFacts(**facts)).not_concluded


def test_a_persons_word_comes_beside_what_the_rule_never_concludes():
    decision = decide(DecisionFacts(**fails(recorded_only=True)))
    assert decision.not_concluded == (*decide(DecisionFacts(**fails())).not_concluded, NEVER["recorded"])


def test_observed_attempts_need_no_persons_word():
    assert NEVER["recorded"] not in decide(DecisionFacts(**fails())).not_concluded


def test_a_proposal_is_the_ledgers_payload():
    decision = decide(DecisionFacts(**fails(), evidence={"score": 12}))
    proposal = decision.proposal("checked by hand")
    assert proposal.kind is DecisionKind.FIX_FILES
    assert (proposal.rule, proposal.headline, proposal.note) == ("D-21", decision.headline, "checked by hand")
    assert proposal.reasons == list(decision.reasons)
    assert proposal.evidence == [12]
    assert proposal.would_change == list(decision.would_change)
    assert proposal.not_concluded == list(decision.not_concluded)
    assert proposal.carry_out == list(decision.carry_out) == list(CARRY_OUT[DecisionKind.FIX_FILES])
    assert proposal.costs == []
    assert decision.proposal().note == ""
    assert decide(DecisionFacts()).proposal().missing == list(decide(DecisionFacts()).missing)


CHANGE_FACTS = {
    "node_drain",
    "maintenance_window",
    "change_rollback",
    "jobs_affected",
    "model_stays",
    "cluster_owner",
}


@pytest.mark.parametrize(
    ("facts", "cited"),
    [
        pytest.param(
            BLOCKED | {"node_drain": False},
            CHANGE_FACTS | {"driver_verdict", "driver_grounds", "stage", "score", "isolated_environment"},
            id="isolate",
        ),
        pytest.param(
            BLOCKED | {"maintenance_window": "scheduled", "recovery_goal": "now"},
            {"driver_verdict", "driver_grounds", "stage", "score", "isolated_environment"}
            | {"maintenance_window", "recovery_goal"},
            id="bridge",
        ),
        pytest.param(
            BLOCKED | UPGRADE,
            {"driver_verdict", "driver_grounds", "stage", "score", "recovery_goal", "boundary_rechecked"}
            | CHANGE_FACTS - {"jobs_affected"},
            id="upgrade",
        ),
        pytest.param(fails(), {"stage", "error_class", "score", "points_to"}, id="route"),
        pytest.param(fails("nccl_init_failed", None), {"stage", "error_class", "score"}, id="unexplained"),
        pytest.param(
            GOOD | fails(score=0, other_tenants=True),
            {"score", "other_jobs_disturb", "versions_frozen", "other_tenants", "driver_verdict", "driver_needed"},
            id="disturbed",
        ),
        pytest.param(DEVICE | GOOD, {"error_class", "driver_verdict"}, id="log against reading"),
        pytest.param(READY | BLOCKED, {"outcome", "driver_verdict"}, id="ready against verdict"),
        pytest.param(fails(score=None), {"outcome", "stage"}, id="once"),
        pytest.param(fails("oom_weight_load"), {"outcome", "stage", "error_class", "driver_verdict"}, id="unjudged"),
        pytest.param(
            GOOD | fails("oom_runtime", "fix_capacity", "serving"),
            {"outcome", "stage", "error_class", "regression"},
            id="run-time memory",
        ),
        pytest.param(READY | {"regression": "stable"}, {"outcome", "score", "regression"}, id="stable request"),
        pytest.param(READY | {"regression": "failed"}, {"outcome", "score", "regression"}, id="failing request"),
        pytest.param(READY | {"score": None}, {"outcome"}, id="ready once"),
        pytest.param({"outcome": "not_observed"}, {"outcome"}, id="not observed"),
        pytest.param(
            BLOCKED | {"official_image_for_driver": True},
            {"driver_verdict", "driver_grounds", "stage", "score", "official_image_for_driver"},
            id="image for the driver",
        ),
        pytest.param(
            BLOCKED | {"node_drain": False, "isolated_environment": False, "fork_team": True},
            CHANGE_FACTS | {"driver_verdict", "driver_grounds", "stage", "score", "isolated_environment", "fork_team"},
            id="rebuild",
        ),
        pytest.param(
            BLOCKED | {"node_drain": False, "isolated_environment": False, "fork_team": False},
            CHANGE_FACTS | {"driver_verdict", "driver_grounds", "stage", "score", "isolated_environment", "fork_team"},
            id="stop",
        ),
        pytest.param(
            GOOD | {"hardware_below": "4 of 8", "isolated_environment": False},
            {"outcome", "hardware_below", "isolated_environment"},
            id="hardware",
        ),
        pytest.param(GOOD | {"engine_below": "0.26"}, {"outcome", "engine_below"}, id="engine"),
        pytest.param(
            fails(stable_ready_before=True, change_rollback=False), {"outcome", "stage", "change_rollback"}, id="broken"
        ),
        pytest.param(
            fails("engine_process_killed", "isolate"),
            {"stage", "error_class", "score", "points_to", "driver_verdict"},
            id="boundary not checked",
        ),
        pytest.param(
            GOOD | fails("unknown", None, official_image=True),
            {"stage", "error_class", "score", "official_image", "driver_verdict", "driver_needed"},
            id="unexplained on the official image",
        ),
        pytest.param(fails(score=0, unstable_scores=2), {"score", "official_image"}, id="nothing repeats"),
        pytest.param(
            fails(score=0, unstable_scores=2, official_image=True), {"score", "official_image"}, id="officially nothing"
        ),
        pytest.param(
            fails(score=None, change_rollback=False), {"outcome", "stage", "score", "change_rollback"}, id="no way back"
        ),
        pytest.param(
            fails(score=None, jobs_affected=True), {"outcome", "stage", "score", "jobs_affected"}, id="running jobs"
        ),
        pytest.param(fails(score=1), {"score"}, id="differs once"),
        pytest.param({}, set(), id="nothing"),
    ],
)
def test_a_decision_stands_on_the_entries_of_the_facts_it_looked_at(facts, cited):
    numbers = {name: number for number, name in enumerate(DecisionFacts.model_fields, start=1)}
    decision = decide(DecisionFacts(**facts, evidence=numbers))
    assert set(decision.evidence) == {numbers[name] for name in cited}
    assert decision.evidence == tuple(sorted(decision.evidence))


def test_every_reason_of_an_isolation_cites_its_own_entries():
    numbers = {"stage": 1, "error_class": 2, "score": 3, "official_image": 4, "driver_verdict": 5, "driver_needed": 6}
    unexplained = fails("unknown", None, "engine_init", official_image=True)
    assert decide(DecisionFacts(**GOOD, **unexplained, evidence=numbers)).reasons == (
        "the first failure repeats, score 2: engine_init, unknown (#1, #2, #3)",
        "its class is not known (#2)",
        "on the official image (#4)",
        "the driver boundary is checked and met, or none applies (#5, #6)",
    )


def test_every_reason_of_a_broken_baseline_cites_its_own_entries():
    facts = DecisionFacts(**fails(stable_ready_before=True), evidence={"outcome": 1, "stage": 2})
    assert decide(facts).reasons == (
        "the newest attempt failed: weight_loading, model_path_not_found (#1, #2)",
        "the baseline before was ready twice, and one variable was changed since (#2)",
    )


def test_every_reason_of_rounds_that_never_agree_cites_its_own_entries():
    facts = fails(score=0, unstable_scores=2, official_image=True)
    assert decide(DecisionFacts(**facts, evidence={"score": 1, "official_image": 2})).reasons == (
        "no stable first failure is known (#1)",
        "no error could be reproduced in two rounds: 2 scores below 2 in a row (#1)",
        "on the official image (#2)",
    )


def test_every_reason_of_a_route_that_ends_cites_its_own_entries():
    closed = {"node_drain": False, "isolated_environment": False, "fork_team": False}
    numbers = {"driver_verdict": 1, "node_drain": 2, "isolated_environment": 3, "fork_team": 4}
    assert decide(DecisionFacts(**BLOCKED, **closed, evidence=numbers)).reasons == (
        "driver and image do not fit: blocked; driver 575.57.08 is below 580 (#1)",
        "this cluster cannot change now: the node may not be drained (#2)",
        "no exclusive environment is available (#3)",
        "no team would maintain a rebuild (#4)",
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (w.ISOLATED_POSSIBLE, w.ISOLATED_IMPOSSIBLE),
        (w.OFFICIAL, w.NOT_OFFICIAL),
        (w.BOUNDARY_CHECKED, w.BOUNDARY_NOT_CHECKED),
        (w.READY, w.NOT_READY),
        (w.READY_TWICE, w.NOT_STABLE),
    ],
    ids=lambda condition: condition.text,
)
def test_of_two_opposites_exactly_one_holds(one, other):
    for param in SCENARIOS:
        facts = DecisionFacts(**param.values[0])
        assert one.holds(facts) is not other.holds(facts)


def test_conditions_look_at_facts_that_exist():
    named = {name for rule in RULES for condition in rule.when for name in condition.facts}
    assert named <= set(DecisionFacts.model_fields)


@pytest.mark.parametrize("kind", DecisionKind)
def test_every_kind_but_hold_says_how_it_is_carried_out(kind):
    assert bool(CARRY_OUT[kind]) is (kind is not DecisionKind.HOLD)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        pytest.param(BLOCKED | {"node_drain": False}, "withdrawn easily", id="isolation"),
        pytest.param(BLOCKED | UPGRADE, "re-run of every workload", id="upgrade"),
        pytest.param(
            BLOCKED | {"node_drain": False, "isolated_environment": False, "fork_team": True},
            "dependency chain of one's own",
            id="rebuild",
        ),
        pytest.param(
            BLOCKED | {"node_drain": False, "isolated_environment": False, "fork_team": False},
            "is not delivered here",
            id="stop",
        ),
    ],
)
def test_costs_are_stated_beside_those_of_staying(facts, words):
    decision = decide(DecisionFacts(**facts))
    assert words in decision.costs[0]
    assert decision.costs[1].startswith("Staying as it is: engineer time")
    assert decision.proposal().costs == list(decision.costs)


def test_what_nobody_stated_is_not_known():
    known = {name: value for name, value in DecisionFacts().model_dump().items() if value is not None}
    assert known == {
        "attempts": 0,
        "unstable_scores": 0,
        "one_cause": False,
        "recorded_only": False,
        "stable_ready_before": False,
        "driver_needed": True,
        "driver_grounds": (),
        "boundary_limit_days": 30,
        "hardware_below": "",
        "engine_below": "",
        "sides_disagree": False,
        "evidence": {},
    }


def test_facts_stay_as_they_were_stated():
    facts = DecisionFacts(node_drain=True)
    with pytest.raises(ValidationError):
        facts.node_drain = False


@pytest.mark.parametrize("owner", ["", "unknown", "Nobody", "?", " n/a "])
def test_no_name_is_no_owner(owner):
    assert not DecisionFacts(cluster_owner=owner).owner_known
    assert DecisionFacts(cluster_owner=f"{owner} platform team").owner_known


class TestFactsOfACase:
    def test_an_empty_case_knows_nothing(self):
        facts = facts_of(CaseLines().opened().case)
        assert facts == DecisionFacts()

    def test_a_stable_failure(self):
        base = docker_baseline()
        lines = frozen_scene().boundary().frozen(base).attempt(1, base).attempt(2, base, tenants=["process 7 train"])
        lines.score(1, 2, 2, one_cause=True)
        facts = facts_of(lines.case)
        assert facts.stage == "weight_loading"
        assert facts.error_class is ErrorClass.MODEL_PATH_NOT_FOUND
        assert facts.points_to is DecisionKind.FIX_FILES
        assert facts.outcome is Outcome.FAILED
        assert (facts.attempts, facts.score, facts.unstable_scores, facts.one_cause) == (2, 2, 0, True)
        assert facts.driver_verdict is DriverVerdict.SUPPORTED
        assert facts.boundary_age_days == 3
        assert facts.driver_grounds == ("driver 580.95.05",)
        assert facts.other_tenants is True
        assert facts.sides_disagree is False
        assert facts.recorded_only is False
        assert facts.evidence["score"] == lines.seq
        assert facts.evidence["stage"] == lines.seq - 1
        assert decide(facts).rule == "D-21"

    def test_tenants_of_an_earlier_attempt_count(self):
        base = docker_baseline()
        lines = CaseLines().opened().attempt(1, base, tenants=["process 7"])
        first = lines.seq
        facts = facts_of(lines.attempt(2, base).case)
        assert facts.other_tenants is True
        assert facts.evidence["other_tenants"] == first

    def test_no_tenants_were_seen(self):
        base = docker_baseline()
        assert facts_of(CaseLines().opened().attempt(1, base).case).other_tenants is False

    def test_an_attempt_not_observed_has_no_failure(self):
        base = docker_baseline()
        lines = CaseLines().opened().attempt(1, base).attempt(2, base, Outcome.NOT_OBSERVED, finding("unknown"))
        facts = facts_of(lines.case)
        assert facts.outcome is Outcome.NOT_OBSERVED
        assert facts.error_class is None
        assert facts.stage is None
        assert facts.attempts == 1

    def test_scores_below_two_in_a_row(self):
        base = docker_baseline()
        lines = CaseLines().opened().attempt(1, base).attempt(2, base).score(1, 2, 2)
        lines.attempt(3, base).score(2, 3, 0).attempt(4, base).score(3, 4, None).attempt(5, base).score(4, 5, 1)
        assert facts_of(lines.case).unstable_scores == 2

    def test_an_older_score_is_not_the_newest_attempts(self):
        base = docker_baseline()
        lines = CaseLines().opened().attempt(1, base).attempt(2, base).score(1, 2, 2).attempt(3, base)
        assert facts_of(lines.case).score is None

    def test_a_score_of_another_baseline_does_not_count(self):
        one, two = docker_baseline(), docker_baseline(("serve", "/models/other"))
        lines = CaseLines().opened().attempt(1, one).attempt(2, one).score(1, 2, 1).attempt(3, two)
        facts = facts_of(lines.case)
        assert (facts.score, facts.unstable_scores, facts.attempts) == (None, 0, 1)

    def test_recorded_attempts_only(self):
        base = docker_baseline()
        lines = CaseLines().opened(node=None).attempt(1, base, origin="recorded").attempt(2, base, origin="recorded")
        assert facts_of(lines.case).recorded_only is True
        assert facts_of(lines.attempt(3, base).case).recorded_only is False

    def test_a_change_on_a_ready_baseline(self):
        one, two = docker_baseline(), docker_baseline(("serve", "/models/k3", "--max-model-len", "8"))
        change = {"variable": "--max-model-len", "before": None, "after": "8"}
        lines = CaseLines().opened().frozen(one).attempt(1, one, Outcome.READY).attempt(2, one, Outcome.READY)
        lines.score(1, 2, 2).frozen(two, change).attempt(3, two)
        assert facts_of(lines.case).stable_ready_before is True
        assert decide(facts_of(lines.case)).rule == "D-14"

    @pytest.mark.parametrize(
        ("outcome", "score", "changed"),
        [
            pytest.param(Outcome.FAILED, 2, True, id="the baseline before failed"),
            pytest.param(Outcome.READY, 1, True, id="the baseline before was not stable"),
            pytest.param(Outcome.READY, 2, False, id="nobody said what was changed"),
        ],
    )
    def test_no_change_on_a_ready_baseline(self, outcome, score, changed):
        one, two = docker_baseline(), docker_baseline(("serve", "/models/k3", "--max-model-len", "8"))
        change = {"variable": "--max-model-len", "before": None, "after": "8"} if changed else None
        lines = CaseLines().opened().frozen(one).attempt(1, one, outcome).attempt(2, one, outcome)
        lines.score(1, 2, score).frozen(two, change).attempt(3, two)
        assert facts_of(lines.case).stable_ready_before is False

    def test_a_second_change_is_not_one_change_on_a_ready_baseline(self):
        one, two, three = (docker_baseline(("serve", str(n))) for n in range(3))
        change = {"variable": "model", "before": "0", "after": "1"}
        lines = CaseLines().opened().frozen(one).attempt(1, one, Outcome.READY).attempt(2, one, Outcome.READY)
        lines.score(1, 2, 2).frozen(two, change).attempt(3, two).frozen(three, change).attempt(4, three)
        assert facts_of(lines.case).stable_ready_before is False

    def test_an_attempt_whose_baseline_was_never_frozen(self):
        assert facts_of(CaseLines().opened().attempt(1, docker_baseline()).case).stable_ready_before is False

    def test_an_engine_without_cuda_needs_no_driver(self):
        lines = CaseLines().opened().fingerprint(CPU_HOST, CPU_CONTAINER)
        facts = facts_of(lines.case)
        assert facts.driver_needed is False
        assert facts.evidence["driver_needed"] == lines.seq

    def test_a_verdict_beside_an_engine_without_cuda_leaves_both_known(self):
        facts = facts_of(CaseLines().opened().fingerprint(CPU_HOST, CPU_CONTAINER).boundary().case)
        assert (facts.driver_needed, facts.driver_verdict) == (False, DriverVerdict.SUPPORTED)

    def test_a_minimum_without_words_is_named_by_its_id(self):
        lines = CaseLines().opened().boundary(findings=[{"id": "architecture"}, {"id": "vllm-below-minimum"}])
        facts = facts_of(lines.case)
        assert (facts.hardware_below, facts.engine_below) == ("architecture", "vllm-below-minimum")

    def test_disagreements_and_official_images(self):
        lines = CaseLines().opened().fingerprint(disagreements=[{"rule": "C-01", "text": "8 against 0"}])
        lines.boundary(DriverVerdict.BLOCKED, findings=[{"id": "official-image-for-driver"}])
        facts = facts_of(lines.case)
        assert facts.sides_disagree is True
        assert facts.official_image_for_driver is True
        assert decide(facts).rule == "D-03"

    def test_minima_of_the_case_s_own_boundaries_count(self):
        findings = [
            {"id": "hardware-floor", "text": "4 of 8."},
            {"id": "architecture", "text": "8.0 below 9.0."},
            {"id": "vllm-below-minimum", "text": "0.26 below 0.27.1."},
            {"id": "stale-tag", "text": "stale"},
        ]
        facts = facts_of(CaseLines().opened().boundary(findings=findings).case)
        assert facts.hardware_below == "4 of 8. 8.0 below 9.0."
        assert facts.engine_below == "0.26 below 0.27.1."
        assert facts.evidence["hardware_below"] == facts.evidence["engine_below"] == 2
        assert any("minimum: 4 of 8. 8.0 below 9.0. (#2)" in reason for reason in decide(facts).reasons)
        other = facts_of(CaseLines().opened(playbook="generic-vllm").boundary(findings=findings).case)
        assert (other.hardware_below, other.engine_below) == ("", "")

    def test_the_engine_s_minimum_is_a_reason(self):
        reasons = decide(DecisionFacts(**GOOD, engine_below="0.26 below 0.27.1")).reasons
        assert "the engine is older than the official minimum: 0.26 below 0.27.1" in reasons

    def test_other_findings_name_no_image(self):
        lines = CaseLines().opened().boundary(DriverVerdict.BLOCKED, findings=[{"id": "stale"}])
        assert facts_of(lines.case).official_image_for_driver is None

    def test_the_fixed_request_counts_for_its_own_attempt(self):
        base = docker_baseline()
        lines = CaseLines().opened().attempt(1, base, Outcome.READY).requested(1, "once").requested(1, "stable")
        assert facts_of(lines.case).regression == "stable"
        assert facts_of(lines.attempt(2, base, Outcome.READY).case).regression is None
        assert facts_of(CaseLines().opened().requested(1).case).regression is None

    def test_the_newest_of_several_requests_counts(self):
        lines = CaseLines().opened().attempt(1, docker_baseline(), Outcome.READY)
        lines.requested(1, "once").requested(1, "unstable").requested(1, "stable")
        facts = facts_of(lines.case)
        assert (facts.regression, facts.evidence["regression"]) == ("stable", lines.seq)

    def test_the_usual_action_fills_a_finding_that_names_none(self):
        base = process_baseline()
        lines = CaseLines().opened().attempt(1, base, found=finding("disk_full", "weight_loading"))
        usual = {ErrorClass.DISK_FULL: DecisionKind.FIX_CAPACITY}
        assert facts_of(lines.case).points_to is None
        assert facts_of(lines.case, usual).points_to is DecisionKind.FIX_CAPACITY
        assert facts_of(lines.case, {}).points_to is None

    def test_what_the_log_points_to_stays(self):
        facts = DecisionFacts(error_class="disk_full", points_to="fix_files")
        assert with_usual(facts, {ErrorClass.DISK_FULL: DecisionKind.FIX_CAPACITY}).points_to is DecisionKind.FIX_FILES
        assert with_usual(DecisionFacts(), {ErrorClass.DISK_FULL: DecisionKind.FIX_CAPACITY}).points_to is None

    @pytest.mark.parametrize(
        ("item", "value", "fact", "expected"),
        [
            ("node-drain", "yes", "node_drain", True),
            ("node-drain", " YES ", "node_drain", True),
            ("node-drain", "no", "node_drain", False),
            ("node-drain", "可以", "node_drain", True),
            ("node-drain", "不能", "node_drain", False),
            ("node-drain", "perhaps", "node_drain", None),
            ("maintenance-window", "Scheduled", "maintenance_window", "scheduled"),
            ("maintenance-window", "Saturday", "maintenance_window", None),
            ("recovery-goal", "can-wait", "recovery_goal", "can-wait"),
            ("recovery-goal", "yes", "recovery_goal", None),
            ("cluster-owner", " Platform ", "cluster_owner", "Platform"),
            ("jobs-affected", "no", "jobs_affected", False),
            ("fork-team", "none", "fork_team", False),
            ("maintenance-window", "now", "maintenance_window", "now"),
            ("maintenance-window", "none", "maintenance_window", "none"),
            ("recovery-goal", "now", "recovery_goal", "now"),
            ("change-rollback", "yes", "change_rollback", True),
            ("model-stays", "no", "model_stays", False),
            ("other-jobs-disturb", "yes", "other_jobs_disturb", True),
            ("versions-frozen", "no", "versions_frozen", False),
            ("isolated-environment", "no", "isolated_environment", False),
            ("official-image", "yes", "official_image", True),
            ("boundary-rechecked", "yes", "boundary_rechecked", True),
        ],
    )
    def test_an_answer_becomes_a_fact_or_stays_unknown(self, item, value, fact, expected):
        lines = CaseLines().opened().answer(item, value)
        facts = facts_of(lines.case)
        assert getattr(facts, fact) == expected
        assert facts.evidence.get(fact) == (None if expected is None else 2)

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (("yes", "y", "true", "是", "可以", "能"), True),
            (("no", "n", "false", "none", "否", "不", "不能", "不可以"), False),
        ],
    )
    def test_yes_and_no_are_understood_in_two_languages(self, words, expected):
        for word in words:
            assert facts_of(CaseLines().opened().answer("jobs-affected", word).case).jobs_affected is expected, word

    def test_phases_play_no_part(self):
        base = docker_baseline()
        lines = CaseLines().opened().attempt(1, base)
        assert facts_of(lines.case) == facts_of(lines.entered(Phase.LAUNCH).case)


class TestFactsFile:
    def test_facts_are_read(self):
        facts = parse_facts(b"schema: baseline-facts/1\ndriver_verdict: blocked\nnode_drain: false\n", file="f.yaml")
        assert decide(facts).rule == "D-04"

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            pytest.param(b"a: [", "f.yaml: not YAML: did not find expected node content", id="not YAML"),
            pytest.param(b"\xff", "f.yaml: not YAML", id="not text"),
            pytest.param(b"- 1", "f.yaml: expected a mapping that begins with schema: baseline-facts/1", id="a list"),
            pytest.param(b"schema: 1", "expected a mapping that begins with schema", id="other schema"),
            pytest.param(b"schema: baseline-facts/1\ndrain: yes", "f.yaml: drain: no such fact", id="unknown fact"),
            pytest.param(
                b"schema: baseline-facts/1\nscore: 3",
                "f.yaml: score: Input should be 0, 1 or 2, found 3",
                id="bad value",
            ),
            pytest.param(
                b"schema: baseline-facts/1\nevidence: {stage: x}",
                "f.yaml: evidence.stage: Input should be a valid integer",
                id="place inside a fact",
            ),
        ],
    )
    def test_a_bad_file_says_what_was_expected(self, data, message):
        with pytest.raises(InvalidDefinition) as caught:
            parse_facts(data, file="f.yaml")
        assert message in str(caught.value)

    @pytest.mark.parametrize(
        ("name", "least"),
        [("attempts", 0), ("unstable_scores", 0), ("boundary_age_days", 0), ("boundary_limit_days", 1)],
    )
    def test_a_number_has_a_least_value(self, name, least):
        stated = parse_facts(f"schema: baseline-facts/1\n{name}: {least}".encode(), file="f.yaml")
        assert getattr(stated, name) == least
        with pytest.raises(InvalidDefinition, match=rf"f.yaml: {name}: Input should be greater than"):
            parse_facts(f"schema: baseline-facts/1\n{name}: {least - 1}".encode(), file="f.yaml")
