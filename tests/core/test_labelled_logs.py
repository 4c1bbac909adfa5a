"""The analyser on every labelled log: stage, class, root line, next action - and the score of every pair."""

from __future__ import annotations

import json

import pytest

from playbooks.catalog import load_catalogue
from playbooks.judging.first_failure import analyse_text
from playbooks.judging.stability import Observed, score
from playbooks.vocabulary import ErrorClass, Outcome
from tests.support.labels import LOGS, Label, labels

ALL = labels("real-vllm", "public")


@pytest.mark.parametrize("label", ALL, ids=lambda label: label.path.stem)
def test_the_first_failure_is_the_labelled_one(label: Label) -> None:
    assert label.wrong(analyse_text(label.data, load_catalogue())) == []


@pytest.mark.parametrize("label", ALL, ids=lambda label: label.path.stem)
def test_the_next_action_is_never_a_wrong_one(label: Label) -> None:
    assert not label.decision_wrong(analyse_text(label.data, load_catalogue()))


def test_a_next_action_is_given_for_nine_of_ten_failures() -> None:
    failures = [label for label in ALL if label.row["error_class"] != "none"]
    given = sum(analyse_text(label.data, load_catalogue()).decision is not None for label in failures)
    assert given >= 0.9 * len(failures)


PAIRS = [json.loads(line) for line in (LOGS / "real-vllm/pairs.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: f"{p['a']} then {p['b']}"[:70])
def test_a_pair_of_attempts_gets_its_score(pair: dict[str, object]) -> None:
    def observed(name: object) -> Observed:
        found = analyse_text((LOGS / "real-vllm" / str(name)).read_bytes(), load_catalogue())
        outcome = Outcome.READY if found.error_class is ErrorClass.NONE else Outcome.FAILED
        return Observed("one baseline", outcome, found)

    result = score(observed(pair["a"]), observed(pair["b"]))
    assert result.score == pair["score"], result.why
