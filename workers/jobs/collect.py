"""The job `collect`: the scene is saved before anybody changes it (R1). Read-only; what is missing says why."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from playbooks.errors import InputError
from playbooks.judging.baseline import Baseline
from playbooks.judging.finding import Finding
from playbooks.judging.first_failure import analyse_text
from playbooks.judging.minimal_command import as_given
from playbooks.messages import CollectFacts, CollectParams, JobRequest
from playbooks.reading.fields import read, value_of
from playbooks.reading.launch_command import read as read_command
from playbooks.vocabulary import FieldStatus
from workers.jobs.deps import Deps, Done
from workers.jobs.fingerprint import redacted
from workers.jobs.redacting import clean
from workers.ports import Control, Facts, Scene

LOG_ROLE = "log"


def collect(request: JobRequest, deps: Deps, control: Control) -> Done:
    """Save what the node and a container that is already there can show.

    Raises:
        JobCancelled: called off; what was saved until then is kept.
    """
    params = CollectParams.model_validate(request.params)
    scenes: list[Scene] = []
    inspection = None
    if params.container is not None:
        control.progress(None, f"saving container {params.container}")
        found, inspection = deps.scenes.container(params.container)
        scenes += found
    control.check()
    control.progress(None, "saving the host's side")
    scenes += deps.scenes.host()
    control.check()
    saved, missing, redactions = _save(request.job_id, scenes, deps)
    container: Facts = {}
    if inspection is not None:
        container = redacted(deps.inside.container_facts(inspection))
        text = json.dumps({name: field.model_dump(mode="json") for name, field in container.items()}, indent=1)
        ref = deps.spool.save_text(request.job_id, "container-facts.json", text.encode(), media_type="application/json")
        saved["container-facts"] = ref.sha256
    return Done(
        CollectFacts(
            saved=saved,
            missing=missing,
            container=container,
            command=_command(inspection),
            finding=_finding(scenes, container, deps),
            redactions=redactions,
        )
    )


def _command(inspection: dict[str, Any] | None) -> Baseline | None:
    """Return the container's command as a baseline, without its secrets; None when it cannot be read as one."""
    if inspection is None:
        return None
    try:
        return as_given(read_command(json.dumps([inspection])))
    except InputError:
        return None


def _save(job_id: str, scenes: Sequence[Scene], deps: Deps) -> tuple[dict[str, str], dict[str, str], int]:
    saved: dict[str, str] = {}
    missing: dict[str, str] = {}
    redactions = 0
    for scene in scenes:
        if scene.text is None:
            missing[scene.role] = clean(scene.why, {})
            continue
        ref = deps.spool.save_text(job_id, scene.name, scene.text, media_type=scene.media_type)
        saved[scene.role] = ref.sha256
        redactions += ref.redactions
    return saved, missing, redactions


def _finding(scenes: Sequence[Scene], container: Facts, deps: Deps) -> Finding | None:
    log = next((scene.text for scene in scenes if scene.role == LOG_ROLE and scene.text), None)
    error = container.get("container.error", read(None))
    if log is None and error.status is FieldStatus.OK:
        log = str(error.value).encode()
    if log is None:
        return None
    return analyse_text(
        clean(log.decode(errors="replace"), {}),
        deps.catalogue(),
        exit_code=value_of(container, "container.exit_code"),
        oom_killed=value_of(container, "container.oom_killed"),
    )
