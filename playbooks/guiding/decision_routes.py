"""The form of a decision rule, and the rules that route a stable first failure by what its class points to (R10)."""

from __future__ import annotations

from dataclasses import dataclass

from playbooks.guiding import decision_missing as m
from playbooks.guiding import decision_words as w
from playbooks.vocabulary import DecisionKind

K = DecisionKind


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table.

    basis: rows of the requirements.
    never: keys of `decision_words.NEVER` that a reader might conclude from exactly this, and must not.
    """

    id: str
    when: tuple[w.Condition, ...]
    kind: DecisionKind
    headline: str
    basis: str
    would_change: tuple[str, ...]
    never: tuple[str, ...]
    lacks: m.Lacks = m.nothing


def _route(number: int, kind: DecisionKind, headline: str, would_change: str, *never: str) -> Rule:
    return Rule(
        f"D-{number}",
        (w.STABLE_FAILURE, w.points_to(kind)),
        kind,
        headline,
        "R10, R11.1",
        (would_change, "Another first failure, or another score, in a newer attempt."),
        ("last-error", "other-error-fixed", "model-works", *never),
    )


ROUTES: tuple[Rule, ...] = (
    _route(
        20, K.FIX_CONFIG, "Fix the configuration: one option, then the same baseline twice.", "The build rejects it."
    ),
    _route(
        21, K.FIX_FILES, "Fix the files, as the one change; then the same baseline twice.", "The files prove whole."
    ),
    _route(
        22,
        K.FIX_CONTAINER_RUNTIME,
        "Fix the container runtime, GPU visibility or permissions, before anything in the engine.",
        "The same failure with a runtime that hands out the GPUs.",
        "host-is-container",
    ),
    _route(
        23,
        K.FIX_COMMUNICATION,
        "Fix the communication between ranks or nodes; the CUDA version stays.",
        "One node alone fails in the same way.",
        "one-node-several",
    ),
    _route(
        24,
        K.FIX_CAPACITY,
        "Fix the capacity: memory really free, format and parallelism, before any tuning.",
        "Leftovers or other tenants held the memory: isolate.",
        "no-oom-once",
    ),
    _route(
        25, K.FIX_HARDWARE, "Have the hardware looked at: this GPU or node, not the model.", "Another node fails too."
    ),
    _route(
        26,
        K.REPLACE_IMAGE,
        "Replace the image by an official one that holds what this model needs.",
        "The official image fails in the same way.",
        "own-build-official",
    ),
    _route(
        27,
        K.REPORT_UPSTREAM,
        "Report it upstream with this bundle: the engine itself fails, repeatedly.",
        "A newer official image does not fail.",
    ),
    _route(
        28, K.ROLL_BACK, "Roll back to the build before, and see the old baseline again.", "The old build fails too."
    ),
)
"""One rule a kind that a class may point to; upgrade and isolate turn on more, and stand in the table itself."""
