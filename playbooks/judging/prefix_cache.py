"""Does the prefix cache hit: how a probe is sized, and what its requests prove (R9).

A probe asks the same long prefix again: exactly (A2), and with other ends (A3, A4); two controls must not hit, one under
another salt (N1), one with another first token (N2). A hit is told by counters and by the cached tokens of the answers, never
by speed. What is too short, disturbed or contradictory is said to be so; it is not a miss.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from playbooks.judging.cache_facts import CacheConfig, CacheProbeFacts, CacheShot

ANSWER_TOKENS = 4
_TAIL = 50
_UNKNOWN_UNIT_PREFIX = 4096
_EVICTING_PERMILLE = 900
_LEARNS = "the first repeat missed and all later requests hit: this hybrid model keeps a shared prefix from its second request on"


class CacheVerdict(StrEnum):
    """What a probe proves; closed set of design §8."""

    HIT = "hit"
    REPEAT_ONLY = "repeat_only"
    MISS = "miss"
    DISABLED = "disabled"
    INCONCLUSIVE = "inconclusive"
    CONTAMINATED = "contaminated"


@dataclass(frozen=True, slots=True)
class Plan:
    """Lengths in tokens. expected_repeat, expected_prefix: cached tokens of A2, and of A3 and A4; None = the unit is not known."""

    prefix: int
    tail: int
    expected_repeat: int | None
    expected_prefix: int | None


@dataclass(frozen=True, slots=True)
class Cause:
    """A usual cause of a miss and what was seen of it."""

    name: str
    state: str
    """`excluded`, `suspected` or `unknown`."""
    text: str


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict with its grounds; remarks say what makes the evidence weaker; causes are looked into for a miss."""

    verdict: CacheVerdict
    grounds: str
    remarks: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()


def config_of(
    labels: Mapping[str, str], *, log_block: int | None = None, max_len: int | None = None, engines: int = 1
) -> CacheConfig:
    """Read the labels of `vllm:cache_config_info` (all values are text); a block size from the log wins when it is larger."""
    block = _number(labels.get("block_size"))
    if log_block is not None and (block is None or log_block > block):
        block = log_block
    unit = _number(labels.get("prefix_match_unit"))
    enabled = {"True": True, "true": True, "False": False, "false": False}.get(labels.get("enable_prefix_caching", ""))
    retention = labels.get("prefix_cache_retention_interval")
    return CacheConfig(
        enabled=enabled,
        block=block,
        unit=unit if unit and block and unit < block else block,
        max_len=max_len,
        hybrid=_number(labels.get("mamba_block_size")) is not None
        or labels.get("mamba_cache_mode", "none") not in {"none", "None", ""},
        retention=None if retention in {None, "None", ""} else retention,
        engines=engines,
    )


def plan(config: CacheConfig) -> Plan | str:
    """Size the prefix so that no unit boundary falls into the unique end; the text says why none fits."""
    if config.block is None or config.unit is None:
        prefix = (
            _UNKNOWN_UNIT_PREFIX
            if config.max_len is None
            else min(_UNKNOWN_UNIT_PREFIX, config.max_len - _TAIL - ANSWER_TOKENS)
        )
        if prefix < 1:
            return f"the model takes {config.max_len} tokens at most: too short to probe"
        return Plan(prefix, _TAIL, None, None)
    block, unit = config.block, config.unit
    for blocks in (2, 1):
        prefix = blocks * block + block // 2 // unit * unit + unit // 2  # in the middle of a unit
        tail = max(1, min(_TAIL, unit // 2 - 1))
        if config.max_len is None or prefix + tail + ANSWER_TOKENS <= config.max_len:
            length = prefix + tail
            return Plan(prefix, tail, (length - 1) // unit * unit, prefix // unit * unit)
    return (
        f"a prompt that can hit needs {block + block // 2 + 1} tokens (one block is {block}), the model takes {config.max_len}: "
        "at this length nothing can ever hit"
    )


def judge(facts: CacheProbeFacts) -> Judged:
    """Judge a probe."""
    config = facts.config
    if config.enabled is False:
        return Judged(CacheVerdict.DISABLED, "the engine says enable_prefix_caching=False")
    if facts.why_not:
        return Judged(CacheVerdict.INCONCLUSIVE, facts.why_not)
    if not facts.shots:
        return Judged(CacheVerdict.INCONCLUSIVE, "no request was sent")
    failed = next((shot for shot in facts.shots if not shot.run.complete), None)
    if failed is not None:
        word = failed.run.error or f"HTTP {failed.run.http_status}"
        dead = "" if facts.engine_alive else "; the engine has ended"
        return Judged(
            CacheVerdict.INCONCLUSIVE,
            f"request {failed.name} of round {failed.round} did not complete: {word[:200]}{dead}",
        )
    rounds = [
        _judge_round(facts, [shot for shot in facts.shots if shot.round == number])
        for number in sorted({shot.round for shot in facts.shots})
    ]
    told = [one.verdict for one in rounds]
    worst = next(
        (
            one
            for verdict in (CacheVerdict.CONTAMINATED, CacheVerdict.DISABLED)
            for one in rounds
            if one.verdict is verdict
        ),
        None,
    )
    if worst is not None:
        return worst
    remarks = tuple(dict.fromkeys(remark for one in rounds for remark in (*one.remarks, *_weaker(facts))))
    if len(set(told)) > 1:
        each = "; ".join(f"round {number}: {one.verdict.value} ({one.grounds})" for number, one in enumerate(rounds, 1))
        return Judged(CacheVerdict.INCONCLUSIVE, f"the rounds disagree - {each}", remarks)
    first = rounds[0]
    again = f", {len(rounds)} rounds alike" if len(rounds) > 1 else ", one round"
    causes = _causes(facts) if first.verdict in {CacheVerdict.MISS, CacheVerdict.REPEAT_ONLY} else ()
    return Judged(first.verdict, first.grounds + again, remarks, causes)


def _judge_round(facts: CacheProbeFacts, shots: Sequence[CacheShot]) -> Judged:
    by_name = {shot.name: shot for shot in shots}
    if missing := [name for name in ("A1", "A2", "A3", "A4") if name not in by_name]:
        return Judged(CacheVerdict.INCONCLUSIVE, f"the probe was cut: {', '.join(missing)} was not sent")
    if disturbed := _disturbed(shots):
        return Judged(CacheVerdict.CONTAMINATED, disturbed)
    if broken := _contradiction(facts, shots):
        return Judged(CacheVerdict.INCONCLUSIVE, broken)
    got: dict[str, int | None] = {shot.name: cached_of(shot) for shot in shots}
    if all(value is None for value in got.values()):
        return Judged(
            CacheVerdict.INCONCLUSIVE,
            "neither counters nor cached tokens of the answers can be read; speed proves nothing "
            "(--enable-prompt-tokens-details, and no --disable-log-stats)",
        )
    if _queries_still(shots):
        return Judged(
            CacheVerdict.DISABLED, "requests were answered and the cache was asked for none of their tokens: it is off"
        )
    if lying := next((name for name in ("N1", "N2") if got.get(name)), None):
        return Judged(
            CacheVerdict.INCONCLUSIVE,
            f"the control {lying}, which cannot hit, shows {got[lying]} cached tokens: the counters do not tell hits",
        )
    return _by_pattern(facts, {name: value or 0 for name, value in got.items()})


def _by_pattern(facts: CacheProbeFacts, got: Mapping[str, int]) -> Judged:
    """Read the verdict off which of the four hit."""
    remarks = _not_as_expected(got, (facts.expected_repeat, facts.expected_prefix))
    repeat, third, fourth = got["A2"], got["A3"], got["A4"]
    shown = f"A1 {got['A1']}, A2 {repeat}, A3 {third}, A4 {fourth} cached tokens, controls 0"
    unclear = CacheVerdict.INCONCLUSIVE
    match bool(repeat), bool(third), bool(fourth):
        case True, True, True:
            return Judged(CacheVerdict.HIT, shown, remarks)
        case False, True, True if facts.config.hybrid:
            # measured on a real hybrid engine, every time: the state at the boundary is kept from the second request on
            return Judged(CacheVerdict.HIT, shown, (*remarks, _LEARNS))
        case True, False, False:
            return Judged(CacheVerdict.REPEAT_ONLY, f"{shown}: only the exact repeat hits", remarks)
        case True, _, _:
            return Judged(
                unclear, f"{shown}: one end hit and another did not - reset, evicted, or learned late", remarks
            )
        case False, False, False if facts.expected_prefix is None:
            return Judged(unclear, f"{shown}; the cache's unit is not known, so the prefix may be too short", remarks)
        case False, False, False:
            expected = f"expected {facts.expected_repeat} and {facts.expected_prefix}"
            return Judged(CacheVerdict.MISS, f"{shown}, {expected}", remarks)
        case _:
            text = f"{shown}: the exact repeat missed what a later request hit - reset or evicted in the middle"
            return Judged(unclear, text, remarks)


def cached_of(shot: CacheShot) -> int | None:
    """Return the cached tokens of a request: what the answer says, else what the counter moved by; None = neither is there."""
    return shot.run.cached_tokens if shot.run.cached_tokens is not None else counted_hits(shot)


def counted_hits(shot: CacheShot) -> int | None:
    """Return by how much the hit counter moved, in tokens; None when it is not there, or counts blocks."""
    before, after = shot.before, shot.after
    if before.hits is None or after.hits is None or before.in_blocks or after.in_blocks:
        return None
    return after.hits - before.hits


def _moved(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _disturbed(shots: Sequence[CacheShot]) -> str:
    """Say what else was going on; empty = nothing that can be seen."""
    for shot in shots:
        before, after = shot.before, shot.after
        if before.started_ms is not None and after.started_ms is not None and before.started_ms != after.started_ms:
            return f"the engine was restarted during {shot.name}: its counters began anew"
        for name, moved in (
            ("queries", _moved(before.queries, after.queries)),
            ("hits", _moved(before.hits, after.hits)),
        ):
            if moved is not None and moved < 0:
                return f"the counter of {name} went backwards by {-moved} during {shot.name}: restarted, or not to be trusted"
        if preempted := _moved(before.preemptions, after.preemptions):
            return f"{preempted} requests were pre-empted during {shot.name}: their repetitions count as hits"
        busy = [
            (when, scrape)
            for when, scrape in (("before", before), ("after", after))
            if (scrape.running or 0) + (scrape.waiting or 0) > 0
        ]
        if busy:
            when, scrape = busy[0]
            return (
                f"{(scrape.running or 0) + (scrape.waiting or 0)} other requests were in the engine {when} {shot.name}"
            )
        asked = _moved(before.queries, after.queries)
        length = shot.run.prompt_tokens or shot.tokens
        if asked and length and not before.in_blocks and asked != length:
            return (
                f"the cache was asked for {asked} tokens during {shot.name}, which has {length}: others use the engine"
            )
    for earlier, later in itertools.pairwise(shots):
        between = _moved(earlier.after.queries, later.before.queries)
        if between:
            return f"the cache was asked for {between} tokens between {earlier.name} and {later.name}: others use the engine"
    return ""


def _contradiction(facts: CacheProbeFacts, shots: Sequence[CacheShot]) -> str:
    """Say where two channels of evidence contradict each other."""
    unit = facts.config.unit or 0
    for shot in shots:
        counted, told = counted_hits(shot), shot.run.cached_tokens
        if counted is not None and told is not None and abs(counted - told) > unit:
            return f"{shot.name}: the counter moved by {counted} tokens, the answer says {told}: one of them is wrong"
        length = shot.run.prompt_tokens or shot.tokens
        if told is not None and length and told >= length:
            return f"{shot.name}: {told} cached tokens of {length}; the last token is never cached: the answer is wrong"
    return ""


def _queries_still(shots: Sequence[CacheShot]) -> bool:
    moved = [_moved(shot.before.queries, shot.after.queries) for shot in shots]
    return all(value == 0 for value in moved) and not any(shot.run.cached_tokens for shot in shots)


def _not_as_expected(got: Mapping[str, int], expected: tuple[int | None, int | None]) -> tuple[str, ...]:
    repeat, prefix = expected
    wanted = {"A1": 0, "A2": repeat, "A3": prefix, "A4": prefix}
    return tuple(
        f"{name}: expected {want} cached tokens, found {got[name]}"
        for name, want in wanted.items()
        if want is not None and got.get(name) and got[name] != want
    )


def _weaker(facts: CacheProbeFacts) -> tuple[str, ...]:
    """Say what the engine could not offer, and what is therefore proven less."""
    said = []
    if all(shot.run.cached_tokens is None for shot in facts.shots):
        said.append("the answers tell no cached tokens (--enable-prompt-tokens-details is off): counters alone")
    if all(counted_hits(shot) is None for shot in facts.shots):
        said.append("no counters in tokens: the answers' cached tokens alone")
    if not facts.salted:
        said.append("the engine takes no cache_salt: no control under another salt, the prefix is random instead")
    if not facts.token_exact:
        said.append("prompts are text, not token ids: lengths are the engine's own count")
    if facts.config.engines > 1:
        said.append(f"{facts.config.engines} engines answer behind this endpoint: a request may land on another one")
    answers = {shot.run.output_sha256 for shot in facts.shots if shot.name in {"A1", "A2"} and shot.run.output_sha256}
    if len(answers) > len({shot.round for shot in facts.shots}):
        said.append("A1 and A2 were answered differently at temperature 0: no proof of a fault, but looked at")
    return tuple(said)


def _causes(facts: CacheProbeFacts) -> tuple[Cause, ...]:
    """Look into the usual causes of a miss, one by one (R9.3)."""
    config = facts.config
    full = max((shot.after.kv_permille or 0 for shot in facts.shots), default=0)
    return (
        Cause("flag", "excluded" if config.enabled else "unknown", f"enable_prefix_caching={config.enabled}"),
        Cause(
            "length",
            "excluded" if facts.expected_prefix else "unknown",
            f"prefix {facts.prefix_tokens} tokens, unit {config.unit}, block {config.block}",
        ),
        Cause(
            "boundary in the end",
            "excluded" if facts.token_exact else "unknown",
            "no unit boundary falls into the unique ends" if facts.token_exact else "lengths are not exact",
        ),
        Cause(
            "retention",
            "suspected" if config.hybrid and config.retention == "0" else "unknown" if config.hybrid else "excluded",
            f"hybrid model, retention interval {config.retention}: states are kept at few places"
            if config.hybrid
            else "no hybrid model",
        ),
        Cause(
            "template or tool order",
            "excluded" if facts.token_exact else "unknown",
            "prompts were token ids, identical up to the end" if facts.token_exact else "rendered by the engine",
        ),
        Cause("replica", "suspected" if config.engines > 1 else "excluded", f"{config.engines} engines in the metrics"),
        Cause(
            "restart",
            "excluded" if any(shot.after.started_ms for shot in facts.shots) else "unknown",
            "the engine's start time did not move"
            if any(shot.after.started_ms for shot in facts.shots)
            else "no start time in the metrics",
        ),
        Cause(
            "eviction",
            "suspected" if full >= _EVICTING_PERMILLE else "excluded" if full else "unknown",
            f"cache in use at most {full / 10:.1f} %",
        ),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() and int(text) > 0 else None
