"""Limits of a launch as people type them."""

from __future__ import annotations

import pytest

from playbooks.catalog import load_playbook
from playbooks.errors import InvalidCommand
from playbooks.guiding.limit_words import LONGEST_S, in_words, limits_with
from playbooks.vocabulary import Stage

K3 = load_playbook("kimi-k3").limits


@pytest.mark.parametrize(
    ("text", "stage", "total", "silence"),
    [
        pytest.param("weight_loading 5400", Stage.WEIGHT_LOADING, 5400, 600, id="the total; the silence stays"),
        pytest.param("engine_init=3600/1800", Stage.ENGINE_INIT, 3600, 1800, id="both"),
        pytest.param("weight_loading: 300", Stage.WEIGHT_LOADING, 300, 300, id="shorter than the silence was"),
        pytest.param("endpoint_ready 60 / 30\nengine_init 20", Stage.ENDPOINT_READY, 60, 30, id="several, on lines"),
    ],
)
def test_what_is_typed_stands_in_place_of_the_playbooks(text: str, stage: Stage, total: int, silence: int) -> None:
    found = limits_with(text, K3)
    assert (found.stages[stage].total_s, found.stages[stage].silence_s) == (total, silence)
    assert found.stages[Stage.CONTAINER_INIT] == K3.stages[Stage.CONTAINER_INIT]
    assert f"{stage.value} {total}/{silence}" in in_words(found, K3)


def test_the_launch_may_take_as_much_longer_as_its_stages_and_never_shorter() -> None:
    assert limits_with("weight_loading 5400", K3).total_s == K3.total_s + 3000
    assert limits_with("weight_loading 60", K3).total_s == K3.total_s
    assert limits_with(f"weight_loading {LONGEST_S}", K3).total_s == LONGEST_S


def test_nothing_typed_is_the_playbooks() -> None:
    assert limits_with(" \n, ", K3) == K3
    assert in_words(K3, K3) == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("loading 5400", "expected a stage"),
        ("weight_loading", "expected a stage"),
        ("weight_loading ten", "expected a stage"),
        ("serving 100", "expected a stage"),
        ("weight_loading 1", "expected 10 to 86400 seconds, found 1"),
        ("weight_loading 999999", "found 999999"),
        ("weight_loading 600/5", "found 5"),
        ("weight_loading 600/700", "a silence of at most 600 seconds"),
    ],
)
def test_what_is_no_limit_is_said(text: str, says: str) -> None:
    with pytest.raises(InvalidCommand, match=says):
        limits_with(text, K3)
