"""`baseline playbook list|show|check`: what procedures there are, what is in them, and whether a file is one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="List, show and check playbooks.")
    group.command("list")(list_playbooks)
    group.command("show")(show_playbook)
    group.command("check")(check_playbook)
    app.add_typer(group, name="playbook")


def list_playbooks(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """List the playbooks that ship with this version."""
    from playbooks.catalog import load_playbook, playbook_names

    found = [load_playbook(name) for name in playbook_names()]
    if as_json:
        listed = [{"id": one.id, "title": one.title, "version": one.version, "sha256": one.sha256} for one in found]
        print(json.dumps({"playbooks": listed}, ensure_ascii=False, indent=2))
        return
    for one in found:
        print(f"{one.id:14} {one.title}, version {one.version}, sha256 {one.sha256[:12]}")


def show_playbook(
    name: Annotated[str, typer.Argument(help="Id as in `baseline playbook list`.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the phases and items of a playbook, and what this version does not carry out."""
    from playbooks.catalog import load_playbook
    from playbooks.guiding.playbook import as_json as plain

    playbook = load_playbook(name)
    if as_json:
        print(json.dumps(plain(playbook), ensure_ascii=False, indent=2))
        return
    print(
        f"{playbook.title} ({playbook.id}), version {playbook.version}, boundaries {playbook.boundaries or 'imported'}"
    )
    for phase in playbook.phases:
        print(f"\n{phase.title}{'' if phase.carried_out else ' - not carried out by this version'}")
        for step in phase.steps:
            note = "" if step.kind.carried_out or not phase.carried_out else " (not carried out by this version)"
            print(f"  {step.requirement:6} {step.id:22} {step.label}{note}")


def check_playbook(
    file: Annotated[Path, typer.Argument(help="Playbook YAML, or - for standard input.")],
) -> None:
    """Check a playbook file: its form, its ids, and that each check is one this version knows."""
    from playbooks.catalog import read_input
    from playbooks.guiding.playbook import parse_playbook

    playbook = parse_playbook(read_input(file), file=str(file))
    print(f"{file}: a playbook: {playbook.id}, {len(tuple(playbook.steps()))} items in {len(playbook.phases)} phases")
