"""The lab's real vLLM (CPU build) on a test node, through the adapters process and docker, and clocks beside it.

The clocks look from outside: at the log as the engine or the container runtime writes it, and at the engine's end.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from playbooks.judging.baseline import Baseline, ContainerOptions, ImageRef, Interpreter, Mount
from tests.support.fake_bot import FakeBot
from tests.support.node_builders import TestNode, make_node, policy
from workers.adapters import process_table
from workers.adapters.docker_engine import DockerEngine
from workers.adapters.docker_gateway import DockerGateway
from workers.policy.file import ImageRule, InterpreterRule

LAB = (Path(__file__).resolve().parents[2] / ".lab").resolve()
PYTHON = LAB / "venv" / "bin" / "python"
VLLM = LAB / "venv" / "bin" / "vllm"
TINY = LAB / "models" / "tiny-llama"
ENV = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "0-1",
}
SHORT = ("--served-model-name", "tiny", "--enforce-eager", "--max-model-len", "4096", "--dtype", "bfloat16")
IMAGE = "baseline-test/skeleton:1"
_LOOK_S = 0.005


def skeleton_image(docker_host: str) -> str:
    """Import an image of links and empty folders only: programs and libraries come from this machine by read-only mounts."""
    with tempfile.TemporaryDirectory(prefix="baseline-img-") as made:
        folder = Path(made)
        for name in ("usr", "tmp", "etc", "root", "proc", "sys", "dev", "run", "var/tmp"):
            (folder / name).mkdir(parents=True)
        (folder / "tmp").chmod(0o1777)
        (folder / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\n", encoding="ascii")
        (folder / "etc" / "hosts").write_text("127.0.0.1 localhost\n", encoding="ascii")
        for name in ("bin", "lib", "lib64", "sbin"):
            (folder / name).symlink_to(f"usr/{name}")
        tar = subprocess.run(["tar", "-C", made, "-c", "."], check=True, capture_output=True).stdout
    changes = ["-c", "ENV PATH=/usr/bin:/bin", "-c", "ENV HOME=/root", "-c", "ENV LANG=C.UTF-8"]
    subprocess.run(
        ["docker", "import", *changes, "-", IMAGE],
        input=tar,
        check=True,
        capture_output=True,
        env={**os.environ, "DOCKER_HOST": docker_host},
    )
    return IMAGE


@dataclass
class TimedBot(FakeBot):
    """A bot that notes when words arrived, by this machine's monotonic clock."""

    heard: list[tuple[float, str, str]] = field(default_factory=list)
    """(arrival, kind, root text or job id)."""

    def answer(self, path: str, raw: bytes) -> Any:
        at = time.monotonic()
        known = len(self.progress)
        reply = super().answer(path, raw)
        if len(self.progress) > known and self.progress[-1].root_text:
            self.heard.append((at, "root", self.progress[-1].root_text))
        elif path.endswith("/report"):
            self.heard.append((at, "report", path))
        return reply

    def first(self, kind: str) -> float | None:
        """Return when the first message of a kind arrived."""
        return next((at for at, what, _ in self.heard if what == kind), None)


@dataclass
class LineClock:
    """Reads a growing log from outside and notes when each line was there; json: the container runtime's own file.

    on_line: called with each line's text.
    """

    find: Callable[[], Path | None]
    on_line: Callable[[str], None] = lambda _line: None
    as_json: bool = False
    seen: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="line-clock", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._ended.set()
        self._thread.join(timeout=5)

    def when(self, text: str) -> float | None:
        """Return when the first line with this text was there."""
        return next((at for at, line in self.seen if text and text in line), None)

    def _run(self) -> None:
        while (path := self.find()) is None:
            if self._ended.wait(_LOOK_S):
                return
        left = b""
        with path.open("rb") as log:
            while not self._ended.is_set():
                data = log.read()
                at = time.monotonic()
                if not data:
                    time.sleep(_LOOK_S)
                    continue
                *whole, left = (left + data).split(b"\n")
                for raw in whole:
                    line = str(json.loads(raw)["log"]) if self.as_json else raw.decode(errors="replace")
                    self.seen.append((at, line))
                    self.on_line(line)


def end_clock(pid: Callable[[], int | None], ends: list[float]) -> threading.Thread:
    """Note in `ends` when the process is dead; the returned thread ends then."""

    def look() -> None:
        until = time.monotonic() + 600
        while (found := pid()) is None and time.monotonic() < until:
            time.sleep(_LOOK_S)
        while found is not None and time.monotonic() < until:
            row = process_table.process(found)
            if row is None or row.is_dead:
                ends.append(time.monotonic())
                return
            time.sleep(_LOOK_S)

    thread = threading.Thread(target=look, name="end-clock", daemon=True)
    thread.start()
    return thread


def kill_part(title: str, since: float) -> bool:
    """Send SIGKILL to the engine's process of this title that was started after `since`; False when there is none."""
    for found in psutil.process_iter(["cmdline", "create_time"]):
        if found.info["create_time"] >= since and title in " ".join(found.info["cmdline"] or ()):
            found.kill()
            return True
    return False


def process_node(folder: Path, bot: FakeBot) -> TestNode:
    """Return a node that may start the lab's vLLM as a process; models lie below `folder/models` and in the lab."""
    rules = policy(
        folder,
        interpreters=(InterpreterRule(python=PYTHON, vllm=VLLM),),
        model_dirs=(folder / "models", LAB / "models"),
        env=("VLLM_*", "HF_HUB_OFFLINE"),
    )
    return make_node(folder, bot, policy=rules)


def docker_node(folder: Path, bot: FakeBot, docker_host: str) -> TestNode:
    """Return a node that may start the lab's vLLM in a container of nothing but mounts."""
    home = Path(os.path.realpath(PYTHON)).parents[1]
    rules = policy(
        folder,
        engines=("docker",),
        images=(ImageRule(reference=IMAGE, entrypoints=((str(VLLM), "serve"),)),),
        model_dirs=(folder / "models", LAB / "models"),
        mounts=(Path("/usr"), home, LAB),
        env=("VLLM_*", "HF_HUB_OFFLINE"),
        network_modes=("host",),
        arguments={"listen": ("127.0.0.1", "0.0.0.0")},
    )
    made = make_node(folder, bot, policy=rules)
    engine = DockerEngine(DockerGateway(base_url=docker_host), worker=made.deps.journal.instance)
    return replace(made, deps=replace(made.deps, engines={"docker": engine}))


def real_baseline(
    kind: str,
    folder: Path,
    argv: tuple[str, ...],
    *,
    env: dict[str, str] | None = None,
    memory_bytes: int | None = None,
) -> Baseline:
    """Return a baseline of the lab's vLLM for one adapter; memory_bytes limits a container."""
    if kind == "process":
        return Baseline(
            engine="process", interpreter=Interpreter(python=str(PYTHON)), argv=argv, env={**ENV, **(env or {})}
        )
    home = Path(os.path.realpath(PYTHON)).parents[1]
    return Baseline(
        engine="docker",
        image=ImageRef(reference=IMAGE),
        argv=(*argv, "--host", "127.0.0.1"),
        env={**ENV, **(env or {})},
        mounts=tuple(
            Mount(source=str(path), target=str(path), read_only=True)
            for path in (Path("/usr"), home, LAB / "venv", LAB / "models", folder / "models")
        ),
        container=ContainerOptions(
            network_mode="host",
            shm_size_bytes=256 << 20,
            entrypoint=(str(VLLM), "serve"),
            memory_limit_bytes=memory_bytes,
        ),
    )
