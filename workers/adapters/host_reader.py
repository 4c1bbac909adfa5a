"""The port `HostReader`: all host facts but NVML's, read below a root folder."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from workers.adapters.docker_facts import docker_facts
from workers.adapters.docker_gateway import DockerGateway
from workers.adapters.driver_facts import driver_facts
from workers.adapters.kernel_log import kernel_facts
from workers.adapters.model_files import model_facts
from workers.adapters.system_facts import system_facts
from workers.ports import Facts


class RootHostReader:
    """Reads this host, or a recorded one below `root` (then nothing is asked of daemons)."""

    def __init__(self, *, root: Path = Path("/"), data_dir: Path, docker: DockerGateway | None) -> None:
        self._root = root
        self._data_dir = data_dir
        self._docker = docker

    def read(self, *, model_path: str | None = None) -> Facts:
        """Return all host facts; the slow parts are read side by side."""
        docker = self._docker
        parts = [
            lambda: driver_facts(self._root),
            lambda: system_facts(self._root, data_dir=self._data_dir),
            lambda: kernel_facts(self._root),
        ]
        if docker is not None:
            parts.append(lambda: docker_facts(docker))
        if model_path is not None:
            parts.append(lambda: model_facts(model_path))
        with ThreadPoolExecutor(len(parts), thread_name_prefix="host-facts") as pool:
            facts: Facts = {}
            for found in pool.map(lambda part: part(), parts):
                facts |= found
        return facts

    def driver(self) -> Facts:
        """Return the fields `driver.*` alone."""
        return driver_facts(self._root)

    def model_files(self, path: str) -> Facts:
        """Return the fields `model.*` of a folder."""
        return model_facts(path)
