"""Whatever a record holds, in whatever order: the guide answers, and its answers hold together."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from playbooks.catalog import load_playbook
from playbooks.evidence import entries as e
from playbooks.guiding.checklist import items, next_step
from playbooks.guiding.decision import decide, facts_of
from playbooks.guiding.gate import evaluate, next_phase
from playbooks.guiding.playbook import StepKind
from playbooks.guiding.report_page import first_page
from playbooks.vocabulary import DecisionKind, DriverVerdict, ErrorClass, JobKind, JobOutcome, Outcome, Phase, Stage
from tests.support.cases import (
    CPU_CONTAINER,
    CPU_HOST,
    CaseLines,
    docker_baseline,
    finding,
    process_baseline,
)

K3 = load_playbook("kimi-k3")
BASELINES = (docker_baseline(), docker_baseline(("serve", "x", "--a", "1")), process_baseline())
ITEMS = [step.id for step in K3.steps()] + ["no-such-item"]

attempts = st.builds(
    lambda number, base, outcome, error, stage, points, changed, held: (
        lambda lines: lines.attempt(
            number,
            BASELINES[base],
            outcome,
            finding(error, stage, points),
            changed=changed,
            held_until=held,
        )
    ),
    st.integers(1, 5),
    st.integers(0, 2),
    st.sampled_from(Outcome),
    st.sampled_from(ErrorClass).map(str),
    st.sampled_from(Stage).map(str),
    st.sampled_from([None, *map(str, DecisionKind)]),
    st.lists(st.just("x: 1 → 2"), max_size=2),
    st.sampled_from([None, "2026-12-01T04:00:00Z"]),
)
steps = st.one_of(
    attempts,
    st.builds(
        lambda a, b, s: lambda lines: lines.score(a, b, s),
        st.integers(1, 4),
        st.integers(1, 5),
        st.sampled_from([None, 0, 1, 2]),
    ),
    st.builds(
        lambda i: lambda lines: lines.frozen(BASELINES[i], {"variable": "--a"} if i == 1 else None), st.integers(0, 2)
    ),
    st.builds(
        lambda item, value: lambda lines: lines.answer(item, value),
        st.sampled_from(ITEMS),
        st.sampled_from(["yes", "no", "now", "none", "", "text"]),
    ),
    st.builds(lambda verdict: lambda lines: lines.boundary(verdict), st.sampled_from(DriverVerdict)),
    st.just(lambda lines: lines.fingerprint()),
    st.just(lambda lines: lines.fingerprint(CPU_HOST, CPU_CONTAINER, source="python /venv/bin/python")),
    st.just(lambda lines: lines.scene({"log": "l" * 64})),
    st.builds(lambda kind: lambda lines: lines.ask(kind), st.sampled_from(JobKind)),
    st.builds(
        lambda outcome: lambda lines: lines.ask(JobKind.COLLECT).ended(outcome, JobKind.COLLECT),
        st.sampled_from(JobOutcome),
    ),
    st.builds(
        lambda n, v: lambda lines: lines.requested(n, v),
        st.integers(1, 5),
        st.sampled_from(["stable", "once", "failed"]),
    ),
    st.builds(lambda phase: lambda lines: lines.entered(phase), st.sampled_from(Phase)),
    st.builds(lambda kind: lambda lines: lines.proposed(kind.value), st.sampled_from(DecisionKind)),
    st.builds(lambda kind: lambda lines: lines.proposed(kind.value).approved(), st.sampled_from(DecisionKind)),
    st.just(lambda lines: lines.proposed().rejected()),
    st.builds(lambda n: lambda lines: lines.add(e.HeldEnded(attempt=n, how="died")), st.integers(1, 5)),
    st.just(lambda lines: lines.add(e.IncidentClosed(reason="done"))),
)


@given(node=st.sampled_from([None, "gpu-a1"]), grown=st.lists(steps, max_size=14))
@settings(max_examples=150, deadline=None)
def test_the_guide_always_answers(node, grown):
    lines = CaseLines().opened(node=node)
    for add in grown:
        add(lines)
    case = lines.case
    listed = {item.id: item for item in items(case, K3)}
    gate = evaluate(case, K3)
    step = next_step(case, K3)
    decision = decide(facts_of(case))

    assert all(item.evidence is not None and item.evidence <= case.head_seq for item in gate.items if item.closed)
    for item in listed.values():
        if item.state in {"proven", "answered"}:
            assert item.evidence is not None
        if not item.carried_out:
            assert item.state == "open"
    assert step.text
    assert step.item is None or step.item in listed
    if step.job is not None and step.kind in {"job", "request"}:
        assert node is not None, "no job without a node"
    if step.kind == "answer" and step.item in listed:
        assert K3.step(step.item).kind in {StepKind.ANSWER, StepKind.COLLECT, StepKind.FINGERPRINT, StepKind.LAUNCH}
    assert (decision.kind is DecisionKind.HOLD) == bool(decision.missing)
    assert set(decision.missing_items) <= set(listed)
    phase = next_phase(case, K3)
    assert phase is None or K3.phase(phase).carried_out
    assert first_page(case).startswith("# INC-0042")
