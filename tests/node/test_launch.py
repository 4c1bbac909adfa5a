"""Whole launches of a scripted engine: real processes, real HTTP to it and to the bot."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from playbooks.messages import FieldValue, JobReport, LaunchFacts, Limits, RequestFacts, StageLimit, SweepFacts
from playbooks.vocabulary import FieldStatus, JobKind, JobOutcome, Outcome, Stage
from tests.support.fake_bot import FakeBot
from tests.support.node_builders import FakeGpus, TestNode, Watched, baseline, job, make_node, policy, script
from workers.adapters import process_table
from workers.jobs.duties import Duties
from workers.jobs.holding import keep, ref_of
from workers.jobs.running import Delivered, report_cut
from workers.jobs.stopping import sweep_node
from workers.journal import EngineLife

READY_LINES = [
    "INFO 12-01 00:00:00 [api_server.py:1] vLLM API server version 0.32.0",
    "INFO:     Application startup complete.",
]
NO_MODEL = [
    "Traceback (most recent call last):",
    '  File "/x/serve.py", line 1, in main',
    "    run()",
    "ValueError: Invalid repository ID or local directory specified: '/models/none'",
]


def launch(node: TestNode, *, job_id: str = "job-1", attempt: int = 1, hold_s: int = 0, **what: object) -> LaunchFacts:
    limits = what.pop("limits", Limits(total_s=60))
    path = script(node.folder, job_id, **what)
    request = job(
        JobKind.LAUNCH,
        job_id=job_id,
        attempt=attempt,
        baseline=baseline(node.folder, env={"SCRIPT": path}),
        params={"hold_s": hold_s},
        limits=limits,
    )
    assert node.deliver(request) is Delivered.RAN
    report = node.bot.report_of(job_id)
    assert report is not None
    assert report.outcome is JobOutcome.DONE, report.error
    return LaunchFacts.model_validate(report.facts)


def nothing_left(node: TestNode, job_id: str = "job-1") -> bool:
    ours = {"BASELINE_JOB": job_id, "BASELINE_WORKER": node.deps.journal.instance}
    return all(not ours.items() <= process_table.environment(row.pid).items() for row in process_table.processes())


def test_ready_is_one_answered_request_and_nothing_stays(node: TestNode) -> None:
    facts = launch(node, lines=READY_LINES, serve=True)
    assert facts.outcome is Outcome.READY
    assert facts.probe is not None
    assert facts.probe.complete
    assert facts.probe.completion_tokens == 2
    assert facts.stages[0].stage is Stage.CONTAINER_INIT
    assert facts.stages[-1].stage is Stage.ENDPOINT_READY
    assert facts.stages[-1].ended_ms == facts.ready_ms
    assert facts.held is None
    assert facts.left_behind == ()
    assert facts.exit_code is None
    assert nothing_left(node)


def test_a_launch_that_exits_by_itself_reports_code_log_and_finding(node: TestNode) -> None:
    facts = launch(node, lines=NO_MODEL, exit=1)
    assert facts.outcome is Outcome.FAILED
    assert facts.exit_code == 1
    assert facts.finding is not None
    assert facts.log_lines == len(NO_MODEL)
    assert facts.log_sha256 in node.bot.files
    assert node.bot.files[facts.log_sha256].decode().splitlines() == NO_MODEL


def test_gpu_memory_is_told_thinned_and_kept_by_the_second(node: TestNode) -> None:
    gpus = {"GPU 0": tuple((at * 1000, at) for at in range(1500)), "GPU 1": ((0, 7), (2000, 9))}
    node.deps = replace(node.deps, gpus=FakeGpus({}, watched=Watched(gpus)))
    facts = launch(node, lines=NO_MODEL, exit=1)
    assert len(facts.gpu_memory["GPU 0"]) <= 600
    assert facts.gpu_memory["GPU 0"][-1] == (1_499_000, 1499)
    assert facts.gpu_memory["GPU 1"] == gpus["GPU 1"]
    assert len(facts.memory_samples) <= 1200
    report = node.bot.report_of("job-1")
    assert report is not None
    (kept,) = [ref for ref in report.artifacts if ref.name == "gpu-memory.csv"]
    lines = node.bot.files[kept.sha256].decode().splitlines()
    assert lines[:4] == ["ms,GPU 0,GPU 1", "0,0,7", "1000,1,", "2000,2,9"]
    assert len(lines) == 1501


def test_a_fatal_line_does_not_wait_for_an_engine_that_swallows_its_end(
    node: TestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.jobs.watching.GRACE_S", 0.1)
    monkeypatch.setattr("workers.jobs.watching.QUIET_S", 0.1)
    facts = launch(node, lines=NO_MODEL, ignore_term=True, children=2, escape=True)
    assert facts.outcome is Outcome.FAILED
    assert facts.exit_code is None
    assert facts.left_behind == ()
    assert nothing_left(node)
    assert any(progress.root_text and "Invalid repository" in progress.root_text for progress in node.bot.progress)


def test_a_signal_death_is_told_as_a_signal(node: TestNode) -> None:
    facts = launch(node, lines=["INFO starting"], exit=-9 % 256)
    assert facts.outcome is Outcome.FAILED
    assert facts.exit_code == 247


def test_silence_ends_the_attempt_and_says_what_was_seen(node: TestNode) -> None:
    limits = Limits(total_s=60, stages={Stage.CONTAINER_INIT: StageLimit(silence_s=1, total_s=30)})
    facts = launch(node, lines=["INFO importing"], limits=limits)
    assert facts.outcome is Outcome.STOPPED_BY_LIMIT
    assert facts.limit is not None
    assert (facts.limit.kind, facts.limit.stage) == ("silence", Stage.CONTAINER_INIT)
    assert "INFO importing" in facts.limit.observed
    assert "pid" in facts.limit.observed
    assert nothing_left(node)


def test_the_policy_caps_the_whole_duration(node: TestNode, tmp_path: Path, bot: FakeBot) -> None:
    object.__setattr__(node.deps, "policy", policy(tmp_path, max_duration_s=1))
    facts = launch(node, lines=["INFO importing"])
    assert facts.limit is not None
    assert (facts.limit.kind, facts.limit.limit_s) == ("job", 1)


def test_an_http_error_of_the_first_request_is_no_readiness(node: TestNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.jobs.watching.PROBE_FAILED_S", 0.2)
    facts = launch(node, lines=READY_LINES, serve=True, status=500)
    assert facts.outcome is Outcome.FAILED
    assert facts.probe is not None
    assert facts.probe.http_status == 500
    assert not facts.probe.complete


def test_a_missing_executable_is_a_finding_of_the_first_stage(node: TestNode) -> None:
    (node.folder / "bin" / "vllm").unlink()
    facts = launch(node)
    assert facts.outcome is Outcome.FAILED
    assert facts.state_error is not None
    assert "expected an executable file" in facts.state_error
    assert facts.exit_code == 127


def test_the_baseline_is_resolved_with_what_only_the_node_sees(node: TestNode) -> None:
    facts = launch(node, lines=NO_MODEL, exit=1)
    assert facts.resolved is not None
    assert facts.resolved.interpreter is not None
    assert facts.resolved.interpreter.packages == {"vllm": "0.32.0"}
    assert facts.resolved.model is not None
    assert facts.resolved.model.files == (("config.json", 2),)


def test_two_attempts_of_one_baseline_resolve_to_one_digest(node: TestNode) -> None:
    path = script(node.folder, "same", lines=NO_MODEL, exit=1)
    digests = set()
    for attempt in (1, 2):
        request = job(
            JobKind.LAUNCH,
            job_id=f"job-{attempt}",
            attempt=attempt,
            baseline=baseline(node.folder, env={"SCRIPT": path}),
        )
        node.deliver(request)
        report = node.bot.report_of(request.job_id)
        assert report is not None
        resolved = LaunchFacts.model_validate(report.facts).resolved
        assert resolved is not None
        digests.add(resolved.digest)
    assert len(digests) == 1


def in_background(node: TestNode, **what: object) -> threading.Thread:
    thread = threading.Thread(target=launch, args=(node,), kwargs=what)
    path = script(node.folder, "job-1", **what)
    request = job(JobKind.LAUNCH, attempt=1, baseline=baseline(node.folder, env={"SCRIPT": path}))
    thread = threading.Thread(target=node.deliver, args=(request,))
    thread.start()
    return thread


def wait_for(condition: object, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("how", ["heartbeat", "stop job"])
def test_a_cancel_ends_an_engine_that_swallows_signals(node: TestNode, how: str) -> None:
    thread = in_background(node, lines=["INFO importing"], ignore_term=True, children=1)
    wait_for(lambda: node.deps.journal.engines(EngineLife.RUNNING))
    if how == "heartbeat":
        node.bot.cancel.add("job-1")
    else:
        stop = job(JobKind.STOP, job_id="job-2", params={"job_id": "job-1"})
        assert node.deliver(stop) is Delivered.RAN
    thread.join(timeout=15)
    report = node.bot.report_of("job-1")
    assert report is not None
    assert report.outcome is JobOutcome.CANCELLED
    assert "U1" in (report.error or "")
    assert nothing_left(node)
    assert [ref.name for ref in report.artifacts] == ["engine.log"]


def test_a_held_engine_answers_requests_until_it_is_stopped(node: TestNode) -> None:
    held = launch(node, lines=READY_LINES, serve=True, hold_s=60).held
    assert held is not None
    sample = {"path": "/v1/completions", "body": '{"max_tokens":4,"prompt":"x","stream":true}'}
    request = job(JobKind.REQUEST, job_id="job-2", params={"target_attempt": 1, "sample": sample, "runs": 3})
    restarted = node.restarted()
    assert restarted.deliver(request) is Delivered.RAN
    report = node.bot.report_of("job-2")
    assert report is not None
    facts = RequestFacts.model_validate(report.facts)
    assert [run.complete for run in facts.runs] == [True] * 3
    assert facts.engine_alive
    assert len({run.output_sha256 for run in facts.runs}) == 1
    stop = job(JobKind.STOP, job_id="job-3", params={"attempt": 1})
    restarted.deliver(stop)
    report = node.bot.report_of("job-3")
    assert report is not None
    assert SweepFacts.model_validate(report.facts).ended == (held.what,)
    assert nothing_left(node)
    assert [row.how for row in node.deps.journal.untold_ends()] == ["stopped"]
    restarted.deps.bot.close()


def test_the_next_attempt_takes_the_place_of_a_held_engine(node: TestNode) -> None:
    launch(node, lines=READY_LINES, serve=True, hold_s=60)
    launch(node, job_id="job-2", attempt=2, lines=NO_MODEL, exit=1)
    assert nothing_left(node)
    (row,) = node.deps.journal.untold_ends()
    assert row.how == "replaced"


def test_a_held_engine_past_its_time_is_ended(node: TestNode) -> None:
    launch(node, lines=READY_LINES, serve=True, hold_s=1)
    wait_for(lambda: keep(node.deps))
    assert nothing_left(node)
    assert [row.how for row in node.deps.journal.untold_ends()] == ["expired"]


def test_the_death_of_a_held_engine_is_told_in_the_next_hello(node: TestNode) -> None:
    held = launch(node, lines=READY_LINES, serve=True, hold_s=60).held
    assert held is not None
    (row,) = node.deps.journal.held()
    assert not keep(node.deps)
    node.deps.engines["process"].clear(ref_of(row))
    assert keep(node.deps)
    assert not keep(node.deps)
    node.bot.down = True
    assert not Duties(node.deps).hello()
    node.bot.down = False
    assert Duties(node.deps).hello()
    assert node.bot.hellos[-1].lost == (held,)
    assert Duties(node.deps).hello()
    assert node.bot.hellos[-1].lost == ()


def test_the_death_of_a_held_engine_is_told_with_its_first_failure(node: TestNode) -> None:
    lines = [
        "(EngineCore pid=7) ERROR 12-01 00:00:09 [core.py:1510] torch.OutOfMemoryError: CUDA out of memory.",
        "nanobind: leaked 3 instances!",
    ]
    held = launch(node, lines=READY_LINES, serve=True, hold_s=60).held
    assert held is not None
    (row,) = node.deps.journal.held()
    node.deps.engines["process"].clear(ref_of(row))
    with Path(row.ref["log"]).open("a", encoding="utf-8") as log:
        log.write("\n".join(lines) + "\n")
    assert keep(node.deps)
    assert Duties(node.deps).hello()
    hello = node.bot.hellos[-1]
    assert hello.lost == (held,)
    assert "CUDA out of memory" in hello.lost_because[held.job_id]


def test_no_line_of_a_dead_engine_is_shown_when_its_secrets_are_not_known_any_more(
    node: TestNode, tmp_path: Path
) -> None:
    held = launch(node, lines=READY_LINES, serve=True, hold_s=60).held
    assert held is not None
    (row,) = node.deps.journal.held()
    node.deps.engines["process"].clear(ref_of(row))
    object.__setattr__(node.deps, "policy", policy(tmp_path, env=()))
    assert keep(node.deps)
    assert Duties(node.deps).hello()
    assert node.bot.hellos[-1].lost_because == {}


def test_a_request_that_kills_the_engine_is_seen(node: TestNode) -> None:
    launch(node, lines=READY_LINES, serve=True, hold_s=60, die_after_requests=2)
    sample = {"path": "/v1/completions", "body": '{"max_tokens":4,"prompt":"x","stream":true}'}
    node.deliver(job(JobKind.REQUEST, job_id="job-2", params={"target_attempt": 1, "sample": sample, "runs": 2}))
    report = node.bot.report_of("job-2")
    assert report is not None
    facts = RequestFacts.model_validate(report.facts)
    assert not facts.engine_alive
    assert not facts.runs[-1].complete
    assert {ref.name for ref in report.artifacts} == {"requests.json", "engine.log"}


def test_a_request_without_a_held_engine_says_what_was_expected(node: TestNode) -> None:
    sample = {"path": "/v1/completions", "body": "{}"}
    node.deliver(job(JobKind.REQUEST, params={"target_attempt": 7, "sample": sample}))
    report = node.bot.report_of("job-1")
    assert report is not None
    assert report.outcome is JobOutcome.INCONCLUSIVE
    assert report.error == "expected a held engine of attempt 7, found none on gpu-a1"


def test_a_port_that_somebody_else_answers_on_is_not_ready(node: TestNode) -> None:
    other = launch(node, lines=READY_LINES, serve=True, hold_s=60).held
    assert other is not None
    port = other.endpoint.rsplit(":", 1)[1]
    row = node.deps.journal.held()[0]
    running = node.deps.engines["process"].find(ref_of(row))
    assert running is not None
    assert running.answers_on(int(port)) is True
    stranger = node.deps.engines["process"]
    assert stranger is not None
    assert running.answers_on(1) is False


def test_a_cut_job_is_lost_its_engine_swept_and_it_never_runs_again(node: TestNode) -> None:
    thread = in_background(node, lines=["INFO importing"], children=1)
    wait_for(lambda: node.deps.journal.engines(EngineLife.RUNNING))
    dead = node.restarted()
    object.__setattr__(dead.deps, "is_alive", lambda _owner: False)
    (lost,) = report_cut(dead.deps)
    assert lost.outcome is JobOutcome.LOST
    assert nothing_left(node)
    thread.join(timeout=15)
    stored = dead.deps.journal.job("job-1")
    assert stored is not None
    assert stored.report is not None
    assert stored.report.outcome is JobOutcome.LOST
    request = job(JobKind.LAUNCH, attempt=1, baseline=baseline(node.folder))
    assert dead.deliver(request) is Delivered.REPORTED_AGAIN
    assert node.bot.reports[-1].outcome is JobOutcome.LOST
    dead.deps.bot.close()


def test_a_job_of_the_same_name_at_another_worker_is_left_alone(
    node: TestNode, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = make_node(tmp_path_factory.mktemp("other"), node.bot)
    held = launch(other, lines=READY_LINES, serve=True, hold_s=60).held
    assert held is not None
    node.bot.reports.clear()
    facts = launch(node, lines=NO_MODEL, exit=1)
    assert facts.outcome is Outcome.FAILED
    (row,) = other.deps.journal.held()
    assert other.deps.engines["process"].find(ref_of(row)) is not None
    assert other.deps.engines["process"].clear(ref_of(row)) == ()
    other.deps.bot.close()


def test_a_sweep_spares_held_engines(node: TestNode) -> None:
    held = launch(node, lines=READY_LINES, serve=True, hold_s=60).held
    assert held is not None
    facts = sweep_node(node.deps)
    assert facts.spared == (held.what,)
    assert facts.ended == ()
    assert len(node.deps.journal.held()) == 1


def test_the_log_that_leaves_the_node_has_no_secret(node: TestNode) -> None:
    secret = "hf_abcdefghijklmnopqrstuvwx"
    facts = launch(node, lines=[f"INFO using token {secret}", *NO_MODEL], exit=1)
    report = node.bot.report_of("job-1")
    assert report is not None
    assert report.artifacts[0].redactions == 1
    assert secret.encode() not in node.bot.files[str(facts.log_sha256)]


def beside(*names: str) -> FakeGpus:
    """A GPU that these others use."""
    rows = [{"pid": 7 + n, "name": name, "used_bytes": 1} for n, name in enumerate(names)]
    return FakeGpus({"gpu.0.processes": FieldValue(status=FieldStatus.OK, value=rows, source="NVML")})


def repeat(node: TestNode, expected: list[str] | None) -> JobReport:
    path = script(node.folder, "job-2", lines=NO_MODEL, exit=1)
    params = {"hold_s": 0, "expect_tenants": expected}
    settings = baseline(node.folder, env={"SCRIPT": path})
    node.deliver(job(JobKind.LAUNCH, job_id="job-2", attempt=2, baseline=settings, params=params))
    report = node.bot.report_of("job-2")
    assert report is not None
    return report


def test_who_else_uses_the_gpus_stands_in_the_facts(node: TestNode) -> None:
    node.deps = replace(node.deps, gpus=beside("train"))
    assert launch(node, lines=NO_MODEL, exit=1).tenants == ("process 7 train on GPU 0",)


@pytest.mark.parametrize(("now", "expected"), [((), ["process 7 train on GPU 0"]), (("train",), []), (("train", "more"), ["process 7 train on GPU 0"])])  # fmt: skip
def test_a_repeat_beside_others_than_before_is_paused_and_starts_nothing(
    node: TestNode, now: tuple[str, ...], expected: list[str]
) -> None:
    node.deps = replace(node.deps, gpus=beside(*now))
    report = repeat(node, expected)
    assert report.outcome is JobOutcome.INCONCLUSIVE
    assert "paused, nothing was started" in (report.error or "")
    assert "run again to go on" in (report.error or "")
    assert nothing_left(node, "job-2")
    assert all(row.job_id != "job-2" for row in node.deps.journal.engines(*EngineLife))


@pytest.mark.parametrize("expected", [None, ["process 7 train on GPU 0"]])
def test_a_repeat_beside_the_same_others_or_whoever_it_is_goes_on(node: TestNode, expected: list[str] | None) -> None:
    node.deps = replace(node.deps, gpus=beside("train"))
    assert repeat(node, expected).outcome is JobOutcome.DONE


def test_where_nobody_can_be_asked_a_repeat_goes_on(node: TestNode) -> None:
    node.deps = replace(
        node.deps, gpus=FakeGpus({"gpu.0.error": FieldValue(status=FieldStatus.OK, value=15, source="NVML")})
    )
    assert repeat(node, ["process 7 train on GPU 0"]).outcome is JobOutcome.DONE
