"""What a probe of one feature proves: how many of its tries did what the feature promises, and what the others did instead.

A feature that this engine cannot do is `untested`, never passed; one that works now and then is not called working.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pydantic import ValidationError

from playbooks.judging.feature_facts import FeatureProbeFacts, FeatureTry
from playbooks.judging.feature_requests import TOOL, StructuredAnswer, ToolArguments

_MARKERS = re.compile(
    r"<\|(?:open|close|sep|tool\w*|python_tag|call|channel|message|start|end)\|?>|</?tool_calls?>|<｜tool|\[TOOL_CALLS\]|<function=|</?minimax:tool_call"
)
"""What models write around a call; a parser takes it out, so in an answer it is raw."""
_CANNOT = re.compile(
    r"enable-auto-tool-choice|tool-call-parser|tool choice requires|not a multimodal model|does not support (?:image|multimodal|multi-modal)"
    r"|At most 0 image|no(?:t)? supported by this model|language[-_]model[-_]only|mm[-_]per[-_]prompt",
    re.IGNORECASE,
)
"""How engines refuse what they were not started for."""
_MOST_EXAMPLES = 3
_Z95 = 1.959964
"""Two-sided 95 % of the normal distribution."""


class FeatureVerdict(StrEnum):
    """What is concluded of a feature."""

    WORKS = "works"
    SOMETIMES = "sometimes"
    FAILS = "fails"
    UNTESTED = "untested"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class FeatureJudged:
    """The verdict with its rate. low, high: 95 % confidence interval of the rate, in permille; None without a countable try.

    failures: kind of failure to how many tries; examples: the first tries of each kind, as they were answered.
    """

    verdict: FeatureVerdict
    passed: int
    of: int
    low: int | None
    high: int | None
    grounds: str
    failures: dict[str, int]
    examples: tuple[dict[str, str], ...]
    remarks: tuple[str, ...] = ()


def judge(facts: FeatureProbeFacts) -> FeatureJudged:
    """Judge the tries of one feature."""
    kinds = [(one, _failure(facts, one)) for one in facts.tries]
    counted = [(one, kind) for one, kind in kinds if kind not in {"no_answer", "cannot"}]
    passed = sum(kind == "" for _one, kind in counted)
    of = len(counted)
    failures = dict(Counter(kind for _one, kind in kinds if kind).most_common())
    verdict, grounds = _verdict(facts, passed, of, failures)
    low, high = interval(passed, of) if of else (None, None)
    return FeatureJudged(verdict, passed, of, low, high, grounds, failures, _examples(kinds), _remarks(facts, kinds))


def interval(passed: int, of: int) -> tuple[int, int]:
    """Return the 95 % Wilson score interval of a rate, in permille (E. B. Wilson, 1927): it holds for few tries too."""
    rate, square = passed / of, _Z95 * _Z95
    middle = (rate + square / (2 * of)) / (1 + square / of)
    half = _Z95 / (1 + square / of) * math.sqrt(rate * (1 - rate) / of + square / (4 * of * of))
    return max(math.floor((middle - half) * 1000), 0), min(math.ceil((middle + half) * 1000), 1000)


def _verdict(facts: FeatureProbeFacts, passed: int, of: int, failures: dict[str, int]) -> tuple[FeatureVerdict, str]:
    if facts.why_not:
        return FeatureVerdict.UNTESTED, facts.why_not
    if not facts.engine_alive:
        return FeatureVerdict.FAILS, f"the engine died during the probe, after {len(facts.tries)} tries"
    if failures.get("cannot") and not of:
        refused = next((one.error or one.content for one in facts.tries if one.error or one.content), "")
        return FeatureVerdict.UNTESTED, f"this engine was not started for it: {refused[:200]}"
    if not of:
        return FeatureVerdict.INCONCLUSIVE, "no request was answered"
    if facts.feature == "speculative_decoding" and not facts.drafts:
        if facts.drafts is None:
            return FeatureVerdict.UNTESTED, "speculative decoding is off: the engine has no counters of drafts"
        return FeatureVerdict.FAILS, "speculative decoding is on, and no draft was made during the tries"
    if facts.feature == "reasoning" and failures.get("no_reasoning") == of:
        return (
            FeatureVerdict.UNTESTED,
            "no answer has a reasoning field: no reasoning parser, or a model that does not think",
        )
    if passed == of:
        return FeatureVerdict.WORKS, f"{passed} of {of} tries"
    if passed:
        return FeatureVerdict.SOMETIMES, f"{passed} of {of} tries; what works now and then does not work"
    return FeatureVerdict.FAILS, f"0 of {of} tries"


def _failure(facts: FeatureProbeFacts, one: FeatureTry) -> str:
    """Return what was wrong with a try; empty when it did what the feature promises."""
    if one.http_status is None and not one.content and not one.tool_calls:
        return "no_answer"
    if one.http_status is not None and one.http_status >= 400:
        refused = one.http_status < 500 and _CANNOT.search(one.error or one.content) is not None
        return "cannot" if refused else f"http_{one.http_status}"
    if not one.done:
        return "cut_stream"
    match facts.feature:
        case "tool_call":
            return _tool_failure(one)
        case "structured_output":
            return _structured_failure(one)
        case "reasoning":
            return _reasoning_failure(one)
        case "vision" | "long_context":
            return _content_failure(one)
        case _:
            return "" if one.finish_reason in {"stop", "length"} else "no_finish"


def _tool_failure(one: FeatureTry) -> str:
    for call in one.tool_calls:
        if call.name != TOOL:
            return "wrong_tool"
        try:
            ToolArguments.model_validate(json.loads(call.arguments))
        except ValueError:
            return "invalid_arguments"
    if one.tool_calls:
        return ""
    if _MARKERS.search(one.content):
        return "raw_markers"
    if _MARKERS.search(one.reasoning) or (TOOL in one.reasoning and not one.content.strip()):
        return "call_in_reasoning"
    if one.finish_reason == "tool_calls":
        return "empty_tool_calls"
    if one.finish_reason == "length":
        return "truncated"
    return "no_call"


def _structured_failure(one: FeatureTry) -> str:
    if one.finish_reason == "length":
        return "truncated"
    try:
        StructuredAnswer.model_validate_json(one.content)
    except ValidationError as error:
        return "not_json" if error.errors()[0]["type"] == "json_invalid" else "schema_violated"
    return ""


def _reasoning_failure(one: FeatureTry) -> str:
    if not one.reasoning.strip():
        return "think_in_content" if re.search(r"</?think", one.content) else "no_reasoning"
    if one.finish_reason == "length" and not one.content.strip():
        return "truncated"
    return "" if one.content.strip() else "no_content"


def _content_failure(one: FeatureTry) -> str:
    if one.asked.lower() in one.content.lower():
        return ""
    if not one.content.strip():
        return "truncated" if one.finish_reason == "length" else "no_content"
    return "wrong_answer"


def _examples(kinds: Sequence[tuple[FeatureTry, str]]) -> tuple[dict[str, str], ...]:
    shown: dict[str, dict[str, str]] = {}
    for one, kind in kinds:
        if kind and kind not in shown and len(shown) < _MOST_EXAMPLES:
            calls = "; ".join(f"{call.name}({call.arguments})" for call in one.tool_calls)
            said = one.error or calls or one.content or one.reasoning
            shown[kind] = {
                "kind": kind,
                "try": str(one.n),
                "how": "stream" if one.stream else "whole",
                "said": said[:400],
            }
    return tuple(shown.values())


def _remarks(facts: FeatureProbeFacts, kinds: Sequence[tuple[FeatureTry, str]]) -> tuple[str, ...]:
    remarks = []
    ways = {stream: [kind for one, kind in kinds if one.stream is stream] for stream in (True, False)}
    if facts.feature == "tool_call" and all(ways.values()):
        streamed, whole = (sum(kind == "" for kind in ways[stream]) for stream in (True, False))
        if (streamed == len(ways[True])) != (whole == len(ways[False])):
            remarks.append(
                f"streaming {streamed} of {len(ways[True])}, not streaming {whole} of {len(ways[False])}: the parser differs between the two"
            )
    if facts.feature == "speculative_decoding" and facts.drafts:
        remarks.append(
            f"{facts.accepted or 0} tokens accepted in {facts.drafts} drafts; off against on is the add-back's comparison"
        )
    longest = max((one.prompt_tokens or 0 for one in facts.tries), default=0)
    if facts.feature == "long_context" and longest:
        remarks.append(f"the longest input had {longest} tokens of {facts.max_len}")
    if facts.feature in {"vision", "long_context"} and any(kind == "wrong_answer" for _one, kind in kinds):
        remarks.append("a wrong answer says something of the model; that the request was carried out is another matter")
    return tuple(remarks)
