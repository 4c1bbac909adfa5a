"""A fingerprint as a text file: verdicts, what was found with its evidence, and every field of both sides."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from playbooks.judging.disagreement import Disagreement
from playbooks.judging.verdict_table import verdict_table
from playbooks.reading.fields import Facts, is_stable

_WORDS = {
    "differs": "differs",
    "not_readable": "not readable",
    "agrees": "agrees",
    "read": "read",
    "absent": "absent",
}


def report(
    host: Facts, container: Facts, found: Sequence[Disagreement], *, title: str, moved: Sequence[str] = ()
) -> str:
    """Return the report, for a person; a program reads the facts themselves."""
    return "\n".join((title, "", *_lines(host, container, found, moved))) + "\n"


def _lines(host: Facts, container: Facts, found: Sequence[Disagreement], moved: Sequence[str]) -> Iterator[str]:
    yield f"{'verdict':<14}{'what':<12}{'host':<42}inside"
    for row in verdict_table(host, container, [one.rule for one in found]):
        yield f"{_WORDS[row.verdict]:<14}{row.topic:<12}{row.host:<42}{row.container}".rstrip()
    yield ""
    yield from (_finding(one) for one in found) if found else ("Nothing disagrees.",)
    if moved:
        yield ""
        yield "Moved since the last reading:"
        yield from (f"  {one}" for one in moved)
    for side, fields in (("host", host), ("inside", container)):
        if fields:
            yield ""
            yield f"Every field, {side} (* = part of the stable digest)"
            yield from _fields(fields)


def _finding(one: Disagreement) -> str:
    evidence = "".join(f"\n    {line}" for line in one.evidence)
    return f"{one.severity} {one.rule}: {one.text}{evidence}"


def _fields(fields: Facts) -> Iterator[str]:
    for name, field in sorted(fields.items()):
        value = "" if field.value is None else json.dumps(field.value, ensure_ascii=False)
        unit = f" {field.unit}" if field.unit and value else ""
        detail = f" - {field.detail}" if field.detail else ""
        mark = "*" if is_stable(name) else " "
        yield f"{mark} {name:<40} {field.status.value:<11} {value}{unit}  [{field.source}]{detail}"
