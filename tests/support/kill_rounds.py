"""Rounds of one launch each in a running sandbox, with a process killed in the middle: a seed says which and when.

After each round: the job ended once in the record, no engine process is left, no job started an engine twice, and the
thread says what the record says. Used by the system tests (few rounds) and by `benchmarks/kills.py` (as many as asked).
"""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from playbooks.evidence import bundle
from tests.support.node_builders import ENGINE, script
from tests.support.running_sandbox import Story, running_sandbox
from tests.support.workspace import Person, words_of

VICTIMS = ("worker", "queue process", "broker", "bot")
"""What is killed. The queue process is the worker's child that runs the launch."""
SETTLES_WITHIN_S = 120
LINES = [
    [0.4, "INFO 12-01 00:00:00 [api_server.py:1] vLLM API server version 0.32.0"],
    [1.2, "(EngineCore pid=7) INFO 12-01 00:00:01 [core.py:133] Initializing a V1 LLM engine (v0.32.0)"],
    [1.2, "(Worker pid=8) INFO 12-01 00:00:02 [cpu_model_runner.py:68] Starting to load model /models/none..."],
    [0.6, "Traceback (most recent call last):"],
    '  File "/x/serve.py", line 1, in main',
    "    run()",
    "ValueError: Invalid repository ID or local directory specified: '/models/none'",
]


@dataclass
class Round:
    """What a round did and what was found wrong with it."""

    number: int
    victim: str
    after_s: float
    jobs: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        told = "; ".join(self.wrong) or "as it should be"
        return f"{self.number:3d}  {self.victim:13s} after {self.after_s:4.1f} s  {', '.join(self.ends):40s} {told}"


@dataclass
class Place:
    """Where the scripted engine and its notes lie: `starts` gets a line per started engine."""

    folder: Path

    @property
    def starts(self) -> Path:
        return self.folder / "starts"

    @property
    def vllm(self) -> Path:
        return self.folder / "bin" / "vllm"

    def make(self) -> Path:
        """Write the engine, its script and a node policy that opens just them; returns the policy's path."""
        (self.folder / "bin").mkdir(parents=True)
        (self.folder / "models" / "none").mkdir(parents=True)
        self.starts.touch()
        self.vllm.write_text(
            f'#!/bin/sh\necho "$BASELINE_JOB $$" >> "{self.starts}"\nexec "{sys.executable}" "{ENGINE}" "$@"\n',
            encoding="utf-8",
        )
        self.vllm.chmod(0o755)
        self._interpreter()
        script(self.folder, "script", lines=LINES, exit=1, ignore_term=True, children=1, escape=True)
        policy = self.folder / "policy.toml"
        policy.write_text(
            f"""schema = "baseline-node-policy/1"
engines = ["process"]
model_dirs = ["{self.folder / "models"}"]
env = ["SCRIPT"]
ports = [21000, 29999]
[[interpreters]]
python = "{self.folder / "bin" / "python"}"
vllm = "{self.vllm}"
""",
            encoding="utf-8",
        )
        return policy

    def _interpreter(self) -> None:
        """Make an environment whose package records say what a CPU build's say."""
        real = Path(sys.executable).resolve()
        (self.folder / "bin" / "python").symlink_to(real)
        (self.folder / "pyvenv.cfg").write_text(f"home = {real.parent}\n", encoding="utf-8")
        site = self.folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
        for name, version in (("vllm", "0.32.0+cpu"), ("torch", "2.13.0+cpu")):
            record = site / f"{name}-{version}.dist-info" / "METADATA"
            record.parent.mkdir(parents=True)
            record.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
            module = site / name / "__init__.py"
            module.parent.mkdir()
            module.write_text(f'__version__ = "{version}"\n', encoding="utf-8")

    @property
    def command(self) -> str:
        return f"SCRIPT={self.folder / 'script.json'} vllm serve {self.folder / 'models' / 'none'}"

    def started(self) -> list[str]:
        """Return the job of each started engine."""
        return [line.split()[0] for line in self.starts.read_text(encoding="utf-8").splitlines()]


def engines_of(place: Place) -> list[psutil.Process]:
    """Return the processes that carry the script of this place: engines and what they left."""
    found = []
    for one in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            environment = one.environ()
            mine = environment.get("SCRIPT", "").startswith(str(place.folder)) and "BASELINE_JOB" in environment
            if mine and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
    return found


def rows(data: Path, kind: str) -> list[dict[str, Any]]:
    """Return the payloads of one kind in the record, oldest first."""
    with contextlib.closing(sqlite3.connect(f"file:{data / 'baseline.db'}?mode=ro", uri=True, timeout=30)) as store:
        found = store.execute("SELECT payload FROM entries WHERE kind = ? ORDER BY seq", (kind,)).fetchall()
    return [json.loads(row[0]) for row in found]


def ends(data: Path) -> dict[str, list[str]]:
    """Return how each launch job ended in the record: more than one end is one too many."""
    found: dict[str, list[str]] = {}
    for payload in rows(data, "attempt:recorded"):
        found.setdefault(payload["job_id"], []).append(payload["outcome"])
    for payload in rows(data, "job:ended"):
        if payload["job_kind"] == "launch":
            found.setdefault(payload["job_id"], []).append(payload["outcome"])
    return found


def wanted(data: Path) -> list[str]:
    """Return the launch jobs that were asked for."""
    return [payload["job_id"] for payload in rows(data, "job:requested") if payload["job_kind"] == "launch"]


def kill(data: Path, victim: str) -> bool:
    """Kill -9 a part of the sandbox by its record; False when it does not run just now."""
    part = "worker" if victim == "queue process" else victim
    record = data / "sandbox" / "run" / f"{part}.json"
    with contextlib.suppress(OSError, ValueError, KeyError, psutil.NoSuchProcess):
        found = psutil.Process(int(json.loads(record.read_text(encoding="utf-8"))["pid"]))
        if victim == "queue process":
            owner = _owner(data)
            if owner is None:
                return False
            found = psutil.Process(owner)
        found.kill()
        return True
    return False


def _owner(data: Path) -> int | None:
    journal = next((data / "worker").glob("*/journal.db"), None)
    if journal is None:
        return None
    with contextlib.closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True, timeout=10)) as db:
        row = db.execute("SELECT owner FROM jobs WHERE state != 'finished' AND request LIKE '%launch%'").fetchone()
    return int(row[0].split(":")[1]) if row else None


def play(story: Story, who: Person, place: Place, *, number: int, rng: random.Random) -> Round:
    """Play one round and judge it."""
    victim, after_s = rng.choice(VICTIMS), rng.uniform(0.0, 5.0)
    this = Round(number, victim, after_s)
    before = set(wanted(story.data))
    _run(story, who)
    begun = time.monotonic()
    while time.monotonic() - begun < after_s:
        time.sleep(0.02)
    if not kill(story.data, victim):
        this.victim = f"({victim})"
    deadline = time.monotonic() + SETTLES_WITHIN_S
    while time.monotonic() < deadline:
        this.jobs = [job for job in wanted(story.data) if job not in before]
        ended = ends(story.data)
        if this.jobs and all(job in ended for job in this.jobs) and not engines_of(place):
            break
        time.sleep(0.1)
    ended = ends(story.data)
    this.ends = [", ".join(ended.get(job, ["no end"])) for job in this.jobs]
    started = place.started()
    if not this.jobs:
        this.wrong.append("no job in the record")
    for job in this.jobs:
        if len(ended.get(job, ())) != 1:
            this.wrong.append(f"job {job}: expected one end, found {ended.get(job, [])}")
        if started.count(job) > 1:
            this.wrong.append(f"job {job}: started {started.count(job)} times")
    if left := engines_of(place):
        this.wrong.append(f"left running: {[one.pid for one in left]}")
    return this


def truth(story: Story) -> list[str]:
    """Compare the thread with the record: each end of a launch is said in one reply, by its number and outcome."""
    wrong: list[str] = []
    deadline = time.monotonic() + SETTLES_WITHIN_S
    while time.monotonic() < deadline:
        said = [words_of(message) for message in story.ws.replies(story.thread)]
        wrong = []
        for seq, kind, payload in _told(story.data):
            outcome = str(payload["outcome"])
            replies = [text for text in said if text.startswith(f"#{seq} ·")]
            if len(replies) != 1 or outcome not in replies[0]:
                wrong.append(f"{kind} {seq}: expected one reply that says {outcome}, found {replies}")
        if not wrong:
            break
        time.sleep(0.5)
    return wrong


def _told(data: Path) -> list[tuple[int, str, dict[str, Any]]]:
    with contextlib.closing(sqlite3.connect(f"file:{data / 'baseline.db'}?mode=ro", uri=True, timeout=30)) as store:
        found = store.execute("SELECT seq, kind, payload FROM entries ORDER BY seq").fetchall()
    read = [(int(seq), str(kind), json.loads(payload)) for seq, kind, payload in found]
    return [
        row
        for row in read
        if row[1] == "attempt:recorded" or (row[1] == "job:ended" and row[2]["job_kind"] == "launch")
    ]


@contextlib.contextmanager
def kill_story(folder: Path) -> Iterator[tuple[Story, Person, Place]]:
    """Run a sandbox whose vLLM is the scripted engine, with a case that may launch."""
    place = Place(folder / "engine")
    policy = place.make()
    with running_sandbox(folder / "data", "--policy", str(policy)) as story:
        olga = story.ws.as_user("olga")
        story.open(
            olga, title="Killed in the middle", what_fails="always", command=place.command, playbook="generic-vllm"
        )
        story.says("Boundary:", 120)
        story.answer(olga, "The first failing request", "none, it never became ready")
        story.answer(olga, "The first exception, with the complete log around it", "not kept")
        story.answer(olga, "Every change so far, and when it failed first", "none")
        story.says("Phase launch opened", 60)
        yield story, olga, place


def rounds(folder: Path, *, count: int, seed: int, say: Callable[[str], None]) -> list[str]:
    """Play the rounds; returns all that was wrong."""
    rng = random.Random(seed)
    wrong: list[str] = []
    with kill_story(folder) as (story, who, place):
        for number in range(1, count + 1):
            played = play(story, who, place, number=number, rng=rng)
            say(str(played))
            wrong += [f"round {number}: {text}" for text in played.wrong]
        wrong += truth(story)
        if bundle.verify(story.bundle(who)).problems != ():
            wrong.append("the bundle does not verify")
    return wrong


def _run(story: Story, who: Person) -> None:
    deadline = time.monotonic() + 90
    while True:
        try:
            story.run(who, runs="1")
        except (AssertionError, TimeoutError, KeyError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        else:
            return
