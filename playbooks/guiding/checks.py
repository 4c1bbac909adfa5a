"""How a playbook's item is judged: named predicates over a case, with typed parameters, joined by `all`, `any`, `not`.

No expressions and no templates: what a YAML file can say is the table of predicates below. A judged check carries its
grounds, so that an item closes itself with the number of the evidence that closes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from playbooks.errors import InvalidDefinition
from playbooks.guiding import seen
from playbooks.guiding.add_back import add_back_of
from playbooks.guiding.case import Case
from playbooks.judging.ladder import LadderVerdict
from playbooks.judging.prefix_cache import CacheVerdict
from playbooks.vocabulary import DriverVerdict, FieldStatus


@dataclass(frozen=True, slots=True)
class Proof:
    """A check as judged: does it hold, by which entry, and what was seen there."""

    holds: bool
    evidence: int | None = None
    value: str | None = None


class Params(BaseModel):
    """Base of the predicates' parameters."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class FieldsParams(Params):
    """Fields of one side; `need: any` is content with one of them."""

    side: Literal["host", "container"]
    names: tuple[str, ...]
    need: Literal["all", "any"] = "all"


class ContainsParams(Params):
    """Fields of one side, one of which holds a text."""

    side: Literal["host", "container"]
    names: tuple[str, ...]
    text: str


class RolesParams(Params):
    """Roles of a scene's files, any of which is enough."""

    roles: tuple[str, ...]


class EnginesParams(Params):
    """Engine kinds."""

    kinds: tuple[Literal["docker", "process", "attach", "recorded"], ...]


class VerdictsParams(Params):
    """Driver verdicts."""

    verdicts: tuple[DriverVerdict, ...]


class RequestParams(Params):
    """Verdicts on the fixed request."""

    verdicts: tuple[Literal["stable", "unstable", "once", "failed", "inconclusive"], ...]


class OptionParams(Params):
    """An option of the engine that was brought back; empty = any."""

    option: str = ""


class CacheParams(Params):
    """Verdicts on the prefix cache."""

    verdicts: tuple[CacheVerdict, ...]


class LadderParams(Params):
    """Verdicts on the pressure ladder."""

    verdicts: tuple[LadderVerdict, ...]


class CountParams(Params):
    """A number to reach."""

    at_least: int


class ItemParams(Params):
    """An item of the playbook."""

    item: str


@dataclass(frozen=True, slots=True)
class Check:
    """A node of a check: a join of checks (`all`, `any`, `not`), or a predicate with its parameters."""

    name: str
    params: Params = field(default_factory=Params)
    parts: tuple[Check, ...] = ()

    def judge(self, case: Case) -> Proof:
        """Judge the case; the grounds of a join are those of the part that settled it, newest first."""
        if self.name not in JOINS:
            return PREDICATES[self.name][1](case, self.params)
        proofs = [part.judge(case) for part in self.parts]
        if self.name == "not":
            return Proof(holds=not proofs[0].holds)
        if self.name == "any":
            return next((proof for proof in proofs if proof.holds), Proof(holds=False))
        if not all(proof.holds for proof in proofs):
            return Proof(holds=False)
        return Proof(
            holds=True,
            evidence=max((proof.evidence for proof in proofs if proof.evidence is not None), default=None),
            value=" · ".join(proof.value for proof in proofs if proof.value) or None,
        )


JOINS = frozenset({"all", "any", "not"})


def parse_check(data: Any, place: str) -> Check:
    """Return the check that a definition states.

    Raises:
        InvalidDefinition: not a check; the message holds the place and the expected form.
    """
    if not isinstance(data, dict):
        raise InvalidDefinition(f"{place}: expected a mapping with check, all, any or not, found {data!r}")
    if joins := sorted(JOINS & data.keys()):
        name = joins[0]
        if len(data) > 1:
            raise InvalidDefinition(f"{place}: {name} stands alone, found beside it {sorted(data.keys() - {name})}")
        parts = data[name] if name != "not" else [data[name]]
        if not isinstance(parts, list) or not parts:
            raise InvalidDefinition(f"{place}.{name}: expected a list of checks, found {data[name]!r}")
        return Check(name, parts=tuple(parse_check(part, f"{place}.{name}[{n}]") for n, part in enumerate(parts)))
    name = str(data.get("check"))
    if name not in PREDICATES:
        raise InvalidDefinition(f"{place}.check: no predicate {name!r}; there are: {', '.join(sorted(PREDICATES))}")
    try:
        params = PREDICATES[name][0].model_validate({key: part for key, part in data.items() if key != "check"})
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidDefinition(f"{place}.{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    return Check(name, params)


def _field_read(case: Case, params: FieldsParams) -> Proof:
    found = [seen.field(case, params.side, name) for name in params.names]
    read = [one for one in found if one is not None and one.was_read]
    if len(read) < (len(params.names) if params.need == "all" else 1):
        return Proof(holds=False)
    return Proof(holds=True, evidence=max(one.seq for one in read), value=", ".join(one.text for one in read))


def _field_present(case: Case, params: FieldsParams) -> Proof:
    found = [seen.field(case, params.side, name) for name in params.names]
    there = [one for one in found if one is not None and one.status is FieldStatus.OK]
    if len(there) < (len(params.names) if params.need == "all" else 1):
        return Proof(holds=False)
    return Proof(holds=True, evidence=max(one.seq for one in there), value=", ".join(one.text for one in there))


def _field_contains(case: Case, params: ContainsParams) -> Proof:
    for name in params.names:
        one = seen.field(case, params.side, name)
        if one is not None and one.status is FieldStatus.OK and params.text in str(one.value):
            return Proof(holds=True, evidence=one.seq, value=one.text)
    return Proof(holds=False)


def _scene_saved(case: Case, params: RolesParams) -> Proof:
    for noted in reversed(case.scenes):
        if roles := [role for role in params.roles if role in noted.payload.saved]:
            return Proof(holds=True, evidence=noted.seq, value=", ".join(roles))
    return Proof(holds=False)


def _log_kept(case: Case, _params: Params) -> Proof:
    logs = [(n.seq, n.payload.log_name or "log") for n in case.attempts if n.payload.log_sha256]
    logs += [(n.seq, n.payload.name) for n in case.analysed]
    logs += [(n.seq, "container log") for n in case.scenes if "log" in n.payload.saved]
    if not logs:
        return Proof(holds=False)
    seq, name = max(logs)
    return Proof(holds=True, evidence=seq, value=name)


def _command_recorded(case: Case, _params: Params) -> Proof:
    for noted in reversed(case.baselines):
        if noted.payload.baseline.get("argv"):
            return Proof(holds=True, evidence=noted.seq, value=f"baseline {noted.payload.digest[:12]}")
    command = seen.field(case, "container", "container.cmd")
    if command is not None and command.status is FieldStatus.OK:
        return Proof(holds=True, evidence=command.seq, value="command of the container")
    if case.opened.payload.command.strip():
        return Proof(holds=True, evidence=case.opened.seq, value="command as pasted")
    return Proof(holds=False)


def _engine_is(case: Case, params: EnginesParams) -> Proof:
    engine = seen.engine_of(case)
    return Proof(holds=engine in params.kinds, value=engine)


def _no_node(case: Case, _params: Params) -> Proof:
    return Proof(holds=case.opened.payload.node is None)


def _cpu_build(case: Case, _params: Params) -> Proof:
    one = seen.cpu_build(case)
    return Proof(holds=False) if one is None else Proof(holds=True, evidence=one.seq, value=one.text)


def _sides_compared(case: Case, _params: Params) -> Proof:
    seq = seen.container_read(case)
    if seq is None:
        return Proof(holds=False)
    noted = next(noted for noted in case.fingerprints if noted.seq == seq)
    count = len(noted.payload.disagreements)
    return Proof(holds=True, evidence=seq, value=f"{count} disagreements" if count else "both sides agree")


def _driver_verdict(case: Case, params: VerdictsParams) -> Proof:
    if case.boundary is None:
        return Proof(holds=False)
    verdict = case.boundary.payload.verdict
    return Proof(holds=verdict in params.verdicts, evidence=case.boundary.seq, value=verdict.value)


def _baseline_frozen(case: Case, _params: Params) -> Proof:
    if not case.baselines:
        return Proof(holds=False)
    newest = case.baselines[-1]
    return Proof(holds=True, evidence=newest.seq, value=f"baseline {newest.payload.digest[:12]}")


def _attempts(case: Case, params: CountParams) -> Proof:
    newest = seen.newest_attempt(case)
    if newest is None:
        return Proof(holds=False)
    found = seen.attempts_of(case, newest.payload.baseline_digest)
    return Proof(
        holds=len(found) >= params.at_least, evidence=newest.seq, value=f"{len(found)} attempts of one baseline"
    )


def _score(case: Case, params: CountParams) -> Proof:
    noted = seen.newest_score(case)
    if noted is None or noted.payload.score is None:
        return Proof(holds=False)
    return Proof(holds=noted.payload.score >= params.at_least, evidence=noted.seq, value=f"score {noted.payload.score}")


def _request_verdict(case: Case, params: RequestParams) -> Proof:
    if not case.requests:
        return Proof(holds=False)
    newest = case.requests[-1]
    return Proof(
        holds=newest.payload.verdict in params.verdicts,
        evidence=newest.seq,
        value=f"{newest.payload.verdict}, {newest.payload.complete} of {newest.payload.of}",
    )


def _added_back(case: Case, params: OptionParams) -> Proof:
    found = add_back_of(case)
    if found is None or found.state != "done" or found.moved or not found.variable.endswith(params.option):
        return Proof(holds=False)
    records = " ".join(f"#{seq}" for seq in (found.launch, found.request, found.probe, found.check) if seq is not None)
    return Proof(holds=True, evidence=found.check, value=records)


def _cache_verdict(case: Case, params: CacheParams) -> Proof:
    if not case.cache_probes:
        return Proof(holds=False)
    newest = case.cache_probes[-1]
    return Proof(holds=newest.payload.verdict in params.verdicts, evidence=newest.seq, value=newest.payload.verdict)


def _ladder_verdict(case: Case, params: LadderParams) -> Proof:
    if not case.ladders:
        return Proof(holds=False)
    newest = case.ladders[-1]
    return Proof(holds=newest.payload.verdict in params.verdicts, evidence=newest.seq, value=newest.payload.verdict)


def _decision_proposed(case: Case, _params: Params) -> Proof:
    found = seen.standing_proposal(case) or seen.approved_proposal(case)
    return (
        Proof(holds=False) if found is None else Proof(holds=True, evidence=found.seq, value=found.payload.kind.value)
    )


def _decision_approved(case: Case, _params: Params) -> Proof:
    found = seen.approved_proposal(case)
    if found is None:
        return Proof(holds=False)
    return Proof(holds=True, evidence=case.approvals[-1].seq, value=found.payload.kind.value)


def _answered(case: Case, params: ItemParams) -> Proof:
    noted = case.answers.get(params.item)
    if noted is None or not noted.payload.value.strip():
        return Proof(holds=False)
    return Proof(holds=True, evidence=noted.seq, value=noted.payload.value)


PREDICATES: dict[str, tuple[type[Params], Callable[[Case, Any], Proof]]] = {
    "added_back": (OptionParams, _added_back),
    "answered": (ItemParams, _answered),
    "attempts": (CountParams, _attempts),
    "cache_verdict": (CacheParams, _cache_verdict),
    "baseline_frozen": (Params, _baseline_frozen),
    "command_recorded": (Params, _command_recorded),
    "cpu_build": (Params, _cpu_build),
    "decision_approved": (Params, _decision_approved),
    "decision_proposed": (Params, _decision_proposed),
    "driver_verdict": (VerdictsParams, _driver_verdict),
    "engine_is": (EnginesParams, _engine_is),
    "field_contains": (ContainsParams, _field_contains),
    "field_present": (FieldsParams, _field_present),
    "field_read": (FieldsParams, _field_read),
    "ladder_verdict": (LadderParams, _ladder_verdict),
    "log_kept": (Params, _log_kept),
    "no_node": (Params, _no_node),
    "request_verdict": (RequestParams, _request_verdict),
    "scene_saved": (RolesParams, _scene_saved),
    "score": (CountParams, _score),
    "sides_compared": (Params, _sides_compared),
}
