"""What a log of a running service says of its prefix cache: unit, longest prompt, queries, hits, cached tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_BLOCK = re.compile(r"Setting attention block size to (\d{1,12}) tokens")
_MAX_LEN = re.compile(r"Using max model len (\d{1,12})")
_QUERIES = re.compile(
    r"^vllm:(?:gpu_)?prefix_cache_queries(?:_total)?(?:\{[^}]*\})? (\d{1,18}(?:\.\d{1,18})?(?:[eE]\+?\d{1,2})?)(?!\S)"
)
_HITS = re.compile(
    r"^vllm:(?:gpu_)?prefix_cache_hits(?:_total)?(?:\{[^}]*\})? (\d{1,18}(?:\.\d{1,18})?(?:[eE]\+?\d{1,2})?)(?!\S)"
)
_PROMPT = re.compile(r"\"?prompt_tokens\"?[=: ]+(\d{1,12})\b")
_CACHED = re.compile(r"\"?cached_tokens\"?[=: ]+(\d{1,12})\b")
_WORDS = ("block size to", "max model len", "prefix_cache_", "prompt_tokens", "cached_tokens")


@dataclass(slots=True)
class CacheEvidence:
    """Collected line by line; None = the input does not say."""

    block: int | None = None
    block_no: int | None = None
    block_text: str = ""
    max_len: int | None = None
    queries: int | None = None
    hits: int | None = None
    hits_no: int | None = None
    hits_text: str = ""
    prompts: list[int] = field(default_factory=list)
    cached: int = 0

    def feed(self, no: int, text: str) -> None:
        """Take one unwrapped line."""
        if not any(word in text for word in _WORDS):
            return
        if found := _BLOCK.search(text):
            self.block, self.block_no, self.block_text = int(found[1]), no, text
        if found := _MAX_LEN.search(text):
            self.max_len = int(found[1])
        if found := _QUERIES.match(text):
            self.queries = round(float(found[1]))
        if found := _HITS.match(text):
            self.hits, self.hits_no, self.hits_text = round(float(found[1])), no, text
        if (found := _PROMPT.search(text)) and len(self.prompts) < 100:
            self.prompts.append(int(found[1]))
        if found := _CACHED.search(text):
            self.cached = max(self.cached, int(found[1]))

    @property
    def below_unit(self) -> bool:
        """Queries were counted, none hit, and no request can fill one unit."""
        if not self.queries or self.hits != 0 or self.block is None or self.cached:
            return False
        longest = max(self.prompts, default=None)
        return (self.max_len is not None and self.max_len <= self.block) or (
            longest is not None and longest <= self.block
        )

    @property
    def counter_unreliable(self) -> bool:
        """The answers tell cached tokens while the hit counter stays at zero."""
        return bool(self.queries) and self.hits == 0 and self.cached > 0
