"""What comes with each kind of decision, whatever rule led to it: what is agreed first, what follows, and what it costs.

Costs are more than the price of compute (R11.8); the terms are those of R11.6, R11.7 and R12.
"""

from __future__ import annotations

from playbooks.vocabulary import DecisionKind

_ONE_CHANGE = "The repair is the one change of the next attempt; nothing else moves (R8, R19.1)."
_STAYING = (
    "Staying as it is: engineer time, what else they would do, and logs that cannot be attributed while the environment"
    " moves; approvals, regression and rollback happen on the same nodes."
)

CARRY_OUT: dict[DecisionKind, tuple[str, ...]] = {
    DecisionKind.UPGRADE_DRIVER: (
        "Named first: rollback owner, point in time, restorable original image (R12.3).",
        "By the platform's own document, on one drained node; Baseline upgrades nothing itself (R12.2).",
        "Afterwards verified again: CUDA-12 workloads, monitoring, GPU plugin, communication (R12.5).",
    ),
    DecisionKind.ISOLATE: (
        "Agreed first: term, delivery limits and way back; the new place meets the boundaries itself (R11.6).",
        "A controlled comparison: same image, command, request sample and data (R11.3).",
        "Afterwards fingerprint, minimal command and single-variable results go back to this cluster (R11.7).",
    ),
    DecisionKind.ROLL_BACK: ("Rolled back means: undone, and the old baseline seen again (R12.4).",),
    DecisionKind.REBUILD_IMAGE: (
        "A transition, unproven until a staged launch passes; source and build are recorded (R11.1, R13).",
    ),
    DecisionKind.REPLACE_IMAGE: ("By digest, as the one change; proven by two attempts of the new baseline (R5).",),
    DecisionKind.FIX_CONFIG: (_ONE_CHANGE,),
    DecisionKind.FIX_FILES: (_ONE_CHANGE,),
    DecisionKind.FIX_CONTAINER_RUNTIME: (_ONE_CHANGE,),
    DecisionKind.FIX_COMMUNICATION: (_ONE_CHANGE, "One node stable first; then between nodes (R8)."),
    DecisionKind.FIX_CAPACITY: (_ONE_CHANGE, "Context, concurrency and memory share are never lowered at once (R4.5)."),
    DecisionKind.FIX_HARDWARE: ("The GPU or node is taken out by the platform's own document.",),
    DecisionKind.REPORT_UPSTREAM: ("The bundle goes with it; nobody should have to ask back (R15.3).",),
    DecisionKind.STOP_ROUTE: ("The application team is told today, with the bundle and what would reopen the route.",),
    DecisionKind.HOLD: (),
}
COSTS: dict[DecisionKind, tuple[str, ...]] = {
    DecisionKind.UPGRADE_DRIVER: (
        "Upgrade: approvals, an audit baseline, a window, and the re-run of every workload of the node.",
        _STAYING,
    ),
    DecisionKind.ISOLATE: (
        "Isolation: apart, verified first, withdrawn easily; long steady load or network control want an own cluster.",
        _STAYING,
    ),
    DecisionKind.REBUILD_IMAGE: (
        "Rebuild: a dependency chain of one's own, to be carried through every update.",
        _STAYING,
    ),
    DecisionKind.STOP_ROUTE: ("Stopping: the endpoint is not delivered here.", _STAYING),
}
"""Of the kinds that choose between staying and leaving; a repair has no price of its own."""
