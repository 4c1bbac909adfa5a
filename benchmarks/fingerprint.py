"""The host fingerprint: time of the reading itself, of the whole command, and what a hung NVML costs: `python benchmarks/fingerprint.py [--times N]`.

Bars: at most 1 s here; with a hung NVML at most its own limit and 1 s more. The peer of the command is a bare start of
the same interpreter in the same run. The stand-in for the hung library is built with gcc.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from playbooks.messages import FingerprintParams  # noqa: E402
from tests.support import nvml_stub  # noqa: E402
from workers.adapters.clocks import SystemClock  # noqa: E402
from workers.adapters.docker_gateway import DockerGateway  # noqa: E402
from workers.adapters.host_reader import RootHostReader  # noqa: E402
from workers.adapters.inside_reader import ProbeInsideReader  # noqa: E402
from workers.adapters.nvml_reader import NvmlReader  # noqa: E402
from workers.jobs.fingerprint import read_fingerprint  # noqa: E402

_LIMIT_S = 3.0


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--times", type=int, default=9)
    options = parser.parse_args()
    read = [_timed(lambda: _read(NvmlReader())) for _ in range(options.times)]
    print(f"host fingerprint        median {statistics.median(read):.2f} s, most {max(read):.2f} s (bar 1 s)")
    command = [
        _timed(lambda: _run("-c", "from playbooks.cli import main; main()", "fingerprint", "--json"))
        for _ in range(options.times)
    ]
    bare = [_timed(lambda: _run("-c", "pass")) for _ in range(options.times)]
    print(
        f"baseline fingerprint    median {statistics.median(command):.2f} s, a bare interpreter {statistics.median(bare):.2f} s"
    )
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LD_LIBRARY_PATH"] = str(nvml_stub.build(Path(folder)))
        healthy = [_timed(lambda: _read(NvmlReader())) for _ in range(options.times)]
        print(
            f"with eight stand-in GPUs  median {statistics.median(healthy):.2f} s, most {max(healthy):.2f} s (bar 1 s)"
        )
        os.environ["STUB_HANG"] = "60"
        hung = _timed(lambda: _read(NvmlReader(timeout_s=_LIMIT_S)))
        print(f"with a hung NVML        {hung:.2f} s, its limit is {_LIMIT_S:.0f} s (bar: limit + 1 s)")


def _read(gpus: NvmlReader) -> None:
    gateway = DockerGateway()
    read_fingerprint(
        FingerprintParams(),
        host=RootHostReader(data_dir=Path.cwd(), docker=gateway),
        gpus=gpus,
        inside=ProbeInsideReader(gateway, worker="bench"),
        clock=SystemClock(),
    )


def _run(*words: str) -> None:
    subprocess.run(
        [sys.executable, *words], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
    )


def _timed(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
