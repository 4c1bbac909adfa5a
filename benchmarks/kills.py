"""Kills bot, broker, worker or the worker's child in the middle of a launch, again and again; prints each round.

    python benchmarks/kills.py [ROUNDS] [SEED]

After each round: one end per launch in the record, no engine process left, no engine started twice. At the end each end is
said once in the thread, and the signed bundle verifies. The same seed kills the same parts after the same times.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.kill_rounds import rounds


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="baseline-kills-") as folder:
        wrong = rounds(Path(folder), count=count, seed=seed, say=lambda line: print(line, flush=True))
    print(f"{count} kills, seed {seed}, {time.monotonic() - started:.0f} s: {len(wrong)} wrong")
    for line in wrong:
        print(f"  {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
