"""What a log alone can say of the launch that wrote it: how it ended, and with which arguments it ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playbooks.vocabulary import ErrorClass, Outcome, Stage

if TYPE_CHECKING:
    from playbooks.judging.finding import Finding

_DOOR = frozenset({"port", "host", "uds", "root_path", "model_tag"})
"""Where the engine listens changes between two runs on one machine and is no variable; `model_tag` says `model` again."""
_MOST_VALUE = 60
SEEN_TO_RUN = "the command that was seen to run"
"""What a baseline of recorded attempts is derived from when `baseline watch` looked on."""


def outcome_of(finding: Finding) -> Outcome:
    """Say how a launch ended, as far as its log shows: a server that came up is ready by its own word alone."""
    if finding.error_class is not ErrorClass.NONE:
        return Outcome.FAILED
    came_up = finding.reached.position >= Stage.ENGINE_INIT.position
    return Outcome.READY if came_up else Outcome.NOT_OBSERVED


def moved_arguments(earlier: Finding, later: Finding) -> tuple[str, ...] | None:
    """Name the engine's arguments that differ between two logs, as `name: before → after`; None where a log does not tell them."""
    before, after = earlier.engine.arguments, later.engine.arguments
    if before is None or after is None:
        return None
    names = sorted((before.keys() | after.keys()) - _DOOR)
    return tuple(
        f"{name}: {_shown(before.get(name))} → {_shown(after.get(name))}"
        for name in names
        if before.get(name) != after.get(name)
    )


def _shown(value: str | None) -> str:
    if value is None:
        return "not set"
    return value if len(value) <= _MOST_VALUE else f"{value[: _MOST_VALUE - 1]}…"
