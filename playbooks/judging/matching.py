"""Which patterns of the catalogue a line matches: literals first, in one pass, then the few regular expressions left."""

from __future__ import annotations

from dataclasses import dataclass

from ahocorasick_rs import AhoCorasick

from playbooks.judging.signature_catalogue import (
    Benign,
    Catalogue,
    Derived,
    Frame,
    Marker,
    Pattern,
    Signature,
)
from playbooks.judging.skimming import Skimmer


@dataclass(frozen=True, slots=True)
class Match:
    """What a line is, by the catalogue; benign is asked before everything else."""

    benign: Benign | None = None
    signature: Signature | None = None
    derived: Derived | None = None
    marker: Marker | None = None


NOTHING = Match()
_MOST_KEPT = 16_384
_LONGEST_KEPT = 400
"""Answers kept for each kind of input, and characters of a line whose answer is: an engine that starts again and again prints the same lines."""


class Matcher:
    """Look-ups of one catalogue, made once and shared by all analysers."""

    def __init__(self, catalogue: Catalogue) -> None:
        ordered = (*catalogue.benign, *catalogue.signatures, *catalogue.derived, *catalogue.markers)
        by_literal: dict[str, list[tuple[int, Pattern]]] = {}
        for place, pattern in enumerate(ordered):
            for literal in pattern.literals:
                by_literal.setdefault(literal, []).append((place, pattern))
        self._always = [(place, pattern) for place, pattern in enumerate(ordered) if not pattern.literals]
        self._of_literal = list(by_literal.values())
        self._literals = AhoCorasick(list(by_literal))
        self._answered: dict[str, dict[str, Match]] = {}
        self.skimmer = Skimmer(catalogue)
        self._frames = catalogue.frames

    @classmethod
    def of(cls, catalogue: Catalogue) -> Matcher:
        """Return the catalogue's matcher, made at the first call."""
        if "matcher" not in catalogue.memo:
            catalogue.memo["matcher"] = cls(catalogue)
        matcher: Matcher = catalogue.memo["matcher"]
        return matcher

    def match(self, text: str, kind: str = "") -> Match:
        """Match one line of an input of this kind; a signature bound to other kinds is not asked."""
        answered = self._answered.get(kind)
        if answered is None:
            answered = self._answered[kind] = {}
        found = answered.get(text)
        if found is None:
            found = self._asked(text, kind)
            if len(text) <= _LONGEST_KEPT:
                if len(answered) >= _MOST_KEPT:
                    answered.clear()
                answered[text] = found
        return found

    def _asked(self, text: str, kind: str) -> Match:  # noqa: C901, PLR0912 - the hot loop, in one piece
        hits = dict(self._always)
        for number, _, _ in self._literals.find_matches_as_indexes(text.lower(), overlapping=True):
            hits.update(self._of_literal[number])
        if not hits:
            return NOTHING
        signature: Signature | None = None
        derived: Derived | None = None
        marker: Marker | None = None
        for _, pattern in sorted(hits.items()):
            if isinstance(pattern, Signature):
                if signature is not None and not (signature.generic and not pattern.generic):
                    continue
                if pattern.where and kind not in pattern.where:
                    continue
            elif (isinstance(pattern, Derived) and derived is not None) or (
                isinstance(pattern, Marker) and marker is not None
            ):
                continue
            if not pattern.pattern.search(text):
                continue
            match pattern:
                case Benign():
                    return Match(benign=pattern)
                case Signature():
                    signature = pattern
                case Derived():
                    derived = pattern
                case Marker():
                    marker = pattern
                case _:
                    pass
        return Match(signature=signature, derived=derived, marker=marker)

    def frame(self, text: str) -> Frame | None:
        """Return the first frame pattern that matches a stack line."""
        return next((frame for frame in self._frames if frame.pattern.search(text)), None)
