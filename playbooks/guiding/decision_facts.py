"""What a decision turns on: facts of the record and answers of people, as one value that a file can state too.

`facts_of` reads them from a case. `None` always means "not known", never "no". What follows from them is `decision`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from playbooks import safe_yaml
from playbooks.errors import InvalidDefinition
from playbooks.evidence import entries as e
from playbooks.guiding import seen
from playbooks.guiding.case import Case, Noted
from playbooks.vocabulary import DecisionKind, DriverVerdict, ErrorClass, Outcome, Stage

RECIPE_SNAPSHOT = "recipe "
"""Begins the name of a snapshot that is an imported recipe, chosen by the model of the case's command."""
FACTS_SCHEMA = "baseline-facts/1"
UNKNOWN_OWNER = frozenset({"", "unknown", "nobody", "?", "n/a"})
_YES = frozenset({"yes", "y", "true", "是", "可以", "能"})
_NO = frozenset({"no", "n", "false", "none", "否", "不", "不能", "不可以"})


class DecisionFacts(BaseModel):
    """Facts and answers; every field may be left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stage: Stage | None = Field(None, description="First failing stage of the newest attempt; `none` = it was ready.")
    error_class: ErrorClass | None = Field(
        None, description="Its error class; `none` = a success, `unknown` = no honest answer."
    )
    points_to: DecisionKind | None = Field(
        None, description="The usual next action of that class, or what the log itself holds evidence for."
    )
    outcome: Outcome | None = Field(None, description="How the newest attempt ended.")
    attempts: int = Field(0, ge=0, description="Attempts of the newest baseline that were observed.")
    score: Literal[0, 1, 2] | None = Field(None, description="Stability score of the newest two.")
    unstable_scores: int = Field(0, ge=0, description="Scores below 2 in a row, the newest last.")
    one_cause: bool = Field(default=False, description="The two root lines differ and are of one cause.")
    recorded_only: bool = Field(
        default=False, description="All attempts are logs from elsewhere, taken as one baseline on a person's word."
    )
    stable_ready_before: bool = Field(
        default=False, description="An earlier baseline was ready twice, and exactly one variable was changed since."
    )
    driver_verdict: DriverVerdict | None = Field(
        None, description="May the loaded driver run the image's CUDA; left out = not judged."
    )
    driver_needed: bool = Field(default=True, description="False when the engine is built without CUDA.")
    driver_grounds: tuple[str, ...] = Field((), description="Grounds of the verdict.")
    boundary_age_days: int | None = Field(None, ge=0, description="Age of the boundary data.")
    boundary_limit_days: int = Field(
        30, gt=0, description="Boundary data older than this is checked again before a driver is changed."
    )
    hardware_below: str = Field(
        "", description="In words: how the hardware misses the official minimum; empty = it does not."
    )
    engine_below: str = Field(
        "", description="In words: how the engine misses the official minimum; empty = it does not."
    )
    official_image_for_driver: bool | None = Field(
        None, description="An official image for the loaded driver's CUDA exists."
    )
    sides_disagree: bool = Field(
        default=False, description="Host and container contradict each other in the newest fingerprint."
    )
    other_tenants: bool | None = Field(None, description="Other work was seen on the GPUs during the attempts.")
    regression: Literal["stable", "unstable", "once", "failed", "inconclusive"] | None = Field(
        None, description="Verdict on the fixed request."
    )
    official_image: bool | None = Field(None, description="Answer: the official image was used, unmodified.")
    cluster_owner: str | None = Field(None, description="Answer: who owns the cluster; `unknown` = nobody can say.")
    node_drain: bool | None = Field(None, description="Answer: the node may be drained.")
    maintenance_window: Literal["now", "scheduled", "none"] | None = Field(
        None, description="Answer: the maintenance window."
    )
    change_rollback: bool | None = Field(
        None, description="Answer: the change can be rolled back, with a restore document."
    )
    jobs_affected: bool | None = Field(None, description="Answer: running jobs are harmed.")
    recovery_goal: Literal["now", "can-wait"] | None = Field(
        None, description="Answer: the endpoint is needed now, or can wait for the window."
    )
    fork_team: bool | None = Field(None, description="Answer: a team with a release process would maintain a fork.")
    model_stays: bool | None = Field(None, description="Answer: the model is to stay on this cluster.")
    versions_frozen: bool | None = Field(None, description="Answer: versions can be frozen on this cluster.")
    other_jobs_disturb: bool | None = Field(None, description="Answer: other jobs disturb the rounds.")
    isolated_environment: bool | None = Field(
        None, description="Answer: an exclusive environment that meets the boundaries is available."
    )
    boundary_rechecked: bool | None = Field(None, description="Answer: the boundaries were checked again.")
    evidence: dict[str, int] = Field({}, description="Evidence number by fact name; filled from a case.")

    @property
    def owner_known(self) -> bool:
        """Whether somebody is named who answers for the cluster."""
        return self.cluster_owner is not None and self.cluster_owner.strip().lower() not in UNKNOWN_OWNER


ANSWER_ITEMS = {
    "node_drain": "node-drain",
    "maintenance_window": "maintenance-window",
    "recovery_goal": "recovery-goal",
    "cluster_owner": "cluster-owner",
    "change_rollback": "change-rollback",
    "model_stays": "model-stays",
    "jobs_affected": "jobs-affected",
    "other_jobs_disturb": "other-jobs-disturb",
    "versions_frozen": "versions-frozen",
    "fork_team": "fork-team",
    "isolated_environment": "isolated-environment",
    "official_image": "official-image",
    "boundary_rechecked": "boundary-rechecked",
}
"""Fact to checklist item, cheapest first: the order in which they are asked."""
_CHOICES = {
    "maintenance_window": frozenset({"now", "scheduled", "none"}),
    "recovery_goal": frozenset({"now", "can-wait"}),
}


def parse_facts(data: bytes, *, file: str) -> DecisionFacts:
    """Return the facts that a YAML file states.

    Raises:
        InvalidDefinition: not such a file; the message holds file, fact and expected form.
    """
    try:
        content = safe_yaml.load(data)
    except safe_yaml.YamlFaults as error:
        raise InvalidDefinition(f"{file}: not YAML: {getattr(error, 'problem', None) or error}") from error
    if not isinstance(content, dict) or content.get("schema") != FACTS_SCHEMA:
        raise InvalidDefinition(f"{file}: expected a mapping that begins with schema: {FACTS_SCHEMA}")
    try:
        return DecisionFacts.model_validate({str(key): part for key, part in content.items() if key != "schema"})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            raise InvalidDefinition(f"{file}: {place}: no such fact; `baseline rules` lists them") from error
        raise InvalidDefinition(f"{file}: {place}: {first['msg']}, found {first['input']!r}") from error


def facts_of(case: Case, usual: Mapping[ErrorClass, DecisionKind] | None = None) -> DecisionFacts:
    """Return the facts of a case, each with the entry it stands in.

    usual: the usual next action of each error class; used where the finding names none.
    """
    facts: dict[str, Any] = {}
    evidence: dict[str, int] = {}
    for name, seq, value in (*_attempt_facts(case), *_driver_facts(case), *_other_facts(case), *_answers(case)):
        if value is not None:
            facts[name] = value
            if seq is not None:
                evidence[name] = seq
    return with_usual(DecisionFacts(**facts, evidence=evidence), usual or {})


def with_usual(facts: DecisionFacts, usual: Mapping[ErrorClass, DecisionKind]) -> DecisionFacts:
    """Return the facts with the usual next action of their error class, unless they state one."""
    if facts.points_to is not None or facts.error_class is None or facts.error_class not in usual:
        return facts
    return facts.model_copy(update={"points_to": usual[facts.error_class]})


Fact = tuple[str, int | None, Any]


def _attempt_facts(case: Case) -> list[Fact]:
    newest = seen.newest_attempt(case)
    if newest is None:
        return []
    finding, seq = newest.payload.finding, newest.seq
    attempts = seen.attempts_of(case, newest.payload.baseline_digest)
    observed = [noted for noted in attempts if noted.payload.outcome is not Outcome.NOT_OBSERVED]
    score = seen.newest_score(case)
    tenants = next((noted for noted in reversed(attempts) if noted.payload.tenants), None)
    facts: list[Fact] = [
        ("outcome", seq, newest.payload.outcome),
        ("attempts", seq, len(observed)),
        ("recorded_only", seq, all(noted.payload.origin == "recorded" for noted in attempts)),
        ("other_tenants", (tenants or newest).seq, tenants is not None),
        ("unstable_scores", None, _unstable(seen.scores_of(case, newest.payload.baseline_digest))),
        ("stable_ready_before", None, _changed_since_ready(case, newest)),
    ]
    if newest.payload.outcome is not Outcome.NOT_OBSERVED:
        facts += [
            ("stage", seq, finding.get("stage")),
            ("error_class", seq, finding.get("error_class")),
            ("points_to", seq, finding.get("decision")),
        ]
    if score is not None:
        facts += [("score", score.seq, score.payload.score), ("one_cause", score.seq, score.payload.one_cause)]
    return facts


def _unstable(scores: tuple[Noted[e.ScoreGiven], ...]) -> int:
    count = 0
    for noted in reversed(scores):
        if noted.payload.score is None:
            continue
        if noted.payload.score == 2:
            break
        count += 1
    return count


def _changed_since_ready(case: Case, newest: Noted[e.AttemptRecorded]) -> bool:
    frozen = next((n for n in reversed(case.baselines) if n.payload.digest == newest.payload.baseline_digest), None)
    if frozen is None or frozen.payload.change is None:
        return False
    before = seen.last_stable_ready(case, before=frozen.seq)
    if before is None:
        return False
    ready = {n.payload.attempt: n.payload.baseline_digest for n in case.attempts}
    earlier = [n for n in case.baselines if n.seq < frozen.seq]
    return bool(earlier) and earlier[-1].payload.digest == ready.get(before.payload.later)


def _driver_facts(case: Case) -> list[Fact]:
    cpu = seen.cpu_build(case)
    facts: list[Fact] = [("driver_needed", cpu.seq, False)] if cpu is not None else []
    if case.boundary is not None:
        boundary = case.boundary.payload
        seq = case.boundary.seq
        facts += [
            ("driver_verdict", seq, boundary.verdict),
            ("driver_grounds", seq, tuple(boundary.grounds)),
            ("boundary_age_days", seq, boundary.age_days),
        ]
        if any(finding.get("id") == "official-image-for-driver" for finding in boundary.findings):
            facts.append(("official_image_for_driver", seq, True))
        # Minima of a model hold for that model alone: those of another snapshot say nothing about this case.
        if boundary.snapshot.startswith((case.opened.payload.playbook, RECIPE_SNAPSHOT)):
            facts += [(name, seq, _below(boundary, ids)) for name, ids in _MINIMA.items()]
    return facts


_MINIMA = {
    "hardware_below": frozenset({"hardware-floor", "architecture"}),
    "engine_below": frozenset({"vllm-below-minimum"}),
}


def _below(boundary: e.BoundaryJudged, ids: frozenset[str]) -> str | None:
    texts = [str(finding.get("text", finding["id"])) for finding in boundary.findings if finding.get("id") in ids]
    return " ".join(texts) or None


def _other_facts(case: Case) -> list[Fact]:
    facts: list[Fact] = []
    if case.fingerprints:
        newest = case.fingerprints[-1]
        facts.append(("sides_disagree", newest.seq, bool(newest.payload.disagreements)))
    attempt = seen.newest_attempt(case)
    asked = [n for n in case.requests if attempt is not None and n.payload.attempt == attempt.payload.attempt]
    if asked:
        facts.append(("regression", asked[-1].seq, asked[-1].payload.verdict))
    return facts


def _answers(case: Case) -> list[Fact]:
    facts: list[Fact] = []
    for name, item in ANSWER_ITEMS.items():
        if (noted := case.answers.get(item)) is not None:
            facts.append((name, noted.seq, _value(name, noted.payload.value.strip())))
    return facts


def _value(name: str, text: str) -> str | bool | None:
    """Return an answer as the fact's value; what is none of the choices stays unknown."""
    if name == "cluster_owner":
        return text
    word = text.lower()
    if name in _CHOICES:
        return word if word in _CHOICES[name] else None
    if word in _YES:
        return True
    return False if word in _NO else None
