"""The worker's own port: two workers of one machine never take the same one, and a taken one costs another start only."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from playbooks.messages import LaunchFacts
from playbooks.vocabulary import ErrorClass, JobKind, Outcome
from tests.support.node_builders import TestNode, baseline, job, policy, script
from workers.errors import PolicyRefusal
from workers.jobs import own_port as promises
from workers.jobs.own_port import own_port

RACER = """
import sys
from workers.jobs.own_port import own_port
print("ready", flush=True)
sys.stdin.readline()
with own_port((int(sys.argv[1]), int(sys.argv[2]))) as port:
    print(port, flush=True)
    sys.stdin.readline()
"""
READY = ["INFO 12-01 00:00:00 [api_server.py:1] vLLM API server version 0.32.0"]


def free_range(length: int) -> tuple[int, int]:
    """Return a range of ports in which nobody listens."""
    for first in range(23000, 29000, length):
        if all(promises.is_free(port) for port in range(first, first + length)):
            return first, first + length - 1
    raise AssertionError("expected free ports, found none")


class Racer:
    """Another worker's process."""

    def __init__(self, ports: tuple[int, int]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", RACER, *map(str, ports)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert self.line() == "ready"

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def test_processes_that_look_at_the_same_moment_take_different_ports() -> None:
    ports = free_range(4)
    racers = [Racer(ports) for _ in range(4)]
    try:
        for racer in racers:
            racer.go()
        assert sorted(int(racer.line()) for racer in racers) == list(range(ports[0], ports[1] + 1))
    finally:
        for racer in racers:
            racer.end()


def test_a_killed_process_keeps_no_promise() -> None:
    ports = free_range(1)
    racer = Racer(ports)
    racer.go()
    assert int(racer.line()) == ports[0]
    with pytest.raises(PolicyRefusal, match="expected a free port"), own_port(ports):
        pass
    racer.end()
    with own_port(ports) as port:
        assert port == ports[0]


def test_a_port_that_somebody_listens_on_is_passed_over() -> None:
    ports = free_range(2)
    with socket.socket() as other:
        other.bind(("127.0.0.1", ports[0]))
        other.listen()
        with own_port(ports) as port:
            assert port == ports[1]


def launched(node: TestNode, *, argv: tuple[str, ...] = ()) -> LaunchFacts:
    """Launch an engine that serves."""
    path = script(node.folder, lines=READY, serve=True)
    node.deliver(job(JobKind.LAUNCH, attempt=1, baseline=baseline(node.folder, argv=argv, env={"SCRIPT": path})))
    report = node.bot.report_of("job-1")
    assert report is not None
    assert report.error is None
    return LaunchFacts.model_validate(report.facts)


def test_an_engine_whose_port_was_taken_meanwhile_starts_again_on_another(
    node: TestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = free_range(3)
    object.__setattr__(node.deps, "policy", policy(node.folder, ports=ports))
    monkeypatch.setattr(promises, "is_free", lambda *_: True)  # as it looked before the other one came
    with socket.socket() as other:
        other.bind(("127.0.0.1", ports[0]))
        other.listen()
        facts = launched(node)
    assert facts.outcome is Outcome.READY
    first = node.folder / "engines" / "job-1" / f"engine.log.port-{ports[0]}"
    assert "Address already in use" in first.read_text(encoding="utf-8")


def test_a_port_of_the_baseline_is_a_variable_and_no_other_is_tried(node: TestNode) -> None:
    ports = free_range(3)
    object.__setattr__(node.deps, "policy", policy(node.folder, ports=ports))
    with socket.socket() as other:
        other.bind(("127.0.0.1", ports[0]))
        other.listen()
        facts = launched(node, argv=("--port", str(ports[0])))
    assert facts.outcome is Outcome.FAILED
    assert facts.finding is not None
    assert facts.finding.error_class is ErrorClass.PORT_UNAVAILABLE
