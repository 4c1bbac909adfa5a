"""A model directory by names, sizes and the digests of its small files - not by 1.7 TB of bytes."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path

from workers.adapters.attempted import attempt
from workers.ports import Facts

_REVISION = re.compile(r"[0-9a-f]{40}")
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")


def model_facts(path: str) -> Facts:
    """Return the fields `model.*`; a missing folder is `absent`, never an error."""
    folder = Path(path)

    def files() -> list[list[str | int]]:
        found = (entry for entry in folder.rglob("*") if entry.is_file() and ".git/" not in str(entry))
        return sorted([str(entry.relative_to(folder)), entry.stat().st_size] for entry in found)

    listed = attempt(path, lambda: files() if folder.is_dir() else _missing(folder))
    index = next((folder / name for name in _INDEXES if (folder / name).exists()), folder / _INDEXES[0])
    revision = next((part for part in reversed(folder.resolve().parts) if _REVISION.fullmatch(part)), None)
    return {
        "model.path": attempt(path, lambda: str(folder.resolve()) if folder.exists() else _missing(folder)),
        "model.revision": attempt(path, lambda: revision),
        "model.files": listed,
        "model.total_bytes": attempt(
            path, lambda: sum(size for _, size in listed.value) if listed.value else None, unit="bytes"
        ),
        "model.index_sha256": attempt(str(index), lambda: _digest(index)),
        "model.config_sha256": attempt(str(folder / "config.json"), lambda: _digest(folder / "config.json")),
        "model.filesystem": attempt("/proc/mounts", lambda: _filesystem(folder)),
        "model.free_bytes": attempt(path, lambda: shutil.disk_usage(folder).free, unit="bytes"),
    }


def _missing(folder: Path) -> None:
    raise FileNotFoundError(f"expected a folder, found nothing at {folder}")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _filesystem(folder: Path) -> str | None:
    rows = (line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8", errors="replace").splitlines())
    real = str(folder.resolve())
    fits = [(len(row[1]), row[2]) for row in rows if os.path.commonpath([row[1], real]) == row[1]]
    return max(fits)[1] if fits else None
