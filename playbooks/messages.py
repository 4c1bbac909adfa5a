"""What travels between bot and node: task name, queues, signed envelope and its bodies.

The only thing bot and workers share on the wire. Old schema versions still parse. No floats: whole milliseconds and bytes.
Signing and verifying the envelope is `playbooks.evidence.signing`; who may say what is decided by each side.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from playbooks.evidence.signing import Envelope as Envelope  # noqa: PLC0414  # re-exported: the envelope of all of these
from playbooks.job_params import CacheProbeParams as CacheProbeParams  # noqa: PLC0414  # re-exported, like the others: on the wire
from playbooks.job_params import CollectParams as CollectParams  # noqa: PLC0414
from playbooks.job_params import FeatureProbeParams as FeatureProbeParams  # noqa: PLC0414
from playbooks.job_params import FingerprintParams as FingerprintParams  # noqa: PLC0414
from playbooks.job_params import LadderParams as LadderParams  # noqa: PLC0414
from playbooks.job_params import LaunchParams as LaunchParams  # noqa: PLC0414
from playbooks.job_params import RequestParams as RequestParams  # noqa: PLC0414
from playbooks.job_params import StopParams as StopParams  # noqa: PLC0414
from playbooks.judging.baseline import Baseline, Change
from playbooks.judging.cache_facts import CacheProbeFacts as CacheProbeFacts  # noqa: PLC0414  # re-exported: on the wire, and judged
from playbooks.judging.feature_facts import FeatureProbeFacts as FeatureProbeFacts  # noqa: PLC0414  # re-exported: on the wire, and judged
from playbooks.judging.finding import Finding
from playbooks.judging.ladder_facts import LadderFacts as LadderFacts  # noqa: PLC0414  # re-exported: on the wire, and judged
from playbooks.judging.ranks import GroupWord as GroupWord  # noqa: PLC0414  # re-exported: on the wire, and judged
from playbooks.judging.ranks import RankOf as RankOf  # noqa: PLC0414  # re-exported, like the one above
from playbooks.judging.request_run import RequestRun as RequestRun  # noqa: PLC0414  # re-exported: on the wire, and judged
from playbooks.reading.fields import FieldValue as FieldValue  # noqa: PLC0414  # re-exported: readers and rules share it
from playbooks.vocabulary import JobKind, JobOutcome, Outcome, Stage

SCHEMA = 1
TASK_JOB = "baseline.job"
"""The one Celery task; its single argument is an `Envelope` as JSON object with a `JobRequest` body."""


def queue_of(node: str, kind: JobKind) -> str:
    """Return the queue that carries this kind of job to the node."""
    return f"node.{node}" if kind.loads_gpu else f"node.{node}.ctl"


class Message(BaseModel):
    """Base of all bodies: unknown keys are kept out of the way, so that a newer sender still parses."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class StageLimit(Message):
    """How long a stage may be silent, and how long it may take."""

    silence_s: int
    total_s: int


class Limits(Message):
    """Bounds of a job; the node's policy caps them."""

    total_s: int = 3600
    stages: dict[Stage, StageLimit] = {}


class JobRequest(Message):
    """A job for a node. `params` is read by the kind's own model below."""

    type: Literal["job_request"] = "job_request"
    job_id: str
    incident: str
    kind: JobKind
    node: str
    attempt: int | None = None
    baseline: Baseline | None = None
    change: Change | None = None
    params: dict[str, Any] = {}
    limits: Limits = Limits()
    rank: RankOf | None = None
    """Of a launch over several nodes: this node's place in it."""
    requested_by: str
    requested_at: datetime
    not_after: datetime


class ArtifactRef(Message):
    """A file by digest; the bytes may follow the report. Redacted before it was hashed."""

    sha256: str
    name: str
    size_bytes: int
    media_type: str = "text/plain"
    redactions: int = 0
    dropped_bytes: int = 0
    """Bytes left out of the middle because the spool is bounded; 0 = complete."""


class FingerprintFacts(Message):
    """Host and container facts, flat by dotted name (`driver.loaded`, `gpu.0.uuid`); names: docs/reference/fingerprint.md."""

    host: dict[str, FieldValue]
    container: dict[str, FieldValue] = {}
    container_source: str | None = None
    """`exec NAME`, `image REF`, `python PATH`; None = no container side was asked for."""
    duration_ms: int


class CollectFacts(Message):
    """The scene (R1): what was saved, by role (`log`, `inspect`, `docker-info`, `nvidia-smi` …) and digest."""

    saved: dict[str, str] = {}
    missing: dict[str, str] = {}
    """Role to reason it could not be read."""
    container: dict[str, FieldValue] = {}
    command: Baseline | None = None
    finding: Finding | None = None
    redactions: int = 0


class StageSpan(Message):
    """One stage as observed, in milliseconds since the start; `ended_ms` None = not seen to end."""

    stage: Stage
    started_ms: int
    ended_ms: int | None = None
    note: str = ""


class LimitHit(Message):
    """A limit that ended an attempt."""

    stage: Stage
    kind: Literal["silence", "total", "job"]
    limit_s: int
    observed: str = ""
    """What was seen then: last line, process states, stacks."""


class HeldEngine(Message):
    """An engine that lives on after its launch job."""

    job_id: str
    incident: str
    attempt: int
    engine: str
    what: str
    """`container 3f2a…` or `process 4711`."""
    endpoint: str
    since: datetime
    until: datetime


class LaunchFacts(Message):
    """What was observed of one launch. `finding` is the node's live finding; adopted only when catalogues are equal."""

    outcome: Outcome
    exit_code: int | None = None
    signal: int | None = None
    oom_killed: bool | None = None
    state_error: str | None = None
    """The runtime's own text when nothing was logged."""
    stages: tuple[StageSpan, ...] = ()
    ready_ms: int | None = None
    finding: Finding | None = None
    limit: LimitHit | None = None
    log_sha256: str | None = None
    log_lines: int = 0
    probe: RequestRun | None = None
    held: HeldEngine | None = None
    resolved: Baseline | None = None
    """The baseline with what only the node can see filled in (packages, model files, driver, GPUs)."""
    memory_samples: tuple[tuple[int, int], ...] = ()
    """(milliseconds since start, GPU memory in use in bytes over all GPUs); empty without GPUs."""
    gpu_memory: dict[str, tuple[tuple[int, int], ...]] = {}
    """The same by GPU (`GPU 0`), thinned to what a chart shows; each second stands in the artifact `gpu-memory.csv`."""
    tenants: tuple[str, ...] = ()
    left_behind: tuple[str, ...] = ()
    """What could not be verified gone; empty = nothing was left."""
    failed_at: datetime | None = None
    """By the node's clock: when the first fatal line was read, else when the end was seen; None when ready."""
    ended_for: str = ""
    """Of a rank that did not fail by itself: for which other rank it was ended."""


class RequestFacts(Message):
    """Runs of the fixed request against a held engine."""

    target_attempt: int
    sample_sha256: str
    runs: tuple[RequestRun, ...]
    engine_alive: bool


class SweepFacts(Message):
    """What a stop or sweep ended, and what it could not end."""

    ended: tuple[str, ...] = ()
    spared: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class Claim(Message):
    """`POST /jobs/{id}/claim`: may this job start?

    `nonce` is made once per delivery of a job and the same when an unanswered claim is asked again, so that a lost answer
    is told from a second worker; without it `at` stands in.
    """

    type: Literal["claim"] = "claim"
    job_id: str
    node: str
    nonce: str = ""
    at: datetime


class ClaimReply(Message):
    """Yes with a fencing number, or why not. Without an answer nothing starts."""

    type: Literal["claim_reply"] = "claim_reply"
    job_id: str
    granted: bool
    fence: int | None = None
    reason: Literal["granted", "cancelled", "held", "expired", "finished", "unknown_job", "wrong_node"] = "granted"
    detail: str = ""
    bot_time: datetime


class Heartbeat(Message):
    """`POST /jobs/{id}/heartbeat`, every 3 s."""

    type: Literal["heartbeat"] = "heartbeat"
    job_id: str
    node: str
    fence: int | None = None
    stage: Stage | None = None
    note: str = ""
    at: datetime


class HeartbeatReply(Message):
    """Carries a cancel down, and the bot's clock."""

    type: Literal["heartbeat_reply"] = "heartbeat_reply"
    job_id: str
    cancel: bool = False
    cancelled_by: str = ""
    group: GroupWord | None = None
    """Of a launch over several nodes: what became of the other ranks."""
    bot_time: datetime


class Progress(Message):
    """`POST /jobs/{id}/progress`; lossy, coalesced, dropped after the report."""

    type: Literal["progress"] = "progress"
    job_id: str
    node: str
    seq: int
    stage: Stage | None = None
    note: str = ""
    root_text: str | None = None
    """First fatal line, as soon as it is seen."""
    at: datetime


class JobReport(Message):
    """`POST /jobs/{id}/report`: facts, never verdicts. Sent again until the bot says `recorded`."""

    type: Literal["job_report"] = "job_report"
    job_id: str
    node: str
    kind: JobKind
    outcome: JobOutcome
    error: str | None = None
    facts: dict[str, Any] = {}
    """Dump of the kind's facts model above; {} unless `done`."""
    artifacts: tuple[ArtifactRef, ...] = ()
    started_at: datetime
    ended_at: datetime
    duration_ms: int
    clock_offset_ms: int = 0
    """Node minus bot, at the last answer."""
    fence: int | None = None
    worker_version: str
    catalogue: str = ""


class ReportReply(Message):
    """Answer to a report; `missing` lists artifact digests whose bytes are still wanted."""

    type: Literal["report_reply"] = "report_reply"
    job_id: str
    recorded: bool
    missing: tuple[str, ...] = ()
    detail: str = ""
    bot_time: datetime


class ArtifactOffer(Message):
    """`PUT /artifacts/{sha256}`: in header `Baseline-Envelope` (base64 of the envelope's JSON); the bytes are the body."""

    type: Literal["artifact_offer"] = "artifact_offer"
    sha256: str
    size_bytes: int
    media_type: str = "text/plain"
    name: str
    job_id: str
    node: str
    at: datetime


class EngineEnd(Message):
    """A held engine that ended otherwise than by its own death."""

    engine: HeldEngine
    how: Literal["stopped", "expired", "replaced"]
    detail: str = ""


class NodeHello(Message):
    """`POST /nodes/{name}/hello`, every 30 s and at start."""

    type: Literal["node_hello"] = "node_hello"
    node: str
    version: str
    catalogue: str
    policy_sha256: str
    policy: dict[str, Any] = {}
    """Summary that people see: engines, images, interpreters, model directories, max duration."""
    gpus: tuple[str, ...] = ()
    held: tuple[HeldEngine, ...] = ()
    running: tuple[str, ...] = ()
    lost: tuple[HeldEngine, ...] = ()
    """Held engines found dead since the last hello."""
    lost_because: dict[str, str] = {}
    """By job: the first failure in the end of a dead engine's log, redacted."""
    ended: tuple[EngineEnd, ...] = ()
    """Held engines that were ended since the last hello; told again until a hello is answered."""
    at: datetime


class HelloReply(Message):
    """The bot knows the node; its clock."""

    type: Literal["hello_reply"] = "hello_reply"
    node: str
    bot_time: datetime
    known: bool = True
    detail: str = ""


class IncidentQuery(Message):
    """`GET /incidents/{id}` by a node: in header `Baseline-Envelope`, as the offer of an artifact."""

    type: Literal["incident_query"] = "incident_query"
    incident: str
    node: str
    at: datetime


class WatchedOffer(Message):
    """`PUT /watched/{incident}`: in header `Baseline-Envelope`; the body is the file that `baseline watch` wrote."""

    type: Literal["watched_offer"] = "watched_offer"
    incident: str
    node: str
    sha256: str
    size_bytes: int
    name: str
    at: datetime


class WatchedReply(Message):
    """The file is recorded in the case, now or before, as entry `seq`."""

    type: Literal["watched_reply"] = "watched_reply"
    incident: str
    seq: int
    detail: str
    bot_time: datetime


class Refusal(Message):
    """Body of every 4xx of the node interface, unsigned: `{type, error, detail}`."""

    type: Literal["refusal"] = "refusal"
    error: str
    detail: str = ""
