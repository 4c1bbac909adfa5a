"""`baseline verify`: checks a reproduction bundle with nothing but the bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("verify")(verify_bundle)


def verify_bundle(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE.zip", help="The bundle to check.")],
    key: Annotated[
        str | None, typer.Option("--key", help="The bot's public key, from elsewhere than the bundle.")
    ] = None,
    head: Annotated[
        str | None, typer.Option("--head", help="Record head as posted in the thread, at least 8 digits.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check that a bundle is whole, unaltered and signed, and name whatever is wrong.

    Exit code 0 when it holds, 1 when something is wrong, 2 when the file is no bundle.
    """
    from playbooks.errors import BrokenBundle, InputError
    from playbooks.evidence.bundle import verify
    from playbooks.evidence.signing import PublicKey

    try:
        given = None if key is None else PublicKey.from_text(key)
    except InputError as error:
        typer.echo(f"--key: {error}", err=True)
        raise typer.Exit(2) from error
    try:
        verdict = verify(bundle.read_bytes(), key=given, head=head)
    except OSError as error:
        typer.echo(f"cannot read {bundle}: {error.strerror or error}", err=True)
        raise typer.Exit(2) from error
    except BrokenBundle as error:
        _say_no_bundle(str(error), as_json=as_json)
        raise typer.Exit(2) from error
    if as_json:
        import dataclasses
        import json

        print(json.dumps({"holds": verdict.holds, **dataclasses.asdict(verdict)}, ensure_ascii=False))
    elif verdict.holds:
        print(f"{bundle}: holds. {verdict.incident}, {verdict.entries} entries, {verdict.files} files.")
        print(f"  record head {verdict.head}, newest entry {verdict.last_hash}")
        by = (
            "the key you gave"
            if verdict.key_was_given
            else "the key it carries; compare it with the bot's, or give --key"
        )
        print(f"  signed by {verdict.key} - {by}")
        if head is None:
            print("  to see that nothing was cut off at the end, give --head from the thread")
    else:
        print(f"{bundle}: does NOT hold.")
        for problem in verdict.problems:
            print(f"  {problem}")
    if not verdict.holds:
        raise typer.Exit(1)


def _say_no_bundle(text: str, *, as_json: bool) -> None:
    if as_json:
        import json

        print(json.dumps({"holds": False, "problems": [text]}, ensure_ascii=False))
    else:
        typer.echo(text, err=True)
