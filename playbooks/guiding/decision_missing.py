"""What a `hold` lacks: the checklist item that closes it, and the cheapest way to get it, cheapest first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from playbooks.guiding import decision_words as w
from playbooks.guiding.decision_facts import ANSWER_ITEMS, DecisionFacts


@dataclass(frozen=True, slots=True)
class Missing:
    """Something a decision lacks: the checklist item that closes it, and the cheapest way to get it."""

    item: str
    text: str


Lacks = Callable[[DecisionFacts], tuple[Missing, ...]]


def nothing(_facts: DecisionFacts) -> tuple[Missing, ...]:
    """Return nothing: a rule that decides lacks nothing."""
    return ()


READ_DRIVER = Missing("driver-verdict", "Run the fingerprint: the loaded driver and the image's CUDA, about a second.")
READ_INSIDE = Missing("sides-compared", "Run the fingerprint with the container: what is loaded inside, a few seconds.")
RECHECK = Missing("boundary-rechecked", "Check the boundaries again: import the newest recipe, minutes.")
READ_LOG = Missing("first-stack", "Drop the engine's complete log: it names the layer of the first exception.")
REPEAT = Missing("two-attempts", "Run the same baseline once more, with nothing changed.")
TWO = Missing("two-attempts", "Run the minimal command twice, with nothing changed between.")
REQUEST = Missing("fixed-request", "Send the fixed request, several runs, a minute.")
NEXT_LAYER = Missing("prefix-caching", "The next layer is one feature at a time; this version does not carry it out.")
OFFICIAL = Missing("official-image", "Say whether the official image was used, unmodified; else run it.")
NAME_CAUSE = Missing("first-stack", "Read the failing block in the log, and name the cause, or add a signature for it.")
LOOK_AROUND = Missing("gpu-visibility", "Run the fingerprint again: leftovers, other tenants, what moved since.")

QUESTIONS = {
    "node_drain": "Ask whether the node may be drained.",
    "maintenance_window": "Ask for the maintenance window.",
    "recovery_goal": "Ask for the recovery goal and deadline.",
    "cluster_owner": "Ask who owns the cluster.",
    "change_rollback": "Ask whether the change can be rolled back, with a restore document.",
    "model_stays": "Ask whether the model is to stay on this cluster.",
    "fork_team": "Ask whether a team with a release process would maintain a rebuild.",
}


def _ask(facts: DecisionFacts, *names: str) -> tuple[Missing, ...]:
    unknown = (name for name in names if getattr(facts, name) is None)
    return tuple(Missing(ANSWER_ITEMS[name], QUESTIONS[name]) for name in unknown)


def for_a_driver(facts: DecisionFacts) -> tuple[Missing, ...]:
    """Return what is missing before a driver that does not fit is dealt with."""
    if w.cannot_change(facts):
        # Only reached when no exclusive environment is available: what is left turns on a team for a rebuild.
        return _ask(facts, "fork_team")
    asked = _ask(
        facts, "node_drain", "maintenance_window", "recovery_goal", "cluster_owner", "change_rollback", "model_stays"
    )
    return asked if w.boundary_fresh(facts) else (*asked, RECHECK)


def for_unjudged_driver(facts: DecisionFacts) -> tuple[Missing, ...]:
    """Return what is missing before a failure that a driver could explain is judged."""
    return (READ_DRIVER,) if facts.score == 2 else (READ_DRIVER, REPEAT)


def for_unexplained(facts: DecisionFacts) -> tuple[Missing, ...]:
    """Return what is missing before a stable failure of unknown cause leads anywhere."""
    boundary = () if w.boundary_checked(facts) else (READ_DRIVER,)
    official = () if facts.official_image is True else (OFFICIAL,)
    return (*boundary, *official, NAME_CAUSE)


def for_a_start(facts: DecisionFacts) -> tuple[Missing, ...]:
    """Return what is missing before anything is known."""
    return (TWO,) if w.boundary_checked(facts) else (READ_DRIVER, TWO)
