"""The bot's commands: run it, enrol nodes, make tokens, export, repost, and find out what is wrong.

Exit codes: 0 fine, 1 a negative answer, 2 wrong use, 3 could not find out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bot.errors import ArtifactError, BotError, InvalidSettings, QueueError, StoreError, UnknownIncident
from bot.sandbox.cli import register as register_sandbox

if TYPE_CHECKING:
    from bot.flows.services import Services
    from bot.settings import Settings

NEGATIVE, USAGE, UNREACHABLE = 1, 2, 3


def register(app: typer.Typer) -> None:
    """Hang the bot's commands on the root command."""
    app.command("bot")(run_bot)
    app.command("node-key")(node_key)
    app.command("export")(export)
    app.command("repost")(repost)
    app.command("doctor")(doctor)
    register_sandbox(app)
    tokens = typer.Typer(help="Tokens by which people's programs read incidents over HTTP.", no_args_is_help=True)
    tokens.command("create")(create)
    tokens.command("revoke")(revoke)
    app.add_typer(tokens, name="token")


def run_bot(
    log_json: Annotated[
        bool | None, typer.Option("--log-json/--log-text", help="Form of the log; by default text on a terminal.")
    ] = None,
) -> None:
    """Run the bot: Slack, the nodes' HTTP interface, and the senders. Settings come from BASELINE_* variables."""
    with _telling():
        from bot.adapters.logs import configure_logs
        from bot.app import build, run
        from bot.settings import read_settings

        configure_logs(as_json=not sys.stderr.isatty() if log_json is None else log_json)
        settings = read_settings()
        bot = build(settings)
        run(bot, on_listening=lambda port: print(f"Baseline bot listens on {settings.host}:{port}", file=sys.stderr))


def node_key(
    name: Annotated[str, typer.Argument(help="Name of the node, as in its queue `node.NAME`.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where the node's key file is written; default NAME.key.json.")
    ] = None,
) -> None:
    """Make a key pair for a GPU node.

    Writes the node's key file (a secret: take it to the node, set BASELINE_NODE_KEY there, delete it here), keeps its public
    half in the data folder, and prints the entry for BASELINE_NODES.
    """
    with _telling():
        from bot.adapters.keys import bot_key, node_key_file, write_secret
        from bot.settings import read_settings, valid_node_name
        from playbooks.evidence.signing import SigningKey

        if not valid_node_name(name):
            raise InvalidSettings(f"expected a node name of a-z, 0-9, - and _, found {name!r}")
        settings = read_settings()
        bot, key = bot_key(settings.data_dir), SigningKey.generate()
        path = output or Path(f"{name}.key.json")
        try:
            write_secret(path, node_key_file(name, key, bot.public))
        except OSError as error:
            raise InvalidSettings(f"{path}: {error.strerror}; a key is never overwritten") from error
        public = settings.data_dir / "nodes" / f"{name}.pub"
        public.parent.mkdir(parents=True, exist_ok=True)
        public.write_text(key.public_text + "\n")
        print(f"{name}={key.public_text}")
        print(f"key file: {path} - take it to {name} and set BASELINE_NODE_KEY to it there", file=sys.stderr)
        print(
            "add the line above to BASELINE_NODES of the bot (the name alone is enough on this machine)",
            file=sys.stderr,
        )


def export(
    incident: Annotated[str, typer.Argument(help="Incident, such as INC-0042.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Default: INC-0042.zip.")] = None,
) -> None:
    """Export an incident's evidence bundle; `baseline verify` checks it without the bot."""
    with _services() as services:
        from bot.flows.bundle_material import build, collect
        from bot.flows.showing import known

        path = output or Path(f"{incident}.zip")
        with services.store.read() as reading:
            case = known(reading, incident).case
            entries, metas = collect(reading, incident)
        data = build(services, case, entries, metas, now=services.clock.now())
        try:
            path.write_bytes(data)
        except OSError as error:
            raise InvalidSettings(f"{path}: {error.strerror}") from error
        print(f"{path}: {len(data)} bytes; check it with `baseline verify {path}`")


def repost(incident: Annotated[str, typer.Argument(help="Incident, such as INC-0042.")]) -> None:
    """Rebuild an incident's Slack thread from the store; a running bot sends the messages."""
    with _services() as services:
        from bot.flows.repost_incident import repost_incident

        count = repost_incident(services, incident)
        print(f"{incident}: {count} messages queued; the running bot posts them into a new thread")


def create(
    user: Annotated[str, typer.Argument(help="Slack user id, such as U0123ABC.")],
    days: Annotated[int, typer.Option("--days", min=1, max=730, help="How long the token is good for.")] = 90,
) -> None:
    """Make a person's token for `GET /incidents/ID`. It is shown once."""
    with _services() as services:
        from bot.flows.person_tokens import create_token

        made = create_token(services, user, valid_for=timedelta(days=days))
        print(made.text)
        print(
            f"for {made.user} until {made.expires_at:%Y-%m-%d}; revoke with: baseline token revoke {made.digest}",
            file=sys.stderr,
        )


def revoke(token: Annotated[str, typer.Argument(help="The token, or its digest as printed when it was made.")]) -> None:
    """End a token at once."""
    with _services() as services:
        from bot.flows.person_tokens import revoke_token

        if not revoke_token(services, token):
            print("no such token", file=sys.stderr)
            raise typer.Exit(NEGATIVE)
        print("revoked")


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")] = False,
) -> None:
    """Check settings, store, broker, keys, nodes, people and Slack; each line says what was found and what to do.

    Exit codes: 0 all fine, 1 something is missing, 3 something could not be reached.
    """
    with _telling():
        from dataclasses import asdict
        from datetime import UTC, datetime

        from bot.adapters.doctor import Grade, Line, examine
        from bot.settings import read_settings

        lines: list[Line] = []
        try:
            found = examine(read_settings(), now=datetime.now(UTC))
        except InvalidSettings as error:
            found = iter([Line("settings", Grade.MISSING, str(error), "docs/configuration.md names every variable")])
        else:
            lines.append(Line("settings", Grade.OK, "readable"))
        lines += found
        if as_json:
            print(json.dumps({"lines": [asdict(line) for line in lines]}, indent=2))
        else:
            for line in lines:
                print(f"{line.grade.value:<12}{line.check}: {line.found}")
                if line.do:
                    print(f"{'':<12}→ {line.do}")
        grades = {line.grade for line in lines}
        if Grade.MISSING in grades:
            raise typer.Exit(NEGATIVE)
        if Grade.UNREACHABLE in grades:
            raise typer.Exit(UNREACHABLE)


@contextmanager
def _telling() -> Iterator[None]:
    """Turn our errors into one line and an exit code."""
    try:
        yield
    except InvalidSettings as error:
        code, text = USAGE, str(error)
    except UnknownIncident as error:
        code, text = USAGE, str(error)
    except (StoreError, QueueError, ArtifactError) as error:
        code, text = UNREACHABLE, str(error)
    except BotError as error:
        code, text = NEGATIVE, str(error)
    else:
        return
    print(f"baseline: {text}", file=sys.stderr)
    raise typer.Exit(code)


def _used_before(settings: Settings) -> None:
    """Keep a command in the wrong folder from making a store and a signing key there.

    Raises:
        InvalidSettings: no bot has run on this data folder.
    """
    from bot.adapters.keys import bot_key_path

    folder = settings.data_dir.absolute()
    lacking = [path for path in (bot_key_path(folder), settings.store_file) if path is not None and not path.exists()]
    if lacking:
        raise InvalidSettings(
            f"no bot has run on the data folder {folder} (no {lacking[0]}); BASELINE_DATA_DIR names another"
        )


@contextmanager
def _services() -> Iterator[Services]:
    """Open store, artifacts and keys for one command."""
    with _telling():
        from bot.app import build_services
        from bot.settings import read_settings

        settings = read_settings()
        _used_before(settings)
        services, store, pools = build_services(settings)
        try:
            yield services
        finally:
            for pool in pools:
                pool.close()
            store.close()
