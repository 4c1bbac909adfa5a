"""The kernel's process table: who a process is beyond its number, what belongs together, and who listens on a port.

A process is named by boot, pid and start time, so that a number that was given out again is never taken for the old one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_LISTEN = "0A"


@dataclass(frozen=True, slots=True)
class Process:
    """One row of the table. `state` is the kernel's letter; `Z` and `X` are dead."""

    pid: int
    parent: int
    session: int
    state: str
    ticks: int
    cpu_ticks: int
    name: str

    @property
    def is_dead(self) -> bool:
        """Whether nothing of it runs any more."""
        return self.state in {"Z", "X", "x"}


def boot_id() -> str:
    """Return the kernel's id of this boot."""
    return (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip().replace("-", "")


def process(pid: int) -> Process | None:
    """Return a process, or None when there is none of that number."""
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    name = text[text.index("(") + 1 : text.rindex(")")]
    rest = text[text.rindex(")") + 2 :].split()
    return Process(
        pid=pid,
        state=rest[0],
        parent=int(rest[1]),
        session=int(rest[3]),
        cpu_ticks=int(rest[11]) + int(rest[12]),
        ticks=int(rest[19]),
        name=name,
    )


def identity(pid: int) -> str:
    """Return the name of a process that no later one shares: `boot:pid:ticks`; ticks 0 when it is gone already."""
    found = process(pid)
    return f"{boot_id()}:{pid}:{found.ticks if found else 0}"


def is_alive(name: str) -> bool:
    """Whether the process of this identity still runs."""
    boot, pid, ticks = name.split(":")
    if boot != boot_id():
        return False
    found = process(int(pid))
    return found is not None and not found.is_dead and found.ticks == int(ticks)


def processes() -> Iterator[Process]:
    """Return all processes that are not dead."""
    for name in os.listdir(PROC):  # noqa: PTH208 - only names, and nothing to close
        if name.isdigit():
            found = process(int(name))
            if found is not None and not found.is_dead:
                yield found


def environment(pid: int) -> dict[str, str]:
    """Return a process's environment as it was at its start; {} when it may not be read."""
    try:
        raw = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (part.decode(errors="replace").split("=", 1) for part in raw.split(b"\0") if b"=" in part)
    return dict(pairs)


def command_line(pid: int) -> str:
    """Return a process's command line in one line; "" when it may not be read."""
    try:
        raw = (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ""
    return raw.replace(b"\0", b" ").decode(errors="replace").strip()


def listening_inodes(port: int) -> set[str]:
    """Return the inodes of the sockets that listen on a TCP port."""
    wanted = f":{port:04X}"
    inodes = set()
    for name in ("net/tcp", "net/tcp6"):
        try:
            lines = (PROC / name).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[1].endswith(wanted) and fields[3] == _LISTEN:
                inodes.add(fields[9])
    return inodes


def owns_socket(pid: int, inodes: set[str]) -> bool:
    """Whether the process has one of the sockets open."""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    try:
        folder = PROC / str(pid) / "fd"
        return any(_link(f"{folder}/{name}") in wanted for name in os.listdir(folder))  # noqa: PTH208 - as above
    except OSError:
        return False


def _link(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 - a socket's link text is no path
    except OSError:
        return ""
