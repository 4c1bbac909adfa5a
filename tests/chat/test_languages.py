"""Three languages: complete catalogues, the same placeholders, chosen per person or channel."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po

from bot.blocks.evidence import evidence
from bot.blocks.limits import violations
from bot.blocks.sentences import TEMPLATES, WORDS
from bot.blocks.texts import LANGUAGES, translator
from bot.errors import Refused
from bot.flows.open_incident import Opening, open_incident
from bot.flows.set_language import set_language
from bot.flows.show_status import show_cases
from playbooks.vocabulary import Outcome
from tests.support.bot_services import make_bot
from tests.support.cases import docker_baseline, frozen_scene
from tests.support.conversation import recorded
from tests.support.core_texts import catalogue_texts, decision_texts, playbook_texts, sentences
from tests.support.people import responder, viewer

ROOT = Path(__file__).parents[2]
PLACEHOLDER = re.compile(r"\{\w+\}")
OTHERS = [language for language in LANGUAGES if language != "en"]


def source_texts() -> set[str]:
    keywords = {"_": None, "plain": None, "N_": None, "own": None}
    found: set[str] = set()
    for folder in ("blocks", "flows", "handlers", "adapters"):
        for _file, _line, message, _comments, _context in extract_from_dir(
            ROOT / "bot" / folder, method_map=[("**.py", "python")], keywords=keywords
        ):
            found.add(message if isinstance(message, str) else message[0])
    fixed, _with_values = sentences()
    return found | playbook_texts() | decision_texts() | catalogue_texts() | fixed | {*TEMPLATES, *WORDS}


def catalogue(language: str) -> dict[str, str]:
    with (ROOT / "bot" / "blocks" / "locale" / f"{language}.po").open("rb") as file:
        return {str(m.id): str(m.string) for m in read_po(file) if m.id}


@pytest.mark.parametrize("language", OTHERS)
def test_every_text_is_translated_and_none_is_left_over(language: str) -> None:
    found = catalogue(language)
    assert {text for text in source_texts() if not found.get(text)} == set()
    assert found.keys() - source_texts() == set()


@pytest.mark.parametrize("language", OTHERS)
def test_translations_hold_the_same_values(language: str) -> None:
    for source, text in catalogue(language).items():
        assert sorted(PLACEHOLDER.findall(source)) == sorted(PLACEHOLDER.findall(text)), source


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_attempt_reads_in_every_language(language: str) -> None:
    b = docker_baseline()
    message = evidence(recorded(frozen_scene().frozen(b).attempt(1, b, Outcome.FAILED)), translator(language))
    assert violations(message) == []
    assert {"en": "Attempt 1", "zh-Hans": "第 1 次启动", "zh-Hant": "第 1 次啟動"}[language] in message.text


def test_an_unknown_language_reads_english() -> None:
    assert translator("tlh")("Open") == "Open"


def test_a_person_chooses_a_language_for_themselves(tmp_path: Path) -> None:
    bot = make_bot(tmp_path)
    set_language(bot.services, viewer(), "zh-hans")
    assert "未关闭" in show_cases(bot.services, viewer()).text
    assert "No open case" in show_cases(bot.services, responder()).text
    bot.store.close()


def test_a_channels_language_is_that_of_its_new_cases(tmp_path: Path) -> None:
    bot = make_bot(tmp_path)
    with pytest.raises(Refused):
        set_language(bot.services, viewer(), "zh-Hant here")
    set_language(bot.services, responder(), "zh-Hant here")
    opened = open_incident(bot.services, responder(), Opening(title="x")).incident
    with bot.services.store.read() as reading:
        incident = reading.incident(opened)
    assert incident is not None
    assert incident.language == "zh-Hant"
    bot.store.close()


def test_a_language_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    bot = make_bot(tmp_path)
    with pytest.raises(Refused) as refused:
        set_language(bot.services, viewer(), "klingon")
    assert "zh-Hans" in str(refused.value.blocks)
    bot.store.close()
