"""A cache probe as a person at a terminal reads it."""

from __future__ import annotations

from playbooks.judging.cache_facts import CacheProbeFacts
from playbooks.judging.prefix_cache import Judged, counted_hits

_HEAD = ("round", "request", "tokens", "cached", "counter", "first token ms")


def in_words(facts: CacheProbeFacts, judged: Judged) -> str:
    """Return verdict, grounds, requests, what makes the evidence weaker, and for a miss its causes."""
    config = facts.config
    rows = [list(_HEAD)]
    for shot in facts.shots:
        found = (
            shot.round,
            shot.name,
            shot.tokens,
            shot.run.cached_tokens,
            counted_hits(shot),
            shot.run.first_token_ms,
        )
        rows.append(["-" if value is None else str(value) for value in found])
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    out = [
        f"Prefix cache of {facts.target}: {judged.verdict.value.replace('_', ' ')}.",
        f"Why: {judged.grounds}",
        (
            f"Block {config.block or 'not told'}, unit {config.unit or 'not told'}, model takes {config.max_len or 'not told'} tokens; "
            f"expected of A2 {facts.expected_repeat if facts.expected_repeat is not None else 'not known'}, "
            f"of A3 and A4 {facts.expected_prefix if facts.expected_prefix is not None else 'not known'}, of the others 0."
        ),
    ]
    if facts.shots:
        out += ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
    out += [f"But: {remark}." for remark in judged.remarks]
    out += [f"Cause {cause.name}: {cause.state} - {cause.text}" for cause in judged.causes]
    return "\n".join(out)
