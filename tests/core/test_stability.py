"""The stability table, row by row; a settled open cell names docs/adr/0005-open-cells-of-the-score.md."""

from __future__ import annotations

from typing import Any

import pytest

from playbooks.errors import BaselineMismatch
from playbooks.judging.finding import Finding
from playbooks.judging.stability import ROWS, Observed, score
from playbooks.vocabulary import ErrorClass, Outcome, Stage

STACK = ("vllm/a.py:load_model", "vllm/b.py:load_weights")


def finding(**changes: Any) -> Finding:
    values: dict[str, Any] = {
        "stage": Stage.WEIGHT_LOADING,
        "reached": Stage.DEVICE_RECOGNITION,
        "error_class": ErrorClass.WEIGHT_FILES_BAD,
        "root_line": 10,
        "root_text": "SafetensorError",
        "stack": STACK,
        "warnings": ("a warning",),
        "confidence": "certain",
        "input_kind": "vllm_log",
        "decision": None,
        "catalogue": "c",
        "block_digest": "d1",
    }
    return Finding(**{**values, **changes})


def failed(
    *,
    tenants: tuple[str, ...] = (),
    moved: bool = False,
    outcome: Outcome = Outcome.FAILED,
    ranks: tuple[int, ...] = (),
    **changes: Any,
) -> Observed:
    return Observed("b1", outcome, finding(**changes), tenants, moved, ranks)


READY = Observed(
    "b1",
    Outcome.READY,
    finding(stage=Stage.NONE, error_class=ErrorClass.NONE, root_line=None, root_text=None, stack=(), block_digest=None),
)
UNKNOWN = {"error_class": ErrorClass.UNKNOWN}


@pytest.mark.parametrize(
    ("earlier", "later", "expected", "row"),
    [
        pytest.param(failed(), failed(), 2, "same", id="same stage, class, stack and warnings"),
        pytest.param(READY, READY, 2, "both-ready", id="ready twice (decision record 5)"),
        pytest.param(failed(), failed(error_class=ErrorClass.WEIGHTS_MISMATCH_MODEL), 1, "other-class", id="other class, same stage (decision record 5)"),
        pytest.param(failed(), failed(**UNKNOWN), 1, "other-class", id="known, then unknown"),
        pytest.param(failed(ranks=(0,)), failed(ranks=(1,)), 1, "other-rank", id="another rank failed first"),
        pytest.param(failed(ranks=(0,)), failed(ranks=(0, 1)), 2, "same", id="ranks that no clock tells apart are no other rank"),
        pytest.param(failed(**UNKNOWN, ranks=(0,)), failed(**UNKNOWN, ranks=(1,)), 1, "other-rank", id="unknown twice, another rank first"),
        pytest.param(failed(**UNKNOWN), failed(**UNKNOWN), 2, "same-unknown", id="unknown twice, blocks equal (decision record 5)"),
        pytest.param(failed(**UNKNOWN), failed(**UNKNOWN, block_digest="d2"), 1, "other-unknown", id="unknown twice, blocks differ"),
        pytest.param(failed(), failed(stack=STACK[:1]), 1, "other-stack", id="other stack position"),
        pytest.param(failed(), failed(warnings=()), 1, "other-warnings", id="a warning less"),
        pytest.param(failed(), failed(warnings=("a warning", "another")), 1, "other-warnings", id="a warning more"),
        pytest.param(failed(), failed(stage=Stage.ENGINE_INIT), 0, "other-stage", id="the failure moved on"),
        pytest.param(failed(), READY, 0, "other-outcome", id="failed, then ready"),
        pytest.param(READY, failed(), 0, "other-outcome", id="ready, then failed"),
        pytest.param(failed(outcome=Outcome.STOPPED_BY_LIMIT), failed(), 2, "same", id="stopped by a limit is observed"),
        pytest.param(failed(outcome=Outcome.NOT_OBSERVED), failed(), None, "not-observed", id="earlier not observed"),
        pytest.param(failed(), failed(outcome=Outcome.NOT_OBSERVED), None, "not-observed", id="later not observed"),
        pytest.param(READY, failed(outcome=Outcome.NOT_OBSERVED), None, "not-observed", id="not observed comes before other outcome"),
    ],
)  # fmt: skip
def test_score_of_two_attempts(earlier: Observed, later: Observed, expected: int | None, row: str) -> None:
    result = score(earlier, later)
    assert (result.score, result.row) == (expected, row)
    assert next(r for r in ROWS if r.id == row).score == expected
    assert next(r for r in ROWS if r.id == row).text in result.why


def test_attempts_of_two_baselines_are_refused_with_both_names() -> None:
    one, other = (Observed(letter * 64, Outcome.FAILED, finding()) for letter in "ab")
    with pytest.raises(BaselineMismatch) as caught:
        score(one, other)
    assert str(caught.value) == f"expected attempts of one baseline, found {'a' * 12} and {'b' * 12}"


def test_a_zero_that_moved_with_the_load_says_so() -> None:
    for later in (
        failed(stage=Stage.ENGINE_INIT, tenants=("container x",)),
        failed(stage=Stage.ENGINE_INIT, moved=True),
    ):
        assert score(failed(), later).why == (
            "the attempts failed in different stages: weight_loading, then engine_init"
            "; one cause all the same: weight_files_bad; it moved with the load on the node"
        )
        assert score(later, failed()).why.endswith("; it moved with the load on the node")
    assert "moved with" not in score(failed(), failed(stage=Stage.ENGINE_INIT)).why
    assert "moved with" not in score(failed(), failed(tenants=("container x",))).why


def test_logs_from_elsewhere_say_nothing_about_the_load_on_a_node() -> None:
    earlier = Observed("b1", Outcome.FAILED, finding())
    later = Observed("b1", Outcome.FAILED, finding(stage=Stage.ENGINE_INIT))
    assert "moved with" not in score(earlier, later).why


def test_one_cause_in_two_places_is_named_and_the_score_stays() -> None:
    driver = {"error_class": ErrorClass.DRIVER_BELOW_BOUNDARY}
    result = score(failed(stage=Stage.CONTAINER_INIT, **driver), failed(stage=Stage.DEVICE_RECOGNITION, **driver))
    assert (result.score, result.one_cause) == (0, True)
    assert result.why.endswith("one cause all the same: driver_below_boundary")
    assert score(failed(), failed(stack=())).one_cause
    assert not score(failed(), failed()).one_cause
    assert not score(failed(**UNKNOWN), failed(**UNKNOWN, stage=Stage.ENGINE_INIT)).one_cause
    assert not score(failed(), failed(stage=Stage.ENGINE_INIT, error_class=ErrorClass.OOM_ENGINE_INIT)).one_cause


def test_the_reason_names_what_differs() -> None:
    assert "weight_loading, then engine_init" in score(failed(), failed(stage=Stage.ENGINE_INIT)).why
    assert "failed, then ready" in score(failed(), READY).why
    assert "weight_files_bad, then unknown" in score(failed(), failed(**UNKNOWN)).why
    assert "another" in score(failed(), failed(warnings=("a warning", "another"))).why


def test_a_long_warning_is_cut() -> None:
    why = score(failed(warnings=()), failed(warnings=("w" * 200,))).why
    assert why.endswith(f"before the failure: {'w' * 120}")


def test_the_same_warnings_in_another_order_name_none() -> None:
    result = score(failed(warnings=("one", "two")), failed(warnings=("two", "one")))
    assert (result.score, result.why) == (1, "same stage, class and stack, other warnings before the failure")


def test_two_failures_without_an_error_in_the_log_are_not_ready_twice() -> None:
    silent = failed(error_class=ErrorClass.NONE)
    assert score(silent, silent).row == "same"


def test_the_table_is_in_the_order_it_is_asked() -> None:
    assert [row.id for row in ROWS] == [
        "baseline", "not-observed", "other-outcome", "other-stage", "both-ready", "other-class",
        "other-rank", "same-unknown", "other-unknown", "other-stack", "other-warnings", "same",
    ]  # fmt: skip


def test_no_score_is_given_where_nothing_can_be_compared() -> None:
    assert {row.id for row in ROWS if row.score is None} == {"baseline", "not-observed"}
