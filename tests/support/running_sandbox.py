"""The real `baseline sandbox` as a process of its own, for stories that go through everything."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot.sandbox.keeping import free_port
from tests.support.workspace import Person, Workspace, words_of


@dataclass
class Story:
    """One incident worked by people at the page."""

    ws: Workspace
    data: Path
    incident: str = ""
    thread: str = ""

    def open(self, who: Person, **fields: str) -> None:
        """Open a case by the slash command and remember its thread."""
        who.slash("/baseline open")
        who.modal()
        who.submit(fields)
        title = fields["title"]
        parent = self.ws.until(
            lambda: next((m for m in self.ws.messages() if title in words_of(m) and "INC-" in words_of(m)), None),
            "the parent message",
            30,
        )
        self.incident = next(w.strip("*·") for w in words_of(parent).split() if w.strip("*").startswith("INC-"))
        self.thread = self.ws.thread(self.incident)

    def says(self, containing: str, within_s: float = 60) -> str:
        """Wait for a reply that says so and return its words."""
        return words_of(self.ws.reply(self.thread, containing, within_s=within_s))

    def count(self, containing: str) -> int:
        return sum(containing in words_of(m) for m in self.ws.replies(self.thread))

    def times(self, containing: str, count: int, within_s: float) -> None:
        """Wait until so many replies say so."""
        self.ws.until(lambda: self.count(containing) >= count, f"{count} replies with {containing!r}", within_s)

    def answer(self, who: Person, item: str, value: str) -> None:
        """Press the question's button and answer it."""
        who.press(f"Answer: {item}", thread=self.thread, within_s=60)
        form = who.modal()
        block = next(b["block_id"] for b in form["blocks"] if b["type"] == "input")
        who.submit({block: value})
        self.ws.until(lambda: not self.ws.state(who.id)["views"], "the form to close", 30)

    def run(self, who: Person, **fields: Any) -> None:
        """Press Run and submit the form."""
        who.mention("run", self.thread)
        who.press("Run an attempt", thread=self.thread, within_s=30)
        who.modal()
        who.submit(fields)
        self.ws.until(lambda: not self.ws.state(who.id)["views"], "the form to close", 30)

    def bundle(self, who: Person) -> bytes:
        """Ask for the bundle and return its bytes."""
        who.mention("export", self.thread)

        def look() -> Any:
            files = [
                f for m in self.ws.replies(self.thread) for f in m.get("files") or () if f["name"].endswith(".zip")
            ]
            return files[-1] if files else None

        return self.ws.file(self.ws.until(look, "the bundle", 60)["id"])


@contextlib.contextmanager
def running_sandbox(data: Path, *more: str) -> Iterator[Story]:
    """Start the sandbox and end it with Ctrl-C."""
    port = free_port()
    command = [sys.executable, "-c", "from playbooks.cli import main; main()", "sandbox", "--no-open"]
    log = data.parent / "sandbox.log"
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [*command, "--port", str(port), "--data", str(data), *more],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ},
        ) as process,
    ):
        ws = Workspace(f"http://127.0.0.1:{port}")
        try:
            yield Story(ws.ready(120), data)
        finally:
            ws.close()
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
