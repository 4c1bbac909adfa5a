"""Two workers of this machine as two nodes, with a scripted engine: how fast a rank follows another one's end, and races.

    python benchmarks/two_nodes.py [ROUNDS] [RACES]

Prints, for ROUNDS launches each: seconds from the head's kill to the follower's last process, from a follower's kill to the
head's, and of held engines the same; then RACES pairs of launches asked at the same moment: how many ran one after the
other, and how many were ever on half of the nodes each.
"""

from __future__ import annotations

import logging
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import structlog

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bot.ports import Job
from tests.support.bot_services import open_case
from tests.support.two_nodes import LOADING, NODES, OOM, START, TwoNodes, two_nodes, until

SERVES = {"0": {"lines": [START], "serve": True}, "1": {"lines": [START]}}


def until_the_other_is_gone(nodes: TwoNodes, victim: int, *, held: bool) -> float:
    """Kill the engine of one rank; return the seconds until nothing of the other is left."""
    if held:
        jobs = nodes.launch(ranks=SERVES, hold_s=600)
        nodes.attempt(jobs[0])
    else:
        jobs = nodes.launch(lines=[START, LOADING], ignore_term=True)
    pids = [nodes.engine_of(job) for job in jobs]
    if not held:
        time.sleep(1.0)
    started = time.monotonic()
    os.kill(pids[victim], signal.SIGKILL)
    nodes.gone(jobs[1 - victim])
    took = time.monotonic() - started
    nodes.gone(jobs[victim])
    until(nodes.free, "free nodes")
    return took


def race(nodes: TwoNodes) -> tuple[bool, bool]:
    """Ask for two launches at once; return whether both ran, and whether each was ever on half of the nodes."""
    cases = [open_case(nodes.bot, node=NODES[0], nodes=list(NODES)) for _ in range(2)]
    groups: list[list[Job]] = [[], []]
    start = threading.Barrier(2)

    def ask(number: int) -> None:
        start.wait()
        groups[number] = nodes.launch(incident=cases[number], meet=True, lines=[START, [0.2, OOM[0]], *OOM[1:]], exit=1)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    half = False
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        half |= len({incident for incident in nodes.holders() if incident is not None}) > 1
        if all(nodes.now_of(job).state.value == "ended" for group in groups for job in group):
            break
        time.sleep(0.01)
    ran = all(all(nodes.now_of(job).outcome == "done" for job in group) for group in groups)
    return ran, half


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    races = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with tempfile.TemporaryDirectory(prefix="baseline-two-nodes-") as folder, two_nodes(Path(folder)) as nodes:
        for what, victim, held in (
            ("head killed while it loads, until its follower is gone", 0, False),
            ("follower killed while it loads, until the head is gone", 1, False),
            ("held head killed, until its follower is gone", 0, True),
        ):
            took = sorted(until_the_other_is_gone(nodes, victim, held=held) for _ in range(rounds))
            print(
                f"{what}: median {statistics.median(took):.1f} s, {took[0]:.1f}-{took[-1]:.1f} s of {rounds}",
                flush=True,
            )
        results = [race(nodes) for _ in range(races)]
    ran, halves = sum(ran for ran, _ in results), sum(half for _, half in results)
    print(
        f"two launches at once, {races} times: {ran} times one after the other, {halves} times half of the nodes each"
    )
    return 1 if halves or ran < races else 0


if __name__ == "__main__":
    sys.exit(main())
