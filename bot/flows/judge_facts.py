"""Judge the facts of a report by its kind: each becomes the node's entry and, where there is a rule, the bot's verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, assert_never

from pydantic import BaseModel, ValidationError

from bot.flows.add_back import roll_back_a_failed_cache
from bot.flows.case_playbook import case_playbook
from bot.flows.held_engines import still_held
from bot.flows.judge_launch import judge_launch, read_log
from bot.flows.judged import Context, FollowUp, Judged, LogFile
from bot.flows.node_jobs import command_facts
from bot.flows.off_against_on import off_against_on
from bot.ports import ArtifactMeta
from playbooks.errors import MalformedMessage
from playbooks.evidence.entries import (
    BoundaryJudged,
    CacheProbed,
    FeatureProbed,
    FingerprintRecorded,
    HeldEnded,
    JobEnded,
    LadderClimbed,
    Payload,
    RequestRecorded,
    SceneCollected,
)
from playbooks.guiding import seen
from playbooks.guiding.decision_facts import RECIPE_SNAPSHOT
from playbooks.judging import boundary, consistency, feature_probe, fingerprint_text, ladder, prefix_cache, regression
from playbooks.judging.disagreement import Disagreement
from playbooks.judging.minimal_command import model_of
from playbooks.judging.option_words import options_of
from playbooks.messages import (
    CacheProbeFacts,
    CacheProbeParams,
    CollectFacts,
    FeatureProbeFacts,
    FeatureProbeParams,
    FingerprintFacts,
    LadderFacts,
    LadderParams,
    RequestFacts,
    StopParams,
    SweepFacts,
)
from playbooks.vocabulary import DriverVerdict, JobKind, JobOutcome

if TYPE_CHECKING:
    from datetime import datetime

    from bot.flows.services import Services
    from bot.ports import Job, Writing
    from playbooks.judging.boundary import BoundaryVerdict
    from playbooks.judging.boundary_data import Boundaries
    from playbooks.messages import JobReport

F = TypeVar("F", bound=BaseModel)


def judge_facts(services: Services, context: Context) -> Judged:
    """Say what the facts of a report that is `done` come to.

    Raises:
        MalformedMessage: the facts are not of the kind's form.
        LogWanted: a log's bytes are needed first.
    """
    match context.job.kind:
        case JobKind.LAUNCH:
            return judge_launch(services, context)
        case JobKind.FINGERPRINT:
            return _fingerprint(services, context)
        case JobKind.COLLECT:
            return _scene(services, context)
        case JobKind.REQUEST:
            return _requests(context)
        case JobKind.STOP | JobKind.SWEEP:
            return _ended_things(context)
        case JobKind.CACHE_PROBE:
            return _cache_probe(services, context)
        case JobKind.LADDER:
            return _ladder(services, context)
        case JobKind.FEATURE_PROBE:
            return _feature_probe(context)
        case _ as never:
            assert_never(never)


def _fingerprint(services: Services, context: Context) -> Judged:
    job = context.job
    facts = _read(FingerprintFacts, context.report)
    before = next((f for f in reversed(context.case.fingerprints) if f.payload.node == job.node), None)
    moved: tuple[str, ...] = ()
    if before is not None:
        earlier = FingerprintFacts.model_validate(before.payload.facts)
        moved = (
            *consistency.drift(earlier.host, facts.host),
            *consistency.drift(earlier.container, facts.container),
        )
    disagreements = (*consistency.compare(facts.host, facts.container), *_against_other_nodes(context, facts))
    recorded = FingerprintRecorded(
        job_id=job.id,
        node=job.node,
        facts=facts.model_dump(mode="json"),
        stable_sha256=consistency.stable_digest(facts.host, facts.container),
        disagreements=[_plain(found) for found in disagreements],
        moved=list(moved),
    )
    boundaries = services.definitions.boundaries()
    recipe = services.definitions.recipe_for(_model(context))
    if recipe is not None:
        boundaries = recipe
    elif case_playbook(services, context.case).boundaries is None:
        boundaries = boundaries.without_model()
    verdict, where = _weakest(context, facts, boundaries)
    judged = BoundaryJudged(
        verdict=verdict.verdict,
        grounds=[*verdict.grounds, *where],
        rule=verdict.rule,
        snapshot=verdict.snapshot if recipe is None else f"{RECIPE_SNAPSHOT}{verdict.snapshot}",
        age_days=verdict.age_days,
        findings=[_plain(found) for found in verdict.findings],
    )
    shown, meta = _as_file(services, job, facts, disagreements, moved)
    return Judged(entries=(recorded, judged), log=shown, made=(meta,))


def _as_file(
    services: Services, job: Job, facts: FingerprintFacts, found: tuple[Disagreement, ...], moved: tuple[str, ...]
) -> tuple[LogFile, ArtifactMeta]:
    """Store the fingerprint as a text with every field, for the thread and the page."""
    inside = facts.container_source or "not looked into"
    title = f"Fingerprint of {job.node}; inside: {inside}; read in {facts.duration_ms} ms"
    data = fingerprint_text.report(facts.host, facts.container, found, title=title, moved=moved).encode()
    meta = ArtifactMeta(
        sha256=services.artifacts.put(data),
        name=f"fingerprint-{job.node}.txt",
        size_bytes=len(data),
        media_type="text/plain",
        incident=job.incident,
        stored=True,
    )
    return LogFile(meta.sha256, meta.name, f"Fingerprint of {job.node}, every field"), meta


def _weakest(context: Context, facts: FingerprintFacts, boundaries: Boundaries) -> tuple[BoundaryVerdict, list[str]]:
    """Return the verdict of the node that stands worst, by the newest fingerprint of each, and which one that is.

    One node above the boundary opens nothing for a launch that another one is part of.
    """
    newest = {
        noted.payload.node: FingerprintFacts.model_validate(noted.payload.facts) for noted in context.case.fingerprints
    }
    newest[context.job.node] = facts
    mine = [node for node in seen.nodes_of(context.case) if node in newest] or [context.job.node]
    today = context.now.date()
    judged = {node: boundary.judge(boundary.facts_from(newest[node]), boundaries, today) for node in mine}
    order = (DriverVerdict.BLOCKED, DriverVerdict.COMPAT_ONLY, DriverVerdict.UNKNOWN, DriverVerdict.SUPPORTED)
    node = min(judged, key=lambda name: order.index(judged[name].verdict))
    return judged[node], [f"node {node}"] if len(judged) > 1 else []


def _against_other_nodes(context: Context, facts: FingerprintFacts) -> tuple[Disagreement, ...]:
    """Compare with the newest fingerprint of each other node of the case: what must be equal for one launch over both."""
    newest = {noted.payload.node: noted.payload.facts for noted in context.case.fingerprints}
    found: list[Disagreement] = []
    for node, stored in sorted(newest.items()):
        if node != context.job.node:
            other = FingerprintFacts.model_validate(stored)
            sides = ({**other.container, **other.host}, {**facts.container, **facts.host})
            found += consistency.between_nodes(*sides, names=(node, context.job.node))
    return tuple(found)


def _model(context: Context) -> str:
    """Return the model that the case's command names; empty where it names none."""
    command = command_facts(context.case)
    return "" if command is None else model_of(options_of(command.argv))


def _scene(services: Services, context: Context) -> Judged:
    facts = _read(CollectFacts, context.report)
    catalogue = services.definitions.signatures()
    finding = facts.finding
    log = facts.saved.get("log")
    if finding is not None and not context.report.catalogue == finding.catalogue == catalogue.digest:
        finding = None
    if finding is None and log is not None:
        finding = read_log(services, log, catalogue)
    return Judged(
        entries=(
            SceneCollected(
                job_id=context.job.id,
                node=context.job.node,
                saved=facts.saved,
                missing=facts.missing,
                container={name: value.model_dump(mode="json") for name, value in facts.container.items()},
                redactions=facts.redactions,
                finding=None if finding is None else finding.model_dump(mode="json"),
            ),
        )
    )


def _requests(context: Context) -> Judged:
    facts = _read(RequestFacts, context.report)
    verdict, why = regression.judge(facts.runs)
    entries: list[Payload] = [
        RequestRecorded(
            job_id=context.job.id,
            attempt=facts.target_attempt,
            runs=[run.model_dump(mode="json") for run in facts.runs],
            complete=sum(run.complete for run in facts.runs),
            of=len(facts.runs),
            verdict=verdict,
            why=why,
        )
    ]
    if not facts.engine_alive:
        entries += _held_ended(context, facts.target_attempt, "died", "not alive after the requests")
    return Judged(entries=tuple(entries), follow_ups=(_cache_off_again(context),))


def _cache_probe(services: Services, context: Context) -> Judged:
    facts = _read(CacheProbeFacts, context.report)
    attempt = CacheProbeParams.model_validate(context.job.request.params).target_attempt
    judged = prefix_cache.judge(facts)
    expected = {"A1": 0, "A2": facts.expected_repeat, "A3": facts.expected_prefix, "A4": facts.expected_prefix}
    rows = [
        {
            "round": shot.round,
            "name": shot.name,
            "tokens": shot.tokens,
            "expected": expected.get(shot.name, 0),
            "cached": shot.run.cached_tokens,
            "counted": prefix_cache.counted_hits(shot),
            "ttft_ms": shot.run.first_token_ms,
        }
        for shot in facts.shots
    ]
    entries: list[Payload] = [
        CacheProbed(
            job_id=context.job.id,
            attempt=attempt,
            verdict=judged.verdict.value,
            grounds=judged.grounds,
            remarks=list(judged.remarks),
            causes=[_plain(cause) for cause in judged.causes],
            rows=rows,
            config=facts.config.model_dump(mode="json"),
            off_on=off_against_on(services, context, attempt),
        )
    ]
    if not facts.engine_alive:
        entries += _held_ended(context, attempt, "died", "not alive after the cache probe")
    return Judged(entries=tuple(entries), follow_ups=(_cache_off_again(context),))


def _feature_probe(context: Context) -> Judged:
    facts = _read(FeatureProbeFacts, context.report)
    params = FeatureProbeParams.model_validate(context.job.request.params)
    judged = feature_probe.judge(facts)
    entries: list[Payload] = [
        FeatureProbed(
            job_id=context.job.id,
            attempt=params.target_attempt,
            feature=facts.feature,
            verdict=judged.verdict.value,
            grounds=judged.grounds,
            passed=judged.passed,
            of=judged.of,
            low=judged.low,
            high=judged.high,
            failures=judged.failures,
            examples=list(judged.examples),
            remarks=list(judged.remarks),
        )
    ]
    if not facts.engine_alive:
        entries += _held_ended(context, params.target_attempt, "died", "not alive after the feature probe")
    return Judged(entries=tuple(entries))


def _ladder(services: Services, context: Context) -> Judged:
    facts = _read(LadderFacts, context.report)
    attempt = LadderParams.model_validate(context.job.request.params).target_attempt
    finding = (
        None if facts.log_sha256 is None else read_log(services, facts.log_sha256, services.definitions.signatures())
    )
    judged = ladder.judge(facts, finding)
    entries: list[Payload] = [
        LadderClimbed(
            job_id=context.job.id,
            attempt=attempt,
            verdict=judged.verdict.value,
            grounds=judged.grounds,
            remarks=list(judged.remarks),
            rows=list(judged.rows),
            failed=judged.failed,
            finding=None if finding is None else finding.model_dump(mode="json"),
        )
    ]
    if not facts.engine_alive:
        entries += _held_ended(context, attempt, "died", "not alive after the pressure ladder")
    return Judged(entries=tuple(entries))


def _cache_off_again(context: Context) -> FollowUp:
    def follow(tx: Writing, services: Services, now: datetime) -> None:
        roll_back_a_failed_cache(tx, services, context.job.incident, now=now)

    return follow


def _ended_things(context: Context) -> Judged:
    facts = _read(SweepFacts, context.report)
    params = StopParams.model_validate(context.job.request.params)
    said = [f"ended: {', '.join(facts.ended)}" if facts.ended else "nothing was left to end"]
    if facts.spared:
        said.append(f"spared: {', '.join(facts.spared)}")
    if facts.failed:
        said.append(f"could not be ended: {', '.join(facts.failed)}")
    entries: list[Payload] = [_job_ended(context.job, "; ".join(said))]
    if params.attempt is not None and not facts.failed:
        entries += _held_ended(context, params.attempt, "stopped", f"asked by {context.job.request.requested_by}")
    return Judged(entries=tuple(entries))


def _held_ended(context: Context, attempt: int, how: Any, detail: str) -> list[Payload]:
    held = [noted for noted, _until in still_held(context.case, None) if noted.payload.attempt == attempt]
    return [HeldEnded(attempt=attempt, how=how, detail=detail)] if held else []


def _job_ended(job: Job, detail: str) -> JobEnded:
    return JobEnded(
        job_id=job.id, job_kind=job.kind, outcome=JobOutcome.DONE, detail=detail, attempt=job.request.attempt
    )


def _read(model: type[F], report: JobReport) -> F:
    try:
        return model.model_validate(report.facts)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        raise MalformedMessage(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _plain(value: Any) -> dict[str, Any]:
    """Return a frozen value of the core as JSON."""
    from dataclasses import asdict, is_dataclass

    if is_dataclass(value) and not isinstance(value, type):
        return {key: _json(part) for key, part in asdict(value).items()}
    dumped: dict[str, Any] = value.model_dump(mode="json")
    return dumped


def _json(part: Any) -> Any:
    return list(part) if isinstance(part, tuple) else part
