"""Sentences of the core that hold values: the template each was made from, so that it can be looked up.

The core says its sentences in English, whole. One that holds a value (a number, a headline, another sentence) is in no
catalogue; here it is taken apart again. What no template fits stays as it was said.
"""

from __future__ import annotations

import re

NUMBERED = "{no} {text}"
"""A row of the gate in a list, by its number."""
TEMPLATES = (
    "Waiting for {node}: {job}.",
    "Asked for in #{seq}.",
    "The proposed decision #{seq} waits for an approver: {headline}",
    "Propose: {headline}",
    "Approved: {headline} Freeze the changed command as the next baseline.",
    "Approved: {headline} No attempt runs here before this is known. {why}",
    "Approved: {headline} Carry it out, then run again.",
    "Approved: {headline} Export the bundle, carry it out, and close the case.",
    "Score {score}: {what}",
    "Score {score} (#{seq}): {what}",
    "Gate item {no} is open: {text}.",
    "Bring back, alone: {label}.",
    "Does it work? Probe it: {label}.",
    "The fixed request completes repeatedly (#{seq}). Export the bundle, or close the case.",
    "The feature was proven alone, and the baseline was seen again (#{seq}). Export the bundle, or close the case.",
    "The feature moved the result ({moved}): put the stable baseline back.",
    "Not carried out by this version of Baseline. {how}",
    "Take out {options}: features come back one at a time, on a stable baseline.",
    "This was to be {expected}, and more moved: {moved}. Put it back, and run two attempts again.",
    "Keep one of them, and put the others back as in #{seq}: {names}.",
    "{row}: {earlier}, then {later}",
    "one cause all the same: {error}",
    "the failure itself says so, twice: {failure}",
    "{n} scores below 2 in a row",
    "score {score}",
    "its class points to {kind}",
    "the boundary data is {days} days old, more than {limit}: check it again before this is carried out",
    "It is the earliest error that nothing before it explains. {meaning}",
    "only says that a process ended; line {no} says why",
    "printed after line {no} had failed already: memory is not the first question",
    "printed after the first failure in line {no}",
    "The cache reuses whole units of {n} tokens, and no request here is longer; that is no miss.",
    "Answers tell up to {n} cached tokens while the hit counter stays at zero.",
    "Only {who} may {action}; you are a {role} here.",
    "You {part}, so you cannot {action} yourself. Another approver can.",
    "this engine was not started for it: {said}",
    "the engine died during the probe, after {n} tries",
    "streaming {a} of {n}, not streaming {b} of {no}: the parser differs between the two",
    "the longest input had {n} tokens of {no}",
    "{a} tokens accepted in {n} drafts; off against on is the add-back's comparison",
    "0 of {n} tries",
    "{a} of {n} tries",
    "{a} of {n} tries; what works now and then does not work",
    NUMBERED,
)
"""Of `playbooks.guiding`, and of why a failure is the first; a test holds them equal to what is said there. A value is looked up like a sentence."""
WORDS = (
    "collect",
    "fingerprint",
    "request",
    "one change",
    "a repeat",
    "viewer",
    "responder",
    "approver",
    "a viewer or a responder or an approver",
    "a responder or an approver",
    "an approver",
    "proposed it",
)
"""What such a sentence may name, besides sentences: jobs, and what an attempt was to be."""
_NUMBERS = frozenset({"no", "seq", "score", "n", "days", "limit", "a", "b"})
_IDENTIFIERS = frozenset({"earlier", "later", "error", "kind"})
_HOLE = re.compile(r"\{(\w+)\}")
_REASON = re.compile(r"(?P<text>[^:]+?)(?:: (?P<more>.+?))?(?P<cited> \(#\d+(?:, #\d+)*\))?", re.DOTALL)


def taken_apart(sentence: str) -> tuple[str, dict[str, str]] | None:
    """Return the template and the values that a sentence was made from; None = no template fits."""
    for template, pattern in _PATTERNS:
        if (found := pattern.fullmatch(sentence)) is not None:
            return template, found.groupdict()
    return None


def parts_of_reason(reason: str) -> tuple[str, str, str]:
    """Return a decision's reason as the condition, what the facts add to it, and the numbers cited; "" = nothing."""
    found = _REASON.fullmatch(reason)
    return (reason, "", "") if found is None else (found["text"], found["more"] or "", found["cited"] or "")


def _pattern(template: str) -> re.Pattern[str]:
    parts = _HOLE.split(template)
    made = [f"(?P<{part}>{_value(part)})" if number % 2 else re.escape(part) for number, part in enumerate(parts)]
    return re.compile("".join(made), re.DOTALL)


def _value(name: str) -> str:
    if name in _NUMBERS:
        return r"\d+"
    return r"\w+" if name in _IDENTIFIERS else ".+"


_PATTERNS = tuple((template, _pattern(template)) for template in TEMPLATES)
