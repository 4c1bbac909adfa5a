"""A closed case: says once how it ended and what was decided, and offers nothing that would change it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.blocks.dashboard import dashboard
from bot.blocks.evidence import evidence
from bot.blocks.texts import translator
from bot.errors import Refused
from bot.flows import forms
from bot.flows.close_incident import close_incident
from bot.flows.show_status import show_next, show_run, show_status
from playbooks.evidence.entries import IncidentClosed
from playbooks.vocabulary import DecisionKind
from tests.support.bot_services import TestBot, make_bot, open_case
from tests.support.cases import CaseLines, frozen_scene
from tests.support.conversation import a_dashboard, recorded
from tests.support.people import approver, responder, said, words

EN = translator("en")


@pytest.fixture
def bot(tmp_path: Path) -> Iterator[TestBot]:
    made = make_bot(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def closed(bot: TestBot) -> str:
    case = open_case(bot)
    close_incident(bot.services, responder(), case, reason="the files are copied anew")
    return case


def overtaken() -> CaseLines:
    """A record whose approved decision is followed by a hold and the closing."""
    return (
        frozen_scene()
        .proposed(headline="Fix the files, as the one change.")
        .approved()
        .proposed("hold", headline="Hold: the last two attempts differ.")
        .add(IncidentClosed(reason="copied anew", decision=DecisionKind.FIX_FILES))
    )


@pytest.mark.parametrize("ask", [show_next, show_status, show_run], ids=["next", "status", "run"])
def test_what_is_answered_offers_the_bundle_and_no_closing(
    bot: TestBot, closed: str, ask: Callable[..., object]
) -> None:
    answer = said(ask(bot.services, responder(), closed))
    assert "Close the case" not in answer
    assert "Run an attempt" not in answer
    assert "Next:" not in answer
    assert "Export bundle" in answer


def test_the_parent_says_once_that_it_is_closed_and_how_it_ended(bot: TestBot, closed: str) -> None:
    text = show_status(bot.services, responder(), closed).blocks[0]["text"]["text"]
    assert "*Closed:* the files are copied anew" in text
    assert "This case is closed" not in text


def test_parent_and_closing_entry_name_one_decision() -> None:
    lines = overtaken()
    parent, entry = said(dashboard(a_dashboard(lines), EN)), said(evidence(recorded(lines), EN))
    approved = lines.seq - 3
    assert f"Decision: approved _Fix the files, as the one change._ #{approved}" in parent
    assert "Hold" not in parent
    assert f"Decided: fix the model files (#{approved})." in entry


def test_a_case_closed_on_a_proposal_nobody_approved_waits_for_no_approver() -> None:
    parent = said(dashboard(a_dashboard(frozen_scene().proposed().add(IncidentClosed(reason="done"))), EN))
    assert "Decision: none was approved" in parent
    assert "waits for an approver" not in parent


@pytest.mark.parametrize(
    ("form", "arguments"),
    [
        pytest.param(forms.answer_form, ("cluster-owner",), id="answer"),
        pytest.param(forms.attempt_form, (), id="run an attempt"),
        pytest.param(forms.review_form, (), id="review the decision"),
        pytest.param(forms.reason_form, ("close",), id="close"),
        pytest.param(forms.reason_form, ("skip",), id="skip the phase"),
        pytest.param(forms.hand_over_form, (), id="hand over"),
    ],
)
def test_an_old_button_is_refused_before_its_form_opens(
    bot: TestBot, closed: str, form: Callable[..., Any], arguments: tuple[str, ...]
) -> None:
    with pytest.raises(Refused) as refused:
        form(bot.services, approver(), closed, *arguments)
    assert f"{closed} is closed" in words(refused)
