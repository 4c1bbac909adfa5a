"""An imported recipe is a boundary source: chosen by the model of the case's command, by name and by day."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from bot.adapters.definitions import PackagedDefinitions
from bot.flows.record_report import record_report
from playbooks.messages import FingerprintFacts
from playbooks.vocabulary import JobKind
from tests.chat.test_reports import claimed, fingerprint, report_of
from tests.support.bot_services import TestBot, make_bot, open_case, payloads
from tests.support.labels import LOGS

SAMPLE = (LOGS / "recipes" / "full.yaml").read_text()


@pytest.fixture
def recipes(tmp_path: Path) -> Path:
    folder = tmp_path / "recipes"
    folder.mkdir()
    return folder


@pytest.fixture
def bot(tmp_path: Path, recipes: Path) -> TestBot:
    made = make_bot(tmp_path)
    return replace(made, services=replace(made.services, definitions=PackagedDefinitions(recipes)))


def imported(folder: Path, name: str, text: str, day: str = "2026-12-01") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text)
    path.with_suffix(".json").write_text(json.dumps({"imported_on": day}))
    return path


def other(model: str, slug: str, minimum: str = "0.31.0") -> str:
    return (
        SAMPLE.replace("moonshotai/Kimi-K3", model)
        .replace("slug: kimi-k3", f"slug: {slug}")
        .replace("min_vllm_version: 0.27.0", f"min_vllm_version: {minimum}")
    )


def test_the_recipe_of_the_commands_model_judges_the_case(bot: TestBot, recipes: Path) -> None:
    imported(recipes, "wide", other("acme/Wide-9B", "wide-9b"))
    case = open_case(bot, command="vllm serve acme/Wide-9B --port 8000", playbook="generic-vllm")
    facts = fingerprint("580.95.05")
    container = {"vllm.version": facts.host["driver.loaded"].model_copy(update={"value": "0.30.0"})}
    job = claimed(bot, case, JobKind.FINGERPRINT)
    record_report(
        bot.services, report_of(bot, job, FingerprintFacts(host=facts.host, container=container, duration_ms=9))
    )
    (judged,) = payloads(bot, case, "boundary:judged")
    assert judged["snapshot"].startswith("recipe wide-9b, checked ")
    assert "vllm-below-minimum" in [found["id"] for found in judged["findings"]]


def test_a_case_of_another_model_is_not_judged_by_it(bot: TestBot, recipes: Path) -> None:
    imported(recipes, "wide", other("acme/Wide-9B", "wide-9b"))
    case = open_case(bot, command="vllm serve acme/Narrow-1B", playbook="generic-vllm")
    job = claimed(bot, case, JobKind.FINGERPRINT)
    record_report(bot.services, report_of(bot, job, fingerprint("580.95.05")))
    assert payloads(bot, case, "boundary:judged")[0]["snapshot"].startswith("vllm,")


def test_the_longest_name_wins_and_then_the_newest_day(recipes: Path) -> None:
    imported(recipes, "a", other("acme/Wide-9B", "short"))
    imported(recipes, "b", other("acme/Wide-9B-Instruct", "long"))
    imported(recipes, "c", other("acme/Wide-9B-Instruct", "older"), day="2026-10-01")
    definitions = PackagedDefinitions(recipes)
    found = definitions.recipe_for("/models/wide-9b-instruct")
    assert found is not None
    assert found.id == "long"


@pytest.mark.parametrize(("day", "chosen"), [("2026-12-01", True), ("2026-01-01", False)])
def test_the_shipped_boundaries_count_where_they_were_checked_later(recipes: Path, day: str, chosen: bool) -> None:
    imported(recipes, "k3", SAMPLE, day=day)
    assert (PackagedDefinitions(recipes).recipe_for("moonshotai/Kimi-K3") is not None) == chosen


def test_a_recipe_that_cannot_be_read_takes_no_other_along(recipes: Path) -> None:
    imported(recipes, "a", "[")
    (recipes / "b.yaml").write_text(SAMPLE)  # without the day of its import
    imported(recipes, "c", other("acme/Wide-9B", "wide-9b"))
    found = PackagedDefinitions(recipes).recipe_for("acme/Wide-9B")
    assert found is not None
    assert found.id == "wide-9b"


def test_a_newer_import_is_read_without_a_restart(recipes: Path) -> None:
    path = imported(recipes, "wide", other("acme/Wide-9B", "wide-9b"))
    definitions = PackagedDefinitions(recipes)
    before = definitions.recipe_for("acme/Wide-9B")
    imported(recipes, "wide", other("acme/Wide-9B", "wide-9b", minimum="0.32.0"))
    os.utime(path, ns=(1, 1))
    after = definitions.recipe_for("acme/Wide-9B")
    assert before is not None
    assert after is not None
    assert before.model.min_vllm is not None
    assert after.model.min_vllm is not None
    assert (before.model.min_vllm.value, after.model.min_vllm.value) == ("0.31.0", "0.32.0")
