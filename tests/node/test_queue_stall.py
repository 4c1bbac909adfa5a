"""When a queue process counts as deaf: jobs wait, none runs, look after look."""

from __future__ import annotations

import pytest

from workers.adapters.queue_stall import PATIENCE, Stall

Looks = list[tuple[int | None, bool]]


@pytest.mark.parametrize(
    ("looks", "deaf"),
    [
        pytest.param([(1, False)] * PATIENCE, True, id="jobs wait and none runs"),
        pytest.param([(1, False)] * (PATIENCE - 1), False, id="not yet for long enough"),
        pytest.param([(1, True)] * (PATIENCE + 1), False, id="a job runs, the others wait their turn"),
        pytest.param([(0, False)] * (PATIENCE + 1), False, id="nothing waits"),
        pytest.param([(None, False)] * (PATIENCE + 1), False, id="the broker does not answer"),
        pytest.param(
            [(1, False)] * (PATIENCE - 1) + [(0, False)] + [(1, False)] * (PATIENCE - 1),
            False,
            id="it took one in between",
        ),
    ],
)
def test_a_queue_process_is_deaf(looks: Looks, deaf: bool) -> None:
    waiting = iter([count for count, _ in looks])
    busy = iter([runs for count, runs in looks if count])
    stall = Stall(lambda: next(waiting), lambda: next(busy))
    assert [stall.look() for _ in looks][-1] is deaf
