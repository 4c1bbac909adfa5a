"""A container engine that does not answer holds up no cancel; what it makes late is undone."""

from __future__ import annotations

import threading
import time

import pytest

from workers.errors import JobCancelled, StartFailed
from workers.jobs.waiting import while_asked_for


def nothing() -> None:
    return


def test_what_the_call_returns_or_raises_comes_back() -> None:
    assert while_asked_for(lambda: 7, check=nothing, undo=pytest.fail) == 7

    def refused() -> int:
        raise StartFailed("no such image")

    with pytest.raises(StartFailed, match="no such image"):
        while_asked_for(refused, check=nothing, undo=pytest.fail)


def test_a_cancel_does_not_wait_and_what_was_made_late_is_undone_once() -> None:
    answer, undone = threading.Event(), threading.Event()
    made: list[str] = []

    def slow() -> str:
        assert answer.wait(30)
        return "container"

    def undo(late: str) -> None:
        made.append(late)
        undone.set()

    def cancelled() -> None:
        raise JobCancelled("called off by U1")

    with pytest.raises(JobCancelled):
        while_asked_for(slow, check=cancelled, undo=undo)
    assert made == []
    answer.set()
    assert undone.wait(30)
    assert made == ["container"]


def test_a_late_refusal_is_nobodys() -> None:
    answer, ended = threading.Event(), threading.Event()

    def slow() -> str:
        answer.wait(30)
        ended.set()
        raise StartFailed("late")

    def cancelled() -> None:
        raise JobCancelled("called off")

    with pytest.raises(JobCancelled):
        while_asked_for(slow, check=cancelled, undo=pytest.fail)
    answer.set()
    assert ended.wait(30)


@pytest.mark.parametrize("round_", range(30))
def test_at_the_very_moment_of_the_cancel_it_is_either_kept_or_undone(round_: int) -> None:
    undone: list[int] = []
    over = threading.Event()

    def call() -> int:
        time.sleep(0.2 + (round_ - 15) * 0.0005)
        over.set()
        return 7

    def cancelled() -> None:
        raise JobCancelled("called off")

    try:
        kept = [while_asked_for(call, check=cancelled, undo=undone.append)]
    except JobCancelled:
        kept = []
    assert over.wait(30)
    until = time.monotonic() + 5
    while not kept and not undone and time.monotonic() < until:
        time.sleep(0.005)
    assert (kept, undone) in (([7], []), ([], [7]))
