"""Ten minutes of Hypothesis over bytes, mangled logs and long inputs: `python benchmarks/fuzz.py [--seconds 600]`.

Runs the tests of any text again and again, each round with another seed and more examples; the first failure ends it with
Hypothesis' own example, to be kept as a test. The same tests run with few examples in `./dev test`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ("tests/core/test_any_text.py", "tests/core/test_redaction.py", "tests/core/test_skimming.py")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--examples", type=int, default=10, help="times the examples of an ordinary run")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    until = time.monotonic() + options.seconds
    env = {**os.environ, "BASELINE_TEST_EXAMPLES": str(options.examples)}
    seed = options.seed
    while time.monotonic() < until:
        flags = ["-q", "-x", "-p", "no:cacheprovider", "--timeout=900", f"--hypothesis-seed={seed}"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *flags, *TESTS],
            cwd=ROOT,
            env=env,
            text=True,
            capture_output=True,
            check=False,
        )
        last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr[-300:]
        print(f"seed {seed}: {last}", flush=True)
        if done.returncode:
            print(done.stdout[-6000:])
            return 1
        seed += 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
