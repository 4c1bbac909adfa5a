"""Conditions that the decision rules are made of, and what is never concluded: each in words, as the reader sees it.

A condition knows the facts it looks at, so that a decision can cite them by number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from playbooks.guiding.decision_facts import DecisionFacts
from playbooks.vocabulary import DecisionKind, DriverVerdict, ErrorClass, Outcome

Test = Callable[[DecisionFacts], bool]


@dataclass(frozen=True, slots=True)
class Condition:
    """A test over the facts. `text` stands in docs/rules.md and among the reasons; `facts` are cited."""

    text: str
    holds: Test
    facts: tuple[str, ...]
    more: Callable[[DecisionFacts], str] | None = None
    """What to add for the reader from the facts themselves."""

    def reason(self, facts: DecisionFacts) -> str:
        """Return the condition as a reason, with its values and evidence numbers."""
        more = self.more(facts) if self.more is not None else ""
        numbers = sorted({facts.evidence[name] for name in self.facts if name in facts.evidence})
        cited = f" ({', '.join(f'#{number}' for number in numbers)})" if numbers else ""
        return f"{self.text}{f': {more}' if more else ''}{cited}"


MEMORY = frozenset(
    {
        ErrorClass.GPU_OCCUPIED,
        ErrorClass.OOM_WEIGHT_LOAD,
        ErrorClass.OOM_ENGINE_INIT,
        ErrorClass.OOM_RUNTIME,
        ErrorClass.KV_CACHE_NO_MEMORY,
        ErrorClass.KV_CACHE_BELOW_MAX_LEN,
        ErrorClass.HOST_MEMORY_EXHAUSTED,
    }
)
"""The family `memory` of the error classes; a test keeps them equal."""
DRIVER_CAN_EXPLAIN = MEMORY | {
    ErrorClass.UNKNOWN,
    ErrorClass.DRIVER_BELOW_BOUNDARY,
    ErrorClass.DRIVER_NOT_INSTALLED,
    ErrorClass.DRIVER_LIBRARY_MISMATCH,
    ErrorClass.FORWARD_COMPAT_UNSUPPORTED,
    ErrorClass.CUDA_DRIVER_COMBO,
    ErrorClass.FABRIC_NOT_READY,
    ErrorClass.NO_CUDA_DEVICE,
    ErrorClass.DEVICE_COUNT_MISMATCH,
    ErrorClass.DEVICE_NOT_INFERRED,
    ErrorClass.CUDA_UNKNOWN_ERROR,
    ErrorClass.GPU_ARCH_UNSUPPORTED,
    ErrorClass.PTX_TOOLCHAIN_MISMATCH,
    ErrorClass.JIT_TOOLCHAIN_UNUSABLE,
    ErrorClass.KERNEL_COMPILE_FAILED,
    ErrorClass.GPU_KERNEL_FAULT,
}
"""Families memory, driver and device, compile and kernel, and `unknown`: not judged while the driver is not."""
FAILING = frozenset({Outcome.FAILED, Outcome.STOPPED_BY_LIMIT})


def _failure(facts: DecisionFacts) -> str:
    stage, error = facts.stage, facts.error_class
    return f"{stage.value if stage else 'stage unknown'}, {error.value if error else 'class unknown'}"


def fails(facts: DecisionFacts) -> bool:
    """Whether the newest attempt failed."""
    return facts.outcome in FAILING


def stable_failure(facts: DecisionFacts) -> bool:
    """Whether the first failure repeats."""
    return fails(facts) and facts.score == 2


def version_risk(facts: DecisionFacts) -> bool:
    """Whether driver and image do not fit: by the boundary, or by a stable first failure that names the driver."""
    if not facts.driver_needed:
        return False
    if facts.driver_verdict in {DriverVerdict.BLOCKED, DriverVerdict.COMPAT_ONLY}:
        return True
    return stable_failure(facts) and facts.points_to is DecisionKind.UPGRADE_DRIVER


def boundary_checked(facts: DecisionFacts) -> bool:
    """Whether the driver was judged to fit, or there is none to judge."""
    return not facts.driver_needed or facts.driver_verdict is DriverVerdict.SUPPORTED


def boundary_fresh(facts: DecisionFacts) -> bool:
    """Whether the boundary data is young enough to change a driver on it."""
    age = facts.boundary_age_days
    return facts.boundary_rechecked is True or age is None or age <= facts.boundary_limit_days


def cannot_change(facts: DecisionFacts) -> bool:
    """Whether this cluster cannot change, takes no risk on the node, or is not where the model is to stay."""
    return (
        facts.node_drain is False
        or facts.maintenance_window == "none"
        or facts.change_rollback is False
        or facts.jobs_affected is True
        or facts.model_stays is False
        or (facts.cluster_owner is not None and not facts.owner_known)
    )


def bridging(facts: DecisionFacts) -> bool:
    """Whether the endpoint is needed before the window."""
    return facts.maintenance_window == "scheduled" and facts.recovery_goal == "now"


def upgrade_confirmed(facts: DecisionFacts) -> bool:
    """Whether everything is there that an upgrade needs (R11.3)."""
    return (
        facts.owner_known
        and facts.node_drain is True
        and facts.maintenance_window in {"now", "scheduled"}
        and facts.change_rollback is True
        and facts.model_stays is True
        and facts.recovery_goal is not None
        and boundary_fresh(facts)
    )


def disturbed(facts: DecisionFacts) -> bool:
    """Whether something outside the engine moves the rounds (R11.6)."""
    return facts.other_jobs_disturb is True or facts.versions_frozen is False or facts.other_tenants is True


def _refusals(facts: DecisionFacts) -> str:
    said = [
        text
        for text, true in (
            ("the node may not be drained", facts.node_drain is False),
            ("there is no window", facts.maintenance_window == "none"),
            ("the change cannot be rolled back", facts.change_rollback is False),
            ("running jobs are harmed", facts.jobs_affected is True),
            ("the model is not to stay here", facts.model_stays is False),
            ("nobody answers for the cluster", facts.cluster_owner is not None and not facts.owner_known),
        )
        if true
    ]
    return ", ".join(said)


def _disturbances(facts: DecisionFacts) -> str:
    said = [
        text
        for text, true in (
            ("other jobs disturb the rounds", facts.other_jobs_disturb is True),
            ("versions cannot be frozen", facts.versions_frozen is False),
            ("other work was on the GPUs", facts.other_tenants is True),
        )
        if true
    ]
    return ", ".join(said)


def _driver_words(facts: DecisionFacts) -> str:
    if facts.driver_verdict in {DriverVerdict.BLOCKED, DriverVerdict.COMPAT_ONLY}:
        return "; ".join((facts.driver_verdict.value, *facts.driver_grounds))
    return f"the failure itself says so, twice: {_failure(facts)}"


_CHANGE_FACTS = ("node_drain", "maintenance_window", "change_rollback", "jobs_affected", "model_stays", "cluster_owner")
_FAILURE_FACTS = ("stage", "error_class", "score")

VERSION_RISK = Condition(
    "driver and image do not fit",
    version_risk,
    ("driver_verdict", "driver_grounds", "stage", "score"),
    _driver_words,
)
CANNOT_CHANGE = Condition("this cluster cannot change now", cannot_change, _CHANGE_FACTS, _refusals)
BRIDGING = Condition("the endpoint is needed before the window", bridging, ("maintenance_window", "recovery_goal"))
UPGRADE_CONFIRMED = Condition(
    "owner, window, drain, way back, recovery goal and fresh boundaries are confirmed, and the model is to stay",
    upgrade_confirmed,
    (*_CHANGE_FACTS[:3], "model_stays", "cluster_owner", "recovery_goal", "boundary_rechecked"),
)
ISOLATED_POSSIBLE = Condition(
    "nothing says that an exclusive environment is out of reach",
    lambda facts: facts.isolated_environment is not False,
    ("isolated_environment",),
)
ISOLATED_IMPOSSIBLE = Condition(
    "no exclusive environment is available",
    lambda facts: facts.isolated_environment is False,
    ("isolated_environment",),
)
FORK_TEAM = Condition(
    "a team with a release process would maintain a rebuild", lambda facts: facts.fork_team is True, ("fork_team",)
)
NO_FORK_TEAM = Condition("no team would maintain a rebuild", lambda facts: facts.fork_team is False, ("fork_team",))
OFFICIAL_FOR_DRIVER = Condition(
    "an official image for the loaded driver exists",
    lambda facts: facts.official_image_for_driver is True,
    ("official_image_for_driver",),
)
NOT_READY = Condition("the engine has not become ready", lambda facts: facts.outcome is not Outcome.READY, ("outcome",))
HARDWARE_BELOW = Condition(
    "the hardware is below the official minimum",
    lambda facts: bool(facts.hardware_below),
    ("hardware_below",),
    lambda facts: facts.hardware_below,
)
ENGINE_BELOW = Condition(
    "the engine is older than the official minimum",
    lambda facts: bool(facts.engine_below),
    ("engine_below",),
    lambda facts: facts.engine_below,
)
LOG_CONTRADICTS = Condition(
    "the log says the driver is too old, the loaded driver is judged to fit",
    lambda facts: (
        facts.driver_needed
        and fails(facts)
        and facts.error_class is ErrorClass.DRIVER_BELOW_BOUNDARY
        and facts.driver_verdict is DriverVerdict.SUPPORTED
    ),
    ("error_class", "driver_verdict"),
)
READY_CONTRADICTS = Condition(
    "the driver is judged too old, and the engine became ready",
    lambda facts: (
        facts.driver_needed and facts.outcome is Outcome.READY and facts.driver_verdict is DriverVerdict.BLOCKED
    ),
    ("outcome", "driver_verdict"),
)
FAILS = Condition("the newest attempt failed", fails, ("outcome", "stage"), _failure)
STABLE_FAILURE = Condition("the first failure repeats, score 2", stable_failure, _FAILURE_FACTS, _failure)
NOT_STABLE = Condition("no stable first failure is known", lambda facts: facts.score != 2, ("score",))
CLASS_UNKNOWN = Condition(
    "its class is not known", lambda facts: facts.error_class in {None, ErrorClass.UNKNOWN}, ("error_class",)
)
DRIVER_NOT_JUDGED = Condition(
    "a driver could explain it, and the loaded driver is not judged",
    lambda facts: (
        facts.driver_needed
        and facts.driver_verdict in {None, DriverVerdict.UNKNOWN}
        and facts.error_class in DRIVER_CAN_EXPLAIN
    ),
    ("error_class", "driver_verdict"),
)
BOUNDARY_CHECKED = Condition(
    "the driver boundary is checked and met, or none applies", boundary_checked, ("driver_verdict", "driver_needed")
)
BOUNDARY_NOT_CHECKED = Condition(
    "the driver boundary is not checked", lambda facts: not boundary_checked(facts), ("driver_verdict",)
)
READY_BEFORE = Condition(
    "the baseline before was ready twice, and one variable was changed since",
    lambda facts: facts.stable_ready_before,
    ("stage",),
)
IRREVERSIBLE = Condition(
    "a change cannot be rolled back, so states no longer compare",
    lambda facts: facts.change_rollback is False,
    ("change_rollback",),
)
HARMS_JOBS = Condition(
    "trouble-shooting harms running jobs", lambda facts: facts.jobs_affected is True, ("jobs_affected",)
)
UNSTABLE_TWICE = Condition(
    "no error could be reproduced in two rounds",
    lambda facts: facts.unstable_scores >= 2,
    ("score",),
    lambda facts: f"{facts.unstable_scores} scores below 2 in a row",
)
UNSTABLE_ONCE = Condition(
    "the last two attempts differ",
    lambda facts: facts.score in {0, 1},
    ("score",),
    lambda facts: f"score {facts.score}",
)
OFFICIAL = Condition("on the official image", lambda facts: facts.official_image is True, ("official_image",))
NOT_OFFICIAL = Condition(
    "nobody confirmed the official image", lambda facts: facts.official_image is not True, ("official_image",)
)
DISTURBED = Condition(
    "something outside the engine moves the rounds",
    disturbed,
    ("other_jobs_disturb", "versions_frozen", "other_tenants"),
    _disturbances,
)
OOM_RUNTIME_UNPROVEN = Condition(
    "out of memory while serving, and no fixed single request has triggered it repeatedly",
    lambda facts: facts.error_class is ErrorClass.OOM_RUNTIME and facts.regression not in {"failed", "unstable"},
    ("error_class", "regression"),
)
READY = Condition("the newest attempt is ready", lambda facts: facts.outcome is Outcome.READY, ("outcome",))
NOT_OBSERVED = Condition(
    "the newest attempt could not be observed", lambda facts: facts.outcome is Outcome.NOT_OBSERVED, ("outcome",)
)
READY_TWICE = Condition("ready twice, score 2", lambda facts: facts.score == 2, ("score",))
REQUEST_STABLE = Condition(
    "the fixed request completes repeatedly", lambda facts: facts.regression == "stable", ("regression",)
)
REQUEST_FAILS = Condition(
    "the fixed request does not complete every time",
    lambda facts: facts.regression in {"failed", "unstable"},
    ("regression",),
)


def points_to(kind: DecisionKind) -> Condition:
    """Return the condition that the class of the failure points to this action."""
    return Condition(
        f"its class points to {kind.value}",
        lambda facts: facts.points_to is kind,
        ("points_to", "error_class"),
        lambda facts: facts.error_class.value if facts.error_class is not None else "",
    )


ALWAYS = Condition("nothing above applies", lambda _facts: True, ())

NEVER = {
    "last-error": "that the last error in the log is the cause",
    "runtime-is-driver": "that the CUDA runtime in the container shows what the host's driver runs",
    "host-is-container": "that packages on the host are what the container loads",
    "one-success": "that one success is stable",
    "no-oom-once": "that memory is sufficient because one run had no out-of-memory error",
    "other-error-fixed": "that another error means the first one is fixed",
    "faster-is-hit": "that a faster answer is a cache hit",
    "answers-is-recovered": "that the service has recovered because it answers",
    "one-node-several": "that what holds on one node holds on several",
    "own-build-official": "that an own cu129 build is the official image, or that one will come",
    "no-gpu-evidence": "that a place without the required GPUs says anything about the model",
    "memory": "that memory is sufficient",
    "model-works": "that the model works on these GPUs",
    "recorded": "that logs from elsewhere started from one baseline: a person said so, nothing here read it",
}
"""What is never concluded (R19.2), by key, in the words that a decision uses."""
