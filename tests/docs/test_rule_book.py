"""The generated rule book and the page on playbooks say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from playbooks.guiding.checks import JOINS, PREDICATES, Params
from playbooks.guiding.decision_rules import RULES
from playbooks.guiding.playbook import Playbook, Step, StepKind
from playbooks.guiding.rules_page import rules_page
from playbooks.vocabulary import DecisionKind

DOCS = Path(__file__).parents[2] / "docs"


def test_rules_md_is_what_baseline_rules_prints():
    assert (DOCS / "rules.md").read_text(encoding="utf-8") == rules_page(), "run `baseline rules > docs/rules.md`"


def test_every_rule_and_kind_is_in_the_rule_book():
    text = (DOCS / "rules.md").read_text(encoding="utf-8")
    assert all(f"| {rule.id} |" in text and f"### {rule.id}" in text for rule in RULES)
    assert all(f"`{kind.value}`" in text for kind in DecisionKind)


def table_keys(text: str, heading: str) -> dict[str, str]:
    part = text.split(heading, 1)[1]
    rows = re.findall(r"^\| (`[^|]*`) \|([^|]*)\|", part, flags=re.MULTILINE)
    return {name: cells for names, cells in rows for name in re.findall(r"`([a-z_]+)`", names)}


def test_every_predicate_is_documented_with_its_parameters():
    documented = table_keys((DOCS / "playbooks.md").read_text(encoding="utf-8"), "| predicate |")
    assert set(documented) == set(PREDICATES)
    for name, (params, _) in PREDICATES.items():
        assert set(re.findall(r"`(\w+)`", documented[name])) == set(params.model_fields), name
    assert issubclass(PREDICATES["no_node"][0], Params)
    assert {"all", "any", "not"} == JOINS


def test_every_key_and_kind_is_documented():
    text = (DOCS / "playbooks.md").read_text(encoding="utf-8")
    keys = {field.alias or name for name, field in Playbook.model_fields.items()} - {"sha256"}
    assert all(f"`{key}`" in text for key in keys | set(Step.model_fields))
    assert all(f"`{kind.value}`" in text for kind in StepKind)
