"""What comes next in a case: one step, why, and how; the checklist itself is `items`.

Goes layer by layer, for each opens the next: freeze, boundary, launch, fixed request, decision. A job is proposed before a
question, for it costs nobody's time.
"""

from __future__ import annotations

from dataclasses import replace

from playbooks.evidence import entries as e
from playbooks.guiding import features, seen
from playbooks.guiding.case import Case, Noted
from playbooks.guiding.decision import decide, facts_of
from playbooks.guiding.decision_words import stable_failure
from playbooks.guiding.gate import evaluate
from playbooks.guiding.items import Item, items, may_answer, open_items
from playbooks.guiding.playbook import NOT_CARRIED_OUT, Playbook, StepKind
from playbooks.guiding.step import NextStep, fixed_request, keep_an_engine, run
from playbooks.vocabulary import DecisionKind, ErrorClass, JobKind, Outcome, Phase

__all__ = ["Item", "NextStep", "items", "next_step"]

ROUNDS_BEFORE_ISOLATION = 2
"""Scores below 2 in a row after which more rounds are no answer (R11.4); one may be chance."""


def next_step(case: Case, playbook: Playbook) -> NextStep:
    """Return the one step that comes next."""
    if case.closed is not None:
        return NextStep("close", "This case is closed.", how="Open a new one with /baseline open.")
    if running := seen.running_jobs(case):
        return _wait(running[0])
    proposal = seen.standing_proposal(case)
    if proposal is not None and proposal.payload.kind is not DecisionKind.HOLD:
        return _approve(proposal)
    approved = seen.approved_proposal(case)
    if approved is not None and approved.seq > case.newest_report:
        return _carry_out(approved, case, playbook)
    for layer in (_freeze, _boundary, _launch, _regression, features.next_of):
        if (step := layer(case, playbook)) is not None:
            return step
    return _decide(case, playbook)


def _wait(job: Noted[e.JobRequested]) -> NextStep:
    kind = job.payload.job_kind
    return NextStep("wait", f"Waiting for {job.payload.node}: {kind.value}.", why=f"Asked for in #{job.seq}.", job=kind)


def _approve(proposal: Noted[e.DecisionProposed]) -> NextStep:
    return NextStep(
        "approve",
        f"The proposed decision #{proposal.seq} waits for an approver: {proposal.payload.headline}",
        why="A second person decides. A newer report makes the proposal void.",
        how="An approver who is neither the proposer nor the owner presses Approve.",
        item="approve",
    )


def _decide(case: Case, playbook: Playbook) -> NextStep:
    """Get what the decision lacks, cheapest first; else propose it."""
    facts = facts_of(case)
    decision = decide(facts)
    # The finding names no action of its own: the proposal takes the usual one of the class, from the definitions.
    routed = stable_failure(facts) and facts.points_to is None and facts.error_class is not ErrorClass.UNKNOWN
    lacking = items(case, playbook) if decision.kind is DecisionKind.HOLD and not routed else ()
    for text, wanted in zip(decision.missing, decision.missing_items, strict=True):
        item = next((one for one in lacking if one.id == wanted and one.state == "open"), None)
        step = playbook.step(wanted)
        if item is None or step is None or not item.carried_out:
            continue
        if step.kind is StepKind.ANSWER:
            return _ask(item)
        if step.kind.job is not None and case.opened.payload.node is not None:
            return NextStep("job", text, why=decision.headline, how=item.how, item=item.id, job=step.kind.job)
    return NextStep(
        "decide",
        "Propose a decision from what is known." if routed else f"Propose: {decision.headline}",
        why="It names its rule, its reasons, what would change it, and what it does not conclude.",
        how="Press Propose.",
        item="propose",
    )


_FREEZES_AGAIN = frozenset({DecisionKind.FIX_CONFIG, DecisionKind.REPLACE_IMAGE, DecisionKind.REBUILD_IMAGE})
_RUNS_AGAIN = frozenset(
    {
        DecisionKind.FIX_FILES,
        DecisionKind.FIX_CONTAINER_RUNTIME,
        DecisionKind.FIX_COMMUNICATION,
        DecisionKind.FIX_CAPACITY,
        DecisionKind.FIX_HARDWARE,
    }
)


def _carry_out(approved: Noted[e.DecisionProposed], case: Case, playbook: Playbook) -> NextStep:
    """What follows an approved decision that no newer report has overtaken."""
    kind, headline = approved.payload.kind, approved.payload.headline
    if case.opened.payload.node is not None:
        if kind in _FREEZES_AGAIN or kind is DecisionKind.ROLL_BACK:
            if case.baselines and case.baselines[-1].seq > approved.seq:
                return run("The changed baseline is frozen: run it twice.", "Score it like any other baseline.")
            return NextStep(
                "answer",
                f"Approved: {headline} Freeze the changed command as the next baseline.",
                why="One variable changes, everything else stands still.",
                how="Give the one change: name, value, why, and what is expected of it.",
                item="minimal-command",
            )
        if kind in _RUNS_AGAIN:
            if (before := _freeze(case, playbook) or _boundary(case, playbook)) is not None:
                return replace(
                    before, why=f"Approved: {headline} No attempt runs here before this is known. {before.why}"
                )
            return run(
                f"Approved: {headline} Carry it out, then run again.",
                "The repair is the one change of the next attempt; nothing else moves.",
            )
    return NextStep(
        "close",
        f"Approved: {headline} Export the bundle, carry it out, and close the case.",
        why=NOT_CARRIED_OUT if kind is DecisionKind.UPGRADE_DRIVER else "The record holds what has to be known.",
        how="Press Export, then Close.",
    )


def _past(case: Case, phase: Phase) -> bool:
    order = list(Phase)
    return order.index(case.phase) > order.index(phase)


def _ask(item: Item) -> NextStep:
    return NextStep("answer", item.label, why=item.why, how=item.how, item=item.id)


def _freeze(case: Case, playbook: Playbook) -> NextStep | None:
    if _past(case, Phase.FREEZE):
        return None
    left = open_items(case, playbook, Phase.FREEZE)
    for item in left:
        step = playbook.step(item.id)
        if step is not None and step.kind.job is not None and not item.answerable:
            return NextStep("job", item.label, why=item.why, how=item.how, item=item.id, job=step.kind.job)
    return _ask(left[0]) if left else None


def _boundary(case: Case, playbook: Playbook) -> NextStep | None:
    if _past(case, Phase.BOUNDARY):
        return None
    left = open_items(case, playbook, Phase.BOUNDARY)
    if not left:
        return None
    if case.boundary is not None and all(item.id == "driver-verdict" for item in left):
        return _decide(case, playbook)
    if case.opened.payload.node is None:
        return None
    return NextStep("job", left[0].label, why=left[0].why, how=left[0].how, item=left[0].id, job=JobKind.FINGERPRINT)


def _launch(case: Case, playbook: Playbook) -> NextStep | None:
    if _past(case, Phase.LAUNCH):
        return None
    if not case.baselines and not case.attempts:
        step = playbook.step("minimal-command")
        return None if step is None else _ask(next(i for i in items(case, playbook) if i.id == step.id))
    newest = seen.newest_attempt(case)
    if newest is None or (case.baselines and case.baselines[-1].payload.digest != newest.payload.baseline_digest):
        return _attempt(case, "First attempt of this baseline.", "What fails first, in which stage?")
    score = seen.newest_score(case)
    if score is None or score.payload.score is None:
        return _attempt(case, "Once more, with nothing changed.", "One result may be chance; two of them get a score.")
    if score.payload.score < 2:
        return _unstable(case, playbook, score)
    if newest.payload.outcome is not Outcome.READY:
        return _decide(case, playbook)
    return _gate(case, playbook)


def _attempt(case: Case, text: str, why: str) -> NextStep:
    if case.opened.payload.node is not None:
        return run(text, why)
    return NextStep("answer", text, why=why, how="Drop the complete log of that attempt here.", item="two-attempts")


def _unstable(case: Case, playbook: Playbook, score: Noted[e.ScoreGiven]) -> NextStep:
    if facts_of(case).unstable_scores >= ROUNDS_BEFORE_ISOLATION:
        return _decide(case, playbook)
    look = (
        "Look for leftovers and shared resources first."
        if score.payload.score == 1
        else "Freeze again: loaded driver, GPUs in the container, image tag, shared memory, RDMA permission, scheduling."
    )
    if case.opened.payload.node is not None and not any(n.seq > score.seq for n in case.fingerprints):
        return NextStep(
            "job",
            f"Score {score.payload.score}: {look}",
            why=score.payload.why,
            how="Run the fingerprint; it names what moved.",
            job=JobKind.FINGERPRINT,
        )
    return _attempt(case, "Once more, with nothing changed.", f"Score {score.payload.score} (#{score.seq}): {look}")


def _gate(case: Case, playbook: Playbook) -> NextStep | None:
    row = next((row for row in evaluate(case, playbook).items if not row.closed), None)
    if row is None:
        return None
    text, why = f"Gate item {row.no} is open: {row.text}.", "Any open item refuses the next stage."
    step = None if row.item is None else playbook.step(row.item)
    if step is not None and may_answer(case, step):
        return NextStep("answer", text, why=why, how=row.how, item=row.item)
    if case.opened.payload.node is None or step is None:
        return NextStep("answer", text, why=why, how=row.how, item=row.item or "minimal-command")
    return NextStep("job", text, why=why, how=row.how, item=row.item, job=step.kind.job)


def _regression(case: Case, playbook: Playbook) -> NextStep | None:
    newest = seen.newest_attempt(case)
    if _past(case, Phase.REGRESSION) or newest is None or newest.payload.outcome is not Outcome.READY:
        return None
    last = case.requests[-1] if case.requests else None
    if last is not None and last.payload.attempt == newest.payload.attempt:
        if last.payload.verdict == "stable":
            return None
        if last.payload.verdict in {"failed", "unstable"}:
            return _decide(case, playbook)
    if case.opened.payload.node is None:
        return None
    return keep_an_engine() if seen.held_attempt(case) is None else fixed_request()
