"""What the core says in sentences, read from the playbooks, the decision rules and the source of the core."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from bot.blocks.sentences import TEMPLATES
from playbooks.catalog import load_catalogue, load_playbook
from playbooks.guiding.decision_rules import RULES
from playbooks.guiding.playbook import NOT_CARRIED_OUT

CORE = Path(__file__).parents[2] / "playbooks"
PLAYBOOKS = ("kimi-k3", "generic-vllm")
SAID_BY = (
    "guiding/checklist",
    "guiding/features",
    "guiding/step",
    "guiding/items",
    "guiding/gate_rows",
    "guiding/gate",
    "guiding/decision_missing",
)
"""Modules whose every sentence is shown: what begins with a capital letter and has a space."""
REASONS_OF = ("guiding/decision_words", "guiding/decision", "judging/stability")
"""Modules whose every phrase is shown, as part of the reasons of a decision or a score."""
FINDINGS_OF = ("judging/choosing", "judging/silent_ends", "judging/feature_probe", "guiding/roles")
"""Modules that say why a failure is the first and what to look at next, what a probe proves, and who may do what."""
_NOT_SHOWN = frozenset(
    {
        "The playbook {} has no phase {}",
        "expected attempts of one baseline, found {} and {}",
        "the attempts did not start from one baseline: refused",
    }
)
"""For a caller's mistake, not for readers."""
_PATTERNS = re.compile(r"\\|\[-_\]|\(\?:")
"""What is a pattern of the core and no sentence."""
_VALUE = re.compile(r"\{\w*\}")


def playbook_texts() -> set[str]:
    """Phase titles, and what is said of each item, of the packaged playbooks."""
    found: set[str] = set()
    for phase in (phase for name in PLAYBOOKS for phase in load_playbook(name).phases):
        found.add(phase.title)
        for step in phase.steps:
            found |= {step.label, step.why, step.how, step.not_needed_why, *step.choices}
    found |= {feature.label for name in PLAYBOOKS for feature in load_playbook(name).features}
    return found - {""}


def decision_texts() -> set[str]:
    """What decisions say of themselves, and what would change them."""
    return {text for rule in RULES for text in (rule.headline, *rule.would_change)}


def catalogue_texts() -> set[str]:
    """What the classes and signatures say of themselves: meaning, why, what to look at next."""
    catalogue = load_catalogue()
    found = {text for info in catalogue.classes.values() for text in (info.meaning, info.next_check)}
    found |= {text for one in catalogue.signatures for text in (one.why, one.next_check)}
    return (found | {one.why for one in catalogue.derived}) - {""}


def sentences() -> tuple[set[str], set[str]]:
    """What the core says besides: sentences as they are, and those with values, each value a `{}`."""
    fixed = {NOT_CARRIED_OUT}
    with_values: set[str] = set()
    said = (*_literals(SAID_BY, r"[A-Z].* .*"), *_literals(FINDINGS_OF, r"[A-Za-z0{].* .* .*"))
    said = tuple(text for text in said if not _PATTERNS.search(text))
    for text in (*said, *_literals(REASONS_OF, r".*[A-Za-z].* .*|.* .*[A-Za-z].*")):
        (with_values if "{}" in text else fixed).add(text)
    return fixed - _NOT_SHOWN, with_values - _NOT_SHOWN


def unnamed(templates: tuple[str, ...] = TEMPLATES) -> set[str]:
    """The templates with their values as `{}`."""
    return {_VALUE.sub("{}", template) for template in templates}


def _literals(modules: tuple[str, ...], wanted: str) -> list[str]:
    found: list[str] = []
    for name in modules:
        tree = ast.parse((CORE / f"{name}.py").read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            _leave_out_docstrings(node)
        parts = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        whole = [node for node in ast.walk(tree) if node not in parts]
        found += [
            text
            for node in whole
            if (text := (_text(node) or "").removeprefix("; ")) and re.fullmatch(wanted, text, re.DOTALL)
        ]
    return found


def _leave_out_docstrings(node: ast.AST) -> None:
    body = getattr(node, "body", None)
    if isinstance(body, list):
        node.body = [s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]  # type: ignore[attr-defined]


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return None
    return "".join(_text(part) or _value(part) for part in node.values)


def _value(part: ast.expr) -> str:
    name = part.value if isinstance(part, ast.FormattedValue) else None
    return NOT_CARRIED_OUT if isinstance(name, ast.Name) and name.id == "NOT_CARRIED_OUT" else "{}"
