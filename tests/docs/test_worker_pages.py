"""The worker's pages name every field, key and rule that the code knows."""

from __future__ import annotations

import re
from pathlib import Path

from playbooks.reading.fields import FIELDS
from workers.policy.file import NodePolicy

ROOT = Path(__file__).parents[2]


def test_every_field_has_its_row_with_kind_and_meaning() -> None:
    page = (ROOT / "docs/reference/fingerprint.md").read_text(encoding="utf-8")
    rows = {
        f"| `{field.name}` | {'stable' if field.stable else 'volatile'} | {field.unit or ''} | {field.meaning} |"
        for field in FIELDS
    }
    assert sorted(row for row in rows if row not in page) == []


def test_every_policy_key_has_its_row() -> None:
    page = (ROOT / "docs/reference/node-policy.md").read_text(encoding="utf-8")
    names = {field.alias or name for name, field in NodePolicy.model_fields.items()} - {"arguments"}
    assert sorted(name for name in names if f"| `{name}` |" not in page) == []


def test_every_rule_that_can_refuse_is_listed() -> None:
    page = (ROOT / "docs/reference/node-policy.md").read_text(encoding="utf-8")
    sources = [*(ROOT / "workers/policy").glob("*.py"), *(ROOT / "workers/jobs").glob("*.py")]
    rules = {rule for path in sources for rule in re.findall(r'PolicyRefusal\(\s*"([a-z-]+)"', path.read_text("utf-8"))}
    assert len(rules) > 15
    assert sorted(rule for rule in rules if f"`{rule}`" not in page) == []
