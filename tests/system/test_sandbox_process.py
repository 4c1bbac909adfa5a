"""`baseline sandbox` as a newcomer runs it: one command up, one Ctrl-C down, and nothing left after a kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from bot.sandbox.keeping import free_port, take_lock
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

    def answer(self, *, asking: bool = True) -> dict[str, Any]:
        """The bot's answer to a log dropped in a direct conversation."""
        olga = self.ws.as_user("olga")
        if asking:
            assert olga.drop("bad-model-path-1", channel=olga.dm)["ok"]
        return self.ws.until(
            lambda: next((m for m in self.ws.state()["messages"][olga.dm] if m.get("bot_id")), None),
            "an answer to the log",
            STARTS_WITHIN_S,
        )

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
def test_one_command_brings_it_up_and_one_ctrl_c_ends_all_of_it(sandbox: Sandbox) -> None:
    process = sandbox.start()
    sandbox.ws.ready(STARTS_WITHIN_S)
    assert sandbox.answer() is not None
    assert sandbox.ws.http.get("/healthz").json()["ok"] is True
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=STARTS_WITHIN_S)
    assert process.returncode == 0
    assert "Press first" in told
    assert "BASELINE_SLACK_BOT_TOKEN is set and not used" in told
    assert "xoxb-somebody-elses" not in told
    sandbox.gone()


@pytest.mark.services  # two whole starts: too long for the default run
@pytest.mark.timeout(300)
def test_a_kill_leaves_nothing_that_the_next_start_does_not_clean_up(sandbox: Sandbox) -> None:
    killed = sandbox.start()
    sandbox.ws.ready(STARTS_WITHIN_S)
    answer = sandbox.answer()
    before = {one.pid for one in sandbox.family()}
    killed.kill()
    killed.communicate()
    again = sandbox.start()
    sandbox.ws.ready(STARTS_WITHIN_S)
    sandbox.ws.until(
        lambda: not before & {one.pid for one in sandbox.family()}, "none of the killed sandbox's processes"
    )
    assert sandbox.answer(asking=False)["ts"] == answer["ts"]
    again.send_signal(signal.SIGTERM)
    again.communicate(timeout=STARTS_WITHIN_S)
    sandbox.gone()


def test_a_folder_is_worked_on_by_one_sandbox(sandbox: Sandbox) -> None:
    with take_lock(sandbox.data / "sandbox", "http://127.0.0.1:1"):
        told, _ = sandbox.start().communicate(timeout=STARTS_WITHIN_S)
    assert sandbox.process is not None
    assert sandbox.process.returncode == 2
    assert "a sandbox works on this data already" in told


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
