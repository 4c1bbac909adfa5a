"""Incident states by the dice: records of any length and order, filled with the longest and worst texts people and logs bring.

Payloads are made from the annotations of their own models, so that a new kind or a new field is tried without a word here.
"""

from __future__ import annotations

import random
import types
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from bot.blocks import modals, notices, overview
from bot.blocks.dashboard import Dashboard, Running, dashboard
from bot.blocks.elements import Block, Message, Ref
from bot.blocks.evidence import Recorded, evidence
from bot.blocks.texts import Mrkdwn, Translate
from playbooks.catalog import load_playbook
from playbooks.evidence import entries as e
from playbooks.guiding.case import Case, Noted, fold
from playbooks.guiding.checklist import items, next_step
from playbooks.guiding.gate import evaluate
from playbooks.vocabulary import ErrorClass, JobKind, Stage
from tests.support.cases import CPU_CONTAINER, CPU_HOST, GPU_CONTAINER, GPU_HOST, Line, docker_baseline, finding

PLAYBOOKS = ("kimi-k3", "generic-vllm")
LONGEST = 6_000
"""Characters of the longest text; a paste field of Slack holds 3,000."""
_AT = datetime(2026, 12, 1, 2, 41, tzinfo=UTC)
_WORST = (
    "", " ", "x", "x" * LONGEST, "汉" * LONGEST, "\n" * 400, "`" * 300, "```\n" * 80, "<!channel> <@U0BOSS> <https://evil.example|click>",
    "&<>" * 900, "\x00\x1b[31mred\r\nnext", "*_~" * 500, "😀" * 900, "a.b.c/" * 700, "|".join("abcdefgh") * 200, "\u202eright to left",
)  # fmt: skip
_CASE_KINDS = tuple(model for model in e.PAYLOADS.values() if model is not e.IncidentOpened)


class Dice:
    """One seeded source of values for fields of any annotation."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self) -> str:
        """Return a text that somebody may have written, mostly long or odd."""
        words = self.random.randrange(1, 40)
        return self.random.choice((*_WORST, " ".join(["CUDA error: device-side assert"] * words), "a short text"))

    def payload(self, model: type[e.Payload], case: Case | None) -> e.Payload:
        """Return a valid payload of one kind; references to others point into the case where there is something to point at."""
        values = {
            name: self._field(name, field.annotation)
            for name, field in model.model_fields.items()
            if field.is_required() or self.random.random() < 0.6
        }
        return model.model_validate(values | _pointing(model, case, self))

    def _field(self, name: str, kind: Any) -> Any:
        made = _BY_NAME.get(name)
        return made(self) if made is not None else self._value(kind)

    def _value(self, kind: Any) -> Any:
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Literal:
            return self.random.choice(arguments)
        if origin in {Union, types.UnionType}:
            return self._value(self.random.choice(arguments))
        if origin in {list, tuple}:
            return [self._value(arguments[0]) for _ in range(self.random.choice((0, 1, 3, 12)))]
        if origin is dict:
            count = self.random.choice((0, 1, 3, 12))
            return {f"{self.text()[:60]}{n}": self._value(arguments[1]) for n in range(count)}
        if isinstance(kind, type) and issubclass(kind, Enum):
            return self.random.choice(list(kind))
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return {name: self._field(name, field.annotation) for name, field in kind.model_fields.items()}
        if kind is bool:
            return self.random.random() < 0.5
        if kind is int:
            return self.random.choice((0, 1, 7, 10**9))
        return None if kind is type(None) else self.text()

    def finding(self) -> dict[str, Any]:
        """Return a finding of any class, with texts of any length."""
        symptom = {
            "error_class": self.random.choice(list(ErrorClass)),
            "line": 7,
            "why": self.text(),
            "text": self.text(),
        }
        return finding(
            self.random.choice(list(ErrorClass)),
            self.random.choice(list(Stage)),
            root_line=self.random.choice((None, 1, 10**9)),
            root_text=self.random.choice((None, self.text())),
            confidence=self.random.choice(("certain", "likely", "unsure")),
            why=self.text(),
            next_check=self.text(),
            ranks=[f"Worker_TP{n}" for n in range(self.random.choice((0, 1, 64)))],
            symptoms=[symptom] * self.random.choice((0, 1, 30)),
            warnings=[self.text()] * self.random.choice((0, 30)),
            lines=self.random.choice((0, 10**9)),
        )

    def fields(self) -> dict[str, Any]:
        """Return fingerprint facts: real fields, some of them with texts of any length."""
        return {
            "host": self._worn(self.random.choice((CPU_HOST, GPU_HOST))),
            "container": self.random.choice(({}, self._worn(self.random.choice((CPU_CONTAINER, GPU_CONTAINER))))),
            "container_source": self.random.choice((None, self.text())),
            "duration_ms": 400,
        }

    def _worn(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {
            name: {**leaf, "value": self.text()}
            if isinstance(leaf["value"], str) and self.random.random() < 0.5
            else leaf
            for name, leaf in fields.items()
        }

    def baseline(self) -> dict[str, Any]:
        """Return a frozen baseline with a command line of any length."""
        argv = ("serve", "/models/k3", *(self.text()[:2000] for _ in range(self.random.choice((0, 2, 60)))))
        return docker_baseline(argv).model_dump(mode="json")

    def row(self) -> dict[str, Any]:
        """Return a row of a probe's table."""
        names = ("round", "name", "tokens", "expected", "cached", "counted", "ttft_ms", "question", "input", "output", "at_once", "complete", "of", "tries", "latency_ms", "tokens_s", "preemptions")  # fmt: skip
        return {name: self.random.choice((None, 0, 10**9, self.text()[:200])) for name in names}


_BY_NAME: dict[str, Callable[[Dice], Any]] = {
    "finding": lambda dice: dice.finding(),
    "facts": lambda dice: dice.fields(),
    "baseline": lambda dice: dice.baseline(),
    "rows": lambda dice: [dice.row() for _ in range(dice.random.choice((0, 3, 60)))],
    "disagreements": lambda dice: [
        {"rule": "C-01", "text": dice.text(), "evidence": [dice.text()], "severity": "blocks", "host": dice.text(), "container": dice.text()}
    ] * dice.random.choice((0, 1, 20)),
    "findings": lambda dice: [
        {"rule": "B-02", "text": dice.text(), "severity": "blocks", "why": dice.text(), "source": dice.text()}
    ] * dice.random.choice((0, 1, 20)),
    "removed": lambda dice: [{"option": dice.text(), "why": dice.text()}] * dice.random.choice((0, 1, 40)),
    "added": lambda dice: [{"option": dice.text(), "why": dice.text()}] * dice.random.choice((0, 1, 40)),
    "change": lambda dice: dice.random.choice((
        None,
        {"variable": dice.text(), "before": dice.text(), "after": None, "reason": dice.text(), "expected": dice.text()},
    )),
    "causes": lambda dice: [{"name": dice.text(), "state": "suspected", "text": dice.text()}] * dice.random.choice((0, 9)),
    "stages": lambda dice: [{"stage": "weight_loading", "state": "complete", "ms": 10**7}] * dice.random.choice((0, 5)),
    "limit": lambda dice: dice.random.choice((
        None, {"stage": "weight_loading", "kind": "silence", "limit_s": 600, "last_lines": [dice.text()], "processes": [dice.text()]},
    )),
    "off_on": lambda dice: dice.random.choice((
        None,
        {"off": {"attempt": 1, "ready_ms": 7, "memory_bytes": 1 << 40}, "on": {"attempt": 10**9, "ready_ms": 10**9, "memory_bytes": 0},
         "only_off": [dice.text()] * 4, "only_on": [dice.text()] * 4, "count_off": 10**9, "count_on": 0, "logs_read": True},
    )),
    "watched": lambda _dice: None,
    "score": lambda dice: dice.random.choice((None, 0, 1, 2)),
    "held_until": lambda dice: dice.random.choice((None, _AT.isoformat())),
    "playbook": lambda dice: dice.random.choice(PLAYBOOKS),
    "container": lambda dice: {"image": dice.text(), "exit_code": 1, "oom_killed": True, "restarts": 3},
    "params": lambda _dice: {},
    "runs": lambda dice: [
        {"n": 1, "status": 200, "error": dice.text(), "finish_reason": "length", "start_ms": 0, "first_ms": 7, "end_ms": 70, "usage": {}}
    ] * dice.random.choice((0, 1, 20)),
    "config": lambda _dice: {},
}  # fmt: skip
"""Fields whose annotation is just `dict` or whose texts are words of the program."""


def _pointing(model: type[e.Payload], case: Case | None, dice: Dice) -> dict[str, Any]:
    if case is None:
        return {}
    values: dict[str, Any] = {}
    if "proposal" in model.model_fields and case.proposals:
        values["proposal"] = dice.random.choice(case.proposals).seq
    if model is e.AnswerRecorded:
        steps = [step.id for step in load_playbook(case.opened.payload.playbook).steps()]
        values["item"] = dice.random.choice([*steps, dice.text()])
    if "job_id" in model.model_fields and model is not e.JobRequested and case.jobs:
        values["job_id"] = dice.random.choice(list(case.jobs))
    return values


def record(dice: Dice, *, most: int = 14) -> list[Line]:
    """Return a record: opened, then entries of any kind in any order."""
    lines: list[Line] = []

    def add(payload: e.Payload) -> None:
        seq = len(lines) + 1
        actor = dice.random.choice(("bot", "node:gpu-a1", "user:U1", "user:U2", f"user:{dice.text()[:50]}"))
        at = _AT + timedelta(minutes=seq)
        lines.append(Line(seq, payload.KIND, actor, at, payload.model_dump(mode="json")))

    add(dice.payload(e.IncidentOpened, None))
    for _ in range(dice.random.randrange(most)):
        add(dice.payload(dice.random.choice(_CASE_KINDS), fold("INC-0042", lines)))
    return lines


def _dashboard(dice: Dice, case: Case) -> Dashboard:
    playbook = load_playbook(case.opened.payload.playbook)
    step = next_step(case, playbook)
    running = Running(
        dice.random.choice(list(JobKind)), "gpu-a1", True, _AT, dice.random.choice(list(Stage)), dice.text()
    )
    return Dashboard(
        incident=case.incident,
        owner=dice.random.choice(("U0ONCALL", dice.text())),
        opened_at=_AT,
        case=case,
        head_seq=case.head_seq,
        head_hash="9f3a" * 16,
        phases=tuple(phase.id for phase in playbook.phases),
        step=step,
        step_label=dice.random.choice([step.label for step in playbook.steps()]),
        running=(running,) * dice.random.choice((0, 1, 8)),
        silent_node=dice.random.choice((None, dice.text())),
        held=((7, _AT),) * dice.random.choice((0, 3)),
        undeliverable=dice.random.choice((0, 9)),
    )


def said_of(dice: Dice, lines: list[Line], _: Translate) -> Iterator[tuple[str, Message | Block]]:
    """Yield every message and form of one state, by name."""
    case = fold("INC-0042", lines)
    playbook = load_playbook(case.opened.payload.playbook)
    labels = {step.id: step.label for step in playbook.steps()}
    for end in range(1, len(lines) + 1):
        last = lines[end - 1]
        then = fold("INC-0042", lines[:end])
        shown = Recorded(last.seq, last.kind, last.actor, last.at, last.payload, "9f3a" * 16, then, labels)
        yield f"evidence {last.kind}", evidence(shown, _)
    view = _dashboard(dice, case)
    listed = items(case, playbook)
    gate = [item.text for item in evaluate(case, playbook).items if not item.closed]
    one = overview.OpenCase("INC-0042", case.opened.payload.title, case.phase, view.step.text, "C0ONCALL")
    node = overview.NodeLine(
        "gpu-a1", _AT, True, dice.text(), 8, (dice.text(),), (dice.text(),), dice.random.choice((None, "INC-0042"))
    )
    many = dice.random.choice((0, 1, 15))
    yield "dashboard", dashboard(view, _)
    yield "status", overview.status(view, listed, gate, _)
    yield "next", overview.step(view, _)
    yield "score", overview.score(view, _)
    yield "cases", overview.cases([one] * many, many, _)
    yield "nodes", overview.nodes([node] * many, _)
    yield "home", overview.home([one] * many, [one] * many, [node] * many, _)
    yield "question", notices.question("INC-0042", view.step, dice.random.choice((None, *listed)), _)
    yield "open items", notices.open_items(Mrkdwn("Not yet"), gate, _)
    for item in listed:
        yield f"form of {item.id}", modals.answer("INC-0042", item, _)
    yield from _forms(dice, case, _)


def _forms(dice: Dice, case: Case, _: Translate) -> Iterator[tuple[str, Block]]:
    frozen: Noted[e.BaselineFrozen] | None = case.baselines[-1] if case.baselines else None
    command = case.opened.payload.command
    yield "form of attempts", modals.attempt("INC-0042", frozen, command, _, attempts_so_far=len(case.attempts))
    if case.proposals:
        yield "form of a decision", modals.review("INC-0042", case.proposals[-1], _)
    yield (
        "form of a reason",
        modals.reason("skip", Ref("INC-0042", "x"), _.plain("Answer"), Mrkdwn(dice.text()), "Go", _),
    )
