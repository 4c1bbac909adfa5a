"""`baseline analyze` and `baseline score`: the first failure of a log, and how alike two logs fail."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, cast

import typer

if TYPE_CHECKING:
    from playbooks.judging.finding import Finding

_CHUNK_BYTES = 1 << 20
_GZIP = b"\x1f\x8b"
_BEFORE, _AFTER = 2, 2
"""Lines of the log shown around the root line."""
_WIDEST = 400


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("analyze")(analyze)
    app.command("score")(score_logs)


def analyze(
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="A log, a paste or command output; - reads standard input.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    exit_code: Annotated[int | None, typer.Option(help="Exit code of the process, if known.")] = None,
    oom_killed: Annotated[bool, typer.Option("--oom-killed", help="The runtime says OOMKilled.")] = False,
) -> None:
    """Find the first failure of a launch, what only followed from it, and what to look at next.

    Reads engine logs in any wrapping, `docker run` errors, `docker inspect`, kernel logs, and pastes that mix them.
    Exit code 0 when it could judge, 2 when the file cannot be read.
    """
    finding = _finding_of(file, exit_code=exit_code, oom_killed=oom_killed or None)
    if as_json:
        import json

        value = finding.model_dump(mode="json")
        if value["decision"] is None:
            del value["decision"]
        print(json.dumps(value, ensure_ascii=False))
        return
    print(in_words(finding, file))


def score_logs(
    earlier: Annotated[str, typer.Argument(metavar="LOG_A", help="Log of the earlier attempt.")],
    later: Annotated[str, typer.Argument(metavar="LOG_B", help="Log of the later attempt.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Score two logs as consecutive attempts of one baseline: 2, 1 or 0, with the reason.

    Exit code 0 when a score was given, 1 when none can be, 2 when a file cannot be read.
    """
    from playbooks.judging.recorded import moved_arguments, outcome_of
    from playbooks.judging.stability import Observed, score

    def observed(file: str) -> Observed:
        finding = _finding_of(file)
        return Observed(baseline_digest="taken as equal", outcome=outcome_of(finding), finding=finding)

    a, b = observed(earlier), observed(later)
    result = score(a, b)
    remarks = []
    if moved := moved_arguments(a.finding, b.finding):
        remarks.append(
            f"the logs tell other arguments, so these may not be attempts of one baseline: {'; '.join(moved)}"
        )
    if _same_bytes(earlier, later):
        remarks.append(
            "both files hold the same bytes: if that is one run saved twice, it says nothing about stability"
        )
    if as_json:
        import json

        shown = {
            "score": result.score,
            "row": result.row,
            "why": result.why,
            "one_cause": result.one_cause,
            "earlier": _short(a.finding),
            "later": _short(b.finding),
            "remarks": remarks,
        }
        print(json.dumps(shown, ensure_ascii=False))
    else:
        given = "no score" if result.score is None else f"score {result.score}"
        print(f"{given}: {result.why}")
        for name, found in (("earlier", a.finding), ("later", b.finding)):
            at = "-" if found.root_line is None else f"line {found.root_line}"
            print(f"  {name}: {found.stage.value}, {found.error_class.value}, {at}")
        for remark in remarks:
            print(f"  but: {remark}")
    if result.score is None:
        raise typer.Exit(1)


def _same_bytes(earlier: str, later: str) -> bool:
    import filecmp

    return "-" not in {earlier, later} and filecmp.cmp(earlier, later, shallow=False)


def _short(finding: Finding) -> dict[str, object]:
    return {"stage": finding.stage.value, "error_class": finding.error_class.value, "root_line": finding.root_line}


def _finding_of(file: str, *, exit_code: int | None = None, oom_killed: bool | None = None) -> Finding:
    from playbooks.catalog import load_catalogue
    from playbooks.judging.first_failure import analyse_blocks
    from playbooks.reading.whole_lines import whole_lines

    try:
        if file != "-" and (form := _form(file)) is not None:
            typer.echo(f"cannot read {file}: expected a log as text, found {form}", err=True)
            raise typer.Exit(2)
        return analyse_blocks(whole_lines(_chunks(file)), load_catalogue(), exit_code=exit_code, oom_killed=oom_killed)
    except OSError as error:
        typer.echo(f"cannot read {file}: {error.strerror or error}", err=True)
        raise typer.Exit(2) from error


def _form(file: str) -> str | None:
    from playbooks.reading.binary_forms import LOOKED_AT, binary_form

    with _opened(file) as stream:
        return binary_form(stream.read(LOOKED_AT))


def _opened(file: str) -> IO[bytes]:
    """Open a log; one that is packed by gzip is unpacked while it is read."""
    if file == "-":
        return sys.stdin.buffer
    stream = Path(file).open("rb")  # noqa: SIM115 - closed by who reads it
    if stream.read(2) == _GZIP:
        import gzip

        stream.close()
        return cast("IO[bytes]", gzip.open(file, "rb"))
    stream.seek(0)
    return stream


def _chunks(file: str) -> Iterator[bytes]:
    with _opened(file) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            yield chunk


def in_words(finding: Finding, file: str) -> str:
    """Tell a finding to a person at a terminal. file: the log, for the lines around the root; `-` = it cannot be read again."""
    from playbooks.vocabulary import ErrorClass, Stage

    name = finding.error_class.value.replace("_", " ")
    stage = finding.stage.value.replace("_", " ")
    reached = finding.reached.value.replace("_", " ")
    if finding.error_class is ErrorClass.NONE:
        unproven = (
            " The server came up by its own word; no request is seen." if finding.reached is Stage.ENGINE_INIT else ""
        )
        where = f"{finding.lines} lines{'' if file == '-' else f' of {file}'} ({finding.input_kind})"
        if finding.is_a_state:
            return f"Nothing wrong is seen in {where}. It shows a state; a launch's own log tells more."
        return f"No failure in {where}.\nReached: {reached}.{unproven}"
    out = [_headline(finding, stage, name)]
    if finding.root_line is not None:
        out.append(f"  line {finding.root_line} of {finding.lines}: {_cut(finding.root_text or '')}")
        out += _around(file, finding.root_line)
    if finding.ranks:
        out.append(f"  printed by: {', '.join(finding.ranks[:8])}{' …' if len(finding.ranks) > 8 else ''}")
    out.append(f"Why: {finding.why}")
    before = "nothing seen complete" if finding.reached is Stage.NONE else reached
    out.append(f"Reached before: {before}. Confidence: {finding.confidence}.")
    out += [
        f"Set aside: line {symptom.line} {symptom.error_class.value.replace('_', ' ')} - {symptom.why}."
        for symptom in finding.symptoms
    ]
    if finding.decision is not None:
        out.append(f"Points to: {finding.decision.value.replace('_', ' ')}.")
    if finding.next_check:
        out.append(f"Next: {finding.next_check}")
    return "\n".join(out)


def _headline(finding: Finding, stage: str, name: str) -> str:
    from playbooks.judging.candidates import GPU_OOM, MEMORY
    from playbooks.vocabulary import ErrorClass, Stage

    match finding.error_class:
        case ErrorClass.ENGINE_WRAPPER_ERROR:
            return "The cause is not in this text: it only says that something else failed."
        case ErrorClass.UNKNOWN if finding.root_line is None and finding.is_a_state:
            return "Cannot tell: the state says that it failed, not of what."
        case ErrorClass.UNKNOWN if finding.root_line is None and finding.reached is Stage.NONE:
            return (
                f"Cannot tell: {stage} did not complete, and no line names an error."
                if finding.engine.processes
                else "Cannot tell: nothing in it reads like a launch."
            )
        case ErrorClass.UNKNOWN if finding.root_line is None:
            return f"Cannot tell: {stage} did not complete, and no line names an error."
        case ErrorClass.UNKNOWN if not finding.stage_is_told:
            return "Cannot tell: no signature knows this line."
        case ErrorClass.UNKNOWN:
            return f"Cannot tell: {stage} did not complete, and no signature knows the error."
        case _:
            pass
    said = f"{stage} failed: {name}" if finding.stage_is_told else f"Found: {name}"
    memory = finding.error_class not in MEMORY and any(s.error_class in GPU_OOM for s in finding.symptoms)
    return f"{said}{' - not an out-of-memory problem' if memory else ''}."


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def _around(file: str, root: int) -> list[str]:
    """Return the lines around the root line as they stand; none for standard input, which cannot be read again."""
    if file == "-":
        return []
    from playbooks.reading.whole_lines import lines_between

    shown = []
    for no, line in lines_between(_chunks(file), max(1, root - _BEFORE), root + _AFTER):
        text = line.decode("utf-8", "replace").replace("\x1b", "")
        shown.append(f"  {'>' if no == root else ' '} {no:>6} | {_cut(text)}")
    return shown
