"""One feature brought back: where it stands by the record, and what comes next."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from playbooks.catalog import load_playbook
from playbooks.evidence import entries as e
from playbooks.guiding.add_back import add_back_of, caching_on
from playbooks.guiding.checklist import items, next_step
from playbooks.guiding.gate import evaluate
from playbooks.guiding.playbook import FeatureBack
from playbooks.judging.baseline_diff import apply, diff, switched_on, with_feature
from playbooks.vocabulary import JobKind, Outcome, Phase
from tests.support.cases import CaseLines, docker_baseline, finding, frozen_scene

K3 = load_playbook("kimi-k3")
BASE = docker_baseline()
CACHED, CHANGE = switched_on(BASE, "--enable-prefix-caching")
WITH = CHANGE.model_dump(mode="json")
BACK = {"variable": CHANGE.variable, "before": CHANGE.after, "after": CHANGE.before}


def stable() -> CaseLines:
    lines = frozen_scene().boundary().entered(Phase.BOUNDARY).entered(Phase.LAUNCH).frozen(BASE)
    lines.attempt(1, BASE, Outcome.READY).attempt(2, BASE, Outcome.READY, held_until="x").score(1, 2, 2)
    return lines.entered(Phase.REGRESSION).requested(2).entered(Phase.ADD_BACK)


def brought() -> CaseLines:
    return stable().frozen(CACHED, WITH)


def ready() -> CaseLines:
    return brought().attempt(3, CACHED, Outcome.READY, held_until="x")


def step(lines: CaseLines) -> tuple[str, str | None, JobKind | None]:
    found = next_step(lines.case, K3)
    return found.kind, found.item, found.job


REQUEST = ("request", "fixed-request", JobKind.REQUEST)
PROBE = ("job", "prefix-cache-hits", JobKind.CACHE_PROBE)
LADDER = ("job", "pressure-ladder", JobKind.LADDER)
RUN = ("job", "two-attempts", JobKind.LAUNCH)


@pytest.mark.parametrize(
    ("lines", "state", "expected"),
    [
        pytest.param(stable(), "none", ("add_back", "bring", None), id="stable: the cache comes first"),
        pytest.param(brought(), "launch", RUN, id="frozen: launch it"),
        pytest.param(ready(), "request", REQUEST, id="ready: the fixed request"),
        pytest.param(ready().requested(3), "probe", PROBE, id="request stable: does the cache hit"),
        pytest.param(ready().requested(3).probed(3, "inconclusive"), "probe", PROBE, id="a probe that proves nothing is repeated"),
        pytest.param(ready().requested(3).probed(3, "contaminated").probed(3, "contaminated"), "roll_back", ("add_back", "back", None), id="but once only"),
        pytest.param(ready().requested(3).probed(3), "roll_back", ("add_back", "back", None), id="a hit: put the baseline back"),
        pytest.param(ready().requested(3).probed(3, "miss"), "roll_back", ("add_back", "back", None), id="a miss: put it back too"),
        pytest.param(brought().attempt(3, CACHED), "roll_back", ("add_back", "back", None), id="the launch failed: put it back"),
        pytest.param(ready().requested(3, "failed", 0, 5), "roll_back", ("add_back", "back", None), id="the request failed: put it back"),
        pytest.param(ready().requested(3).probed(3).frozen(BASE, BACK), "re_verify", RUN, id="put back: see it again"),
        pytest.param(ready().requested(3).probed(3).frozen(BASE, BACK).attempt(4, BASE, Outcome.READY), "done", LADDER, id="seen again: the ladder"),
        pytest.param(ready().requested(3).probed(3).frozen(BASE, BACK).attempt(4, BASE, Outcome.READY).climbed(4, "capacity"), "done", ("add_back", "bring.tool-calls", None), id="climbed, however far: the next feature"),
        pytest.param(ready().requested(3).probed(3).frozen(BASE, BACK).attempt(4, BASE), "lost", ("decide", "propose", None), id="the baseline itself fails now"),
    ],
)  # fmt: skip
def test_where_it_stands_and_what_comes_next(
    lines: CaseLines, state: str, expected: tuple[str, str | None, JobKind | None]
) -> None:
    found = add_back_of(lines.case)
    assert found is not None
    assert found.state == state
    assert found.stable.payload.digest == BASE.digest
    got = step(lines)
    assert got[0] == expected[0]
    if expected[0] != "decide":
        assert got == expected


def test_another_result_is_named_as_moved_and_never_as_fixed() -> None:
    found = add_back_of(brought().attempt(3, CACHED, found=finding("kv_cache_too_small", "engine_init")).case)
    assert found is not None
    assert found.moved.endswith("kv_cache_too_small")
    assert found.of_the_cache
    said = next_step(brought().attempt(3, CACHED).case, K3)
    assert "moved the result" in said.text
    assert "not a fix" in said.why


def test_an_engine_that_died_under_the_requests_has_moved_the_result() -> None:
    lines = ready().add(e.HeldEnded(attempt=3, how="died", detail="IndexError"), "node:gpu-a1")
    found = add_back_of(lines.case)
    assert found is not None
    assert (found.state, "IndexError" in found.moved) == ("roll_back", True)


def test_nothing_is_brought_back_before_the_fixed_request_is_stable() -> None:
    lines = frozen_scene().boundary().entered(Phase.LAUNCH).frozen(BASE)
    lines.attempt(1, BASE, Outcome.READY).attempt(2, BASE, Outcome.READY).score(1, 2, 2)
    assert add_back_of(lines.case) is None
    assert add_back_of(lines.requested(2, "once", 1, 1).case) is None
    assert add_back_of(lines.frozen(CACHED, WITH).case) is None


def test_the_items_close_by_the_records_and_name_them() -> None:
    lines = ready().requested(3).probed(3).frozen(BASE, BACK).attempt(4, BASE, Outcome.READY)
    by_id = {item.id: item for item in items(lines.case, K3)}
    assert by_id["prefix-caching"].state == "proven"
    assert by_id["prefix-caching"].value is not None
    assert by_id["prefix-caching"].value.count("#") == 4
    assert by_id["prefix-cache-hits"].state == "proven"
    assert by_id["further-features"].state == "open"
    failed = brought().attempt(3, CACHED).frozen(BASE, BACK).attempt(4, BASE, Outcome.READY)
    assert {item.id: item.state for item in items(failed.case, K3)}["prefix-caching"] == "open"


def test_a_second_feature_stands_on_the_same_baseline() -> None:
    longer, change = switched_on(BASE, "--enable-chunked-prefill")
    lines = ready().requested(3).probed(3).frozen(BASE, BACK).attempt(4, BASE, Outcome.READY)
    found = add_back_of(lines.frozen(longer, change.model_dump(mode="json")).case)
    assert found is not None
    assert (found.state, found.of_the_cache, found.stable.payload.digest) == ("launch", False, BASE.digest)


def test_a_baseline_with_the_cache_on_is_probed_where_it_is_held() -> None:
    assert caching_on(CACHED)
    lines = frozen_scene().boundary().entered(Phase.BOUNDARY).entered(Phase.LAUNCH).frozen(CACHED)
    lines.attempt(1, CACHED, Outcome.READY).attempt(2, CACHED, Outcome.READY, held_until="x").score(1, 2, 2)
    lines.entered(Phase.REGRESSION).requested(2).entered(Phase.ADD_BACK)
    assert step(lines) == PROBE
    assert step(lines.probed(2)) == LADDER
    assert step(lines.climbed(2)) == ("close", None, None)


TOOLS = K3.feature("tool-calls")
assert TOOLS is not None
WITH_TOOLS, TOOLS_CHANGE = with_feature(BASE, TOOLS.options)
assert TOOLS_CHANGE is not None


def with_tools() -> CaseLines:
    """The cache was judged and the ladder climbed; tool calls are launched, and the fixed request is stable."""
    lines = ready().requested(3).probed(3).frozen(BASE, BACK).attempt(4, BASE, Outcome.READY).climbed(4)
    lines.frozen(WITH_TOOLS, TOOLS_CHANGE.model_dump(mode="json")).attempt(5, WITH_TOOLS, Outcome.READY, held_until="x")
    return lines.requested(5)


def tried(verdict: str, passed: int = 20) -> CaseLines:
    lines = with_tools()
    return lines.add(
        e.FeatureProbed(
            job_id="job-x", attempt=5, feature="tool_call", verdict=verdict, grounds="", passed=passed, of=20
        ),
        "node:gpu-a1",
    )


def test_a_feature_of_two_options_is_one_variable() -> None:
    assert TOOLS_CHANGE.variable == TOOLS.variable == "tool calls"
    assert TOOLS_CHANGE.after == "--enable-auto-tool-choice --tool-call-parser kimi_k3"
    assert apply(BASE, TOOLS_CHANGE) == WITH_TOOLS
    assert diff(BASE, apply(WITH_TOOLS, TOOLS_CHANGE.model_copy(update={"after": None}))) == ()
    (half,) = diff(WITH_TOOLS, docker_baseline((*BASE.argv, "--enable-auto-tool-choice")))
    assert half.name == "argument --tool-call-parser"


def test_a_feature_is_probed_while_its_engine_is_held_and_then_put_back() -> None:
    assert step(with_tools()) == ("job", "tool_call", JobKind.FEATURE_PROBE)
    assert step(tried("works")) == ("add_back", "back", None)
    assert step(tried("untested", 0)) == ("add_back", "back", None)
    found = add_back_of(tried("works").case)
    assert found is not None
    assert (found.moved, found.probe) == ("", tried("works").seq)


@pytest.mark.parametrize(("verdict", "passed"), [("fails", 0), ("sometimes", 19)])
def test_a_feature_that_does_not_work_is_put_back_and_nothing_more_is_brought(verdict: str, passed: int) -> None:
    lines = tried(verdict, passed)
    assert step(lines) == ("add_back", "back", None)
    assert f"tool_call {verdict}, {passed} of 20" in next_step(lines.case, K3).text
    lines.frozen(BASE, {"variable": "tool calls", "before": "x", "after": None}).attempt(6, BASE, Outcome.READY)
    assert step(lines)[0] == "decide"


def test_features_come_one_after_the_other_and_each_once() -> None:
    back = {"variable": "tool calls", "before": "x", "after": None}
    lines = tried("works").frozen(BASE, back).attempt(6, BASE, Outcome.READY)
    assert step(lines) == ("add_back", "bring.reasoning", None)
    changed, change = with_feature(BASE, {"--reasoning-parser": "kimi_k3"})
    assert change is not None
    lines.frozen(changed, change.model_dump(mode="json")).attempt(7, changed, Outcome.READY, held_until="x").requested(
        7
    )
    assert step(lines) == ("job", "reasoning", JobKind.FEATURE_PROBE)
    lines.frozen(BASE, {"variable": change.variable, "before": "x", "after": None}).attempt(8, BASE, Outcome.READY)
    assert step(lines) == ("close", None, None)


def test_what_is_brought_back_is_no_open_item_of_the_gate() -> None:
    row = next(item for item in evaluate(with_tools().case, K3).items if item.no == 6)
    assert row.closed, row


def test_options_that_are_several_variables_are_no_feature_of_a_playbook() -> None:
    with pytest.raises(ValidationError, match="expected one option"):
        FeatureBack(id="x", label="x", options={"--a": "on", "--b": "1"}, probe="vision")
