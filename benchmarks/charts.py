"""Charts: how long each takes to draw, the first one with Pillow's loading, and what it adds to the process's memory.

    python benchmarks/charts.py

Each chart is drawn in a process of its own: first (Pillow is loaded with it), then the median of nine more.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bot.adapters.charts import PillowCharts
from playbooks.guiding import charts
from playbooks.guiding.chart_forms import Chart
from playbooks.vocabulary import Outcome
from tests.support.charts import a_ladder, a_probe, an_attempt, samples, some_attempts


def chart_of(name: str) -> Chart | None:
    match name:
        case "stages of 6 attempts":
            return charts.timeline(some_attempts())
        case "stages of 200 attempts":
            return charts.timeline([an_attempt(n, (4000, 9000, 200_000 + n * 777)) for n in range(1, 201)])
        case "memory of 16 GPUs over 3 h":
            ready = an_attempt(7, (4000, 9000, 900_000, 5_000_000, 40_000), Outcome.READY, finding={})
            return charts.memory(ready, [(f"GPU {n}", samples(10_800, gib=60 + n)) for n in range(16)])
        case "cache probe":
            return charts.cache_table(a_probe())
        case _:
            return charts.ladder(a_ladder())


NAMES = ("stages of 6 attempts", "stages of 200 attempts", "memory of 16 GPUs over 3 h", "cache probe", "ladder")


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(name: str) -> None:
    chart, before = chart_of(name), peak_mib()
    assert chart is not None
    took: list[float] = []
    for _ in range(10):
        began = time.perf_counter()
        data = PillowCharts().paint(chart)
        took.append(time.perf_counter() - began)
    median = statistics.median(took[1:])
    print(
        f"{name:28} first {took[0] * 1000:4.0f} ms, then {median * 1000:4.0f} ms; {len(data) / 1000:4.0f} kB; peak +{peak_mib() - before:.0f} MiB"
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(sys.argv[1])
    else:
        for one in NAMES:
            subprocess.run([sys.executable, __file__, one], check=True)
