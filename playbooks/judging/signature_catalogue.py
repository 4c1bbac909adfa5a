"""The signature catalogue: what an error line, a benign line, a wrapper line and a stage marker look like.

Parses the YAML texts of `definitions/` into one value with a digest over its canonical content. Leaves reading the
files to `playbooks.catalog`, and what follows from a match to `first_failure`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from playbooks.errors import InvalidDefinition
from playbooks.judging.catalogue_yaml import Entry, load, only
from playbooks.judging.literals import required
from playbooks.vocabulary import DecisionKind, ErrorClass, Stage

EVENTS = ("launch", "begin", "complete", "progress", "ready", "served", "failed", "stopping", "ended")
"""What a marker line tells: a new launch, a stage begun or complete, the server up, a request answered, a stage of whose
failure only a wrapper speaks, an ordinary stop, the end of the launch."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One recognised text.

    literals: lower case; one of them is in each line that the pattern can match; empty = it is asked on every line.
    """

    id: str
    pattern: re.Pattern[str]
    literals: tuple[str, ...]
    samples: tuple[str, ...]
    source: str
    seen_in: str
    place: str
    """File and line of the entry."""


@dataclass(frozen=True, slots=True)
class Signature(Pattern):
    """A text that tells an error class.

    stage: where to put it; None takes the observed stage if the class allows it, else the class's own.
    generic: says too little to hold against a more exact signature of the same block.
    levels: the lowest level at which the line is a failure of its own: `error` (also lines without a level), `warning`,
        `info`; below it the line is a hint, which explains a later failure of a class it names.
    explains: classes that are symptoms of this one when they come later.
    degrades: reported although the service came up.
    where: kinds of input it is looked for in; empty for all but `http`.
    """

    error_class: ErrorClass
    stage: Stage | None = None
    generic: bool = False
    level: str = "error"
    explains: frozenset[ErrorClass] = frozenset()
    degrades: bool = False
    postmortem: bool = False
    """Evidence from outside the engine (kernel log, container state): holds even when printed after the end."""
    repeats: int = 1
    where: frozenset[str] = frozenset()
    confidence: str = "certain"
    decision: DecisionKind | None = None
    next_check: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Derived(Pattern):
    """A wrapper text: says that something failed elsewhere; never a root while a cause is printed."""

    error_class: ErrorClass
    why: str
    repeats: int = 1
    """It says nothing before it was printed so often."""
    stage: Stage | None = None
    """The stage a launch must have come to for this to be printed; None where it tells nothing."""
    at_start: bool = False
    """Printed only of an engine that was still starting."""


@dataclass(frozen=True, slots=True)
class Benign(Pattern):
    """A text that looks like a failure and is none; `teardown` lines are what an ordinary stop prints."""

    why: str
    teardown: bool = False
    hides_block: bool = False
    """The traceback that follows belongs to it."""


@dataclass(frozen=True, slots=True)
class Marker(Pattern):
    """A line that tells how far a launch has come."""

    event: str
    stage: Stage


@dataclass(frozen=True, slots=True)
class Frame(Pattern):
    """A function on the stack that tells whose question was being asked."""

    stage: Stage


@dataclass(frozen=True, slots=True)
class ClassInfo:
    """What is known of an error class beyond its name."""

    id: ErrorClass
    family: str
    stage: Stage
    other_stages: tuple[Stage, ...]
    meaning: str
    can_be_symptom: bool
    points_to: DecisionKind
    next_check: str
    own_stage: bool = False
    """The question it fails is fixed by its kind, whenever it happens to be noticed."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All of it, in the order of the files; `digest` names the content."""

    classes: Mapping[ErrorClass, ClassInfo]
    signatures: tuple[Signature, ...]
    derived: tuple[Derived, ...]
    benign: tuple[Benign, ...]
    markers: tuple[Marker, ...]
    frames: tuple[Frame, ...]
    digest: str = ""
    memo: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """Compiled look-ups of the analyser, made once per catalogue."""


def parse(files: Mapping[str, str]) -> Catalogue:
    """Parse the YAML texts, by file name, into the catalogue.

    Raises:
        InvalidDefinition: a text breaks its form; the message holds file, line, and expected against found.
    """
    entries: dict[str, list[Entry]] = {kind: [] for kind in _KINDS}
    for name in sorted(files):
        kind, found = load(name, files[name], schemas=_SCHEMAS)
        entries[kind] += found
    built = {kind: [_KINDS[kind](entry) for entry in entries[kind]] for kind in _KINDS}
    for kind, values in built.items():
        _refuse_doubles(values, entries[kind])
    classes = {info.id: info for info in built["classes"]}
    _refuse_unknown_classes(built, entries, classes)
    catalogue = Catalogue(
        classes=classes,
        signatures=tuple(built["signatures"]),
        derived=tuple(built["derived"]),
        benign=tuple(built["benign"]),
        markers=tuple(built["markers"]),
        frames=tuple(built["frames"]),
    )
    return replace(catalogue, digest=_digest(entries))


def _digest(entries: Mapping[str, list[Entry]]) -> str:
    content = {kind: [entry.values for entry in found] for kind, found in entries.items()}
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _refuse_doubles(values: list[Any], entries: list[Entry]) -> None:
    seen: dict[str, Entry] = {}
    for value, entry in zip(values, entries, strict=True):
        if value.id in seen:
            raise InvalidDefinition(f"{entry.place}: id {value.id!r} is taken by {seen[value.id].place}")
        seen[value.id] = entry


def _refuse_unknown_classes(
    built: Mapping[str, list[Any]], entries: Mapping[str, list[Entry]], classes: Mapping[ErrorClass, ClassInfo]
) -> None:
    for kind in ("signatures", "derived"):
        for value, entry in zip(built[kind], entries[kind], strict=True):
            if value.error_class not in classes:
                raise InvalidDefinition(f"{entry.place}: error_class {value.error_class!r} has no entry of its own")


def _pattern(entry: Entry) -> dict[str, Any]:
    text = entry.text("pattern")
    try:
        compiled = re.compile(text)
    except re.error as error:
        raise InvalidDefinition(f"{entry.place}: pattern is no regular expression: {error}") from error
    literals = tuple(item.lower() for item in entry.texts("literals")) or required(text)
    return {
        "id": entry.text("id"),
        "pattern": compiled,
        "literals": literals,
        "samples": entry.texts("sample"),
        "source": entry.text("source"),
        "seen_in": entry.text("seen_in"),
        "place": entry.place,
    }


def _signature(entry: Entry) -> Signature:
    only(entry, _PATTERN_KEYS | _SIGNATURE_KEYS)
    stage = entry.values.get("stage", "observed")
    return Signature(
        **_pattern(entry),
        error_class=entry.member("error_class", ErrorClass),
        stage=None if stage == "observed" else entry.member("stage", Stage),
        generic=entry.flag("generic"),
        level=entry.choice("level", ("error", "warning", "info"), "error"),
        explains=frozenset(ErrorClass(item) for item in entry.members("explains", ErrorClass)),
        degrades=entry.flag("degrades"),
        postmortem=entry.flag("postmortem"),
        repeats=entry.number("repeats", 1),
        where=frozenset(entry.texts("where")),
        confidence=entry.choice("confidence", ("certain", "likely", "unsure"), "certain"),
        decision=entry.member("decision", DecisionKind) if "decision" in entry.values else None,
        next_check=entry.optional("next_check"),
        why=entry.optional("why"),
    )


def _derived(entry: Entry) -> Derived:
    only(entry, _PATTERN_KEYS | {"error_class", "why", "repeats", "stage", "at_start"})
    return Derived(
        **_pattern(entry),
        error_class=entry.member("error_class", ErrorClass),
        why=entry.text("why"),
        repeats=entry.number("repeats", 1),
        stage=entry.member("stage", Stage) if "stage" in entry.values else None,
        at_start=entry.flag("at_start"),
    )


def _benign(entry: Entry) -> Benign:
    only(entry, _PATTERN_KEYS | {"why", "teardown", "hides_block"})
    return Benign(
        **_pattern(entry),
        why=entry.text("why"),
        teardown=entry.flag("teardown"),
        hides_block=entry.flag("hides_block"),
    )


def _marker(entry: Entry) -> Marker:
    only(entry, _PATTERN_KEYS | {"event", "stage"})
    return Marker(
        **_pattern(entry), event=entry.choice("event", EVENTS, ""), stage=Stage(entry.members("stage", Stage)[0])
    )


def _frame(entry: Entry) -> Frame:
    only(entry, _PATTERN_KEYS | {"stage"})
    return Frame(**_pattern(entry), stage=entry.member("stage", Stage))


def _class(entry: Entry) -> ClassInfo:
    only(entry, _CLASS_KEYS)
    return ClassInfo(
        id=entry.member("id", ErrorClass),
        family=entry.text("family"),
        stage=entry.member("stage", Stage),
        other_stages=tuple(Stage(item) for item in entry.members("other_stages", Stage)),
        meaning=entry.text("meaning"),
        can_be_symptom=entry.flag("can_be_symptom"),
        points_to=entry.member("points_to", DecisionKind),
        next_check=entry.text("next_check"),
        own_stage=entry.flag("own_stage"),
    )


_PATTERN_KEYS = frozenset({"id", "pattern", "literals", "sample", "source", "seen_in"})
_SIGNATURE_KEYS = frozenset({
    "error_class", "stage", "generic", "level", "explains", "degrades", "postmortem", "repeats", "where", "confidence",
    "decision", "next_check", "why",
})  # fmt: skip
_CLASS_KEYS = frozenset({
    "id", "family", "stage", "other_stages", "meaning", "can_be_symptom", "points_to", "next_check", "own_stage",
    "not_to_confuse_with",
})  # fmt: skip
_KINDS: Mapping[str, Callable[[Entry], Any]] = {
    "classes": _class,
    "signatures": _signature,
    "derived": _derived,
    "benign": _benign,
    "markers": _marker,
    "frames": _frame,
}
_SCHEMAS = {f"baseline-{kind}/1": kind for kind in _KINDS}
