"""What the jobs need of the outside: engines, the bot, hardware readers, a place for evidence. Vendor code is in `adapters`.

Each port has an adapter with the vendor's library, and an in-memory one in the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from playbooks.judging.baseline import ContainerOptions, FixedSample, ImageRef, Mount
from playbooks.judging.cache_facts import Scrape
from playbooks.judging.feature_facts import FeatureTry
from playbooks.messages import (
    ArtifactRef,
    ClaimReply,
    FieldValue,
    GroupWord,
    Heartbeat,
    HeartbeatReply,
    HelloReply,
    JobReport,
    NodeHello,
    Progress,
    ReportReply,
    RequestRun,
)
from playbooks.vocabulary import Stage

Facts = dict[str, FieldValue]
"""Fingerprint fields by dotted name."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """What is started, after the policy has allowed it.

    argv: of the process, executable first; of a container, its arguments.
    secrets: environment values filled from the node's own file; they never leave the node.
    """

    job_id: str
    incident: str
    attempt: int
    argv: tuple[str, ...]
    env: Mapping[str, str]
    port: int
    folder: Path
    secrets: Mapping[str, str] = field(default_factory=dict)
    image: ImageRef | None = None
    mounts: tuple[Mount, ...] = ()
    container: ContainerOptions | None = None
    gpus: tuple[str, ...] = ()
    use_gpus: bool = False
    """Whether a container asks for GPUs at all: false on a node without any."""


@dataclass(frozen=True, slots=True)
class EngineRef:
    """How a started engine is found again after the worker was restarted. JSON-able by `dataclasses.asdict`."""

    engine: str
    id: str
    """Process identity `boot:pid:ticks`, or container id."""
    job_id: str
    log: str
    port: int
    worker: str = ""
    """Whose engine it is, by the worker's journal; "" in references of older journals."""

    @property
    def what(self) -> str:
        """The engine in words: `process 4711`, `container 3f2a…`."""
        return f"process {self.id.split(':')[1]}" if self.engine == "process" else f"container {self.id[:12]}"


@dataclass(frozen=True, slots=True)
class EngineState:
    """State as the runtime tells it. `error`: the runtime's own text when it could not start what was asked."""

    running: bool
    exit_code: int | None = None
    signal: int | None = None
    oom_killed: bool | None = None
    error: str | None = None


class RunningEngine(Protocol):
    """A started engine."""

    @property
    def ref(self) -> EngineRef: ...
    def read(self) -> bytes:
        """Return what was logged since the last call; b"" when nothing was."""
        ...

    def state(self) -> EngineState: ...
    def answers_on(self, port: int) -> bool | None:
        """Whether this engine, and not some older one, listens there; None = cannot tell."""
        ...

    def snapshot(self) -> str:
        """Return what helps when a limit is hit: processes, states, CPU, stacks."""
        ...

    def stop(self, *, grace_s: float) -> tuple[str, ...]:
        """End it and all it started; returns what could not be verified gone."""
        ...


class Engine(Protocol):
    """Starts engines, finds them again, and leaves nothing behind."""

    kind: str

    def start(self, spec: LaunchSpec, started: Callable[[EngineRef], None]) -> RunningEngine:
        """Start; `started` is told the reference as soon as there is one.

        Raises:
            StartFailed: the runtime refused; nothing is left of it.
            EngineUnavailable: the runtime does not answer.
        """
        ...

    def find(self, ref: EngineRef) -> RunningEngine | None:
        """Return the engine if it still runs."""
        ...

    def clear(self, ref: EngineRef) -> tuple[str, ...]:
        """End whatever is left of an engine, also when its first process is gone; returns what could not be ended."""
        ...

    def sweep(self, *, spare: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """End everything this worker once started but for the jobs in `spare`: (ended, could not be ended)."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """The whole answer of one fixed request, for the evidence; `run` is what is reported."""

    run: RequestRun
    text: str


class EngineHttp(Protocol):
    """HTTP to the inference engine."""

    def health(self, endpoint: str, *, timeout_s: float = 2) -> int | None:
        """Return the status of `/health`; None = nobody answers."""
        ...

    def model_name(self, endpoint: str, *, headers: Mapping[str, str]) -> str | None: ...
    def model_length(self, endpoint: str, *, headers: Mapping[str, str]) -> int | None: ...
    def tokens(
        self, endpoint: str, text: str, *, model: str | None, headers: Mapping[str, str]
    ) -> list[int] | None: ...
    def metrics(self, endpoint: str, *, headers: Mapping[str, str]) -> str | None: ...
    def chat(
        self,
        endpoint: str,
        body: Mapping[str, Any],
        *,
        n: int,
        asked: str,
        timeout_s: float,
        headers: Mapping[str, str],
    ) -> FeatureTry:
        """Send one chat request; what the engine does is in the answer, nothing is raised for it."""
        ...

    def read_metrics(self, text: str) -> tuple[Scrape, dict[str, str]] | None:
        """Return the counters and the labels of the cache's configuration; None when it is no metrics text."""
        ...

    def ask(
        self,
        endpoint: str,
        sample: FixedSample,
        *,
        n: int,
        timeout_s: float,
        model: str | None,
        headers: Mapping[str, str],
    ) -> Answer: ...


class MemoryWatch(Protocol):
    """Samples of GPU memory in use, once a second; nothing where there is no NVML."""

    def samples(self) -> tuple[tuple[int, int], ...]:
        """Return (milliseconds since the start, bytes in use over all GPUs) so far."""
        ...

    def by_gpu(self) -> dict[str, tuple[tuple[int, int], ...]]:
        """Return the same of each GPU by its name (`GPU 0`)."""
        ...

    def close(self) -> None: ...


class GpuReader(Protocol):
    """NVML, read in a process of its own."""

    def read(self) -> Facts: ...
    def watch(self) -> MemoryWatch: ...


class HostReader(Protocol):
    """Host facts from /proc, /sys, package records and the container engine."""

    def read(self, *, model_path: str | None = None) -> Facts: ...
    def driver(self) -> Facts:
        """Return the fields `driver.*` alone."""
        ...

    def model_files(self, path: str) -> Facts:
        """Return the fields `model.*` of a folder."""
        ...


class InsideReader(Protocol):
    """The container's side, by a probe script that runs inside."""

    def in_container(self, name: str) -> Facts: ...
    def in_image(self, reference: str) -> Facts: ...
    def in_python(self, python: str) -> Facts: ...
    def packages(self, python: str) -> Facts:
        """Return the fields `package.*` of an interpreter alone, quickly."""
        ...

    def container_facts(self, inspection: dict[str, Any]) -> Facts:
        """Return the fields `container.*` of a `docker inspect`."""
        ...

    def image_facts(self, reference: str) -> Facts:
        """Return the fields `image.*` alone."""
        ...


@dataclass(frozen=True, slots=True)
class Scene:
    """What was saved of one thing, or why it is missing."""

    role: str
    text: bytes | None
    why: str = ""
    name: str = ""
    media_type: str = "text/plain"


class SceneReader(Protocol):
    """Read-only look at a node and a container that is already there."""

    def host(self) -> Sequence[Scene]: ...
    def container(self, name: str) -> tuple[Sequence[Scene], dict[str, Any] | None]:
        """Return what was saved, and the container's inspection (None = not found or no daemon)."""
        ...


class Spool(Protocol):
    """Evidence on the node until the bot has it; redacted before it is hashed."""

    def save_text(
        self, job_id: str, name: str, text: bytes, *, media_type: str = "text/plain", secrets: Mapping[str, str] = {}
    ) -> ArtifactRef: ...
    def save_log(
        self, job_id: str, name: str, path: Path, *, around: tuple[int, ...] = (), secrets: Mapping[str, str] = {}
    ) -> ArtifactRef:
        """Save a log file, bounded: its head, the surroundings of the lines `around` (from 1) and its tail.

        secrets: values that this node filled in, by name; they are replaced wherever they stand.
        """
        ...

    def trim(self, log: Path) -> int:
        """Give back the disk of the middle of a log that is still written to; returns the bytes given back."""
        ...

    def path(self, sha256: str) -> Path: ...
    def forget(self, sha256: str) -> None: ...


class Control(Protocol):
    """The thread between a running job and who asked for it."""

    def check(self) -> None:
        """Raise JobCancelled when the job was called off."""
        ...

    def progress(self, stage: Stage | None, note: str, *, root_text: str | None = None) -> None: ...
    @property
    def group(self) -> GroupWord:
        """What the bot said last of the other ranks of this launch; of one node's launch it says nothing."""
        ...


class Bot(Protocol):
    """The bot's interface for nodes; every call may raise BotUnreachable or BotRefused."""

    @property
    def clock_offset_ms(self) -> int | None:
        """Node minus bot at the last answer; None = not heard yet."""
        ...

    def hello(self, hello: NodeHello) -> HelloReply: ...
    def claim(self, job_id: str, *, patience_s: float) -> ClaimReply: ...
    def heartbeat(self, beat: Heartbeat) -> HeartbeatReply: ...
    def progress(self, progress: Progress) -> None: ...
    def report(self, report: JobReport, *, patience_s: float) -> ReportReply: ...
    def put_artifact(self, ref: ArtifactRef, path: Path, *, job_id: str) -> None: ...


class Clock(Protocol):
    """Time on this node: wall clock for records, monotonic for durations; `sleep` gives way."""

    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...
