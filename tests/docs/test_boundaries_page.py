"""docs/boundaries.md names every rule and finding that the code can give, and no other."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from playbooks.judging import (
    boundary,
    boundary_findings,
    consistency,
    consistency_rules,
    first_baseline,
    health_rules,
)

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "boundaries.md").read_text(encoding="utf-8")
KEBAB = r'"([a-z]+(?:-[a-z]+)*)"'


def ids_in(module, pattern):
    return set(re.findall(pattern, inspect.getsource(module)))


def section(title):
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def named(text):
    return {
        name
        for row in text.splitlines()
        if row.startswith("| `")
        for name in re.findall(r"`([a-z-]+)`", row.split(" | ")[0])
    }


def test_driver_rules():
    assert set(re.findall(r"B-\d\d", PAGE)) == set(re.findall(r"B-\d\d", inspect.getsource(boundary)))


def test_findings():
    code = ids_in(boundary_findings, rf"BoundaryFinding\(\s*{KEBAB}") | {"branch-build", "nightly-build"}
    assert named(section("Findings beside the verdict")) == code
    first = ids_in(first_baseline, rf"BoundaryFinding\({KEBAB}")
    assert first <= set(re.findall(r"`([a-z-]+)`", section("Findings beside the verdict")))


def test_rules_between_the_sides():
    code = ids_in(consistency_rules, rf"(?:Disagreement\(|_differs\(\s*host,\s*container,)\s*{KEBAB}")
    assert named(section("Host against container")) == code


def test_rules_of_the_host():
    table = {"remap-pending", "remap-failed", "mig-enabled", "compute-mode", "fabric"}
    code = ids_in(health_rules, rf"(?:Disagreement|found)\(\s*{KEBAB}") | {"leftovers", "tenants"} | table
    assert named(section("The host alone")) == code
    assert all(f'"{rule}"' in inspect.getsource(health_rules) for rule in table)


def test_rules_between_nodes():
    assert ids_in(consistency, rf"Disagreement\(\s*{KEBAB}") == {"node-differs"}
