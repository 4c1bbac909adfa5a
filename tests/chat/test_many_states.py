"""Generated incident states: everything that is said of them, in every language, is what Slack takes."""

from __future__ import annotations

import pytest

from benchmarks.states import broken_of

STATES = 40
"""States of this run; `python benchmarks/states.py` tries ten thousand."""


@pytest.mark.parametrize("seed", range(STATES))
def test_nothing_said_of_a_state_breaks_a_limit(seed: int) -> None:
    assert broken_of(seed) == []
