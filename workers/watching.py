"""Wiring of `baseline watch`: which source, which file, and to whom what was seen is handed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from playbooks.catalog import load_catalogue, load_playbook
from playbooks.commands.analyze import in_words
from playbooks.messages import Limits
from workers.adapters.clocks import SystemClock
from workers.adapters.watched_sources import CommandSource, ContainerSource, Source, StdinSource
from workers.adapters.watching import default_name, look_on
from workers.errors import BotError, InvalidNodeSettings, UnusableRequest
from workers.settings import read_key, read_settings

if TYPE_CHECKING:
    from playbooks.judging.finding import Finding
    from workers.adapters.watched_file import WatchedFile

_PATIENCE_S = 30.0
_PIPE = ("-",)


def watch_and_hand_over(
    command: tuple[str, ...],
    *,
    container: str | None,
    incident: str,
    out: Path | None,
    playbook: str,
    say: Callable[[str], None],
) -> int:
    """Look on a launch and hand over what was seen; returns the exit code of `baseline watch`.

    Raises:
        UnusableRequest: nothing to look on, or more than one thing; a command that cannot be started.
        ProbeFailed, EngineUnavailable: the container cannot be read.
        InvalidDefinition: no such playbook.
        OSError: the file cannot be written.
    """
    limits = Limits.model_validate(load_playbook(playbook).limits.model_dump(mode="json"))
    source = _source(command, container)

    def verdict(found: Finding) -> None:
        say(in_words(found, "-"))

    try:
        seen = look_on(
            source,
            catalogue=load_catalogue(),
            limits=limits,
            clock=SystemClock(),
            out=out or Path(default_name(datetime.now(UTC))),
            say=say,
            verdict=verdict,
            command=() if command == _PIPE else command,
            container=container or "",
        )
    finally:
        source.close()
    _hand_over(seen.file, incident, keep=out is not None, say=say)
    if command and command != _PIPE and seen.exit_code is not None:
        return seen.exit_code
    return 0 if seen.finding.root_line is None and not seen.exit_code else 1


def _source(command: tuple[str, ...], container: str | None) -> Source:
    if bool(command) == bool(container):
        raise UnusableRequest(
            "expected one thing to look on: `baseline watch -- COMMAND…`, `… | baseline watch -` or `--container NAME`"
        )
    if container:
        from workers.adapters.docker_gateway import DockerGateway

        return ContainerSource(DockerGateway(), container)
    return StdinSource() if command == _PIPE else CommandSource(command)


def _hand_over(file: WatchedFile, incident: str, *, keep: bool, say: Callable[[str], None]) -> None:
    if not incident:
        say(f"written to {file.path}; drop it into a thread, or ask the bot about it")
        return
    try:
        settings = read_settings()
        if settings.node_key is None:
            raise InvalidNodeSettings("no BASELINE_NODE_KEY is set on this machine")
        from workers.adapters.bot_client import BotClient

        client = BotClient(settings.bot_url, read_key(settings.node_key))
        try:
            reply = client.put_watched(file.path, incident=incident, sha256=file.sha256, patience_s=_PATIENCE_S)
        finally:
            client.close()
    except (InvalidNodeSettings, BotError) as error:
        say(f"not sent to {incident}: {error}")
        say(f"written to {file.path}; drop it into the thread of {incident}")
        return
    say(f"sent to {incident}: {reply.detail}")
    if not keep:
        file.path.unlink(missing_ok=True)
