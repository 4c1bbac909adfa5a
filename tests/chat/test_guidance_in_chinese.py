"""The guidance in Chinese: next steps, open items, gate, decisions - no English sentence of the playbook or the core."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bot.blocks import modals, notices, overview
from bot.blocks.dashboard import dashboard
from bot.blocks.evidence import evidence
from bot.blocks.sentences import NUMBERED, TEMPLATES, taken_apart
from bot.blocks.texts import LANGUAGES, Mrkdwn, translator
from bot.flows.set_language import set_language
from bot.flows.show_status import show_next, show_status
from playbooks.catalog import load_playbook
from playbooks.errors import PhaseClosed
from playbooks.evidence.entries import ScoreGiven
from playbooks.guiding.checklist import items
from playbooks.guiding.decision import decide, facts_of
from playbooks.guiding.gate import evaluate, may_attempt, may_enter
from playbooks.vocabulary import DriverVerdict, JobKind, Outcome, Phase
from tests.support.bot_services import NODE, make_bot, open_case, say_hello
from tests.support.cases import CaseLines, docker_baseline, frozen_scene
from tests.support.conversation import EVIL, a_dashboard, recorded
from tests.support.core_texts import decision_texts, playbook_texts, sentences, unnamed
from tests.support.people import viewer

HANS = translator("zh-Hans")
OTHERS = [language for language in LANGUAGES if language != "en"]
CODE = re.compile(r"`[^`]*`")
ENGLISH = re.compile(r"(?:\b[A-Za-z][a-z']*[ ,;]+){3}[a-z]+")
"""Four words in a row."""
CHINESE = re.compile(r"[\u4e00-\u9fff]")
B = docker_baseline()
MOVED = ScoreGiven(
    earlier=1,
    later=2,
    score=0,
    row="other-stage",
    why="the attempts failed in different stages: weight_loading, then engine_init; it moved with the load on the node",
)


def english(shown: object) -> list[str]:
    """The runs of English words that a reader sees, outside of code."""
    said = shown.payload() if hasattr(shown, "payload") else shown
    plain = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    return ENGLISH.findall(CODE.sub("", plain.replace("Kimi K3 does not start", "")))


def launched(*outcomes: Outcome) -> CaseLines:
    lines = frozen_scene().boundary().entered(Phase.BOUNDARY).entered(Phase.LAUNCH).frozen(B)
    for number, outcome in enumerate(outcomes, 1):
        lines.attempt(number, B, outcome)
    return lines


def proposal(lines: CaseLines) -> CaseLines:
    return lines.add(decide(facts_of(lines.case)).proposal())


FAILED_TWICE = (Outcome.FAILED, Outcome.FAILED)
CASES = [
    pytest.param(CaseLines().opened(), id="just opened"),
    pytest.param(CaseLines().opened(node=None), id="opened without a node"),
    pytest.param(CaseLines().opened().ask(JobKind.FINGERPRINT), id="a fingerprint runs"),
    pytest.param(frozen_scene(), id="the scene is frozen"),
    pytest.param(frozen_scene().entered(Phase.BOUNDARY).boundary(DriverVerdict.BLOCKED), id="the driver is blocked"),
    pytest.param(frozen_scene().boundary().entered(Phase.LAUNCH), id="no baseline"),
    pytest.param(launched(), id="a baseline, no attempt"),
    pytest.param(launched(Outcome.FAILED), id="one attempt"),
    pytest.param(launched(*FAILED_TWICE).score(1, 2, 2), id="fails repeatedly"),
    pytest.param(launched(*FAILED_TWICE).add(MOVED, "bot"), id="the outcome moved"),
    pytest.param(proposal(launched(*FAILED_TWICE).score(1, 2, 2)), id="proposed"),
    pytest.param(proposal(launched(*FAILED_TWICE).score(1, 2, 2)).approved(), id="approved"),
    pytest.param(launched(Outcome.READY, Outcome.READY).score(1, 2, 2), id="ready twice"),
    pytest.param(
        launched(Outcome.READY, Outcome.READY).score(1, 2, 2).entered(Phase.REGRESSION).requested(2),
        id="the request completes",
    ),
]


@pytest.mark.parametrize("lines", CASES)
def test_a_dashboard_and_the_open_items_hold_no_english_sentence(lines: CaseLines) -> None:
    view = a_dashboard(lines)
    playbook = load_playbook(lines.case.opened.payload.playbook)
    left = [row.text for row in evaluate(lines.case, playbook).items if not row.closed]
    listed = items(lines.case, playbook)
    item = next((one for one in listed if one.id == view.step.item), None)
    for shown in (
        dashboard(view, HANS),
        overview.status(view, listed, left, HANS),
        notices.question(lines.incident, view.step, item if view.step.kind == "answer" else None, HANS),
    ):
        assert english(shown) == []
        assert CHINESE.search(shown.text)


@pytest.mark.parametrize("phase", [Phase.BOUNDARY, Phase.LAUNCH, Phase.REGRESSION])
@pytest.mark.parametrize("lines", [CaseLines().opened(), frozen_scene().boundary()])
def test_a_refusal_lists_what_is_open_in_chinese(lines: CaseLines, phase: Phase) -> None:
    playbook = load_playbook("kimi-k3")
    refused: list[str] = []
    for gate in (lambda: may_enter(lines.case, playbook, phase), lambda: may_attempt(lines.case, playbook)):
        try:
            gate()
        except PhaseClosed as error:
            refused += error.items
    assert refused
    shown = notices.open_items(Mrkdwn("-"), refused, HANS)
    assert english(shown) == []
    assert all(CHINESE.search(HANS.told(text)) for text in refused)


def test_every_form_of_the_checklist_reads_chinese() -> None:
    for item in items(CaseLines().opened().case, load_playbook("kimi-k3")):
        assert english(modals.answer("INC-0042", item, HANS)) == [], item.id


def test_the_form_is_not_filled_with_why_an_item_was_not_asked() -> None:
    item = next(one for one in items(CaseLines().opened().case, load_playbook("kimi-k3")) if one.id == "cluster-owner")
    assert item.value
    assert item.value not in json.dumps(modals.answer("INC-0042", item, translator("en")))


def test_an_answer_is_recorded_under_its_chinese_label() -> None:
    shown = evidence(recorded(CaseLines().opened().answer("cluster-owner", "platform")), HANS)
    assert "集群归谁负责：platform" in shown.text


def test_a_decision_gives_its_reasons_in_chinese_and_keeps_identifiers_and_numbers() -> None:
    lines = proposal(launched(*FAILED_TWICE).score(1, 2, 2))
    shown = evidence(recorded(lines), HANS)
    assert english(shown) == []
    said = json.dumps(shown.payload(), ensure_ascii=False)
    assert "修复文件，作为唯一改变" in said
    assert "首个失败能重复，得分 2：weight_loading, model_path_not_found (#" in said
    assert "其类别指向 fix_files：model_path_not_found (#" in said
    assert english(modals.review("INC-0042", lines.case.proposals[-1], HANS)) == []


def test_a_driver_that_does_not_fit_says_why_in_chinese() -> None:
    lines = frozen_scene().entered(Phase.BOUNDARY).boundary(DriverVerdict.BLOCKED)
    lines.answer("node-drain", "no").answer("maintenance-window", "none")
    said = json.dumps(evidence(recorded(proposal(lines)), HANS).payload(), ensure_ascii=False)
    assert "本集群现在无法变更：节点不能排空, 没有窗口" in said


@pytest.mark.parametrize(
    ("why", "shown"),
    [
        ("the attempts failed in different stages: a, then b", "两次启动失败于不同阶段：先 a，后 b"),
        (
            "same stage, other error class: a, then b; it moved with the load on the node",
            "先 a，后 b; 它随节点负载变化",
        ),
        ("same stage and class, other stack position; one cause all the same: oom", "堆栈位置不同; 但原因相同：oom"),
    ],
)
def test_a_score_says_why_in_chinese(why: str, shown: str) -> None:
    assert shown in HANS.reason(why)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_reason_loses_nothing(language: str) -> None:
    _ = translator(language)
    for reason in ("somebody's own words: a, b (#3)", "no words of ours", "of (#3) no form: "):
        assert _.reason(reason) == reason


def test_english_stays_as_it_was_said() -> None:
    _ = translator("en")
    for text in playbook_texts() | decision_texts() | sentences()[0]:
        assert _.told_plain(text) == _.reason(text) == text


def test_templates_are_what_the_core_says_with_values() -> None:
    assert unnamed(tuple(t for t in TEMPLATES if t != NUMBERED)) == sentences()[1]


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_sentence_with_values_is_taken_apart_and_said_again(template: str, language: str) -> None:
    names = re.findall(r"\{(\w+)\}", template)
    values = {name: f"{number}7" for number, name in enumerate(names, 1)}
    said = template.format(**values)
    assert taken_apart(said) == (template, values)
    shown = translator(language).told_plain(said)
    assert all(value in shown for value in values.values())
    assert template == NUMBERED or CHINESE.search(shown)


def test_what_a_person_wrote_cannot_ping_from_within_a_sentence() -> None:
    shown = HANS.told(f"Take out {EVIL}: features come back one at a time, on a stable baseline.")
    assert "移除" in shown
    assert "<!channel>" not in shown


def test_a_person_who_chose_chinese_is_led_in_chinese(tmp_path: Path) -> None:
    bot = make_bot(tmp_path)
    say_hello(bot)
    case = open_case(bot, node=NODE)
    set_language(bot.services, viewer(), "zh-Hans")
    for shown in (show_next(bot.services, viewer(), case), show_status(bot.services, viewer(), case)):
        assert english(shown) == []
    bot.store.close()


@pytest.mark.parametrize(
    ("language", "says"),
    [("zh-Hans", "只有响应人或批准人可以打开工单；您在这里是查看者。"), ("zh-Hant", "您在這裡是查看者")],
)
def test_a_refusal_of_a_role_is_said_in_chinese(language: str, says: str) -> None:
    said = "Only a responder or an approver may open a case; you are a viewer here."
    assert says in translator(language).told(said)


def test_what_a_feature_probe_proves_is_said_in_chinese() -> None:
    _ = translator("zh-Hans")
    assert (
        _.reason("19 of 20 tries; what works now and then does not work") == "20 次尝试中 19 次成功；时好时坏就是不可用"
    )
    assert _.reason("this engine was not started for it: tiny is not a multimodal model").startswith(
        "此引擎启动时没有开启它"
    )
