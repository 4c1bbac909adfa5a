"""`baseline decide FACTS.yaml`: the decision rules on a facts file, for what-if questions of leads and auditors."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("decide")(decide_facts)


def decide_facts(
    facts: Annotated[
        Path, typer.Argument(help="YAML file that begins with `schema: baseline-facts/1`, or - for standard input.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Decide from stated facts by the same rules as the bot.

    Facts that are left out are unknown, never "no". `baseline rules` prints all facts and rules.
    """
    from playbooks.catalog import load_catalogue, read_input
    from playbooks.guiding.decision import decide, parse_facts, with_usual

    stated = parse_facts(read_input(facts), file=str(facts))
    usual = {error: known.points_to for error, known in load_catalogue().classes.items()}
    decision = decide(with_usual(stated, usual))
    if as_json:
        print(json.dumps(asdict(decision), ensure_ascii=False, indent=2))
        return
    print(f"{decision.headline}\n{decision.kind.value}, rule {decision.rule}")
    for title, lines in (
        ("Because", decision.reasons),
        ("Missing, cheapest first", decision.missing),
        ("Would change it", decision.would_change),
        ("Not concluded", decision.not_concluded),
        ("Carried out", decision.carry_out),
        ("Costs", decision.costs),
    ):
        if lines:
            print(f"\n{title}:")
            print("\n".join(f"  - {line}" for line in lines))
