"""What a job is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from playbooks.judging.signature_catalogue import Catalogue
from workers.journal import Journal
from workers.policy import NodePolicy
from workers.ports import Bot, Clock, Engine, EngineHttp, GpuReader, HostReader, InsideReader, SceneReader, Spool


@dataclass(frozen=True, slots=True)
class Deps:
    """The node as a job sees it. `home`: the worker's folder on this node."""

    node: str
    version: str
    home: Path
    policy: NodePolicy | None
    policy_sha256: str
    journal: Journal
    spool: Spool
    bot: Bot
    engines: Mapping[str, Engine]
    http: EngineHttp
    gpus: GpuReader
    host: HostReader
    inside: InsideReader
    scenes: SceneReader
    clock: Clock
    catalogue: Callable[[], Catalogue]
    owner: Callable[[], str]
    """Identity of the process that runs the job."""
    is_alive: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Done:
    """Facts of a job that came to its end. Its files are in the journal."""

    facts: BaseModel
