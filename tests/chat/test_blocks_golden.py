"""How messages read: golden files, one per message kind, each inside Slack's limits and free of pings."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.blocks import analysis, modals, notices, overview
from bot.blocks.dashboard import Running, dashboard
from bot.blocks.elements import Message, Ref
from bot.blocks.evidence import evidence, kinds
from bot.blocks.limits import view_violations, violations
from bot.blocks.texts import Mrkdwn, translator
from playbooks.evidence import entries as e
from playbooks.guiding.checklist import Item, NextStep
from playbooks.judging.baseline import Baseline
from playbooks.judging.finding import Finding
from playbooks.vocabulary import DecisionKind, DriverVerdict, JobKind, JobOutcome, Outcome, Phase, Stage
from tests.support.cases import OPENED_AT, CaseLines, cpu_scene, docker_baseline, finding, frozen_scene
from tests.support.conversation import EVIL, a_dashboard, recorded

GOLDEN = Path(__file__).parent.parent / "golden" / "blocks"
EN = translator("en")
DRIVER = finding(
    "driver_below_boundary",
    "device_recognition",
    "upgrade_driver",
    reached="container_init",
    root_text="RuntimeError: Error 35: CUDA driver version is insufficient for CUDA runtime version",
    lines=388,
    ranks=["Worker_TP0", "Worker_TP1"],
    why="The first call into CUDA failed; everything later follows from it.",
    next_check="confirm what is loaded on the host: `cat /proc/driver/nvidia/version`",
    symptoms=[
        {
            "error_class": "oom_weight_load",
            "line": 212,
            "why": "printed by a retry after the device had failed",
            "text": "torch.OutOfMemoryError",
        }
    ],
)
REMOVED = [{"option": "--enable-prefix-caching", "why": "comes back alone, later"}]
ADDED = [{"option": "--no-enable-prefix-caching", "why": "on by default in this version"}]
CHANGE = {"variable": "--gpu-memory-utilization", "before": "0.95", "after": "0.90", "reason": "", "expected": ""}
PROPOSAL: dict[str, Any] = {
    "kind": "isolate",
    "rule": "D-01",
    "headline": "isolate now; upgrade the driver in the window of Saturday 06:00 UTC",
    "reasons": ["driver 575.57.08 is below the image's floor 580 (#8)", "the cluster cannot be drained today (#13)"],
    "evidence": [8, 12, 13],
    "would_change": ["a drain today: upgrade first"],
    "not_concluded": ["that memory is sufficient", "that K3 works on these GPUs"],
}


RANKS: list[dict[str, Any]] = [
    {
        "rank": 0,
        "node": "gpu-a1",
        "job_id": "JOB-1",
        "job_outcome": "done",
        "outcome": "failed",
        "why": "",
        "stage": "engine_init",
        "error_class": "rendezvous_failed",
        "root_text": "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed.",
    },
    {
        "rank": 1,
        "node": "gpu-a2",
        "job_id": "JOB-2",
        "job_outcome": "done",
        "outcome": "failed",
        "why": "",
        "stage": "device_recognition",
        "error_class": "driver_below_boundary",
        "root_text": "RuntimeError: Error 35: CUDA driver version is insufficient for CUDA runtime version",
    },
]


def base() -> CaseLines:
    return frozen_scene()


def two_failures() -> CaseLines:
    b = docker_baseline()
    lines = base().boundary(DriverVerdict.BLOCKED, findings=[{"id": "x", "text": "image needs driver 580"}]).frozen(b)
    return lines.attempt(1, b, found=DRIVER, exit_code=1, oom_killed=False, stopped_after_ms=11_200)


PROBE_ROWS = [
    {
        "round": 1,
        "name": name,
        "tokens": 370,
        "expected": hit,
        "cached": hit,
        "counted": hit,
        "ttft_ms": 75 if hit else 123,
    }
    for name, hit in (("A1", 0), ("A2", 256), ("A3", 256), ("A4", 256), ("N1", 0), ("N2", 0))
]
LADDER_ROWS = [
    {
        "question": question,
        "input": given,
        "output": made,
        "at_once": at_once,
        "complete": complete,
        "of": of,
        "tries": 1 if complete == of else 2,
        "latency_ms": 310 if complete else None,
        "ttft_ms": 45 if complete else None,
        "tokens_s": 51 if complete else None,
        "preemptions": of - complete,
        "waiting": at_once - 1,
        "kv_permille": 12,
        "restarts": 0,
    }
    for question, given, made, at_once, complete, of in (
        ("short", 32, 16, 1, 5, 5),
        ("input", 2048, 16, 1, 2, 2),
        ("output", 32, 256, 1, 2, 2),
        ("concurrency", 32, 16, 2, 0, 4),
    )
]
ENTRIES: dict[str, Callable[[], CaseLines]] = {
    "opened": lambda: CaseLines().opened(
        command="docker run vllm/vllm-openai:kimi-k3", what_fails="since 02:10 every start fails"
    ),
    "answered": lambda: base().answer("maintenance-window", "scheduled", "Saturday 06:00 UTC"),
    "job-requested": lambda: base().ask(JobKind.FINGERPRINT),
    "job-ended": lambda: base().ask(JobKind.FINGERPRINT).ended(JobOutcome.REFUSED),
    "scene": lambda: (
        CaseLines()
        .opened()
        .scene({"log": "l" * 64, "inspect": "i" * 64}, missing={"docker-info": "docker is not there"}, finding=DRIVER)
    ),
    "fingerprint": lambda: base().fingerprint(
        disagreements=[{"rule": "gpu-count", "text": "host has 8 GPUs, the container sees 4"}],
        moved=["driver.loaded: 575.57.08 → 580.95.05"],
    ),
    "cache-off-on": lambda: base().add(
        e.CacheProbed(
            job_id="job-9",
            attempt=5,
            verdict="hit",
            grounds="A2 256 of 256, A3 and A4 256 of 256, controls 0",
            off_on={
                "off": {"attempt": 4, "ready_ms": 31_000, "memory_bytes": 17_179_869_184},
                "on": {"attempt": 5, "ready_ms": 31_500, "memory_bytes": 17_448_304_640},
                "only_off": [],
                "only_on": ["Prefix caching with <n> blocks of <size>"],
                "count_off": 0,
                "count_on": 1,
                "logs_read": True,
            },
        ),
        "node:gpu-a1",
    ),
    "attempt-withdrawn": lambda: base().add(
        e.AttemptWithdrawn(attempt=2, recorded_as=7, reason="The log is of another service.")
    ),
    "feature-sometimes": lambda: base().add(
        e.FeatureProbed(
            job_id="job-9",
            attempt=7,
            feature="tool_call",
            verdict="sometimes",
            grounds="19 of 20 tries; what works now and then does not work",
            passed=19,
            of=20,
            low=763,
            high=992,
            failures={"empty_tool_calls": 1},
            examples=[
                {"kind": "empty_tool_calls", "try": "6", "how": "stream", "said": "I should call get_time for Paris"}
            ],
            remarks=["streaming 9 of 10, not streaming 10 of 10: the parser differs between the two"],
        ),
        "node:gpu-a1",
    ),
    "feature-untested": lambda: base().add(
        e.FeatureProbed(
            job_id="job-9",
            attempt=7,
            feature="vision",
            verdict="untested",
            grounds="this engine was not started for it: tiny is not a multimodal model",
            passed=0,
            of=0,
            failures={"cannot": 20},
        ),
        "node:gpu-a1",
    ),
    "boundary-blocked": lambda: base().boundary(
        DriverVerdict.BLOCKED, age_days=102, findings=[{"id": "x", "text": "compat package is mounted"}]
    ),
    "boundary-supported": lambda: base().boundary(),
    "baseline": lambda: base().frozen(docker_baseline(), removed=REMOVED, added=ADDED),
    "baseline-recorded": lambda: base().frozen(Baseline(engine="recorded", argv=("/models/k3",))),
    "baseline-unknown": lambda: base().frozen(Baseline(engine="recorded")),
    "baseline-changed": lambda: (
        base()
        .frozen(docker_baseline())
        .frozen(docker_baseline(("serve", "/models/k3", "--gpu-memory-utilization", "0.90")), change=CHANGE)
    ),
    "attempt-first": two_failures,
    "attempt-again": lambda: two_failures().attempt(
        2, docker_baseline(), found=DRIVER, exit_code=1, oom_killed=False, stopped_after_ms=11_900
    ),
    "attempt-recorded": lambda: (
        base().frozen(docker_baseline()).attempt(1, docker_baseline(), found=DRIVER, origin="recorded")
    ),
    "attempt-ready": lambda: (
        cpu_scene()
        .frozen(docker_baseline())
        .attempt(
            1,
            docker_baseline(),
            Outcome.READY,
            finding(reached="endpoint_ready"),
            ready_ms=42_000,
            held_until="2026-12-01T03:30:00+00:00",
        )
    ),
    "baseline-several-nodes": lambda: base().frozen(docker_baseline(nodes=("gpu-a1", "gpu-a2"))),
    "attempt-several-nodes": lambda: (
        base()
        .frozen(docker_baseline(nodes=("gpu-a1", "gpu-a2")))
        .attempt(
            1, docker_baseline(nodes=("gpu-a1", "gpu-a2")), found=DRIVER, exit_code=1, ranks=RANKS, first_ranks=[1]
        )
    ),
    "attempt-several-nodes-lost": lambda: (
        base()
        .frozen(docker_baseline(nodes=("gpu-a1", "gpu-a2")))
        .attempt(
            1,
            docker_baseline(nodes=("gpu-a1", "gpu-a2")),
            Outcome.NOT_OBSERVED,
            ranks=[
                {**RANKS[0], "outcome": "not_observed", "why": "ended, because rank 1 on gpu-a2 ended"},
                {**RANKS[1], "outcome": "not_observed", "job_outcome": "lost", "why": "the worker's process ended"},
            ],
            first_why="rank 1 on gpu-a2: the worker's process ended",
        )
    ),
    "attempt-limit": lambda: (
        base()
        .frozen(docker_baseline())
        .attempt(
            1,
            docker_baseline(),
            Outcome.STOPPED_BY_LIMIT,
            finding("unknown", "weight_loading"),
            limit={"stage": "weight_loading", "kind": "silence", "limit_s": 600},
        )
    ),
    "score-2": lambda: two_failures().attempt(2, docker_baseline(), found=DRIVER).score(1, 2, 2),
    "score-0": lambda: two_failures().attempt(2, docker_baseline(), found=DRIVER).score(1, 2, 0),
    "score-none": lambda: two_failures().score(1, 2, None),
    "requests": lambda: cpu_scene().requested(2),
    "cache-hit": lambda: cpu_scene().probed(2, rows=PROBE_ROWS, remarks=["2 engines answer behind this endpoint"]),
    "cache-miss": lambda: cpu_scene().probed(
        2,
        "miss",
        grounds="A1 0, A2 0, A3 0, A4 0 cached tokens, controls 0, expected 256 and 256",
        rows=[{**row, "cached": 0, "counted": None} for row in PROBE_ROWS],
        causes=[
            {"name": "flag", "state": "excluded", "text": "enable_prefix_caching=True"},
            {"name": "retention", "state": "suspected", "text": "hybrid model, retention interval 0"},
        ],
    ),
    "ladder-climbed": lambda: cpu_scene().climbed(2, rows=LADDER_ROWS[:3]),
    "ladder-scheduling": lambda: cpu_scene().climbed(
        2,
        "scheduling",
        grounds="2 at once: failed 2 times (no complete answer within 120 s (4)); single requests were stable",
        rows=LADDER_ROWS,
        failed=3,
        remarks=["2 at once: requests were pre-empted, so the cache of keys and values was full"],
    ),
    "held-ended": lambda: cpu_scene().add(e.HeldEnded(attempt=2, how="died", detail="exit code 137"), "node:gpu-a1"),
    "log-analysed": lambda: base().add(e.LogAnalysed(sha256="a" * 64, name="nvidia-smi.txt", finding=DRIVER)),
    "phase": lambda: base().entered(Phase.BOUNDARY),
    "phase-skipped": lambda: base().entered(
        Phase.LAUNCH, skipped=True, reason="the platform team confirmed the driver"
    ),
    "proposed": lambda: two_failures().proposed(**PROPOSAL),
    "proposed-hold": lambda: two_failures().proposed(
        kind="hold", headline="hold: say what is missing", missing=["may the node be drained?"]
    ),
    "approved": lambda: two_failures().proposed(**PROPOSAL).approved(),
    "rejected": lambda: two_failures().proposed(**PROPOSAL).rejected(),
    "bundle": lambda: base().add(e.BundleExported(sha256="b" * 64, upto=14)),
    "lease-taken": lambda: base().add(e.LeaseTaken(node="gpu-a1", fence=3, reason="the host was re-installed")),
    "closed": lambda: (
        base()
        .proposed("isolate", headline="isolate now")
        .approved()
        .add(e.IncidentClosed(reason="isolated on gpu-b2", decision=DecisionKind.ISOLATE))
    ),
}

READ = NextStep(
    "job",
    "Driver loaded on the host",
    why="Only the loaded driver runs the engine.",
    how="Run the fingerprint.",
    item="host-driver",
    job=JobKind.FINGERPRINT,
)
ASK = NextStep(
    "answer",
    "May the node be drained",
    why="A driver cannot be changed under running work.",
    how="Answer yes or no, and who said so.",
    item="node-drain",
)
APPROVE = NextStep("approve", "The proposed decision #12 waits for an approver: isolate now", item="approve")


def an_item(name: str, label: str, how: str, choices: tuple[str, ...] = ()) -> Item:
    why = "What is not written down cannot be frozen."
    return Item(name, Phase.FREEZE, "R1.4", label, why, how, "open", None, None, "human", choices)


DRIVER_ITEM = an_item("host-driver", "Driver loaded on the host", "Run the fingerprint.")
COMMAND_ITEM = an_item("launch-command", "The complete launch command", "Paste the whole `docker run` line.")
WINDOW_ITEM = an_item(
    "maintenance-window", "Maintenance window", "Answer now, scheduled, or none.", ("now", "scheduled", "none")
)
RUNNING = Running(
    kind=JobKind.LAUNCH,
    node="gpu-a1",
    claimed=True,
    since=OPENED_AT,
    stage=Stage.WEIGHT_LOADING,
    note="shard 12 of 96",
    attempt=2,
)
NODE_LINES = [
    overview.NodeLine(
        "gpu-a1",
        OPENED_AT,
        silent=False,
        version="0.4.1",
        gpus=8,
        engines=("docker",),
        held=("INC-0003, attempt 2, 04:00 UTC",),
    ),
    overview.NodeLine("gpu-b2", OPENED_AT - timedelta(hours=2), silent=True, version="0.4.0"),
    overview.NodeLine("gpu-c3", None, silent=True),
]
MESSAGES: dict[str, Callable[[], Message]] = {
    **{f"evidence-{name}": (lambda make=make: evidence(recorded(make()), EN)) for name, make in ENTRIES.items()},
    "dashboard-opened": lambda: dashboard(a_dashboard(CaseLines().opened(), step=READ), EN),
    "dashboard-running": lambda: dashboard(
        a_dashboard(two_failures(), running=(RUNNING,), step=ASK, step_label=ASK.text), EN
    ),
    "dashboard-decision": lambda: dashboard(a_dashboard(two_failures().proposed(**PROPOSAL), step=APPROVE), EN),
    "dashboard-closed": lambda: dashboard(
        a_dashboard(base().add(e.IncidentClosed(reason="done")), step=NextStep("close", "This case is closed.")), EN
    ),
    "dashboard-silent": lambda: dashboard(
        a_dashboard(base(), step=READ, silent_node="gpu-a1", held=((2, OPENED_AT),), undeliverable=1), EN
    ),
    "analysis": lambda: analysis.answer(
        analysis.Analysis(Finding.model_validate(DRIVER), "a" * 64, "engine.log", 2), EN
    ),
    "analysis-short": lambda: analysis.answer(
        analysis.Analysis(Finding.model_validate(DRIVER | {"lines": 48}), "a" * 64, "engine.log"), EN
    ),
    "analysis-unknown": lambda: analysis.answer(
        analysis.Analysis(
            Finding.model_validate(finding("unknown", root_line=None, root_text=None)), "a" * 64, "engine.log"
        ),
        EN,
    ),
    "analysis-ready": lambda: analysis.answer(
        analysis.Analysis(
            Finding.model_validate(finding(reached="endpoint_ready", root_line=None, root_text=None)),
            "a" * 64,
            "engine.log",
        ),
        EN,
    ),
    "analysis-lines": lambda: analysis.lines_around(
        "engine.log", 36, ["INFO loading", EVIL, "RuntimeError: Error 35"], EN
    ),
    "analysis-not-oom": lambda: analysis.why_not_oom(Finding.model_validate(DRIVER), EN),
    "question": lambda: notices.question(
        "INC-0042",
        NextStep(
            "answer",
            "Maintenance window",
            why="A change does not happen outside of one.",
            how="Answer now, scheduled, or none.",
            item="maintenance-window",
        ),
        None,
        EN,
    ),
    "refusal-two-changes": lambda: notices.two_changes(
        "INC-0042", [Changed("image", "sha256:41", "sha256:9c"), Changed("--gpu-memory-utilization", "0.95", None)], EN
    ),
    "refusal-open-items": lambda: notices.open_items(
        Mrkdwn("Not started: no attempt before these are closed"),
        ["1 loaded driver saved", "5 complete launch command saved"],
        EN,
    ),
    "refusal-role": lambda: notices.needs_role(
        Mrkdwn("Only an approver may approve a decision; you are a responder here."), ["U0APPROVER"], EN
    ),
    "refusal-nobody": lambda: notices.needs_role(Mrkdwn("Only a responder may open a case."), [], EN),
    "refusal-outsider": lambda: notices.outsider(EN),
    "refusal-store": lambda: notices.not_recorded(EN),
    "run": lambda: notices.run_again("INC-0042", EN, has_node=True, frozen=True),
    "run-first": lambda: notices.run_again("INC-0042", EN, has_node=True, frozen=False),
    "run-elsewhere": lambda: notices.run_again("INC-0042", EN, has_node=False, frozen=False),
    "help": lambda: overview.help_text(EN),
    "help-unknown": lambda: overview.help_text(EN, unknown="banana"),
    "help-needs-case": lambda: overview.help_text(EN, unknown="close", needs_case=True),
    "cases": lambda: overview.cases(
        [
            overview.OpenCase(
                "INC-0042", "Kimi K3 does not start", Phase.LAUNCH, "Once more, with nothing changed.", "C0ONCALL"
            )
        ],
        1,
        EN,
    ),
    "cases-none": lambda: overview.cases([], 0, EN),
    "nodes": lambda: overview.nodes(NODE_LINES, EN),
    "nodes-none": lambda: overview.nodes([], EN),
    "status": lambda: overview.status(
        a_dashboard(CaseLines().opened(), step=READ),
        [DRIVER_ITEM],
        ["3 container sees the expected GPUs"],
        EN,
    ),
    "next": lambda: overview.step(a_dashboard(CaseLines().opened(), step=READ), EN),
    "score": lambda: overview.score(
        a_dashboard(two_failures().attempt(2, docker_baseline(), found=DRIVER).score(1, 2, 2), step=ASK), EN
    ),
}


class Changed:
    def __init__(self, name: str, before: str | None, after: str | None) -> None:
        self.name, self.before, self.after = name, before, after


VIEWS: dict[str, Callable[[], dict[str, Any]]] = {
    "modal-open": lambda: modals.open_incident(
        "C0ONCALL", ("gpu-a1", "gpu-b2"), ("kimi-k3", "generic-vllm"), EN, playbook="kimi-k3"
    ),
    "modal-open-in-a-direct-message": lambda: modals.open_incident("D01", (), ("kimi-k3",), EN, playbook="kimi-k3"),
    "modal-open-from-log": lambda: modals.open_incident(
        "C0ONCALL", (), ("kimi-k3",), EN, playbook="kimi-k3", log="a" * 64
    ),
    "modal-answer": lambda: modals.answer("INC-0042", COMMAND_ITEM, EN),
    "modal-answer-choice": lambda: modals.answer("INC-0042", WINDOW_ITEM, EN),
    "modal-attempt-first": lambda: modals.attempt("INC-0042", None, "vllm serve /models/k3", EN, attempts_so_far=0),
    "modal-attempt": lambda: modals.attempt(
        "INC-0042", base().frozen(docker_baseline()).case.baselines[-1], "", EN, attempts_so_far=2
    ),
    "modal-attempt-several-nodes": lambda: modals.attempt(
        "INC-0042", None, "", EN, attempts_so_far=0, nodes=("gpu-a1", "gpu-a2"), chosen=("gpu-a1",)
    ),
    "modal-attempt-elsewhere": lambda: modals.attempt("INC-0042", None, "", EN, attempts_so_far=0, has_node=False),
    "modal-review": lambda: modals.review("INC-0042", two_failures().proposed(**PROPOSAL).case.proposals[-1], EN),
    "modal-reject": lambda: modals.reason(
        "reject", Ref("INC-0042", "14"), "Reject", Mrkdwn("Proposal #14 is rejected."), "Reject", EN
    ),
    "modal-hand-over": lambda: modals.hand_over("INC-0042", EN),
    "modal-analyse": lambda: modals.analyse("C0ONCALL", EN),
    "home": lambda: overview.home([overview.OpenCase("INC-0042", "K3", Phase.LAUNCH, "Run again")], [], NODE_LINES, EN),
}


def check_golden(name: str, found: Any, *, update: bool) -> None:
    path = GOLDEN / f"{name}.json"
    text = json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text, f"{name} reads differently; look at it, then --update-golden"


@pytest.mark.parametrize("name", MESSAGES)
def test_message_reads_as_agreed_and_fits_slack(name: str, update_golden: bool) -> None:
    message = MESSAGES[name]()
    assert violations(message) == []
    check_golden(name, message.payload(), update=update_golden)


@pytest.mark.parametrize("name", VIEWS)
def test_view_reads_as_agreed_and_fits_slack(name: str, update_golden: bool) -> None:
    view = VIEWS[name]()
    assert view_violations(view) == []
    check_golden(name, view, update=update_golden)


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == MESSAGES.keys() | VIEWS.keys()


def test_every_kind_of_entry_has_a_rendering_of_its_own() -> None:
    assert kinds() == e.PAYLOADS.keys()
    assert {recorded(make()).kind for make in ENTRIES.values()} == e.PAYLOADS.keys()
