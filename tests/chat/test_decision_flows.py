"""Decisions in the thread: proposed by rules, judged by a second person, void when something newer arrived."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.errors import Refused, Repeated
from bot.flows.ask_people import ask_about
from bot.flows.close_incident import close_incident, hand_over
from bot.flows.judge_decision import Judgement, judge_decision
from bot.flows.propose_decision import propose_decision
from bot.flows.services import People
from bot.flows.showing import Asker
from bot.ports import OutboxKind
from playbooks.evidence.entries import DecisionProposed, LogAnalysed
from playbooks.vocabulary import DecisionKind
from tests.support.bot_services import APPROVER, RESPONDER, TestBot, a_finding, kinds, make_bot, open_case, payloads
from tests.support.people import (
    CHANNEL,
    OTHER_APPROVER,
    VIEWER,
    approver,
    outbox,
    record,
    responder,
    said,
    viewer,
    words,
)

PROPOSAL = DecisionProposed(
    kind=DecisionKind.ISOLATE, rule="D-01", headline="isolate now", reasons=["below the boundary (#2)"]
)


@pytest.fixture
def bot(tmp_path: Path) -> Iterator[TestBot]:
    made = make_bot(tmp_path, people=People(frozenset({RESPONDER}), frozenset({APPROVER, OTHER_APPROVER})))
    yield made
    made.store.close()


def proposed(bot: TestBot, by: str = RESPONDER) -> tuple[str, int]:
    case = open_case(bot)
    record(bot, case, PROPOSAL, actor=f"user:{by}")
    return case, 2


def judge(bot: TestBot, case: str, seq: int, asker: Asker, *, approve: bool = True, reason: str = "") -> str:
    return judge_decision(bot.services, asker, case, Judgement(seq, approve, reason)).text


def test_a_case_that_knows_too_little_is_held_and_says_what_is_missing(bot: TestBot) -> None:
    case = open_case(bot)
    propose_decision(bot.services, responder(), case)
    hold = payloads(bot, case, "decision:proposed")[0]
    assert hold["kind"] == "hold"
    assert hold["missing"]
    with pytest.raises(Refused) as refused:
        judge(bot, case, 2, approver())
    assert "hold is no decision" in words(refused)


def test_proposing_again_with_nothing_new_adds_nothing(bot: TestBot) -> None:
    case = open_case(bot)
    propose_decision(bot.services, responder(), case)
    assert "Nothing new" in propose_decision(bot.services, responder(), case).text
    assert kinds(bot, case).count("decision:proposed") == 1


def test_another_approver_approves(bot: TestBot) -> None:
    case, seq = proposed(bot)
    assert "#3" in judge(bot, case, seq, approver())
    assert payloads(bot, case, "decision:approved")[0]["proposal"] == seq


@pytest.mark.parametrize(
    ("who", "proposer", "owner", "expected"),
    [
        pytest.param(VIEWER, RESPONDER, RESPONDER, "approver", id="a viewer"),
        pytest.param(RESPONDER, OTHER_APPROVER, OTHER_APPROVER, "approver", id="a responder"),
        pytest.param(APPROVER, APPROVER, RESPONDER, "proposed it", id="the proposer"),
        pytest.param(APPROVER, RESPONDER, APPROVER, "own the case", id="the owner"),
    ],
)
def test_who_may_not_approve_is_told_why_and_who_could(
    bot: TestBot, who: str, proposer: str, owner: str, expected: str
) -> None:
    case, seq = proposed(bot, proposer)
    if owner != RESPONDER:
        hand_over(bot.services, responder(), case, to=owner)
    with pytest.raises(Refused) as refused:
        judge(bot, case, seq, Asker(who, CHANNEL))
    assert expected in words(refused)
    assert OTHER_APPROVER in words(refused)
    assert "decision:approved" not in kinds(bot, case)


def test_a_newer_report_makes_the_proposal_void(bot: TestBot) -> None:
    case, seq = proposed(bot)
    finding = a_finding("c" * 64).model_dump(mode="json")
    record(bot, case, LogAnalysed(sha256="a" * 64, name="new.log", finding=finding), actor=f"user:{RESPONDER}")
    with pytest.raises(Refused) as refused:
        judge(bot, case, seq, approver())
    assert "newer report arrived (#3)" in words(refused)


def test_a_replaced_proposal_is_refused_with_the_newer_one(bot: TestBot) -> None:
    case, seq = proposed(bot)
    record(bot, case, PROPOSAL.model_copy(update={"headline": "upgrade"}), actor=f"user:{RESPONDER}")
    with pytest.raises(Refused) as refused:
        judge(bot, case, seq, approver())
    assert "#3" in words(refused)


def test_a_second_approver_is_told_by_whom_and_when_it_was_approved(bot: TestBot) -> None:
    case, seq = proposed(bot)
    judge(bot, case, seq, approver())
    with pytest.raises(Refused) as refused:
        judge(bot, case, seq, approver(user=OTHER_APPROVER))
    assert f"Already approved by <@{APPROVER}>" in words(refused)
    assert "02:41 UTC" in words(refused)


def test_one_press_delivered_three_times_approves_once(bot: TestBot) -> None:
    case, seq = proposed(bot)
    judge(bot, case, seq, approver("press:1"))
    for _again in range(2):
        with pytest.raises((Repeated, Refused)):
            judge(bot, case, seq, approver("press:1"))
    assert kinds(bot, case).count("decision:approved") == 1


def test_a_rejection_needs_its_reason(bot: TestBot) -> None:
    case, seq = proposed(bot)
    with pytest.raises(Refused):
        judge(bot, case, seq, approver(), approve=False, reason=" ")
    judge(bot, case, seq, approver(), approve=False, reason="drain is possible today")
    assert payloads(bot, case, "decision:rejected")[0]["reason"] == "drain is possible today"


def test_what_was_decided_is_kept_with_the_closing(bot: TestBot) -> None:
    case, seq = proposed(bot)
    judge(bot, case, seq, approver())
    close_incident(bot.services, responder(), case, reason="isolated on gpu-b2")
    assert payloads(bot, case, "incident:closed")[0]["decision"] == "isolate"


def test_a_question_names_proposer_and_owner(bot: TestBot) -> None:
    case, seq = proposed(bot)
    ask_about(bot.services, viewer(), case, str(seq))
    asked = said(outbox(bot, OutboxKind.NOTE)[-1])
    assert VIEWER in asked
    assert f"<@{RESPONDER}>" in asked


def test_who_proposed_and_owns_the_case_is_named_once(bot: TestBot) -> None:
    case, seq = proposed(bot)
    told = said(ask_about(bot.services, viewer(), case, str(seq)))
    asked = outbox(bot, OutboxKind.NOTE)[-1]
    assert f"<@{RESPONDER}>: please look here." in asked["text"]
    assert asked["text"].count(f"<@{RESPONDER}>") == 1
    assert f"Told of it: <@{RESPONDER}>." in told


def test_two_people_are_both_named(bot: TestBot) -> None:
    case, seq = proposed(bot, OTHER_APPROVER)
    ask_about(bot.services, viewer(), case, str(seq))
    assert f"<@{OTHER_APPROVER}>, <@{RESPONDER}>: please look here." in outbox(bot, OutboxKind.NOTE)[-1]["text"]


def test_empty_lists_fail_closed(tmp_path: Path) -> None:
    bot = make_bot(tmp_path, people=People())
    case = open_case(bot)
    with pytest.raises(Refused) as refused:
        propose_decision(bot.services, responder(), case)
    assert "BASELINE_RESPONDERS" in words(refused)
    bot.store.close()
