"""What comes next once the fixed request is stable: one feature at a time, prefix caching first (R8, R9)."""

from __future__ import annotations

from playbooks.guiding import seen
from playbooks.guiding.add_back import AddBack, add_back_of, brought_back, caching_on
from playbooks.guiding.case import Case
from playbooks.guiding.playbook import FeatureBack, Playbook
from playbooks.guiding.step import NextStep, fixed_request, keep_an_engine, run
from playbooks.judging.baseline import Baseline
from playbooks.vocabulary import JobKind

BRING, BACK, OF = "bring", "back", "."
"""What the button of an add-back does: bring prefix caching, bring a feature of the playbook (`bring.tool-calls`), or put the
stable baseline back."""


def next_of(case: Case, playbook: Playbook) -> NextStep | None:
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
            return _before_roll_back(found, playbook, held)
        case "launch" | "re_verify":
            return _launch(found)
        case "lost" | "done":
            return None if found.moved or found.state == "lost" else _seen_again(case, found, playbook, held)


def _before_roll_back(found: AddBack, playbook: Playbook, held: int | None) -> NextStep:
    """Probe the feature while its engine is held; then, or when it moved the result, put the baseline back."""
    feature = next((one for one in playbook.features if one.variable == found.variable), None)
    if feature is not None and found.probe is None and not found.moved and held is not None:
        return _probe_feature(feature)
    return _roll_back(found)


def _seen_again(case: Case, found: AddBack, playbook: Playbook, held: int | None) -> NextStep:
    if held is not None and not case.ladders:
        return _ladder()
    return _next_feature(case, playbook) or _done(found)


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


def _next_feature(case: Case, playbook: Playbook) -> NextStep | None:
    """Return the next feature that was not brought back yet; None when the playbook has no more."""
    tried = brought_back(case)
    feature = next((one for one in playbook.features if one.variable not in tried), None)
    if feature is None:
        return None
    return NextStep(
        "add_back",
        f"Bring back, alone: {feature.label}.",
        why="One feature at a time, each on the stable baseline.",
        how="Press the button: the stable baseline plus this one change is frozen and launched. Or close the case, if that is enough.",
        item=f"{BRING}{OF}{feature.id}",
    )


def _probe_feature(feature: FeatureBack) -> NextStep:
    return NextStep(
        "job",
        f"Does it work? Probe it: {feature.label}.",
        why="It started, and it works, are two acceptances.",
        how="Press the button: twenty tries, each judged by what the feature promises.",
        item=feature.probe,
        job=JobKind.FEATURE_PROBE,
    )


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
