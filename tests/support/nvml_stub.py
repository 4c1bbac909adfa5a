"""Builds the stand-in for libnvidia-ml.so.1."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("nvml_stub.c")


def build(folder: Path) -> Path:
    """Compile the library; returns the folder for LD_LIBRARY_PATH."""
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-w", "-o", str(folder / "libnvidia-ml.so.1"), str(SOURCE)], check=True, timeout=60
    )
    return folder
