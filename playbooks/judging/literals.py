"""Which literal texts a pattern cannot match without: what a multi-pattern engine looks for before any regular expression runs.

Understands only what the catalogue's patterns use, and says "none found" rather than guess; the catalogue then asks for
the literals by hand.
"""

from __future__ import annotations

import re

SHORTEST = 4
"""A literal shorter than this is found on nearly every line and saves nothing."""

_MOST_SPELLED = 24
_EVERYDAY = frozenset({
    "available", "backend", "cache", "config", "context", "custom", "data", "device", "engine", "error", "expert", "failed", "failed to",
    "get", "head", "hidden", "http", "installed", "invalid", "is not", "is not installed", "kernel", "leaked", "memory", "missing", "model",
    "not found", "not installed", "not supported", "output", "parallel", "pipeline", "reduce", "request", "requires", "system", "tensor",
    "tokenizer", "triton", "unknown", "valid", "version", "warning",
})  # fmt: skip
"""Words on so many lines of a healthy log that looking for them saves nothing."""
_CLASSES = frozenset("dDsSwWbBAZ")
_REPEAT = re.compile(r"[?*+]|\{(\d*),?\d*\}")
_GROUP = re.compile(r"\((?:\?:|\?P<\w+>|\?[a-z]+:|(?!\?))")
_FLAGS = re.compile(r"^\(\?[a-z]+\)")


def required(pattern: str) -> tuple[str, ...]:
    """Return literals, in lower case, one of which is in every text the pattern matches; empty when none was found."""
    found: list[str] = []
    for branch in branches(_FLAGS.sub("", pattern)):
        best = max(_sets(branch), key=_quality, default=())
        if _shortest(best) < SHORTEST:
            return ()
        found += best
    return tuple(dict.fromkeys(found))


def _quality(literals: tuple[str, ...]) -> tuple[bool, bool, int]:
    """Prefer what is long enough, then what few lines hold, then the longer."""
    shortest = _shortest(literals)
    everyday = any(literal.strip(" :=-_'\"") in _EVERYDAY for literal in literals)
    return shortest >= SHORTEST, not everyday, shortest


def _shortest(literals: tuple[str, ...]) -> int:
    return min(map(len, literals), default=0)


def branches(pattern: str) -> list[str]:
    """Split at the alternations of the outermost level."""
    parts, start, index = [], 0, 0
    while index < len(pattern):
        char = pattern[index]
        if char == "|":
            parts.append(pattern[start:index])
            start = index + 1
        index = _after(pattern, index)
    parts.append(pattern[start:])
    return parts


def _after(pattern: str, index: int) -> int:
    """Return the place behind one item: a character, an escape, a set or a whole group."""
    char = pattern[index]
    if char == "\\":
        return index + 2
    if char == "[":
        end = index + (2 if pattern[index + 1 : index + 2] == "^" else 1)
        end += pattern[end : end + 1] == "]"
        while end < len(pattern) and pattern[end] != "]":
            end += 2 if pattern[end] == "\\" else 1
        return end + 1
    if char == "(":
        index += 1
        while index < len(pattern) and pattern[index] != ")":
            index = _after(pattern, index)
    return index + 1


def _sets(branch: str) -> list[tuple[str, ...]]:
    """Collect what each mandatory part of a branch needs: a run of plain characters, spelled out over small groups, or what a group needs."""
    found: list[tuple[str, ...]] = []
    runs = [""]

    def close() -> None:
        nonlocal runs
        if any(runs):
            found.append(tuple(dict.fromkeys(runs)))
        runs = [""]

    index = 0
    while index < len(branch):
        end = _after(branch, index)
        item = branch[index:end]
        repeat = _REPEAT.match(branch, end)
        needed = repeat is None or repeat[0] == "+" or repeat[1] not in {None, "", "0"}
        group = _GROUP.match(item)
        spelled = _spelled(item, group) if needed else ()
        if spelled and len(spelled) * len(runs) <= _MOST_SPELLED:
            runs = [run + text for run in runs for text in spelled]
        else:
            close()
            if group is not None and needed and (inner := required(item[group.end() : -1])):
                found.append(inner)
        if repeat is not None:
            close()
        index = end if repeat is None else repeat.end()
        if repeat is not None and branch[index : index + 1] in {"?", "+"}:
            index += 1
    close()
    return found


def _spelled(item: str, group: re.Match[str] | None) -> tuple[str, ...]:
    """Return all texts, in lower case, that an item matches; empty when they cannot be listed."""
    if group is None:
        plain = _plain(item)
        return (plain.lower(),) if plain else ()
    texts = []
    for branch in branches(item[group.end() : -1]):
        parts, index = [], 0
        while index < len(branch):
            end = _after(branch, index)
            plain = _plain(branch[index:end])
            if not plain or _REPEAT.match(branch, end):
                return ()
            parts.append(plain)
            index = end
        texts.append("".join(parts).lower())
    return tuple(texts)


def _plain(item: str) -> str:
    """Return the character that an item stands for; empty when it stands for several."""
    if len(item) == 1:
        return "" if item in ".^$" else item
    if item[0] != "\\" or item[1] in _CLASSES or item[1].isdigit():
        return ""
    return {"n": "\n", "t": "\t"}.get(item[1], item[1])
