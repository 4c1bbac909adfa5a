"""Roles that are given to user groups: read from Slack, remembered for an hour, failing closed and saying so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot.adapters.slack_calls import SlackCalls, web_client
from bot.adapters.slack_groups import HOLDS_S, SlackGroups
from bot.adapters.slack_pace import Pace
from bot.errors import Refused
from bot.flows.answer_item import answer_item
from bot.flows.permission import users_with
from bot.flows.services import People
from playbooks.vocabulary import Role
from tests.support.bot_services import TestBot, make_bot, open_case
from tests.support.fake_slack import FakeSlack, fake_slack
from tests.support.people import responder, words


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    with fake_slack() as made:
        made.groups = {"S0ONCALL": ["U0RESPOND", "U0NIGHT"], "S0LEADS": ["U0LEAD"]}
        yield made


class Now:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def groups_of(slack: FakeSlack, *names: str, now: Now | None = None) -> SlackGroups:
    calls = SlackCalls(web_client("xoxb-test", f"{slack.url}api"), Pace(lambda: 0.0))
    return SlackGroups(calls, frozenset(names), monotonic=now or Now())


def people(groups: SlackGroups) -> People:
    return People(frozenset({"S0ONCALL", "U0ALONE"}), frozenset({"S0LEADS"}), groups)


def test_members_have_the_role_of_their_group(slack: FakeSlack) -> None:
    groups = groups_of(slack, "S0ONCALL", "S0LEADS")
    assert groups.refresh()
    found = people(groups)
    assert {user: found.role_of(user) for user in ("U0NIGHT", "U0LEAD", "U0ALONE", "U0OTHER", "S0LEADS")} == {
        "U0NIGHT": Role.RESPONDER,
        "U0LEAD": Role.APPROVER,
        "U0ALONE": Role.RESPONDER,
        "U0OTHER": Role.VIEWER,
        "S0LEADS": Role.VIEWER,
    }
    assert users_with(found, (Role.APPROVER,)) == ["U0LEAD"]


def test_before_it_was_read_and_long_after_nobody_is_a_member(slack: FakeSlack) -> None:
    now = Now()
    groups = groups_of(slack, "S0LEADS", now=now)
    assert groups.members("S0LEADS") == frozenset()
    assert groups.unreadable == {"S0LEADS": "not read yet"}
    groups.refresh()
    slack.script["usergroups.users.list"] += ["no_such_subteam"]
    assert not groups.refresh()
    now.at = HOLDS_S - 1
    assert groups.members("S0LEADS") == {"U0LEAD"}, "what was read last holds for an hour"
    assert groups.unreadable == {}, "and nothing is said meanwhile"
    now.at = HOLDS_S + 1
    assert groups.members("S0LEADS") == frozenset()
    assert "no_such_subteam" in groups.unreadable["S0LEADS"]


def test_one_group_that_cannot_be_read_costs_no_other(slack: FakeSlack) -> None:
    groups = groups_of(slack, "S0ONCALL", "S0GONE")
    assert not groups.refresh()
    assert groups.members("S0ONCALL") == {"U0RESPOND", "U0NIGHT"}
    slack.groups["S0GONE"] = ["U0BACK"]
    assert groups.refresh()
    assert groups.unreadable == {}


def test_a_refusal_says_that_a_group_could_not_be_read(slack: FakeSlack, tmp_path: Path) -> None:
    bot: TestBot = make_bot(tmp_path)
    case = open_case(bot)
    groups = groups_of(slack, "S0GONE")
    groups.refresh()
    services = replace(bot.services, people=People(frozenset({"S0GONE"}), frozenset(), groups))
    with pytest.raises(Refused) as refused:
        answer_item(services, responder("say:1"), case, "change-history", value="none")
    assert "Members of S0GONE could not be read from Slack" in words(refused)


def test_a_group_without_slack_gives_nobody_a_role() -> None:
    assert People(frozenset({"S0ONCALL"}), frozenset()).role_of("S0ONCALL") is Role.VIEWER
