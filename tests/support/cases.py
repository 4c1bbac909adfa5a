"""Builds a case's ledger entries one line at a time, with numbers and times that follow each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from playbooks.evidence import entries as e
from playbooks.guiding.case import Case, fold
from playbooks.judging.baseline import Baseline, FixedSample, ImageRef, Interpreter
from playbooks.vocabulary import DriverVerdict, JobKind, JobOutcome, Outcome, Phase

OPENED_AT = datetime(2026, 12, 1, 2, 41, tzinfo=UTC)
GPUS = tuple(f"GPU-{n}" for n in range(8))
SAMPLE = FixedSample(body='{"max_tokens":16,"prompt":"x"}')


@dataclass(frozen=True)
class Line:
    """An entry as the fold needs it."""

    seq: int
    kind: str
    actor: str
    at: datetime
    payload: dict[str, Any]
    artifacts: tuple[str, ...] = ()


def finding(error_class: str = "none", stage: str = "none", decision: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "stage": stage,
        "reached": "none",
        "error_class": error_class,
        "root_line": 41,
        "root_text": "RuntimeError: boom",
        "confidence": "certain",
        "input_kind": "vllm_log",
        "decision": decision,
        "catalogue": "c" * 64,
    } | more


def docker_baseline(argv: tuple[str, ...] = ("serve", "/models/k3"), **more: Any) -> Baseline:
    image = ImageRef(reference="vllm/vllm-openai:kimi-k3", digest="sha256:" + "41" * 32)
    return Baseline(engine="docker", image=image, argv=argv, sample=SAMPLE, **more)


def process_baseline(argv: tuple[str, ...] = ("serve", "/models/tiny"), **more: Any) -> Baseline:
    return Baseline(
        engine="process", interpreter=Interpreter(python="/venv/bin/python"), argv=argv, sample=SAMPLE, **more
    )


def ok(value: Any, source: str = "read") -> dict[str, Any]:
    return {"status": "ok", "value": value, "source": source}


ABSENT = {"status": "absent", "value": None, "source": "read"}
REFUSED = {"status": "refused", "value": None, "source": "read"}

GPU_HOST = {"driver.loaded": ok("580.95.05"), "nvml.count": ok(8), "gpu.0.name": ok("NVIDIA B300")}
GPU_CONTAINER = {
    "image.digest": ok("sha256:" + "41" * 32),
    "python.version": ok("3.12.11"),
    "torch.version": ok("2.9.1+cu130"),
    "torch.cuda": ok("13.0"),
    "torch.device_count": ok(8),
    "vllm.version": ok("0.29.0"),
}
CPU_HOST = {"driver.loaded": ABSENT, "nvml.error": ok(12), "pci.gpu_count": ok(0)}
CPU_CONTAINER = {
    "python.version": ok("3.11.9"),
    "python.executable": ok("/venv/bin/python"),
    "torch.version": ok("2.13.0+cpu"),
    "torch.cuda": ABSENT,
    "torch.device_count": ok(0),
    "vllm.version": ok("0.32.0"),
    "vllm.metadata_version": ok("0.32.0+cpu"),
}


@dataclass
class CaseLines:
    """A growing record; every method appends and returns the record."""

    incident: str = "INC-0042"
    lines: list[Line] = field(default_factory=list)
    jobs: int = 0

    def add(self, payload: e.Payload, actor: str = "user:U1") -> CaseLines:
        seq = len(self.lines) + 1
        at = OPENED_AT + timedelta(minutes=len(self.lines))
        self.lines.append(Line(seq, payload.KIND, actor, at, payload.model_dump(mode="json")))
        return self

    @property
    def seq(self) -> int:
        return len(self.lines)

    @property
    def case(self) -> Case:
        return fold(self.incident, self.lines)

    def opened(
        self, node: str | None = "gpu-a1", playbook: str = "kimi-k3", command: str = "", **more: Any
    ) -> CaseLines:
        return self.add(
            e.IncidentOpened(
                title="Kimi K3 does not start",
                node=node,
                playbook=playbook,
                playbook_sha256="p" * 64,
                command=command,
                **more,
            )
        )

    def answer(self, item: str, value: str, note: str = "", actor: str = "user:U1") -> CaseLines:
        return self.add(e.AnswerRecorded(item=item, value=value, note=note), actor)

    def ask(self, kind: JobKind, node: str = "gpu-a1") -> CaseLines:
        self.jobs += 1
        return self.add(e.JobRequested(job_id=f"job-{self.jobs}", job_kind=kind, node=node))

    def ended(self, outcome: JobOutcome = JobOutcome.INCONCLUSIVE, kind: JobKind = JobKind.FINGERPRINT) -> CaseLines:
        return self.add(
            e.JobEnded(job_id=f"job-{self.jobs}", job_kind=kind, outcome=outcome, detail="no answer"), "node:gpu-a1"
        )

    def fingerprint(
        self,
        host: dict[str, Any] | None = None,
        container: dict[str, Any] | None = None,
        *,
        ask: bool = True,
        source: str | None = "image vllm/vllm-openai:kimi-k3",
        **more: Any,
    ) -> CaseLines:
        if ask:
            self.ask(JobKind.FINGERPRINT)
        facts = {
            "host": GPU_HOST if host is None else host,
            "container": GPU_CONTAINER if container is None else container,
            "container_source": source,
            "duration_ms": 400,
        }
        return self.add(
            e.FingerprintRecorded(
                job_id=f"job-{self.jobs}", node="gpu-a1", facts=facts, stable_sha256="s" * 64, **more
            ),
            "node:gpu-a1",
        )

    def scene(self, saved: dict[str, str] | None = None, **more: Any) -> CaseLines:
        self.ask(JobKind.COLLECT)
        return self.add(
            e.SceneCollected(job_id=f"job-{self.jobs}", node="gpu-a1", saved=saved or {}, **more), "node:gpu-a1"
        )

    def boundary(self, verdict: DriverVerdict = DriverVerdict.SUPPORTED, age_days: int = 3, **more: Any) -> CaseLines:
        return self.add(
            e.BoundaryJudged(
                verdict=verdict,
                grounds=["driver 580.95.05"],
                rule="B-01",
                snapshot="kimi-k3",
                age_days=age_days,
                **more,
            ),
            "bot",
        )

    def frozen(self, baseline: Baseline, change: dict[str, Any] | None = None, **more: Any) -> CaseLines:
        return self.add(
            e.BaselineFrozen(digest=baseline.digest, baseline=baseline.model_dump(mode="json"), change=change, **more)
        )

    def attempt(
        self,
        number: int,
        baseline: Baseline,
        outcome: Outcome = Outcome.FAILED,
        found: dict[str, Any] | None = None,
        *,
        origin: str = "observed",
        log: str | None = "l" * 64,
        ask: bool = True,
        **more: Any,
    ) -> CaseLines:
        job = None
        if origin == "observed" and ask:
            self.ask(JobKind.LAUNCH)
            job = f"job-{self.jobs}"
        failed = outcome in {Outcome.FAILED, Outcome.STOPPED_BY_LIMIT}
        default = finding("model_path_not_found", "weight_loading", "fix_files") if failed else finding()
        return self.add(
            e.AttemptRecorded(
                attempt=number,
                baseline_digest=baseline.digest,
                origin=origin,
                outcome=outcome,
                finding=default if found is None else found,
                job_id=job,
                log_sha256=log,
                **more,
            ),
            "node:gpu-a1" if origin == "observed" else "user:U1",
        )

    def score(self, earlier: int, later: int, score: int | None, **more: Any) -> CaseLines:
        return self.add(
            e.ScoreGiven(earlier=earlier, later=later, score=score, row="r", why="same stage and class", **more), "bot"
        )

    def requested(self, attempt: int, verdict: str = "stable", complete: int = 5, of: int = 5) -> CaseLines:
        self.ask(JobKind.REQUEST)
        return self.add(
            e.RequestRecorded(
                job_id=f"job-{self.jobs}",
                attempt=attempt,
                runs=[],
                complete=complete,
                of=of,
                verdict=verdict,
                why="all",
            ),
            "node:gpu-a1",
        )

    def probed(self, attempt: int, verdict: str = "hit", **more: Any) -> CaseLines:
        self.ask(JobKind.CACHE_PROBE)
        found = {"job_id": f"job-{self.jobs}", "attempt": attempt, "verdict": verdict, "grounds": "A2 256", **more}
        return self.add(e.CacheProbed(**found), "node:gpu-a1")

    def climbed(self, attempt: int, verdict: str = "climbed", **more: Any) -> CaseLines:
        self.ask(JobKind.LADDER)
        found = {"job_id": f"job-{self.jobs}", "attempt": attempt, "verdict": verdict, "grounds": "9 of 9", **more}
        return self.add(e.LadderClimbed(**found), "node:gpu-a1")

    def entered(self, phase: Phase, **more: Any) -> CaseLines:
        return self.add(e.PhaseEntered(phase=phase, **more))

    def proposed(self, kind: str = "fix_files", actor: str = "user:U1", **more: Any) -> CaseLines:
        values = {"rule": "D-21", "headline": "Fix the files.", "reasons": ["it repeats"]} | more
        return self.add(e.DecisionProposed(kind=kind, **values), actor)

    def approved(self, actor: str = "user:U2") -> CaseLines:
        return self.add(e.DecisionApproved(proposal=self.seq, reason="agreed"), actor)

    def rejected(self, reason: str = "not yet", actor: str = "user:U2") -> CaseLines:
        return self.add(e.DecisionRejected(proposal=self.seq, reason=reason), actor)


def frozen_scene(node: str | None = "gpu-a1", playbook: str = "kimi-k3") -> CaseLines:
    """A GPU node's incident with all of R1 read or answered."""
    return (
        CaseLines()
        .opened(node=node, playbook=playbook, command="docker run vllm/vllm-openai:kimi-k3 --model /models/k3")
        .fingerprint()
        .scene({"log": "l" * 64})
        .answer("failing-request", "none, it never became ready")
        .answer("change-history", "failed first at 02:10, nothing changed")
    )


def cpu_scene() -> CaseLines:
    """A machine without a GPU, a vLLM of its own, and no container."""
    lines = CaseLines().opened(node="this-machine", playbook="generic-vllm", command="vllm serve /models/tiny")
    lines.fingerprint(CPU_HOST, CPU_CONTAINER, source="python /venv/bin/python").scene({"docker-info": "d" * 64})
    return (
        lines.answer("first-stack", "none kept: the process had gone")
        .answer("failing-request", "none")
        .answer("change-history", "none")
    )
