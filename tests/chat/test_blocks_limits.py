"""Slack's limits: the validator knows them, and no text that a log or a person can bring breaks them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.blocks import analysis
from bot.blocks.dashboard import dashboard
from bot.blocks.elements import Message, Ref, actions, button, context, menu, option, section, select_input, text_input
from bot.blocks.evidence import evidence
from bot.blocks.limits import MESSAGE_CHARS, fit, view_violations, violations
from bot.blocks.texts import Mrkdwn, code, code_block, cut, cut_marked, esc, joined, person, short, translator
from playbooks.judging.finding import Finding
from tests.support.cases import CaseLines, docker_baseline, finding, frozen_scene
from tests.support.conversation import EVIL, a_dashboard, recorded

EN = translator("en")
REF = Ref("INC-0042", "14")


def message(*blocks: dict[str, Any], text: str = "said") -> Message:
    return Message(text, blocks)


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        pytest.param(message(*[section(Mrkdwn("x"))] * 51), "51 blocks", id="too many blocks"),
        pytest.param(
            message({"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3001}}), "3001", id="a long section"
        ),
        pytest.param(
            message({"type": "section", "text": {"type": "mrkdwn", "text": ""}}), "more than 0", id="an empty section"
        ),
        pytest.param(message({"type": "section", "fields": [{"text": "x" * 2001}]}), "2001", id="a long field"),
        pytest.param(message({"type": "section", "fields": [{"text": "x"}] * 11}), "limit 10", id="too many fields"),
        pytest.param(message(*[section(Mrkdwn("x" * 2900))] * 4), "budget", id="too much text in all"),
        pytest.param(
            message(*actions([button("b", "v", REF), button("b", "v", REF)])), "twice", id="an action id twice"
        ),
        pytest.param(message({"type": "actions", "elements": []}), "limit 1..25", id="an empty row"),
        pytest.param(
            message(*actions([{"type": "button", "text": {"type": "plain_text", "text": "x" * 76}, "action_id": "a"}])),
            "76",
            id="a long button",
        ),
        pytest.param(
            message(*actions([{"type": "overflow", "action_id": "m", "options": [option("x", "y")] * 6}])),
            "limit 1..5",
            id="a long menu",
        ),
        pytest.param(message(context(Mrkdwn("hello <!channel>"))), "would ping", id="a ping"),
        pytest.param(message(section(Mrkdwn("x")), text=" "), "/text: empty", id="no text alone"),
    ],
)
def test_the_validator_names_what_slack_refuses(broken: Message, expected: str) -> None:
    assert any(expected in found for found in violations(broken))


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        pytest.param({"type": "modal", "title": {"text": "x" * 25}, "blocks": []}, "25", id="a long title"),
        pytest.param(
            {"type": "modal", "title": {"text": "x"}, "blocks": [text_input("a", "b")]},
            "submit",
            id="inputs without submit",
        ),
        pytest.param({"type": "modal", "private_metadata": "x" * 3001, "blocks": []}, "3001", id="long metadata"),
        pytest.param(
            {"type": "modal", "submit": {"text": "x"}, "blocks": [text_input("a", "b"), text_input("a", "b")]},
            "twice",
            id="a block id twice",
        ),
        pytest.param({"type": "home", "blocks": [section(Mrkdwn("x"))] * 101}, "101 blocks", id="too many blocks"),
        pytest.param(
            {"type": "home", "blocks": [section(Mrkdwn("汉" * 3000))] * 60}, "bytes, limit", id="too many bytes"
        ),
    ],
)
def test_the_validator_names_what_slack_refuses_in_a_view(view: dict[str, Any], expected: str) -> None:
    assert any(expected in found for found in view_violations(view))


def test_a_message_over_the_budget_is_cut_in_its_longest_text_and_keeps_its_buttons() -> None:
    blocks = [
        section(Mrkdwn("head")),
        *[section(code_block("x\n" * 900, max_lines=900, max_chars=2900))] * 4,
        *actions([button("b", "v", REF)]),
    ]
    fitted = fit(Message("t" * 5000, tuple(blocks)))
    assert violations(fitted) == []
    assert fitted.blocks[0] == blocks[0]
    assert fitted.blocks[-1] == blocks[-1]
    assert all(block["text"]["text"].count("```") % 2 == 0 for block in fitted.blocks if block["type"] == "section")
    assert len(fitted.text) < MESSAGE_CHARS


text = st.text(max_size=6000) | st.sampled_from(
    [EVIL, "x" * 6000, "\n" * 500, "`" * 100, "<!here>" * 300, "", "\x00\x1b[31m"]
)
short_text = st.text(max_size=300) | st.sampled_from([EVIL, "x" * 300])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(root=text, why=text, check=text, symptom=text, ranks=st.lists(short_text, max_size=30))
def test_no_log_text_breaks_or_pings_an_answer(root: str, why: str, check: str, symptom: str, ranks: list[str]) -> None:
    found = finding(
        "driver_below_boundary",
        "device_recognition",
        root_text=root,
        why=why,
        next_check=check,
        ranks=ranks,
        symptoms=[{"error_class": "oom_weight_load", "line": 1, "why": why, "text": symptom}] * 3,
    )
    answered = analysis.answer(analysis.Analysis(Finding.model_validate(found), "a" * 64, root, notes=(why,)), EN)
    assert violations(answered) == []
    b = docker_baseline()
    lines = (
        frozen_scene().frozen(b).attempt(1, b, found=found, changed=[why, root], tenants=ranks, left_behind=[symptom])
    )
    assert violations(evidence(recorded(lines), EN)) == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(title=text, fails=text, value=text, reasons=st.lists(text, max_size=12), headline=text)
def test_no_persons_text_breaks_or_pings_a_message(
    title: str, fails: str, value: str, reasons: list[str], headline: str
) -> None:
    lines = CaseLines().opened(command=fails, what_fails=fails)
    lines.lines[0].payload["title"] = title or "-"
    assert violations(evidence(recorded(lines), EN)) == []
    lines.answer("cluster-owner", value, note=fails)
    assert violations(evidence(recorded(lines), EN)) == []
    more = {
        "reasons": reasons,
        "would_change": reasons,
        "not_concluded": reasons,
        "missing": reasons,
        "headline": headline,
    }
    lines.proposed(**more)
    assert violations(evidence(recorded(lines), EN)) == []
    assert violations(dashboard(a_dashboard(lines), EN)) == []


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(esc("<b> & </b>"), "&lt;b&gt; &amp; &lt;/b&gt;", id="escaped once"),
        pytest.param(esc(esc("<")), "&lt;", id="and not twice"),
        pytest.param(code("a `b`\nc"), "`a 'b' c`", id="code in one line"),
        pytest.param(code_block("a```b\nc", max_lines=1), "```\na'b\n…\n```", id="a block that cannot be ended"),
        pytest.param(person("user:U1"), "<@U1>", id="a person"),
        pytest.param(person("user:<!here>"), "&lt;!here&gt;", id="no person"),
        pytest.param(person("node:gpu-a1"), "gpu-a1", id="a node"),
        pytest.param(short("sha256:" + "4" * 64), "`44444444…`", id="a digest"),
        pytest.param(joined([Mrkdwn("a"), Mrkdwn(""), Mrkdwn("b")]), "a\nb", id="joined without the empty"),
        pytest.param(cut("abcdef", 4), "abc…", id="cut"),
        pytest.param(cut_marked("abcdef", 4), "abc…", id="marked text, cut"),
        pytest.param(cut_marked("at <!date^17|x> on", 9), "at …", id="marked text, not cut inside a date"),
        pytest.param(cut_marked("a &amp; b", 5), "a …", id="marked text, not cut inside an entity"),
        pytest.param(cut_marked("<@U1> said so", 9), "<@U1> sa…", id="marked text, cut behind a mention"),
        pytest.param(EN("{a} and {b}", a="<x>", b=Mrkdwn("*y*")), "&lt;x&gt; and *y*", id="values are escaped"),
    ],
)
def test_texts(made: str, expected: str) -> None:
    assert made == expected


def test_selects_and_menus_hold_no_more_than_slack_takes() -> None:
    many = [option(f"node {n}", f"n{n}") for n in range(150)]
    assert len(select_input("node", "Node", many)["element"]["options"]) == 100
    assert len(menu("more", [(f"x{n}", REF) for n in range(9)])["options"]) == 5
