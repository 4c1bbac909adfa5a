"""First baselines that prove nothing, named so that they can be refused (R2.3).

What was assumed instead of read is found by `boundary`; this module looks at the command itself.
"""

from __future__ import annotations

from playbooks.judging.baseline import Baseline
from playbooks.judging.boundary_data import Boundaries
from playbooks.judging.boundary_facts import BoundaryFinding
from playbooks.judging.option_words import options_of
from playbooks.vocabulary import DriverVerdict

_MOST_NAMED = 6


def bad_first_baseline(
    baseline: Baseline,
    *,
    boundaries: Boundaries,
    verdict: DriverVerdict | None = None,
    one_node_clean: bool = False,
) -> tuple[BoundaryFinding, ...]:
    """Name what makes this a bad first baseline; () when nothing does.

    verdict: of the driver, None = not judged yet.
    one_node_clean: CUDA initialised and one node came up without a fault before.
    """
    found: list[BoundaryFinding] = []
    if verdict in {DriverVerdict.BLOCKED, DriverVerdict.COMPAT_ONLY}:
        text = "The driver is below the image's boundary: lowering context, concurrency or memory share does not help."
        found.append(BoundaryFinding("driver-below-boundary", text, "blocking"))
    reasons = boundaries.options.why_removed()
    extras = sorted({option.base for option in options_of(baseline.argv) if option.base in reasons})
    if extras:
        text = f"The first command holds {_named(extras)}: each comes back alone, after a stable launch."
        found.append(BoundaryFinding("extras-in-first-command", text, "blocking"))
    several = boundaries.options.multi_node
    spanning = sorted({option.name for option in options_of(baseline.argv) if option.name in several.options})
    tuning = sorted(name for name in baseline.env if name.startswith(several.env_prefixes))
    count = [f"{len(baseline.nodes)} nodes"] if len(baseline.nodes) > 1 else []
    if not one_node_clean and (count or spanning or tuning):
        text = f"{_named([*count, *spanning, *tuning])} before CUDA initialises and one node is clean: start one node without them first."
        found.append(BoundaryFinding("several-nodes-first", text, "blocking" if spanning or count else "note"))
    return tuple(found)


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
