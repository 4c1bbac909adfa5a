"""Where two prompts part, in tokens: what a prefix cache can reuse of the second after the first (R9.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenDiff:
    """Two prompts compared. common: tokens alike from the start; reusable: of these, those in whole units of the cache.

    unit: tokens of a unit; None where the engine does not say.
    """

    tokens_a: int
    tokens_b: int
    common: int
    unit: int | None

    @property
    def equal(self) -> bool:
        """Whether both are the same, token for token."""
        return self.tokens_a == self.tokens_b == self.common

    @property
    def reusable(self) -> int | None:
        """Tokens that can hit: whole units, and never the whole prompt, for its last token is computed anew."""
        if self.unit is None or self.unit <= 0:
            return None
        return min(self.common, max(self.tokens_b - 1, 0)) // self.unit * self.unit

    @property
    def verdict(self) -> str:
        """Say in a sentence what it means for the cache."""
        if self.reusable is None:
            return "the engine does not say its cache's unit: how much can hit is not known"
        if self.reusable:
            return f"up to {self.reusable} tokens of the second prompt can hit"
        if self.common < (self.unit or 0):
            return f"nothing can hit: they part at token {self.common}, before the first unit of {self.unit} is full"
        return f"nothing can hit: no whole unit of {self.unit} tokens lies before the last token"


def token_diff(a: Sequence[int], b: Sequence[int], *, unit: int | None) -> TokenDiff:
    """Compare two prompts by their token ids."""
    common = next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return TokenDiff(len(a), len(b), common, unit)
