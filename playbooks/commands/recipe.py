"""`baseline recipe`: import an official recipe as boundary data, and show the launch it comes to.

The last import of each recipe is kept under the data folder, so that the next one can say what changed.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from playbooks.judging.recipe_boundary import ProseBoundary, RecipeChange
    from playbooks.reading.recipe import Recipe

Data = Annotated[
    Path,
    typer.Option("--data", envvar="BASELINE_DATA_DIR", help="Data folder; recipes are kept in its folder `recipes`."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
_LONGEST = 160


def register(app: typer.Typer) -> None:
    """Add the commands."""
    recipe = typer.Typer(no_args_is_help=True, help="Official vLLM recipes as boundary data.")
    recipe.command("import")(import_recipe)
    recipe.command("launch")(show_launch)
    app.add_typer(recipe, name="recipe")


def import_recipe(
    file: Annotated[Path, typer.Argument(help="Recipe in YAML, one file a model, or - for standard input.")],
    data: Data = Path("baseline-data"),
    as_json: AsJson = False,
) -> None:
    """Import a recipe and say what changed since the last import, and how old it is."""
    from playbooks.catalog import read_input
    from playbooks.judging.recipe_boundary import changes, prose_boundaries
    from playbooks.reading.recipe import read

    content = read_input(file)
    recipe = read(content.decode("utf-8", errors="replace"), name=str(file))
    today = dt.datetime.now(tz=dt.UTC).date()  # noqa: TID251  # a command has a clock
    earlier, imported_on = _last(data, recipe.slug)
    report = _report(recipe, today)
    report["previous_import"] = imported_on
    report["first_import"] = earlier is None
    moved = changes(earlier, recipe) if earlier is not None else ()
    report["changes"] = [{"path": c.path, "before": c.before, "after": c.after} for c in moved]
    prose = prose_boundaries(recipe)
    report["prose"] = [
        {"kind": p.kind, "value": p.value, "sentence": p.sentence, "path": p.path, "negated": p.negated} for p in prose
    ]
    report["stored"] = str(_store(data, recipe.slug, content, today))
    if as_json:
        print(json.dumps(report, ensure_ascii=False, indent=2))
    else:
        _print(report, moved, prose)


def show_launch(
    file: Annotated[Path, typer.Argument(help="Recipe in YAML, or - for standard input.")],
    *,
    profile: Annotated[
        str | None, typer.Option(help="Hardware profile such as b300; the recipe's default without it.")
    ] = None,
    strategy: Annotated[str | None, typer.Option(help="Strategy such as single_node_tp.")] = None,
    variant: Annotated[str, typer.Option(help="Variant of the model.")] = "default",
    engine_version: Annotated[
        str | None, typer.Option(help="vLLM version in use; makes its defaults explicit.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the full launch of a profile, and the minimal command derived from it with what was left out."""
    from playbooks.catalog import load_boundaries, read_input
    from playbooks.judging.minimal_command import derive
    from playbooks.judging.recipe_arguments import command_of, resolve
    from playbooks.reading.recipe import read

    recipe = read(read_input(file).decode("utf-8", errors="replace"), name=str(file))
    boundaries = load_boundaries()
    launch = resolve(recipe, boundaries.options.recipes, profile=profile, strategy=strategy, variant=variant)
    minimal = derive(command_of(launch), engine_version=engine_version, boundaries=boundaries)
    if as_json:
        found = {
            "profile": launch.profile,
            "strategy": launch.strategy,
            "variant": launch.variant,
            "argv": list(launch.argv),
            "env": launch.env,
            "image": launch.image,
            "origins": [{"option": option, "from": origin} for option, origin in launch.origins],
            "notes": list(launch.notes),
            "minimal": minimal.baseline.model_dump(mode="json"),
            "removed": [{"option": r.option, "value": r.value, "why": r.why} for r in minimal.removed],
            "added": [{"option": a.option, "why": a.why} for a in minimal.added],
        }
        print(json.dumps(found, ensure_ascii=False, indent=2))
        return
    print(f"{recipe.title}: {launch.profile}, {launch.strategy}, variant {launch.variant}")
    print(f"\nFull launch:\n  vllm serve {_shell(launch.argv, launch.env)}")
    print(f"\nMinimal:\n  vllm serve {_shell(minimal.baseline.argv, minimal.baseline.env)}")
    _section("Left out", [f"{r.option}{f' {r.value}' if r.value else ''}: {r.why}" for r in minimal.removed])
    _section("Said aloud", [f"{a.option}: {a.why}" for a in minimal.added])
    _section("Notes", list(launch.notes))


def _report(recipe: Recipe, today: dt.date) -> dict[str, Any]:
    default = recipe.variants.get("default")
    return {
        "recipe": recipe.slug,
        "title": recipe.title,
        "model_id": recipe.model_id,
        "updated": recipe.updated.isoformat() if recipe.updated else None,
        "age_days": (today - recipe.updated).days if recipe.updated else None,
        "imported_on": today.isoformat(),
        "min_vllm_version": recipe.min_vllm_version,
        "vram_minimum_gb": default.vram_minimum_gb if default else None,
        "hardware": recipe.hardware,
        "strategies": list(recipe.strategies),
        "unknown_keys": list(recipe.unknown),
        "odd": list(recipe.odd),
    }


def _last(data: Path, slug: str) -> tuple[Recipe | None, str | None]:
    from playbooks.errors import UnreadableInput
    from playbooks.reading.recipe import read

    folder = data / "recipes"
    path, meta = folder / f"{_safe(slug)}.yaml", folder / f"{_safe(slug)}.json"
    if not path.exists():
        return None, None
    try:
        imported_on = json.loads(meta.read_text(encoding="utf-8")).get("imported_on") if meta.exists() else None
        return read(path.read_text(encoding="utf-8"), name=str(path)), imported_on
    except (OSError, ValueError) as error:
        raise UnreadableInput(f"{path}: expected the recipe imported last, found {error}") from error


def _store(data: Path, slug: str, content: bytes, today: dt.date) -> Path:
    from playbooks.errors import UnreadableInput

    folder = data / "recipes"
    path = folder / f"{_safe(slug)}.yaml"
    meta = {"imported_on": today.isoformat(), "sha256": hashlib.sha256(content).hexdigest()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for target, data_bytes in ((path, content), (path.with_suffix(".json"), json.dumps(meta).encode())):
            part = target.with_suffix(target.suffix + ".part")
            part.write_bytes(data_bytes)
            part.replace(target)
    except OSError as error:
        raise UnreadableInput(
            f"{folder}: expected a folder that can be written, found {error.strerror or error}"
        ) from error
    return path


def _safe(slug: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in slug).strip(".") or "recipe"


def _print(report: dict[str, Any], moved: tuple[RecipeChange, ...], prose: tuple[ProseBoundary, ...]) -> None:
    age = f"updated {report['updated']}, {report['age_days']} days old" if report["updated"] else "without a date"
    print(f"{report['title']} ({report['model_id']}), {age}")
    print(f"  minimum vLLM: {report['min_vllm_version'] or 'not said'}")
    print(
        f"  GPU memory: {report['vram_minimum_gb'] or 'not said'} GB at least; a precondition, no promise of capacity"
    )
    print(f"  hardware: {', '.join(f'{name} {status}' for name, status in report['hardware'].items()) or 'not said'}")
    if report["first_import"]:
        print("\nFirst import: nothing to compare with.")
    elif not moved:
        print(f"\nNothing changed since the import of {report['previous_import'] or 'an unknown day'}.")
    else:
        print(f"\nChanged since the import of {report['previous_import'] or 'an unknown day'}:")
        print("\n".join(f"  - {c.path}: {_cut(c.before)} → {_cut(c.after)}" for c in moved))
    _section(
        "In words, to be confirmed by a person", [f"{p.kind} {p.value}: “{_cut(p.sentence)}” ({p.path})" for p in prose]
    )
    _section("Keys this version does not know (kept)", report["unknown_keys"])
    _section("Another form than expected", report["odd"])
    print(f"\nKept as {report['stored']}")


def _section(title: str, lines: list[str]) -> None:
    if lines:
        print(f"\n{title}:")
        print("\n".join(f"  - {line}" for line in lines))


def _cut(text: str | None) -> str:
    if text is None:
        return "not there"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _shell(argv: tuple[str, ...], env: dict[str, str]) -> str:
    import shlex

    variables = "".join(f"{name}={shlex.quote(value)} " for name, value in env.items())
    return f"{shlex.join(argv)}" + (f"\n  with {variables.strip()}" if variables else "")
