"""kill -9 of bot, broker, worker and the worker's child during launches: nothing left, nothing run twice, the truth told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kill_rounds import rounds

COUNT, SEED = 24, 20261201
"""A fixed part of what `benchmarks/kills.py` plays; another seed gives other victims and moments."""


@pytest.mark.services
@pytest.mark.timeout(1500)
def test_a_process_killed_during_a_launch_leaves_nothing_and_starts_nothing_twice(tmp_path: Path) -> None:
    assert rounds(tmp_path, count=COUNT, seed=SEED, say=print) == []
