"""Labelled logs and how an answer is held against a label."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playbooks.judging.finding import Finding

LOGS = Path(__file__).resolve().parents[1] / "logs"
NEAR = 1
"""A root line this close to a listed one is right."""


@dataclass(frozen=True, slots=True)
class Label:
    """One log with what is true of it."""

    path: Path
    row: dict[str, Any]

    @property
    def data(self) -> bytes:
        return self.path.read_bytes()

    def wrong(self, found: Finding) -> list[str]:
        """Name what the answer has wrong: stage, class, root, trap."""
        row, out = self.row, []
        if found.stage not in (row["stage"], *row.get("stage_also_ok", ())):
            out.append(f"stage {found.stage.value}, expected {row['stage']}")
        if found.error_class not in (row["error_class"], *row.get("error_class_also_ok", ())):
            out.append(f"class {found.error_class.value}, expected {row['error_class']}")
            if found.error_class in row.get("symptoms", ()):
                out.append("a symptom as the root")
        lines = [row["root_line"], *row.get("root_line_also_ok", ())]
        near = found.root_line is not None and any(n is not None and abs(found.root_line - n) <= NEAR for n in lines)
        if not (near or (found.root_line is None and None in lines)):
            out.append(f"root line {found.root_line}, expected one of {lines}")
        return out

    def decision_wrong(self, found: Finding) -> bool:
        right = (self.row.get("decision", "none"), *self.row.get("decision_also_ok", ()))
        return found.decision is not None and found.decision not in right


def labels(*folders: str) -> list[Label]:
    """All labelled logs of the folders."""
    found = []
    for folder in folders:
        for line in (LOGS / folder / "index.jsonl").read_text(encoding="utf-8").splitlines():
            if line.strip():
                row = json.loads(line)
                found.append(Label(LOGS / folder / row["log"], row))
    return found
