"""The port that a launch takes for itself: free, and promised to no other worker of this machine until the engine has it.

A probe alone is a race: two workers may find the same port free before either engine binds it. The promise is a socket with
an abstract name, which the kernel gives to one process per network namespace - as it does ports - and takes back when that
process ends, however it ends.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager

from playbooks.messages import RankOf
from workers.errors import JobError, PolicyRefusal

_IN_USE = errno.EADDRINUSE
_LOOPBACK, _EVERYWHERE = "127.0.0.1", "0.0.0.0"  # noqa: S104 - only asked whether it is free


@contextmanager
def own_port(ports: tuple[int, int], *, but: Collection[int] = (), address: str = _LOOPBACK) -> Iterator[int]:
    """Promise the first free port of a range to this process until the block ends.

    ports: first and last of the range. but: ports that were found to be taken although they looked free.

    Raises:
        PolicyRefusal: rule `port`: none of them is free.
    """
    first, last = ports
    for port in range(first, last + 1):
        if port in but or (promise := _promise(port)) is None:
            continue
        with promise:
            if not is_free(port, address):
                continue
            yield port
            return
    raise PolicyRefusal("port", f"expected a free port from {first} to {last}, found none")


@contextmanager
def meeting_port(rank: RankOf | None) -> Iterator[None]:
    """Promise the port on which a head waits for the other ranks; they know it already, so no other can take its place.

    rank: None, or one that is not the head, promises nothing.

    Raises:
        JobError: it is taken on this node.
    """
    with ExitStack() as promised:
        if rank is not None and rank.is_head and (port := rank.master_port) is not None:
            try:
                promised.enter_context(own_port((port, port), address=_EVERYWHERE))
            except PolicyRefusal as taken:
                raise JobError(f"port {port}, on which the ranks were to meet, is taken on this node") from taken
        yield


def is_free(port: int, address: str = _LOOPBACK) -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def _promise(port: int) -> socket.socket | None:
    """Take the name of a port; None when another process has it."""
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind(f"\0baseline-port-{port}")
    except OSError as error:
        name.close()
        if error.errno == _IN_USE:
            return None
        raise
    return name
