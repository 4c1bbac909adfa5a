"""The job `request`: the fixed request, several times, against the held engine of an attempt (R7.1).

What counts is complete answers and the layer of the first exception, not speed; the judgement is the bot's.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from playbooks.messages import JobRequest, RequestFacts, RequestParams, RequestRun
from workers.errors import UnusableRequest
from workers.jobs.deps import Deps, Done
from workers.jobs.held_target import held_target
from workers.jobs.redacting import clean
from workers.ports import Control

_ALIVE_WAIT_S = 0.5
"""A dying engine still answers `/health` for a moment; its process tells first."""


def request(job: JobRequest, deps: Deps, control: Control) -> Done:
    """Ask the held engine of `target_attempt`.

    Raises:
        NotHeld: no engine of that attempt is held here.
        JobCancelled: called off between two runs.
    """
    try:
        params = RequestParams.model_validate(job.params)
        json.loads(params.sample.body)
    except ValueError as error:
        raise UnusableRequest(f"request parameters: {error}") from error
    target = held_target(job, deps, params.target_attempt)
    model = deps.http.model_name(target.endpoint, headers=target.headers)
    runs: list[RequestRun] = []
    texts: list[str] = []
    for n in range(1, params.runs + 1):
        control.check()
        control.progress(None, f"request {n} of {params.runs}")
        answer = deps.http.ask(
            target.endpoint, params.sample, n=n, timeout_s=params.timeout_s, model=model, headers=target.headers
        )
        runs.append(answer.run.model_copy(update={"output_head": clean(answer.run.output_head, target.secrets)}))
        texts.append(answer.text)
    if not runs or not runs[-1].complete:
        deps.clock.sleep(_ALIVE_WAIT_S)
    alive = target.lives()
    record = {
        "sample": params.sample.model_dump(mode="json"),
        "runs": [{**run.model_dump(mode="json"), "output": text} for run, text in zip(runs, texts, strict=True)],
    }
    deps.spool.save_text(
        job.job_id,
        "requests.json",
        json.dumps(record, indent=1, ensure_ascii=False).encode(),
        media_type="application/json",
        secrets=target.secrets,
    )
    if not alive:
        deps.spool.save_log(job.job_id, "engine.log", Path(target.ref.log), secrets=target.secrets)
    sample_sha256 = hashlib.sha256(params.sample.model_dump_json().encode()).hexdigest()
    return Done(
        RequestFacts(
            target_attempt=params.target_attempt, sample_sha256=sample_sha256, runs=tuple(runs), engine_alive=alive
        )
    )
