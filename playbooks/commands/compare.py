"""`baseline compare`: two fingerprints against each other, of one node in time or of two nodes at one time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from playbooks.messages import FingerprintFacts


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare")(compare)


def compare(
    earlier: Annotated[Path, typer.Argument(metavar="A.json", help="What `baseline fingerprint --json` printed.")],
    later: Annotated[Path, typer.Argument(metavar="B.json", help="The same, later or on another node.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare two fingerprints: of one node, which stable variables moved; of two nodes, what must be equal and is not.

    Exit code 0 when nothing differs, 1 when something does, 2 when a file is no fingerprint.
    """
    from playbooks.judging.consistency import between_nodes, drift, stable_digest
    from playbooks.reading.fields import value_of

    a, b = _read(earlier), _read(later)
    names = tuple(str(value_of(side.host, "os.hostname") or path.stem) for side, path in ((a, earlier), (b, later)))
    one_node = names[0] == names[1]
    if one_node:
        found = [*drift(a.host, b.host), *drift(a.container, b.container)]
    else:
        sides = ({**a.container, **a.host}, {**b.container, **b.host})
        found = [one.text for one in between_nodes(*sides, names=(names[0], names[1]))]
    digests = [stable_digest(side.host, side.container) for side in (a, b)]
    if as_json:
        shown: dict[str, Any] = {"nodes": names, "differs": found, "stable_sha256": digests}
        print(json.dumps(shown, ensure_ascii=False))
    elif one_node:
        print(f"{names[0]}: {'moved' if found else 'no stable variable moved'}")
        print("\n".join(f"  {text}" for text in found))
    else:
        print(
            f"{names[0]} and {names[1]}: {'differ' if found else 'what must be equal is equal, as far as both could read it'}"
        )
        print("\n".join(f"  {text}" for text in found))
    if found:
        raise typer.Exit(1)


def _read(path: Path) -> FingerprintFacts:
    from pydantic import ValidationError

    from playbooks.messages import FingerprintFacts

    try:
        return FingerprintFacts.model_validate_json(path.read_bytes())
    except OSError as error:
        typer.echo(f"cannot read {path}: {error.strerror or error}", err=True)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        typer.echo(
            f"{path}: expected what `baseline fingerprint --json` prints, found {place}: {first['msg']}", err=True
        )
    raise typer.Exit(2)
