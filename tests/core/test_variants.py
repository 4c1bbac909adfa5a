"""The verdict of a labelled log stays when the log is rendered in another way; a fixed part of all variants, the rest is in `benchmarks`."""

from __future__ import annotations

import pytest

from playbooks.catalog import load_catalogue
from playbooks.judging.first_failure import analyse_text
from tests.support.labels import labels
from tests.support.variants import ALL, varied

LABELS = labels("real-vllm", "public")
EVERY = 9
"""Each log comes with each ninth variant, another one for each log, so that all logs and all variants are met."""
CHOSEN = [
    (label, name)
    for number, label in enumerate(LABELS)
    for place, name in enumerate(ALL)
    if (number + place) % EVERY == 0
]


@pytest.mark.parametrize(("label", "name"), CHOSEN, ids=[f"{label.path.stem}-{name}" for label, name in CHOSEN])
def test_a_rendering_keeps_the_verdict(label, name: str) -> None:
    made = varied(label, name)
    if made is None:  # the rendering means nothing for this kind of input
        return
    data, moved = made
    assert moved.wrong(analyse_text(data, load_catalogue())) == []


def test_all_renderings_and_logs_are_met() -> None:
    assert {name for _, name in CHOSEN} == set(ALL)
    assert {label.path for label, _ in CHOSEN} == {label.path for label in LABELS}
    assert len(ALL) >= 20
