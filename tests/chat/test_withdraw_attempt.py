"""A log that was dropped into the wrong case: its attempt is withdrawn by a new entry, and what rested on it counts no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.errors import Refused
from bot.flows.record_log import record_log
from bot.flows.show_status import show_score
from bot.flows.withdraw_attempt import withdraw_attempt
from tests.support.bot_services import TestBot, kinds, make_bot, open_case, payloads
from tests.support.people import another_run, record, responder, said, viewer, words


@pytest.fixture
def bot(tmp_path: Path) -> TestBot:
    return make_bot(tmp_path)


@pytest.fixture
def case(bot: TestBot) -> str:
    """A case with three recorded attempts of one failure."""
    opened = open_case(bot, node=None, command="vllm serve /models/none")
    for number in range(3):
        record_log(bot.services, responder(f"drop:{number}"), opened, name="engine.log", chunks=[another_run(number)])
    return opened


def scores(bot: TestBot, case: str) -> list[tuple[int, int]]:
    return [(one["earlier"], one["later"]) for one in payloads(bot, case, "score:given")]


def test_the_last_attempt_is_withdrawn_and_the_score_before_it_stands(bot: TestBot, case: str) -> None:
    assert scores(bot, case) == [(1, 2), (2, 3)]
    message = withdraw_attempt(bot.services, responder("say:1"), case, "3 it is the log of another service")
    assert "Attempt 3 is withdrawn" in message.text
    (gone,) = payloads(bot, case, "attempt:withdrawn")
    assert (gone["attempt"], gone["reason"]) == (3, "it is the log of another service")
    with bot.services.store.read() as reading:
        found = reading.incident(case)
    assert found is not None
    assert [(n.payload.earlier, n.payload.later) for n in found.case.scores] == [(1, 2)]
    assert "Score" in said(show_score(bot.services, responder(), case))


def test_of_three_the_middle_one_is_withdrawn_and_the_others_are_scored_anew(bot: TestBot, case: str) -> None:
    withdraw_attempt(bot.services, responder("say:1"), case, "#2: dropped twice by mistake")
    assert scores(bot, case)[-1] == (1, 3)


def test_the_first_one_leaves_the_newest_score_as_it_is(bot: TestBot, case: str) -> None:
    withdraw_attempt(bot.services, responder("say:1"), case, "1 not ours")
    assert scores(bot, case) == [(1, 2), (2, 3)]


def test_the_same_log_may_be_dropped_again_and_gets_a_number_of_its_own(bot: TestBot, case: str) -> None:
    withdraw_attempt(bot.services, responder("say:1"), case, "3 wrong thread")
    record_log(bot.services, responder("drop:9"), case, name="engine.log", chunks=[another_run(2)])
    assert [one["attempt"] for one in payloads(bot, case, "attempt:recorded")] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("said_", "expected"),
    [
        pytest.param("3", "a reason is needed", id="no reason"),
        pytest.param("", "no such recorded attempt", id="nothing"),
        pytest.param("7 because", "1, 2, 3", id="none of that number"),
        pytest.param("banana because", "no such recorded attempt", id="no number"),
    ],
)
def test_what_cannot_be_withdrawn_is_said_and_changes_nothing(
    bot: TestBot, case: str, said_: str, expected: str
) -> None:
    before = kinds(bot, case)
    with pytest.raises(Refused) as refused:
        withdraw_attempt(bot.services, responder("say:1"), case, said_)
    assert expected in words(refused)
    assert kinds(bot, case) == before


def test_what_a_node_observed_is_not_withdrawn(bot: TestBot, case: str) -> None:
    from playbooks.evidence.entries import AttemptRecorded
    from playbooks.vocabulary import Outcome
    from tests.support.cases import finding

    observed = AttemptRecorded(
        attempt=4, baseline_digest="b" * 64, origin="observed", outcome=Outcome.READY, finding=finding()
    )
    record(bot, case, observed)
    with pytest.raises(Refused) as refused:
        withdraw_attempt(bot.services, responder("say:1"), case, "4 I do not like it")
    assert "What a node observed" in words(refused)


def test_a_viewer_withdraws_nothing(bot: TestBot, case: str) -> None:
    with pytest.raises(Refused):
        withdraw_attempt(bot.services, viewer("say:1"), case, "3 because")
