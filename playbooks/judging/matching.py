"""Which patterns of the catalogue a line matches: literals first, in one pass, then the few regular expressions left."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ahocorasick_rs import AhoCorasick, BytesAhoCorasick, Implementation

from playbooks.judging.signature_catalogue import (
    Benign,
    Catalogue,
    Derived,
    Frame,
    Marker,
    Pattern,
    Signature,
)
from playbooks.vocabulary import Stage


@dataclass(frozen=True, slots=True)
class Match:
    """What a line is, by the catalogue; benign is asked before everything else."""

    benign: Benign | None = None
    signature: Signature | None = None
    derived: Derived | None = None
    marker: Marker | None = None


NOTHING = Match()
_ON_THE_WAY = frozenset({"begin", "progress", "complete", "ready", "served"})
_GLOG = (b"E", b"F")
_SIGNS = (
    # what an error, a warning or a traceback is printed with, a glog line of level E or F among them
    "error", "fatal", "panic", "warn", "critical", "traceback", "exception", "[e0", "[e1", " e0", " e1", "[f0", "[f1", " f0", " f1",
    # a line of a stack: its head may have been cut off
    '", line ',
    # what is read apart from the catalogue: engine facts, counters of the cache
    "version", "vllm.entrypoints", "rustfrontend", "rust frontend", "block size to", "max model len", "prefix_cache_", "prompt_tokens", "cached_tokens",
)  # fmt: skip
_WRAPPED = re.compile(rb"[\x1b{\x00]|\r(?!\n?\Z)")
"""What may stand inside a word, or means that the text is not as it is written."""


def _signs(patterns: list[Pattern]) -> BytesAhoCorasick:
    """Make the automaton that tells whether a line holds any of their literals, or a sign of an error."""
    found = {literal.encode(): None for pattern in patterns for literal in pattern.literals}
    return BytesAhoCorasick([*found, *(sign.encode() for sign in _SIGNS)], implementation=Implementation.DFA)


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
        self._starting = _signs([p for p in ordered if not isinstance(p, Benign) or p.hides_block or p.teardown])
        self._serving = _signs([
            p for p in ordered
            if isinstance(p, Signature | Derived) or (isinstance(p, Benign) and (p.hides_block or p.teardown))
            or (isinstance(p, Marker) and (p.event not in _ON_THE_WAY or p.stage is Stage.CONTAINER_INIT))
        ])  # fmt: skip
        self._frames = catalogue.frames

    @classmethod
    def of(cls, catalogue: Catalogue) -> Matcher:
        """Return the catalogue's matcher, made at the first call."""
        if "matcher" not in catalogue.memo:
            catalogue.memo["matcher"] = cls(catalogue)
        matcher: Matcher = catalogue.memo["matcher"]
        return matcher

    def may_tell(self, raw: str | bytes, *, serving: bool) -> bool:
        """Whether a line as it came can matter at all: a superset of the lines that `match` would find something in.

        serving: requests are answered already, so no marker on the way there tells anything new.
        """
        data = raw if isinstance(raw, bytes) else raw.encode("utf-8", "replace")
        if data[:1] in _GLOG or _WRAPPED.search(data):
            return True
        return bool((self._serving if serving else self._starting).find_matches_as_indexes(data.lower()))

    def match(self, text: str, kind: str = "") -> Match:  # noqa: C901, PLR0912 - the hot loop, in one piece
        """Match one line of an input of this kind; a signature bound to other kinds is not asked."""
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
