"""Limits of a launch as a person types them: `weight_loading 5400`, with the silence allowed behind a slash, `engine_init 3600/1800`."""

from __future__ import annotations

import re
from typing import Final

from playbooks.errors import InvalidCommand
from playbooks.guiding.playbook import LaunchLimits, StageLimits
from playbooks.vocabulary import LAUNCH_STAGES, Stage

SHORTEST_S: Final = 10
LONGEST_S: Final = 86_400
_ITEM = re.compile(r"(?P<stage>[a-z_]+)[\s=:]+(?P<total>\d{1,9})(?:\s*/\s*(?P<silence>\d{1,9}))?")


def limits_with(text: str, base: LaunchLimits) -> LaunchLimits:
    """Return the limits with what was typed in their place; the launch may take as much longer as its stages may.

    text: items between commas, semicolons or line ends; empty = as the playbook says.

    Raises:
        InvalidCommand: an item is not of that form, names no stage, or is out of bounds.
    """
    stages, total = dict(base.stages), base.total_s
    for item in (part.strip() for part in re.split(r"[,;\n]", text)):
        if not item:
            continue
        stage, limit = _one(item, stages)
        total += max(limit.total_s - (stages[stage].total_s if stage in stages else 0), 0)
        stages[stage] = limit
    return base.model_copy(update={"stages": stages, "total_s": min(total, LONGEST_S)})


def _one(item: str, stages: dict[Stage, StageLimits]) -> tuple[Stage, StageLimits]:
    names = [stage.value for stage in LAUNCH_STAGES]
    found = _ITEM.fullmatch(item)
    if found is None or found["stage"] not in names:
        raise InvalidCommand(
            f"limits: expected a stage ({', '.join(names)}) and seconds, such as `weight_loading 5400` or `engine_init 3600/1800`, found {item[:80]!r}"
        )
    stage, total = Stage(found["stage"]), int(found["total"])
    silent = int(found["silence"]) if found["silence"] else None
    for seconds in (total, *(() if silent is None else (silent,))):
        if not SHORTEST_S <= seconds <= LONGEST_S:
            raise InvalidCommand(
                f"limits: expected {SHORTEST_S} to {LONGEST_S} seconds, found {seconds} in {item[:80]!r}"
            )
    if silent is not None and silent > total:
        raise InvalidCommand(f"limits: expected a silence of at most {total} seconds, found {silent} in {item[:80]!r}")
    before = stages.get(stage)
    if silent is None:
        silent = total if before is None else min(before.silence_s, total)
    return stage, StageLimits(silence_s=silent, total_s=total)


def in_words(limits: LaunchLimits, base: LaunchLimits) -> str:
    """Return the limits that differ from the playbook's, as they are typed; empty when none does."""
    changed = (
        f"{stage.value} {limit.total_s}/{limit.silence_s}"
        for stage, limit in limits.stages.items()
        if base.stages.get(stage) != limit
    )
    return ", ".join(changed)
