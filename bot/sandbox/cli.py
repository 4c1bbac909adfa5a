"""`baseline sandbox`: the whole product on this machine, in the browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

USAGE = 2


def register(app: typer.Typer) -> None:
    """Hang the command on the root command."""
    app.command("sandbox")(sandbox)


def sandbox(  # noqa: PLR0917 - options of a command
    host: Annotated[str, typer.Option(help="Loopback address to listen on; no other is taken.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port of the page.", min=1, max=65535)] = 8899,
    data: Annotated[
        Path, typer.Option(help="Folder for everything the sandbox keeps; delete it to start afresh.")
    ] = Path(".data/sandbox"),
    socket_mode: Annotated[
        bool, typer.Option("--socket-mode", help="Speak to the bot by Socket Mode instead of signed HTTP.")
    ] = False,
    policy: Annotated[
        Path | None, typer.Option(help="Node policy to use instead of the narrow one that is written.")
    ] = None,
    open_page: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser, where there is a desktop.")
    ] = True,
) -> None:
    """Run the whole product on this machine without Slack and without a GPU.

    Starts a stand-in Slack workspace with its page, an embedded broker, the bot, and a worker that makes this machine a node.
    One Ctrl-C ends all of it. With `./dev lab` done before, launches run a real vLLM; without, recorded logs are worked on.
    """
    try:
        from bot.errors import InvalidSettings, SandboxError
        from bot.sandbox.supervisor import Options, run
        from bot.sandbox.this_machine import lab_folder, tiny_command
    except ModuleNotFoundError as missing:
        _say(f"the sandbox needs more than is installed here ({missing.name}): pip install 'baseline-bot[sandbox]'")
        raise typer.Exit(USAGE) from missing
    url = f"http://{'[::1]' if host == '::1' else host}:{port}"
    options = Options(
        host=host, port=port, data=data.absolute(), mode="socket" if socket_mode else "http", policy=policy
    )

    command = tiny_command(lab_folder())

    def started() -> None:
        print(f"\n  Baseline sandbox  {url}\n", flush=True)
        print('  Press first: "Drop a recorded log" on the left - or type /baseline open', flush=True)
        if command is not None:
            print("  A real vLLM is here: open a case with the playbook generic-vllm and the command", flush=True)
            print(f"    {command}", flush=True)
        print(f"  Data and logs in {data}. Ctrl-C ends everything.\n", flush=True)
        if (
            open_page
            and sys.stdout.isatty()
            and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform == "darwin")
        ):
            webbrowser.open(url)

    try:
        run(options, say=_say, started=started)
    except (SandboxError, InvalidSettings) as error:
        _say(str(error))
        raise typer.Exit(USAGE) from error


def _say(text: str) -> None:
    print(f"sandbox: {text}", file=sys.stderr, flush=True)
