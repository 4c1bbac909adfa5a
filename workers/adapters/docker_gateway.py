"""The Docker SDK's client, and its errors in our words. The only modules that import the SDK are this one and the engine's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from workers.errors import EngineUnavailable, ProbeFailed

if TYPE_CHECKING:  # the SDK takes most of a second to import: only a node that uses it pays
    from docker.errors import APIError

    from docker import DockerClient

TIMEOUT_S = 5
SOCKET = Path("/var/run/docker.sock")


class DockerGateway:
    """Opens a client when one is needed, so that a daemon that comes and goes costs one answer each."""

    def __init__(self, *, base_url: str | None = None, timeout_s: int = TIMEOUT_S) -> None:
        self._base_url = base_url
        self._timeout_s = timeout_s

    @property
    def is_there(self) -> bool:
        """Whether there is anything to talk to: a daemon's socket, or an address in the environment."""
        return bool(self._base_url or os.environ.get("DOCKER_HOST")) or SOCKET.exists()

    @contextmanager
    def client(self, *, timeout_s: int | None = None) -> Iterator[DockerClient]:
        """Give a client, and map what goes wrong with the daemon itself.

        Raises:
            EngineUnavailable: no daemon, no permission, or no answer in time.
            ProbeFailed: the daemon answered with an error; its own text.
        """
        import docker

        if not self.is_there:
            raise EngineUnavailable("no Docker here")
        path = (self._base_url or "").removeprefix("unix://")
        if path.startswith("/") and not Path(path).exists():
            raise EngineUnavailable(f"the Docker daemon does not answer: no socket at {path}")
        seconds = timeout_s or self._timeout_s
        with mapped():
            made = (
                docker.DockerClient(base_url=self._base_url, timeout=seconds)
                if self._base_url
                else docker.from_env(timeout=seconds)
            )
        try:
            with mapped():
                yield made
        finally:
            made.close()


@contextmanager
def mapped() -> Iterator[None]:
    """Turn the SDK's and its transport's errors into ours."""
    import requests
    from docker.errors import APIError, DockerException

    try:
        yield
    except APIError as error:
        raise ProbeFailed(f"docker: {explanation(error)}") from error
    except DockerException as error:
        raise EngineUnavailable(f"the Docker daemon does not answer: {_reason(error)}") from error
    except requests.exceptions.RequestException as error:
        raise EngineUnavailable(f"the Docker daemon did not answer in time: {error}") from error


def _reason(error: BaseException) -> str:
    """Return the system's own words from under the layers that only repeat Python's notation of them."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror.lower()
        inner = inner.__cause__ or inner.__context__
    return str(error)


def explanation(error: APIError) -> str:
    """Return the daemon's own text."""
    return str(error.explanation or error)
