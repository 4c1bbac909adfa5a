"""`baseline sandbox` as a newcomer runs it: one command up, one Ctrl-C down, and nothing left after a kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from bot.sandbox.keeping import free_port
from tests.support.workspace import Workspace

STARTS_WITHIN_S = 60.0


class Sandbox:
    """A sandbox process of the test's own."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.port = free_port()
        self.ws = Workspace(f"http://127.0.0.1:{self.port}")
        self.process: subprocess.Popen[str] | None = None

    def start(self, *more: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", "from playbooks.cli import main; main()", "sandbox", "--no-open"]
        self.process = subprocess.Popen(
            [*command, "--port", str(self.port), "--data", str(self.data), *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "BASELINE_SLACK_BOT_TOKEN": "xoxb-somebody-elses"},
        )
        return self.process

    def family(self) -> list[psutil.Process]:
        """Every process that works on this data folder."""
        found = []
        for one in psutil.process_iter():
            try:
                mine = str(self.data) in " ".join(one.cmdline()) or one.environ().get("BASELINE_DATA_DIR") == str(
                    self.data
                )
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
            if mine and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
        return found

    def gone(self) -> None:
        self.ws.until(lambda: not self.family(), "no process left", STARTS_WITHIN_S)


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    made = Sandbox(tmp_path / "data")
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
    for one in made.family():
        one.kill()
    if made.process is not None:
        made.process.communicate()
    made.ws.close()


@pytest.mark.timeout(180)
def test_it_survives_a_kill_and_ends_whole(sandbox: Sandbox) -> None:
    killed = sandbox.start()
    sandbox.ws.ready(STARTS_WITHIN_S)
    olga = sandbox.ws.as_user("olga")
    assert olga.drop("bad-model-path-1", channel=olga.dm)["ok"]
    answer = sandbox.ws.until(
        lambda: next((m for m in sandbox.ws.state()["messages"][olga.dm] if m.get("bot_id")), None),
        "an answer to the log",
        STARTS_WITHIN_S,
    )
    assert sandbox.ws.http.get("/healthz").json()["ok"] is True

    killed.kill()
    killed.communicate()
    again = sandbox.start()
    sandbox.ws.ready(STARTS_WITHIN_S)
    assert [m["ts"] for m in sandbox.ws.state()["messages"][olga.dm] if m.get("bot_id")][:1] == [answer["ts"]]
    assert killed.pid not in {one.pid for one in sandbox.family()}

    second = subprocess.run(
        [*again.args, "--port", str(free_port())],  # type: ignore[misc]
        capture_output=True, text=True, timeout=STARTS_WITHIN_S, check=False,
    )  # fmt: skip
    assert second.returncode == 2
    assert "a sandbox works on this data already" in second.stderr

    again.send_signal(signal.SIGINT)
    told, _ = again.communicate(timeout=STARTS_WITHIN_S)
    assert again.returncode == 0
    assert "Press first" in told
    assert "BASELINE_SLACK_BOT_TOKEN is set and not used" in told
    assert "xoxb-somebody-elses" not in told
    sandbox.gone()


def test_a_taken_port_is_named(sandbox: Sandbox) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        sandbox.port = taken.getsockname()[1]
        told, _ = sandbox.start().communicate(timeout=STARTS_WITHIN_S)
    assert sandbox.process is not None
    assert sandbox.process.returncode == 2
    assert f"port {sandbox.port} on 127.0.0.1: Address already in use; choose another with --port" in told
