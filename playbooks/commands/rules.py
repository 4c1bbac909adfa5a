"""`baseline rules`: the rule book, printed from the tables that decide."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("rules")(print_rules)


def print_rules() -> None:
    """Print the rule book: scores, gate, decision rules, facts (Markdown; docs/rules.md is this output)."""
    from playbooks.guiding.rules_page import rules_page

    print(rules_page(), end="")
