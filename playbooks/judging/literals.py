"""Which literal texts a pattern cannot match without: what a multi-pattern engine looks for before any regular expression runs.

Understands only what the catalogue's patterns use, and says "none found" rather than guess; the catalogue then asks for
the literals by hand.
"""

from __future__ import annotations

import re

SHORTEST = 4
"""A literal shorter than this is found on nearly every line and saves nothing."""

_CLASSES = frozenset("dDsSwWbBAZ")
_PLACE = re.compile(r"\{\d*,?\d*\}")


def required(pattern: str) -> tuple[str, ...]:
    """Return literals, in lower case, one of which is in every text the pattern matches; empty when none was found."""
    found = []
    for branch in _branches(pattern):
        best = max(_runs(branch), key=len, default="")
        if len(best) < SHORTEST:
            return ()
        found.append(best.lower())
    return tuple(dict.fromkeys(found))


def _branches(pattern: str) -> list[str]:
    """Split at the alternations of the outermost level; a group around the whole pattern is opened."""
    pattern = re.sub(r"^\(\?[a-z]+\)", "", pattern)
    parts, start, depth, index = [], 0, 0, 0
    while index < len(pattern):
        char = pattern[index]
        if char == "\\":
            index += 2
            continue
        if char == "[":
            index = _end_of_set(pattern, index)
            continue
        depth += (char == "(") - (char == ")")
        if char == "|" and depth == 0:
            parts.append(pattern[start:index])
            start = index + 1
        index += 1
    parts.append(pattern[start:])
    if len(parts) == 1 and (inner := re.fullmatch(r"\((?:\?:)?((?:[^()\\]|\\.)*)\)", pattern)) and "|" in inner[1]:
        return _branches(inner[1])
    return parts


def _end_of_set(pattern: str, index: int) -> int:
    end = index + 1
    if pattern[end : end + 1] == "^":
        end += 1
    if pattern[end : end + 1] == "]":
        end += 1
    while end < len(pattern) and pattern[end] != "]":
        end += 2 if pattern[end] == "\\" else 1
    return end + 1


def _runs(branch: str) -> list[str]:  # noqa: C901 - a scanner, one row for each character
    """Collect the runs of plain characters at the outermost level, without those a quantifier makes optional."""
    runs: list[str] = []
    run: list[str] = []
    depth = index = 0

    def close() -> None:
        if run:
            runs.append("".join(run))
            run.clear()

    while index < len(branch):
        char = branch[index]
        if char == "[":
            close()
            index = _end_of_set(branch, index)
            continue
        if char in "()":
            close()
            depth += 1 if char == "(" else -1
        elif depth == 0 and (place := _PLACE.match(branch, index)) and char == "{":
            _drop_last(run)
            close()
            index = place.end()
            continue
        elif char in "?*":
            _drop_last(run)
            close()
        elif char in ".^$+|":
            close()
        elif char == "\\":
            index += 1
            if branch[index] in _CLASSES or branch[index].isdigit():
                close()
            elif depth == 0:
                run.append({"n": "\n", "t": "\t"}.get(branch[index], branch[index]))
        elif depth == 0:
            run.append(char)
        index += 1
    close()
    return runs


def _drop_last(run: list[str]) -> None:
    if run:
        run.pop()
