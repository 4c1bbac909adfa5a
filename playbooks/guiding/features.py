"""What comes next once the fixed request is stable: one feature at a time, prefix caching first (R8, R9)."""

from __future__ import annotations

from playbooks.guiding import seen
from playbooks.guiding.add_back import AddBack, add_back_of, caching_on
from playbooks.guiding.case import Case
from playbooks.guiding.playbook import Playbook
from playbooks.guiding.step import NextStep, fixed_request, keep_an_engine, run
from playbooks.judging.baseline import Baseline
from playbooks.vocabulary import JobKind

BRING, BACK = "bring", "back"
"""What the button of an add-back does: bring prefix caching, or put the stable baseline back."""


def next_of(case: Case, _playbook: Playbook) -> NextStep | None:
    """Return the next step of bringing features back; None when nothing is stable, or what moved is to be decided on."""
    found = add_back_of(case)
    if found is None or case.opened.payload.node is None:
        return None
    held = seen.held_attempt(case)
    match found.state:
        case "none":
            return _first(case, found, held)
        case "request" | "probe" if held is None:
            return keep_an_engine()
        case "request":
            return fixed_request()
        case "probe":
            return _probe()
        case "roll_back":
            return _roll_back(found)
        case "launch" | "re_verify":
            return _launch(found)
        case "lost" | "done":
            if found.moved or found.state == "lost":
                return None
            return _ladder() if held is not None and not case.ladders else _done(found)


def _first(case: Case, found: AddBack, held: int | None) -> NextStep:
    if not caching_on(Baseline.model_validate(found.stable.payload.baseline)):
        return NextStep(
            "add_back",
            "Bring prefix caching back, alone.",
            why="The fixed request completes repeatedly; one feature comes back at a time, the cache first.",
            how="Press the button: the stable baseline plus `--enable-prefix-caching`, nothing else, is frozen and launched.",
            item=BRING,
        )
    if not case.cache_probes and held is not None:
        return _probe()
    if held is not None and not case.ladders:
        return _ladder()
    seq = max((noted.seq for noted in case.requests), default=0)
    return _close(f"The fixed request completes repeatedly (#{seq}). Export the bundle, or close the case.")


def _ladder() -> NextStep:
    return NextStep(
        "job",
        "What does it carry? Climb the pressure ladder.",
        why="Longer input, longer output and several at once fail for different reasons; one thing grows at a time.",
        how="Press Run: it stops at the first rung that fails twice, within its bounds of time and tokens.",
        item="pressure-ladder",
        job=JobKind.LADDER,
    )


def _probe() -> NextStep:
    return NextStep(
        "job",
        "Does the cache hit? Run the probe.",
        why="The service answers, and the cache hits, are two acceptances.",
        how="Press Run: the same long prefix, other ends, and two controls that must not hit.",
        item="prefix-cache-hits",
        job=JobKind.CACHE_PROBE,
    )


def _roll_back(found: AddBack) -> NextStep:
    if found.moved:
        return NextStep(
            "add_back",
            f"The feature moved the result ({found.moved}): put the stable baseline back.",
            why="Another result is not a fix; bring nothing more.",
            how="Press the button: the stable baseline is frozen again and launched.",
            item=BACK,
        )
    return NextStep(
        "add_back",
        "Put the stable baseline back, and see it again.",
        why="An add-back is three records: the launch, the fixed request, and the re-check of the baseline.",
        how="Press the button: the stable baseline is frozen again and launched.",
        item=BACK,
    )


def _launch(found: AddBack) -> NextStep:
    if found.state == "launch":
        return run("The baseline with the one feature is frozen: run it.", "It is the one change; nothing else moves.")
    return run(
        "The stable baseline is back: run it once more.", "Rolled back means undone, and the old baseline seen again."
    )


def _done(found: AddBack) -> NextStep:
    return _close(
        f"The feature was proven alone, and the baseline was seen again (#{found.check}). Export the bundle, or close the case."
    )


def _close(text: str) -> NextStep:
    return NextStep("close", text, why="The record holds what has to be known.", how="Press Export, then Close.")
