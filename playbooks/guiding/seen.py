"""What a case has seen: fields of its fingerprints and scenes, its newest attempts, its running jobs.

Looks things up, and judges nothing. The newest record that read a field counts, so that a fingerprint of the host alone
does not hide what an earlier one read in the container.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from playbooks.evidence import entries as e
from playbooks.guiding.case import Case, Noted
from playbooks.vocabulary import ErrorClass, FieldStatus, JobKind, Outcome

Side = Literal["host", "container"]
_TOO_LARGE = frozenset(
    {
        ErrorClass.OOM_WEIGHT_LOAD.value,
        ErrorClass.OOM_ENGINE_INIT.value,
        ErrorClass.KV_CACHE_NO_MEMORY.value,
        ErrorClass.KV_CACHE_BELOW_MAX_LEN.value,
    }
)
"""What says that a model does not fit on one node whose CUDA works."""
_READ = frozenset({FieldStatus.OK, FieldStatus.ABSENT})
"""Statuses that are an answer: a driver that is not there is a fact, one that may not be read is none."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A field as some record has it."""

    seq: int
    name: str
    status: FieldStatus
    value: Any

    @property
    def was_read(self) -> bool:
        """Whether the field was read, if only to find that it is absent."""
        return self.status in _READ

    @property
    def text(self) -> str:
        """The field in words."""
        return f"{self.name} {self.value}" if self.status is FieldStatus.OK else f"{self.name} {self.status.value}"


def field(case: Case, side: Side, pattern: str) -> Seen | None:
    """Return the newest reading of the first field that matches; one that could not be read only when none could.

    pattern: a dotted name; `*` stands for one part of it (`gpu.*.uuid`).
    """
    unread: Seen | None = None
    for seq, facts in _records(case, side):
        for seen in _matching(seq, facts, pattern):
            if seen.was_read:
                return seen
            unread = unread or seen
    return unread


def value(case: Case, side: Side, name: str) -> Any:
    """Return the value of a field that was read and is there, else None."""
    found = field(case, side, name)
    return found.value if found is not None and found.status is FieldStatus.OK else None


def container_read(case: Case) -> int | None:
    """Return the newest fingerprint that has a container side, if any."""
    return next((noted.seq for noted in reversed(case.fingerprints) if noted.payload.facts.get("container")), None)


def cpu_build(case: Case) -> Seen | None:
    """Return the field that shows an engine built without CUDA, so that no driver boundary applies; None = not shown."""
    cuda = field(case, "container", "torch.cuda")
    if cuda is not None and cuda.status is FieldStatus.ABSENT:
        return cuda
    for name in ("vllm.metadata_version", "vllm.version", "torch.version"):
        seen = field(case, "container", name)
        if seen is not None and seen.status is FieldStatus.OK and "cpu" in str(seen.value):
            return seen
    return None


def engine_of(case: Case) -> str | None:
    """Return the engine kind that the case is about: the newest baseline's, else what was fingerprinted or recorded."""
    if case.baselines:
        return str(case.baselines[-1].payload.baseline.get("engine"))
    for noted in reversed(case.fingerprints):
        source = noted.payload.facts.get("container_source")
        if source:
            return "process" if str(source).startswith("python") else "docker"
    if any(noted.payload.container for noted in case.scenes):
        return "docker"
    return "recorded" if case.attempts else None


def nodes_of(case: Case) -> tuple[str, ...]:
    """Return the case's nodes, head first; () when it has none."""
    opened = case.opened.payload
    return tuple(opened.nodes) or (() if opened.node is None else (opened.node,))


def one_node_clean(case: Case) -> bool:
    """Whether one node came up, or failed only because the model does not fit on it: CUDA and its one node are no question."""
    return any(_is_clean(noted.payload) for noted in case.attempts if len(noted.payload.ranks) < 2)


def _is_clean(attempt: e.AttemptRecorded) -> bool:
    if attempt.outcome is Outcome.READY:
        return True
    return attempt.outcome is Outcome.FAILED and attempt.finding.get("error_class") in _TOO_LARGE


def newest_attempt(case: Case) -> Noted[e.AttemptRecorded] | None:
    """Return the attempt with the highest number, judged last."""
    return max(case.attempts, key=lambda noted: (noted.payload.attempt, noted.seq), default=None)


def attempts_of(case: Case, digest: str) -> tuple[Noted[e.AttemptRecorded], ...]:
    """Return the attempts of one baseline in order of their number, each as it was judged last."""
    newest = {noted.payload.attempt: noted for noted in case.attempts}
    return tuple(newest[number] for number in sorted(newest) if newest[number].payload.baseline_digest == digest)


def scores_of(case: Case, digest: str) -> tuple[Noted[e.ScoreGiven], ...]:
    """Return the scores of one baseline's attempts in order of the later attempt, each as it was given last."""
    numbers = {noted.payload.attempt for noted in attempts_of(case, digest)}
    newest = {noted.payload.later: noted for noted in case.scores if noted.payload.later in numbers}
    return tuple(newest[number] for number in sorted(newest))


def newest_score(case: Case) -> Noted[e.ScoreGiven] | None:
    """Return the score of the newest attempt; None when that attempt has none yet."""
    attempt = newest_attempt(case)
    if attempt is None:
        return None
    scores = scores_of(case, attempt.payload.baseline_digest)
    return scores[-1] if scores and scores[-1].payload.later == attempt.payload.attempt else None


def last_stable_ready(case: Case, *, before: int) -> Noted[e.ScoreGiven] | None:
    """Return the newest score 2 of two ready attempts whose record stands before entry `before`."""
    ready = {noted.payload.attempt for noted in case.attempts if noted.payload.outcome is Outcome.READY}
    return next(
        (
            noted
            for noted in reversed(case.scores)
            if noted.seq < before and noted.payload.score == 2 and noted.payload.later in ready
        ),
        None,
    )


def running_jobs(case: Case) -> tuple[Noted[e.JobRequested], ...]:
    """Return the jobs that were asked for and have neither facts nor an end yet."""
    ended = case.answered_jobs | case.ended_jobs.keys()
    silent = {JobKind.STOP, JobKind.SWEEP}  # their end shows as `held:ended` or in the node's hello, never as facts
    return tuple(n for job, n in case.jobs.items() if job not in ended and n.payload.job_kind not in silent)


def tried(case: Case, kind: JobKind) -> bool:
    """Whether a job of this kind has come to an end, with or without facts."""
    ended = case.answered_jobs | case.ended_jobs.keys()
    return any(n.payload.job_kind is kind and job in ended for job, n in case.jobs.items())


def held_attempt(case: Case) -> int | None:
    """Return the attempt whose engine is held and not known to have ended."""
    ended = {noted.payload.attempt for noted in case.held_ended}
    held = (n.payload.attempt for n in case.attempts if n.payload.held_until is not None)
    return max((number for number in held if number not in ended), default=None)


def standing_proposal(case: Case) -> Noted[e.DecisionProposed] | None:
    """Return the newest proposal when it is neither judged nor void by a newer report."""
    if not case.proposals:
        return None
    newest = case.proposals[-1]
    judged = {n.payload.proposal for n in case.approvals} | {n.payload.proposal for n in case.rejections}
    return None if newest.seq in judged or newest.seq < case.newest_report else newest


def approved_proposal(case: Case) -> Noted[e.DecisionProposed] | None:
    """Return the proposal that was approved last, whether or not newer reports have arrived since."""
    if not case.approvals:
        return None
    number = case.approvals[-1].payload.proposal
    return next((noted for noted in case.proposals if noted.seq == number), None)


def _records(case: Case, side: Side) -> Iterator[tuple[int, Mapping[str, Any]]]:
    found = [(noted.seq, noted.payload.facts.get(side) or {}) for noted in case.fingerprints]
    if side == "container":
        found += [(noted.seq, noted.payload.container) for noted in case.scenes]
    yield from sorted(found, key=lambda record: record[0], reverse=True)


def _matching(seq: int, facts: Mapping[str, Any], pattern: str) -> Iterator[Seen]:
    if "*" not in pattern:
        names = [pattern] if pattern in facts else []
    else:
        names = sorted(name for name in facts if _regex(pattern).fullmatch(name))
    for name in names:
        data = facts[name]
        if isinstance(data, Mapping):
            yield Seen(seq, name, FieldStatus(data.get("status", FieldStatus.ERROR)), data.get("value"))


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", r"[^.]+"))
