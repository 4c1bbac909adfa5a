"""The job `feature_probe`: one feature of a held engine, asked several times (R7.4, R8).

What is asked is `playbooks.judging.feature_requests`, what it proves `playbooks.judging.feature_probe`; here it is only sent
and recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from playbooks.judging.feature_facts import Feature, FeatureProbeFacts, FeatureTry, ToolCall
from playbooks.judging.feature_requests import FILLER, Asked, request
from playbooks.messages import FeatureProbeParams, JobRequest
from workers.errors import UnusableRequest
from workers.jobs.cache_probe import Endpoint
from workers.jobs.deps import Deps, Done
from workers.jobs.held_target import held_target
from workers.jobs.redacting import clean
from workers.ports import Control, EngineHttp

MOST_TRIES = 50
_MEASURED = 8
"""Sentences of filler that are measured at once."""
_ALIVE_WAIT_S = 0.5
"""A dying engine breaks its connections a moment before its process is gone."""
_DEAD_AFTER = 3
"""Tries in a row that nobody answers: there is no use in more."""


def feature_probe(job: JobRequest, deps: Deps, control: Control) -> Done:
    """Probe one feature of the held engine of `target_attempt`.

    Raises:
        NotHeld: no engine of that attempt is held here.
        JobCancelled: called off between two tries.
    """
    try:
        params = FeatureProbeParams.model_validate(job.params)
    except ValueError as error:
        raise UnusableRequest(f"feature probe parameters: {error}") from error
    target = held_target(job, deps, params.target_attempt)
    where = Endpoint(target.endpoint, target.headers, deps.http.model_name(target.endpoint, headers=target.headers))
    facts = probe_feature(
        deps.http,
        where,
        params.feature,
        target=f"attempt {params.target_attempt}",
        tries=min(params.tries, MOST_TRIES),
        timeout_s=params.timeout_s,
        check=control.check,
        tell=lambda note: control.progress(None, note),
    )
    if not facts.tries or facts.tries[-1].http_status is None:
        deps.clock.sleep(_ALIVE_WAIT_S)
    facts = facts.model_copy(
        update={
            "engine_alive": target.lives(),
            "tries": tuple(_clean(one, target.secrets) for one in facts.tries),
        }
    )
    deps.spool.save_text(
        job.job_id,
        "feature.json",
        facts.model_dump_json(indent=1).encode(),
        media_type="application/json",
        secrets=target.secrets,
    )
    if not facts.engine_alive:
        deps.spool.save_log(job.job_id, "engine.log", Path(target.ref.log), secrets=target.secrets)
    return Done(facts)


def probe_feature(
    http: EngineHttp,
    where: Endpoint,
    feature: Feature,
    *,
    target: str,
    tries: int,
    timeout_s: int,
    make: Callable[..., Asked] = request,
    check: Callable[[], None] = lambda: None,
    tell: Callable[[str], None] = lambda _note: None,
) -> FeatureProbeFacts:
    """Ask for a feature `tries` times, one after the other; ends early where nobody answers any more.

    make: makes the request of a try; another one shows what the feature does without its constraint.
    """
    max_len = http.model_length(where.url, headers=where.headers)
    facts = FeatureProbeFacts(feature=feature, target=target, max_len=max_len)
    if feature == "long_context" and max_len is None:
        return facts.model_copy(update={"why_not": "the engine does not say how long its context is"})
    sizes: dict[str, Any] = {"max_len": max_len}
    if feature == "long_context" and (
        measured := http.tokens(where.url, FILLER * _MEASURED, model=where.model, headers=where.headers)
    ):
        sizes["filler_tokens"] = max(-(-len(measured) // _MEASURED), 1)
    before = _drafts(http, where)
    made: list[FeatureTry] = []
    for n in range(1, tries + 1):
        check()
        tell(f"{feature}: try {n} of {tries}")
        asked = make(feature, n, model=where.model, **sizes)
        answer = http.chat(where.url, asked.body, n=n, asked=asked.subject, timeout_s=timeout_s, headers=where.headers)
        made.append(answer)
        if len(made) >= _DEAD_AFTER and all(one.http_status is None for one in made[-_DEAD_AFTER:]):
            break
    after = _drafts(http, where)
    moved = None if before is None or after is None else tuple(b - a for a, b in zip(before, after, strict=True))
    return facts.model_copy(
        update={
            "tries": tuple(made),
            "drafts": None if moved is None else moved[0],
            "accepted": None if moved is None else moved[1],
        }
    )


def _drafts(http: EngineHttp, where: Endpoint) -> tuple[int, int] | None:
    text = http.metrics(where.url, headers=where.headers)
    read = http.read_metrics(text) if text is not None else None
    if read is None or read[0].drafts is None:
        return None
    return read[0].drafts, read[0].accepted or 0


def _clean(one: FeatureTry, secrets: Mapping[str, str]) -> FeatureTry:
    return one.model_copy(
        update={
            "error": None if one.error is None else clean(one.error, secrets),
            "content": clean(one.content, secrets),
            "reasoning": clean(one.reasoning, secrets),
            "tool_calls": tuple(
                ToolCall(name=clean(call.name, secrets), arguments=clean(call.arguments, secrets))
                for call in one.tool_calls
            ),
        }
    )
