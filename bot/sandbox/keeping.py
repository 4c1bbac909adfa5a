"""What a sandbox keeps between starts: its own tokens, the broker's password, the ports of its parts; and its lock."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TextIO

from bot.errors import SandboxError
from bot.sandbox.standin.gate import Credentials


@dataclass(frozen=True, slots=True)
class Kept:
    """Secrets and ports of one sandbox; in a file that only its owner reads."""

    bot_token: str
    app_token: str
    signing_secret: str
    broker_password: str
    bot_port: int
    broker_port: int

    @property
    def credentials(self) -> Credentials:
        """Tokens of the stand-in."""
        return Credentials(self.bot_token, self.app_token, self.signing_secret)


def free_port(wanted: int = 0) -> int:
    """Return the wanted port when it is free on loopback, else another that is."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            return free_port() if wanted else 0
        return int(probe.getsockname()[1])


def load_kept(folder: Path) -> Kept:
    """Return what an earlier sandbox kept here, or make it. Ports that are taken meanwhile are chosen anew."""
    path = folder / "secrets.json"
    try:
        kept = Kept(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        fresh = Credentials.fresh()
        kept = Kept(fresh.bot_token, fresh.app_token, fresh.signing_secret, secrets.token_urlsafe(24), 0, 0)
    bot_port = free_port(kept.bot_port)
    broker_port = free_port(kept.broker_port)
    while broker_port == bot_port:
        broker_port = free_port()
    kept = replace(kept, bot_port=bot_port, broker_port=broker_port)
    draft = path.with_suffix(".new")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(asdict(kept), file)
    draft.replace(path)
    return kept


def take_lock(folder: Path, url: str) -> TextIO:
    """Take the data folder for this sandbox; keep the returned file open.

    Raises:
        SandboxError: another sandbox works on it; the message says where.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = (folder / "lock").open("a+", encoding="utf-8")
    except OSError as error:
        raise SandboxError(f"--data: {folder.parent}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        where = lock.read().strip() or "elsewhere"
        lock.close()
        raise SandboxError(
            f"a sandbox works on this data already: {where}. Open it there, or choose another --data"
        ) from None
    lock.truncate(0)
    lock.write(f"process {os.getpid()}, {url}")
    lock.flush()
    return lock
