"""Short logs in the style of each runtime and release, several to a file, each with its expected verdict.

A case begins with `=== what it is | stage[/stage] | class`; its root line is marked with `>>> `, a line that is as fair
with `~~> `. The marks are taken off before the text is judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from playbooks.vocabulary import ErrorClass, Stage

FOLDER = Path(__file__).resolve().parents[1] / "logs" / "families"
_MARKS = (">>> ", "~~> ")


@dataclass(slots=True)
class Case:
    """One short log and what must be said of it."""

    name: str
    stages: tuple[Stage, ...]
    error_class: ErrorClass
    lines: list[str] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def messages() -> list[tuple[ErrorClass, str]]:
    """Read single messages with the class they tell."""
    rows = (FOLDER / "messages.tsv").read_text(encoding="utf-8").splitlines()
    return [(ErrorClass(klass), text) for klass, text in (row.split(" | ", 1) for row in rows)]


def cases() -> Iterator[Case]:
    """Read all cases of the folder."""
    for path in sorted(FOLDER.glob("*.txt")):
        case: Case | None = None
        for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
            if line.startswith("=== "):
                if case is not None:
                    yield case
                name, stages, klass = (part.strip() for part in line[4:].split("|"))
                case = Case(f"{path.stem}: {name}", tuple(Stage(s) for s in stages.split("/")), ErrorClass(klass))
            elif case is not None:
                if line.startswith(_MARKS):
                    case.roots.append(len(case.lines) + 1)
                    line = line[4:]  # noqa: PLW2901 - the mark is no part of the log
                case.lines.append(line)
        if case is not None:
            yield case
