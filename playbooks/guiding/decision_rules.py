"""The decision rules as one ordered table: the first rule whose conditions all hold decides (R10, R11, R14).

Version risk comes before memory, what a record proves before what people say, and `hold` lists exactly what is missing,
cheapest first. docs/rules.md is generated from this table.
"""

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


RULES: tuple[Rule, ...] = (
    Rule(
        "D-01",
        (w.READY_CONTRADICTS,),
        K.HOLD,
        "Hold: the engine became ready on a driver that was judged too old; one of the two readings is wrong.",
        "R2.4, R3.1",
        ("A fingerprint with the container that shows which driver library was loaded.",),
        ("runtime-is-driver", "host-is-container", "one-success"),
        lambda _facts: (m.READ_INSIDE, m.RECHECK),
    ),
    Rule(
        "D-02",
        (w.LOG_CONTRADICTS,),
        K.HOLD,
        "Hold: the log names a driver that is too old, and the loaded one fits; read what the container loads.",
        "R3.1, R3.6",
        ("A fingerprint with the container that shows an old driver library, or the log of another machine.",),
        ("host-is-container", "runtime-is-driver"),
        lambda _facts: (m.READ_INSIDE, m.REPEAT),
    ),
    Rule(
        "D-03",
        (w.VERSION_RISK, w.OFFICIAL_FOR_DRIVER),
        K.REPLACE_IMAGE,
        "Replace the image by the official one for the loaded driver; prove it by a staged launch.",
        "R10, R11.1",
        ("The official image fails in the staged launch.", "An upgrade of the driver is approved anyway."),
        ("memory", "model-works", "own-build-official"),
    ),
    Rule(
        "D-04",
        (w.VERSION_RISK, w.CANNOT_CHANGE, w.ISOLATED_POSSIBLE),
        K.ISOLATE,
        "Isolate now: the driver does not fit, and this cluster cannot change.",
        "R11.3, R11.4",
        (
            "A drain, a window and a way back on this cluster: upgrade first.",
            "An official image for the loaded driver: replace the image.",
            "No environment that meets the boundaries itself.",
        ),
        ("memory", "model-works", "own-build-official", "no-gpu-evidence"),
    ),
    Rule(
        "D-05",
        (w.VERSION_RISK, w.BRIDGING, w.ISOLATED_POSSIBLE),
        K.ISOLATE,
        "Isolate now; upgrade the driver in the window.",
        "R11.3",
        (
            "A drain and a window today: upgrade first.",
            "An official image for the loaded driver: replace the image.",
            "A recovery goal that can wait for the window.",
        ),
        ("memory", "model-works", "no-gpu-evidence"),
    ),
    Rule(
        "D-06",
        (w.VERSION_RISK, w.UPGRADE_CONFIRMED),
        K.UPGRADE_DRIVER,
        "Upgrade the driver, by the platform's own document, on one drained node first.",
        "R11.3, R12.2",
        (
            "The window or the drain falls away, or running jobs turn out to be harmed: isolate.",
            "An official image for the loaded driver: replace the image.",
        ),
        ("memory", "model-works", "one-node-several"),
    ),
    Rule(
        "D-07",
        (w.VERSION_RISK, w.CANNOT_CHANGE, w.ISOLATED_IMPOSSIBLE, w.FORK_TEAM),
        K.REBUILD_IMAGE,
        "Rebuild for the older CUDA, as a transition; unproven until a staged launch passes.",
        "R11.1",
        ("An exclusive environment: isolate.", "A drain and a window: upgrade.", "The staged launch fails: stop."),
        ("own-build-official", "memory", "model-works"),
    ),
    Rule(
        "D-08",
        (w.VERSION_RISK, w.CANNOT_CHANGE, w.ISOLATED_IMPOSSIBLE, w.NO_FORK_TEAM),
        K.STOP_ROUTE,
        "Stop this route: the driver does not fit, and neither change nor isolation nor rebuild is open.",
        "R11.1, R11.7",
        ("Any of them opens: a window with a drain, an exclusive environment, a team for a rebuild.",),
        ("memory", "model-works"),
    ),
    Rule(
        "D-09",
        (w.VERSION_RISK,),
        K.HOLD,
        "Hold: the driver does not fit; what to do about it turns on answers that are missing.",
        "R11.2, R11.3",
        ("A cluster that cannot change: isolate.", "Everything confirmed: upgrade the driver."),
        ("memory", "model-works"),
        m.for_a_driver,
    ),
    Rule(
        "D-10",
        (w.FAILS, w.READY_BEFORE, w.IRREVERSIBLE),
        K.ISOLATE,
        "Isolate: the change broke a stable baseline, and it cannot be rolled back here.",
        "R11.4",
        ("A way back is found: roll back.",),
        ("other-error-fixed", "one-success"),
    ),
    Rule(
        "D-11",
        (w.FAILS, w.READY_BEFORE),
        K.ROLL_BACK,
        "Roll the one change back, and see the old baseline again before anything else.",
        "R8, R12.4",
        ("The old baseline fails too: then the environment moved; freeze again.",),
        ("other-error-fixed", "last-error", "answers-is-recovered"),
    ),
    Rule(
        "D-12",
        (w.FAILS, w.DRIVER_NOT_JUDGED),
        K.HOLD,
        "Hold: version risk comes before memory and kernels, and the loaded driver is not judged yet.",
        "R2.4, R10",
        ("A driver below the boundary: upgrade or isolate.", "A driver that fits: the class of the failure decides."),
        ("runtime-is-driver", "host-is-container", "memory"),
        m.for_unjudged_driver,
    ),
    Rule(
        "D-13",
        (w.FAILS, w.OOM_RUNTIME_UNPROVEN),
        K.HOLD,
        "Hold: memory while serving is the main problem only when one fixed request triggers it repeatedly.",
        "R4.3, R7.3",
        ("The fixed request fails every time: capacity.", "It completes: scheduling and memory under load."),
        ("last-error", "no-oom-once"),
        lambda _facts: (m.REQUEST,),
    ),
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
    Rule(
        "D-29",
        (w.STABLE_FAILURE, w.points_to(K.ISOLATE), w.BOUNDARY_CHECKED),
        K.ISOLATE,
        "Isolate: something outside the engine stops it here; repeat the baseline where nothing else runs.",
        "R11.6",
        ("The other work ends, or the leftover is gone: two more attempts here.",),
        ("memory", "no-oom-once", "last-error"),
    ),
    Rule(
        "D-30",
        (w.STABLE_FAILURE, w.points_to(K.ISOLATE), w.BOUNDARY_NOT_CHECKED),
        K.HOLD,
        "Hold: isolation comes only after the boundary is checked, never to try one's luck.",
        "R11.6",
        ("A driver that fits: isolate.", "A driver below the boundary: upgrade or isolate for that reason."),
        ("memory", "runtime-is-driver"),
        lambda _facts: (m.READ_DRIVER,),
    ),
    Rule(
        "D-31",
        (w.STABLE_FAILURE, w.CLASS_UNKNOWN, w.OFFICIAL, w.BOUNDARY_CHECKED),
        K.ISOLATE,
        "Isolate: the minimal command leaves the fault unexplained; the same image and command in a clean place compare.",
        "R11.6",
        ("Somebody names the cause in the failing block.",),
        ("last-error", "model-works", "no-gpu-evidence"),
    ),
    Rule(
        "D-32",
        (w.STABLE_FAILURE,),
        K.HOLD,
        "Hold: the failure repeats, and its cause is not named.",
        "R11.6, R19.1",
        ("A cause that is named: its repair.", "Boundary and official image confirmed: isolate."),
        ("last-error", "memory"),
        m.for_unexplained,
    ),
    Rule(
        "D-40",
        (w.NOT_STABLE, w.UNSTABLE_TWICE, w.OFFICIAL),
        K.ISOLATE,
        "Isolate: no error can be reproduced on the official baseline here; more tuning says nothing.",
        "R11.4, R19.1",
        ("Two attempts that agree.", "What moves is found and stopped."),
        ("last-error", "other-error-fixed", "one-success"),
    ),
    Rule(
        "D-41",
        (w.NOT_STABLE, w.UNSTABLE_TWICE, w.NOT_OFFICIAL),
        K.HOLD,
        "Hold: nothing repeats, and it is not the official baseline that was tried.",
        "R2.3, R11.4",
        ("Nothing repeats on the official image either: isolate.",),
        ("own-build-official", "last-error"),
        lambda _facts: (m.OFFICIAL, m.LOOK_AROUND),
    ),
    Rule(
        "D-42",
        (w.FAILS, w.NOT_STABLE, w.IRREVERSIBLE),
        K.ISOLATE,
        "Isolate: a change cannot be rolled back here, so the states no longer compare.",
        "R11.4",
        ("A way back is found and seen to work.",),
        ("other-error-fixed", "last-error"),
    ),
    Rule(
        "D-43",
        (w.FAILS, w.NOT_STABLE, w.HARMS_JOBS),
        K.ISOLATE,
        "Isolate: more rounds here harm running jobs and cost more than an isolated test.",
        "R11.4",
        ("The running jobs end or move.",),
        ("last-error", "memory"),
    ),
    Rule(
        "D-44",
        (w.UNSTABLE_ONCE, w.DISTURBED, w.BOUNDARY_CHECKED),
        K.ISOLATE,
        "Isolate: the outcome moved, and so did what surrounds the engine.",
        "R5, R11.6",
        ("The disturbance ends: two more attempts here.",),
        ("last-error", "one-success", "other-error-fixed"),
    ),
    Rule(
        "D-45",
        (w.UNSTABLE_ONCE,),
        K.HOLD,
        "Hold: the last two attempts differ; freeze again before anything is tuned.",
        "R5",
        ("Two attempts that agree: their failure decides.", "A second round that differs: isolate."),
        ("last-error", "one-success", "other-error-fixed"),
        lambda _facts: (m.LOOK_AROUND, m.REPEAT),
    ),
    Rule(
        "D-46",
        (w.FAILS,),
        K.HOLD,
        "Hold: one failure may be chance; a second attempt says whether it repeats.",
        "R5",
        ("The same first failure again: its class decides.",),
        ("last-error", "one-success"),
        lambda _facts: (m.REPEAT,),
    ),
    Rule(
        "D-50",
        (w.READY, w.READY_TWICE, w.REQUEST_STABLE),
        K.HOLD,
        "Nothing to decide: ready twice, and the fixed request completes repeatedly. One feature at a time comes next.",
        "R7, R14, R19.1",
        ("A request that fails, or a feature that moves the failure.",),
        ("answers-is-recovered", "no-oom-once", "faster-is-hit", "one-node-several"),
        lambda _facts: (m.NEXT_LAYER,),
    ),
    Rule(
        "D-51",
        (w.READY, w.READY_TWICE, w.REQUEST_FAILS),
        K.HOLD,
        "Hold: the engine is ready, and the fixed request does not complete every time; its log names the layer.",
        "R7.1, R7.3",
        ("CUDA or communication errors at random: back to the environment.", "Memory, every time: capacity."),
        ("answers-is-recovered", "no-oom-once", "one-success"),
        lambda _facts: (m.READ_LOG,),
    ),
    Rule(
        "D-52",
        (w.READY, w.READY_TWICE),
        K.HOLD,
        "Hold: ready twice; the fixed request comes next, several runs.",
        "R7.1",
        ("The fixed request fails: its layer decides.",),
        ("answers-is-recovered", "one-success", "no-oom-once"),
        lambda _facts: (m.REQUEST,),
    ),
    Rule(
        "D-53",
        (w.READY,),
        K.HOLD,
        "Hold: ready once is not stable.",
        "R5, R7.1",
        ("Ready again: the fixed request.", "A failure: the outcome moved."),
        ("one-success", "answers-is-recovered", "no-oom-once"),
        lambda _facts: (m.REPEAT,),
    ),
    Rule(
        "D-54",
        (w.NOT_OBSERVED,),
        K.HOLD,
        "Hold: the newest attempt could not be observed, and says nothing.",
        "R5",
        ("An attempt that is seen to its end.",),
        ("one-success", "last-error"),
        lambda _facts: (m.REPEAT,),
    ),
    Rule(
        "D-99",
        (w.ALWAYS,),
        K.HOLD,
        "Hold: no attempt of a minimal command is on record.",
        "R4, R19.1",
        ("Two attempts of one baseline.",),
        ("last-error", "memory", "model-works"),
        m.for_a_start,
    ),
)
"""In order: contradictions, version risk, broken by a change, unjudged driver, routes of a stable failure, no stable failure,
ready, nothing known."""
