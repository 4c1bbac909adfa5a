"""The file of a launch's GPU memory: a line for each second, a column for each GPU, in bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MEMORY_FILE = "gpu-memory.csv"


def as_csv(by_gpu: Mapping[str, Sequence[tuple[int, int]]]) -> bytes:
    """Return the samples as CSV; a GPU that did not tell in a second has an empty cell.

    by_gpu: (milliseconds since the start, bytes in use) by the GPU's name, oldest first.
    """
    columns = [dict(samples) for samples in by_gpu.values()]
    moments = sorted({at for column in columns for at in column})
    rows = ([str(at), *(str(column.get(at, "")) for column in columns)] for at in moments)
    return "".join(",".join(row) + "\n" for row in (["ms", *by_gpu], *rows)).encode()
