"""One feature brought back on the last stable baseline, and the baseline seen again afterwards (R8).

Where an add-back stands is read off the record: the launch with the one change, the fixed request to it, for the cache its
probe, then the roll-back and the re-check. A result that moved is never a fix; it is rolled back and nothing more is brought.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from playbooks.evidence import entries as e
from playbooks.guiding import seen
from playbooks.guiding.case import Case, Noted
from playbooks.judging.baseline import Baseline
from playbooks.judging.option_words import options_of
from playbooks.vocabulary import Outcome

PREFIX_CACHING = "--enable-prefix-caching"
State = Literal["none", "launch", "request", "probe", "roll_back", "re_verify", "done", "lost"]
_AGAIN = frozenset({"inconclusive", "contaminated"})
"""Verdicts of a probe that prove nothing: it is repeated, once."""


@dataclass(frozen=True, slots=True)
class AddBack:
    """Where the newest add-back stands; state `none`: nothing was brought back yet.

    stable: the last stable baseline; frozen: what was frozen with the change. launch, request, probe, check: the
    entries that are its records, None = not there yet; check is the re-check after the roll-back.
    """

    state: State
    stable: Noted[e.BaselineFrozen]
    frozen: Noted[e.BaselineFrozen] | None = None
    moved: str = ""
    """What the change did to the result; empty = nothing that is known of."""
    launch: int | None = None
    request: int | None = None
    probe: int | None = None
    check: int | None = None

    @property
    def variable(self) -> str:
        """The one variable, as the change names it."""
        change = self.frozen.payload.change if self.frozen is not None else None
        return str((change or {}).get("variable", ""))

    @property
    def of_the_cache(self) -> bool:
        """Whether prefix caching is what was brought back."""
        return self.variable.endswith(PREFIX_CACHING)


def caching_on(baseline: Baseline) -> bool:
    """Whether a baseline says that prefix caching is on; the default of the engine is not known here."""
    return any(option.name == PREFIX_CACHING for option in options_of(baseline.argv))


def brought_back(case: Case) -> frozenset[str]:
    """Return the variables that were brought back at any time, by name."""
    return frozenset(str(noted.payload.change.get("variable")) for noted in case.baselines if noted.payload.change)


def add_back_of(case: Case) -> AddBack | None:
    """Return the newest add-back of a case; None as long as no baseline is stable."""
    started = _started(case)
    if started is None:
        stable = next((noted for noted in reversed(case.baselines) if _is_stable(case, noted, before=None)), None)
        return None if stable is None else AddBack("none", stable)
    stable, frozen = started
    attempts = seen.attempts_of(case, frozen.payload.digest)
    newest = attempts[-1] if attempts else None
    if newest is None:
        return _after_roll_back(case, AddBack("launch", stable, frozen)) or AddBack("launch", stable, frozen)
    numbers = {noted.payload.attempt for noted in attempts}
    request = next((noted for noted in reversed(case.requests) if noted.payload.attempt in numbers), None)
    probe = next((noted for noted in reversed(case.cache_probes) if noted.payload.attempt in numbers), None)
    tried_feature = next((noted for noted in reversed(case.feature_probes) if noted.payload.attempt in numbers), None)
    moved = _moved(case, newest, request, numbers) or _failed(tried_feature)
    found = AddBack(
        "roll_back",
        stable,
        frozen,
        moved=moved,
        launch=newest.seq,
        request=None if request is None else request.seq,
        probe=probe.seq if probe is not None else None if tried_feature is None else tried_feature.seq,
    )
    if (after := _after_roll_back(case, found)) is not None:
        return after
    if moved:
        return found
    if request is None:
        return _in_state(found, "request")
    tried = sum(1 for noted in case.cache_probes if noted.payload.attempt in numbers)
    if found.of_the_cache and (probe is None or (probe.payload.verdict in _AGAIN and tried < 2)):
        return _in_state(found, "probe")
    return found


def _started(case: Case) -> tuple[Noted[e.BaselineFrozen], Noted[e.BaselineFrozen]] | None:
    """Return the stable baseline and what was frozen on it, of the newest add-back; a roll-back is no add-back."""
    frozen = case.baselines
    for at in range(len(frozen) - 1, 0, -1):
        one, before = frozen[at], frozen[at - 1]
        if one.payload.change is None or one.payload.digest == before.payload.digest:
            continue
        if at >= 2 and one.payload.digest == frozen[at - 2].payload.digest:
            one, before = before, frozen[at - 2]
        if _is_stable(case, before, before=one.seq):
            return before, one
    return None


def _is_stable(case: Case, frozen: Noted[e.BaselineFrozen], *, before: int | None) -> bool:
    """Whether a baseline was ready twice alike, and its fixed request completed repeatedly, before an entry."""
    attempts = {noted.payload.attempt: noted for noted in seen.attempts_of(case, frozen.payload.digest)}
    ready = {number for number, noted in attempts.items() if noted.payload.outcome is Outcome.READY}

    def in_time(seq: int) -> bool:
        return before is None or seq < before

    scored = any(
        noted.payload.score == 2 and noted.payload.later in ready and in_time(noted.seq)
        for noted in seen.scores_of(case, frozen.payload.digest)
    )
    asked = any(
        noted.payload.verdict == "stable" and noted.payload.attempt in ready and in_time(noted.seq)
        for noted in case.requests
    )
    return scored and asked


def _moved(
    case: Case, newest: Noted[e.AttemptRecorded], request: Noted[e.RequestRecorded] | None, numbers: set[int]
) -> str:
    if newest.payload.outcome is not Outcome.READY:
        return f"{newest.payload.finding.get('stage', '?')}, {newest.payload.finding.get('error_class', '?')}"
    died = next(
        (noted for noted in case.held_ended if noted.payload.attempt in numbers and noted.payload.how == "died"), None
    )
    if died is not None:
        return f"the engine died after it was ready: {died.payload.detail}"
    if request is not None and request.payload.verdict in {"failed", "unstable"}:
        return f"the fixed request is {request.payload.verdict}, {request.payload.complete} of {request.payload.of}"
    return ""


def _failed(probe: Noted[e.FeatureProbed] | None) -> str:
    if probe is None or probe.payload.verdict not in {"fails", "sometimes"}:
        return ""
    return f"{probe.payload.feature} {probe.payload.verdict}, {probe.payload.passed} of {probe.payload.of}"


def _after_roll_back(case: Case, found: AddBack) -> AddBack | None:
    """Return what follows once the stable baseline was frozen again; None before."""
    frozen = found.frozen
    if frozen is None:
        return None
    back = next(
        (
            noted
            for noted in case.baselines
            if noted.seq > frozen.seq and noted.payload.digest == found.stable.payload.digest
        ),
        None,
    )
    if back is None:
        return None
    again = [noted for noted in seen.attempts_of(case, found.stable.payload.digest) if noted.seq > back.seq]
    if not again:
        return _in_state(found, "re_verify")
    ready = again[-1].payload.outcome is Outcome.READY
    return AddBack(
        "done" if ready else "lost",
        found.stable,
        frozen,
        moved=found.moved,
        launch=found.launch,
        request=found.request,
        probe=found.probe,
        check=again[-1].seq,
    )


def _in_state(found: AddBack, state: State) -> AddBack:
    return AddBack(
        state,
        found.stable,
        found.frozen,
        moved=found.moved,
        launch=found.launch,
        request=found.request,
        probe=found.probe,
        check=found.check,
    )
