"""Which lines of a log may tell anything at all, so that the others are counted and left.

A superset of the lines that the catalogue finds something in, of those that errors are printed in, and of what is read
apart from the catalogue; found by one pass of a multi-pattern engine over whole blocks (docs/adr/0008).
"""

from __future__ import annotations

import re
from enum import IntEnum

from ahocorasick_rs import BytesAhoCorasick, Implementation

from playbooks.judging.signature_catalogue import Benign, Catalogue, Marker, Pattern
from playbooks.vocabulary import Stage

_FIRST_WINDOW, _LAST_WINDOW = 2 * 1024, 128 * 1024
"""Bytes asked at a time: few after a launch moved on, for it asks again with other words when it does so once more; then ever more."""
_ON_THE_WAY = frozenset({"begin", "progress", "complete", "ready", "served"})
_SIGNS = (
    # what an error, a warning or a traceback is printed with
    "error", "fatal", "panic", "warn", "critical", "traceback", "exception", "[e0", "[e1", " e0", " e1", "[f0", "[f1", " f0", " f1",
    # a glog line of level E or F
    "\ne0", "\ne1", "\nf0", "\nf1",
    # a line of a stack: its head may have been cut off
    '", line ',
    # what is read apart from the catalogue: engine facts, counters of the cache
    "version", "vllm.entrypoints", "rustfrontend", "rust frontend", "block size to", "max model len", "prefix_cache_", "prompt_tokens", "cached_tokens",
    # what may stand inside a word, and a record of a structured log, which may hide one
    "\x1b", "\x00", "^[[", '{"', '{ "',
)  # fmt: skip
_ENGINE_SIDE = ("(enginecore", "(worker", "(vllmworker", "(rayworker")
"""Processes that begin when the container, the imports and the command line were fine."""
_REWRITTEN = re.compile(rb"\r(?!\n?\Z)")
_REWRITTEN_IN_BLOCK = re.compile(rb"\r(?!\n|\Z)")


class Phase(IntEnum):
    """What a launch has come to, as far as it matters for what its next lines can tell."""

    BEGINNING = 0
    STARTING = 1
    SERVING = 2
    ENDED = 3


def _tells(pattern: Pattern, phase: Phase) -> bool:
    """Whether a match of it can matter in a phase."""
    if isinstance(pattern, Benign):
        # what teardown prints tells that the launch ends, once
        return pattern.hides_block or (pattern.teardown and phase is not Phase.ENDED)
    if isinstance(pattern, Marker) and phase is Phase.SERVING:
        # requests are answered already: no marker on the way there tells anything new
        return pattern.event not in _ON_THE_WAY or pattern.stage is Stage.CONTAINER_INIT
    return True


class Skimmer:
    """The words to look for in each phase of a launch; made once a catalogue, each phase's when it is first asked for."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._patterns = (*catalogue.benign, *catalogue.signatures, *catalogue.derived, *catalogue.markers)
        self._made: dict[Phase, BytesAhoCorasick] = {}

    def automaton(self, phase: Phase) -> BytesAhoCorasick:
        """Return what finds the words that tell something in a phase."""
        if phase not in self._made:
            words = {word.encode(): None for one in self._patterns if _tells(one, phase) for word in one.literals}
            words |= {sign.encode(): None for sign in _SIGNS}
            if phase is Phase.BEGINNING:
                words |= {process.encode(): None for process in _ENGINE_SIDE}
            self._made[phase] = BytesAhoCorasick(list(words), implementation=Implementation.DFA)
        return self._made[phase]

    def may_tell(self, raw: str | bytes, phase: Phase) -> bool:
        """Whether a line as it came can matter at all."""
        data = raw if isinstance(raw, bytes) else raw.encode("utf-8", "replace")
        if b"\r" in data and _REWRITTEN.search(data):
            return True
        return bool(self.automaton(phase).find_matches_as_indexes(b"\n" + data.lower()))

    def sighted(self, block: bytes) -> Sighting:
        """Look at a block of whole lines."""
        return Sighting(self, block)


class Sighting:
    """Finds the telling lines of one block, from its beginning to its end; ask with places that only grow."""

    def __init__(self, skimmer: Skimmer, block: bytes) -> None:
        self._skimmer = skimmer
        self._block = block
        self._lowered = b"\n" + block.lower()
        """With the LF that stood before it: some words begin with one."""
        self._phase = Phase.BEGINNING
        self._seen_to = 0
        self._window = _FIRST_WINDOW
        self._hits: list[int] = []
        self._next = 0
        self._rewritten = b"\r" in block and block.count(b"\r") != block.count(b"\r\n")

    def next_line(self, at: int, phase: Phase) -> int:
        """Return where the next line that may tell begins, at the earliest `at` (where a line begins); the block's length when none does."""
        if phase is not self._phase:
            self._phase, self._seen_to, self._window = phase, 0, _FIRST_WINDOW
        while True:
            hits, i = self._hits, self._next
            if at < self._seen_to:
                while i < len(hits) and hits[i] < at:
                    i += 1
                self._next = i
                if i < len(hits):
                    return max(at, self._block.rfind(b"\n", at, hits[i]) + 1)
                at = self._seen_to
            if at >= len(self._block):
                return len(self._block)
            self._look(at)

    def _look(self, at: int) -> None:
        """Ask the automaton about the lines of the next window."""
        block = self._block
        end = block.find(b"\n", min(at + self._window, len(block))) + 1 or len(block)
        self._window = min(2 * self._window, _LAST_WINDOW)
        found = self._skimmer.automaton(self._phase).find_matches_as_indexes(memoryview(self._lowered)[at : end + 1])
        hits = [at + stop - 2 for _, _, stop in found]
        if self._rewritten:
            hits = sorted([*hits, *(match.start() for match in _REWRITTEN_IN_BLOCK.finditer(block, at, end))])
        self._hits, self._next, self._seen_to = hits, 0, end
