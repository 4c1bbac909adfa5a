"""Wiring of `baseline fingerprint`: this machine alone, without bot, broker or settings."""

from __future__ import annotations

import os
from pathlib import Path

from playbooks.messages import FingerprintFacts, FingerprintParams
from workers.adapters.clocks import SystemClock
from workers.adapters.docker_gateway import DockerGateway
from workers.adapters.host_reader import RootHostReader
from workers.adapters.inside_reader import ProbeInsideReader
from workers.adapters.nvml_reader import NoGpus, NvmlReader
from workers.jobs.fingerprint import read_fingerprint


def read_local(
    *, root: Path, container: str | None, image: str | None, python: str | None, model: str | None
) -> FingerprintFacts:
    """Read this machine's fingerprint without bot, broker or settings; a root that is not `/` is read as a recorded one.

    NVML speaks of this machine, so it is asked for a recorded root only when LD_LIBRARY_PATH points at a library of its own.

    Raises:
        UnusableRequest: more than one place to look into.
    """
    here = root == Path("/")
    gateway = DockerGateway() if here else None
    return read_fingerprint(
        FingerprintParams(container=container, image=image, python=python, model_path=model),
        host=RootHostReader(root=root, data_dir=Path.cwd(), docker=gateway),
        gpus=NvmlReader() if here or _points_at_nvml() else NoGpus(),
        inside=ProbeInsideReader(gateway, worker="cli"),
        clock=SystemClock(),
    )


def _points_at_nvml() -> bool:
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return any(folder and (Path(folder) / "libnvidia-ml.so.1").exists() for folder in folders)
