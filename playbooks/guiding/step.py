"""The one thing to do next, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from playbooks.vocabulary import JobKind


@dataclass(frozen=True, slots=True)
class NextStep:
    """The one thing to do now. `item` is a checklist item to answer, `job` the job to ask for."""

    kind: Literal["answer", "job", "decide", "approve", "wait", "request", "add_back", "close"]
    text: str
    why: str = ""
    how: str = ""
    item: str | None = None
    job: JobKind | None = None


def run(text: str, why: str) -> NextStep:
    """Return the step of running an attempt."""
    return NextStep("job", text, why=why, how="Press Run.", item="two-attempts", job=JobKind.LAUNCH)


def keep_an_engine() -> NextStep:
    """Return the step of starting the newest baseline again, since nothing is held to be asked."""
    return run("No engine is held: start it again, and keep it.", "The fixed request goes to the attempt's engine.")


def fixed_request() -> NextStep:
    """Return the step of sending the fixed request to the held engine."""
    return NextStep(
        "request",
        "Send the fixed request, several runs.",
        why="One success is never stable; no real traffic before this.",
        how="Press Run.",
        item="fixed-request",
        job=JobKind.REQUEST,
    )
