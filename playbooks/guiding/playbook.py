"""A playbook: the versioned procedure as data, read from YAML and validated, never executed.

Its phases hold steps; a step is one item of the checklist, with the check that closes it. What this version of the product
carries out is said here, in code: a YAML file cannot claim more.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import rfc8785
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from playbooks import safe_yaml
from playbooks.errors import InvalidDefinition
from playbooks.guiding.checks import Check, parse_check
from playbooks.judging.baseline import FixedSample
from playbooks.judging.baseline_diff import TOGETHER
from playbooks.judging.feature_facts import Feature
from playbooks.vocabulary import JobKind, Phase, Stage

SCHEMA = "baseline-playbook/1"
_KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class StepKind(StrEnum):
    """What a step asks for (design §2)."""

    ANSWER = "answer"
    COLLECT = "collect"
    FINGERPRINT = "fingerprint"
    LAUNCH = "launch"
    REQUEST = "request"
    LADDER = "ladder"
    ADD_BACK = "add_back"
    PROBE = "probe"
    DECIDE = "decide"
    CHANGE = "change"
    OBSERVE = "observe"

    @property
    def carried_out(self) -> bool:
        """Whether this version carries such a step out; the others are declared, and refused in words."""
        return self not in _NOT_CARRIED_OUT

    @property
    def job(self) -> JobKind | None:
        """The job that proves such a step; None for what people say and decide."""
        return _JOBS.get(self)


_NOT_CARRIED_OUT = frozenset({StepKind.CHANGE, StepKind.OBSERVE})
_JOBS = {
    StepKind.COLLECT: JobKind.COLLECT,
    StepKind.FINGERPRINT: JobKind.FINGERPRINT,
    StepKind.LAUNCH: JobKind.LAUNCH,
    StepKind.REQUEST: JobKind.REQUEST,
    StepKind.LADDER: JobKind.LADDER,
    StepKind.PROBE: JobKind.CACHE_PROBE,
}
NOT_CARRIED_OUT = "Not carried out by this version of Baseline."


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class Step(_Value):
    """One item of the checklist. Texts are English sources, looked up by translations."""

    id: str
    kind: StepKind
    requirement: str
    """Row of the requirements it serves, `R1.3`."""
    label: str
    why: str
    how: str
    choices: tuple[str, ...] = ()
    """Values offered to a person; empty = free text."""
    done_when: Check | None = None
    not_needed_when: Check | None = None
    not_needed_why: str = ""
    answerable: bool = True
    """Whether a person's value closes it where no machine can read it; a verdict is never a person's tick."""

    @field_validator("id")
    @classmethod
    def _kebab(cls, value: str) -> str:
        if not _KEBAB.fullmatch(value):
            raise ValueError(f"expected kebab-case such as host-driver, found {value!r}")
        return value

    @model_validator(mode="after")
    def _whole(self) -> Step:
        if self.kind is not StepKind.ANSWER and self.kind.carried_out and self.done_when is None:
            raise ValueError(f"step {self.id}: a step of kind {self.kind.value} needs done_when")
        if (self.not_needed_when is None) != (not self.not_needed_why):
            raise ValueError(f"step {self.id}: not_needed_when and not_needed_why go together")
        return self


class PhaseSteps(_Value):
    """A phase and its steps, in the order in which they are asked."""

    id: Phase
    title: str
    steps: tuple[Step, ...]

    @property
    def carried_out(self) -> bool:
        """Whether this version carries out at least one of its steps."""
        return any(step.kind.carried_out for step in self.steps)


class StageLimits(_Value):
    """How long a stage may be silent, and how long it may take."""

    silence_s: int = Field(gt=0)
    total_s: int = Field(gt=0)


class LaunchLimits(_Value):
    """Bounds of a launch; dumps to what `playbooks.messages.Limits` reads."""

    total_s: int = Field(gt=0)
    stages: dict[Stage, StageLimits]


class Sample(_Value):
    """The fixed request (R7.1)."""

    path: str
    body: dict[str, Any]
    runs: int = Field(ge=2)
    timeout_s: int = Field(gt=0)

    @field_validator("body")
    @classmethod
    def _capped(cls, body: dict[str, Any]) -> dict[str, Any]:
        if type(body.get("max_tokens")) is not int:
            raise ValueError("the fixed request needs a whole number max_tokens (R7.1)")
        return body


class FeatureBack(_Value):
    """A feature that comes back alone on the stable baseline, after prefix caching (R8).

    options: what it sets, `on` for a switch; several must be one variable. probe: what proves it.
    """

    id: str
    label: str
    options: dict[str, str] = Field(min_length=1)
    probe: Feature

    @field_validator("options")
    @classmethod
    def _one_variable(cls, value: dict[str, str]) -> dict[str, str]:
        together = {frozenset(options) for options in TOGETHER.values()}
        if len(value) > 1 and frozenset(value) not in together:
            raise ValueError(f"expected one option, or options that are one variable, found {', '.join(value)}")
        return value

    @property
    def variable(self) -> str:
        """What the change is called that brings it."""
        names = frozenset(self.options)
        together = next((name for name, options in TOGETHER.items() if names == frozenset(options)), None)
        return together if together is not None and len(names) > 1 else f"argument {next(iter(self.options))}"


class Playbook(_Value):
    """The procedure an incident is worked by."""

    schema_: str = Field(alias="schema")
    id: str
    title: str
    version: str
    boundaries: str | None
    """Id of the boundary data it is judged by; None = whatever recipe is imported."""
    sample: Sample
    limits: LaunchLimits
    excluded_options: tuple[str, ...]
    """Options that the first command must not hold (R4.2, R6.6)."""
    features: tuple[FeatureBack, ...] = ()
    """What comes back one after the other once prefix caching was judged, in this order."""
    phases: tuple[PhaseSteps, ...]
    sha256: str = ""

    @model_validator(mode="after")
    def _ordered(self) -> Playbook:
        if self.schema_ != SCHEMA:
            raise ValueError(f"expected schema {SCHEMA}, found {self.schema_!r}")
        order = list(Phase)
        places = [order.index(phase.id) for phase in self.phases]
        if places != sorted(set(places)):
            raise ValueError(f"phases: expected each once, in the order {', '.join(order)}")
        seen: set[str] = set()
        for step in self.steps():
            if step.id in seen:
                raise ValueError(f"step {step.id} appears twice")
            seen.add(step.id)
        return self

    def feature(self, name: str) -> FeatureBack | None:
        """Return the feature of that id, if there is one."""
        return next((found for found in self.features if found.id == name), None)

    def steps(self) -> Iterator[Step]:
        """Yield all steps in order."""
        for phase in self.phases:
            yield from phase.steps

    def step(self, item: str) -> Step | None:
        """Return the step of that id, if there is one."""
        return next((step for step in self.steps() if step.id == item), None)

    def phase(self, phase: Phase) -> PhaseSteps | None:
        """Return the phase, if the playbook has it."""
        return next((found for found in self.phases if found.id is phase), None)

    def fixed_sample(self, served_model: str | None = None) -> FixedSample:
        """Return the fixed request; `served_model` goes into its body, as an engine with several names wants it."""
        body = self.sample.body if served_model is None else {**self.sample.body, "model": served_model}
        return FixedSample(path=self.sample.path, body=rfc8785.dumps(body).decode())


def parse_playbook(data: bytes, *, file: str) -> Playbook:
    """Return the playbook that the bytes state; its `sha256` is their digest.

    Raises:
        InvalidDefinition: the bytes break the form; the message holds file, path and expected form.
    """
    try:
        content = safe_yaml.load(data)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f":{mark.line + 1}"
        raise InvalidDefinition(f"{file}{line}: not YAML: {getattr(error, 'problem', None) or error}") from error
    if not isinstance(content, dict):
        raise InvalidDefinition(f"{file}: expected a mapping that begins with schema: {SCHEMA}")
    _parse_checks(content, file)
    try:
        return Playbook.model_validate({**content, "sha256": hashlib.sha256(data).hexdigest()})
    except ValidationError as error:
        first = error.errors()[0]
        place = _place(first["loc"])
        raise InvalidDefinition(f"{file}: {place}{first['msg'].removeprefix('Value error, ')}") from error


def _place(location: tuple[int | str, ...]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")
    return f"{text}: " if text else ""


def _parse_checks(content: dict[str, Any], file: str) -> None:
    """Put parsed checks in the place of their YAML; what is no step at all is left to the model's own message."""
    for number, phase in enumerate(content.get("phases") or ()):
        for place, step in enumerate(phase.get("steps") or () if isinstance(phase, dict) else ()):
            for key in ("done_when", "not_needed_when"):
                if isinstance(step, dict) and step.get(key) is not None:
                    step[key] = parse_check(step[key], f"{file}: phases[{number}].steps[{place}].{key}")


def source_texts(playbook: Playbook) -> tuple[str, ...]:
    """Return every text of the playbook that people read, for the catalogue of translations."""
    texts = [playbook.title, NOT_CARRIED_OUT, *(feature.label for feature in playbook.features)]
    for phase in playbook.phases:
        texts.append(phase.title)
        for step in phase.steps:
            texts += [step.label, step.why, step.how, step.not_needed_why]
    return tuple(dict.fromkeys(text for text in texts if text))


def as_json(playbook: Playbook) -> dict[str, Any]:
    """Return the playbook as plain JSON: phases and items without their checks."""
    data: dict[str, Any] = json.loads(playbook.model_dump_json(by_alias=True, exclude={"phases"}))
    data["phases"] = [
        {
            "id": phase.id.value,
            "title": phase.title,
            "carried_out": phase.carried_out,
            "steps": [
                step.model_dump(mode="json", exclude={"done_when", "not_needed_when"})
                | {"carried_out": step.kind.carried_out}
                for step in phase.steps
            ],
        }
        for phase in playbook.phases
    ]
    return data
