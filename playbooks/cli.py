"""The root of the `baseline` command: finds the commands, turns errors into messages and exit codes.

The core's own commands are the modules of `playbooks.commands`; bot and workers add theirs through the entry-point
group `baseline.commands`. Either kind is a module with `register(app)`. A part that cannot be imported (its extra is not
installed) takes nothing away from the others, and says so when one of its commands is asked for.

Exit codes: 0 fine, 1 a negative answer, 2 wrong use or unreadable input, 3 could not find out.
"""

from __future__ import annotations

import importlib
import io
import pkgutil
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points, version
from typing import Annotated

import typer

from playbooks import commands
from playbooks.errors import InputError, PlaybookError

GROUP = "baseline.commands"
EXIT_NEGATIVE = 1
EXIT_USAGE = 2

Register = Callable[[typer.Typer], None]


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"baseline {version('baseline-bot')}")
        raise typer.Exit


def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Take a failing vLLM launch to one stable first failure and a decision.

    Start with a log: `baseline analyze engine.log`. The whole product in a browser: `baseline sandbox`.
    """


def core_parts() -> Iterator[tuple[str, Callable[[], Register]]]:
    """Name the core's command modules, each with the call that imports it."""
    for module in sorted(pkgutil.iter_modules(commands.__path__), key=lambda found: found.name):
        name = f"{commands.__name__}.{module.name}"
        yield name, lambda name=name: importlib.import_module(name).register  # type: ignore[misc]


def plugin_parts() -> Iterator[tuple[str, Callable[[], Register]]]:
    """Name the installed plugins of the group, each with the call that imports it."""
    for point in sorted(entry_points(group=GROUP), key=lambda found: found.name):
        yield point.name, point.load


def command_names(app: typer.Typer) -> set[str]:
    """Return the names of the commands that have been registered."""
    plain = {
        info.name or (info.callback.__name__.replace("_", "-") if info.callback else "")
        for info in app.registered_commands
    }
    return plain | {str(info.name) for info in app.registered_groups if info.name}


def build(
    words: list[str], *, parts: Iterator[tuple[str, Callable[[], Register]]] | None = None
) -> tuple[typer.Typer, dict[str, str]]:
    """Build the command line, with plugins only when the core does not know the first word (so that it starts quickly).

    Returns the app, and for each part that could not be loaded why.
    """
    app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None, callback=_root)
    missing: dict[str, str] = {}
    wanted = next((word for word in words if not word.startswith("-")), None)
    for name, load in parts if parts is not None else core_parts():
        _add(app, name, load, missing)
    if parts is None and wanted not in command_names(app):
        for name, load in plugin_parts():
            _add(app, name, load, missing)
    return app, missing


def _add(app: typer.Typer, name: str, load: Callable[[], Register], missing: dict[str, str]) -> None:
    try:
        load()(app)
    except Exception as error:  # noqa: BLE001 - outermost layer: one broken part must not take the others along
        missing[name] = f"{type(error).__name__}: {error}"


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without a sign must not cost the report
    words = sys.argv[1:]
    app, missing = build(words)
    wanted = next((word for word in words if not word.startswith("-")), None)
    if "--version" not in words and (wanted is None or wanted not in command_names(app)):
        for name, why in missing.items():
            print(f"note: the commands of {name} are not available here ({why})", file=sys.stderr)
    try:
        app(prog_name="baseline")
    except InputError as error:
        print(f"baseline: {error}", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    except PlaybookError as error:
        print(f"baseline: {error}", file=sys.stderr)
        sys.exit(EXIT_NEGATIVE)
