"""The held engine that a request or a probe is for: where it answers, with which access, and whether it lives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from playbooks.messages import JobRequest
from workers.errors import NotHeld
from workers.jobs.deps import Deps
from workers.jobs.holding import ref_of
from workers.jobs.launch import access_headers
from workers.policy import allow_launch
from workers.ports import EngineRef


@dataclass(frozen=True, slots=True)
class HeldTarget:
    """Where an attempt's engine answers. secrets: the node's own values, which leave it nowhere."""

    endpoint: str
    headers: Mapping[str, str]
    secrets: Mapping[str, str]
    ref: EngineRef
    deps: Deps

    def lives(self) -> bool:
        """Whether the engine's process is there."""
        return self.deps.engines[self.ref.engine].find(self.ref) is not None


def held_target(job: JobRequest, deps: Deps, attempt: int) -> HeldTarget:
    """Find the held engine of an attempt: a request names an attempt, never an address.

    Raises:
        NotHeld: no engine of that attempt is held here, or it has ended.
    """
    row = next(iter(deps.journal.held(incident=job.incident, attempt=attempt)), None)
    if row is None or row.held is None:
        raise NotHeld(f"expected a held engine of attempt {attempt}, found none on {deps.node}")
    ref = ref_of(row)
    if deps.engines[ref.engine].find(ref) is None:
        raise NotHeld(f"the engine of attempt {attempt} ({ref.what}) has ended by itself")
    launched = deps.journal.job(row.job_id)
    allowed = allow_launch(launched.request, deps.policy) if launched is not None else None
    headers = access_headers(allowed) if allowed is not None else {}
    secrets = allowed.secrets if allowed is not None else {}
    return HeldTarget(row.held.endpoint, headers, secrets, ref, deps)
