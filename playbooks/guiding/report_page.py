"""The first page of a reproduction bundle: what failed, how often, since when, what was decided and why, how to verify (R15.3).

Plain Markdown from the case alone, so that a stranger reads it without Slack, bot or database. Concludes nothing that the
record does not hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from playbooks.evidence import entries as e
from playbooks.guiding import seen
from playbooks.guiding.case import Case, Noted
from playbooks.guiding.report_records import changes_of, rollbacks_of
from playbooks.guiding.report_text import at, code, plain, utc
from playbooks.vocabulary import Outcome

_OUTCOMES = {
    Outcome.READY: "ready",
    Outcome.FAILED: "failed",
    Outcome.STOPPED_BY_LIMIT: "stopped by a limit",
    Outcome.NOT_OBSERVED: "not observed",
}


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart of the record. path: within the bundle; what: of what, as `stages, attempt 3`; seq: the entry that names it."""

    path: str
    what: str
    seq: int


def first_page(
    case: Case, *, head_hash: str = "", exported_at: datetime | None = None, charts: Sequence[Picture] = ()
) -> str:
    """Return the page as Markdown."""
    sections = (
        _summary(case),
        _failure(case),
        _attempts(case),
        _charts(charts),
        _decision(case),
        _environment(case),
        _command(case),
        _sample(case),
        changes_of(case),
        rollbacks_of(case),
        _requests(case),
        _people(case),
        _verify(case, head_hash, exported_at),
    )
    return "\n\n".join("\n".join(section) for section in (tuple(lines) for lines in sections) if section) + "\n"


def _summary(case: Case) -> Iterator[str]:
    opened = case.opened.payload
    yield f"# {case.incident}: {plain(opened.title)}"
    yield ""
    yield _verdict(case)
    yield ""
    where = (
        f"nodes {plain(', '.join(opened.nodes))}"
        if opened.nodes
        else f"node {plain(opened.node or 'none, logs from elsewhere')}"
    )
    yield f"- Opened {at(case.opened)} by {plain(case.opened.actor)}; {where}."
    if opened.what_fails:
        yield f"- Reported as: {plain(opened.what_fails)}"
    yield f"- Since when: {_since(case)}"
    yield f"- Playbook {plain(opened.playbook)}, sha256 {code(opened.playbook_sha256)}."
    if case.closed is not None:
        yield f"- Closed {at(case.closed)} by {plain(case.closed.actor)}: {plain(case.closed.payload.reason)}"


def _verdict(case: Case) -> str:
    newest = seen.newest_attempt(case)
    score = seen.newest_score(case)
    if newest is None:
        return "**No attempt is on record yet. This bundle was exported before one error repeated.**"
    number = "" if score is None or score.payload.score is None else f", score {score.payload.score} (#{score.seq})"
    if newest.payload.outcome is Outcome.READY:
        ready = f"**The newest attempt became ready{number}.**"
        return ready if number.startswith(", score 2") else f"{ready} One success is not stable."
    if newest.payload.outcome is Outcome.NOT_OBSERVED:
        return "**The newest attempt could not be observed, and says nothing.**"
    finding = newest.payload.finding
    text = f"**First failure: {finding.get('stage')}, {finding.get('error_class')}{number}.**"
    if score is not None and score.payload.score == 2:
        return f"{text} It repeats."
    return f"{text} This bundle was exported before one error repeated."


def _since(case: Case) -> str:
    history = case.answers.get("change-history")
    failing = [n for n in case.attempts if n.payload.outcome in {Outcome.FAILED, Outcome.STOPPED_BY_LIMIT}]
    parts = []
    if history is not None:
        parts.append(f"{plain(history.payload.value)} (#{history.seq}, {plain(history.actor)})")
    if failing:
        parts.append(f"first failure on record {at(failing[0])} (#{failing[0].seq})")
    return "; ".join(parts) or "not on record"


def _failure(case: Case) -> Iterator[str]:
    newest = seen.newest_attempt(case)
    if newest is None or newest.payload.outcome in {Outcome.READY, Outcome.NOT_OBSERVED}:
        return
    finding = newest.payload.finding
    yield "## What failed first"
    yield f"- Stage {finding.get('stage')}, last stage seen complete: {finding.get('reached')}"
    yield f"- Class {finding.get('error_class')}, confidence {finding.get('confidence')}"
    if finding.get("root_text"):
        yield f"- Line {finding.get('root_line')}: {code(finding['root_text'])}"
    if finding.get("why"):
        yield f"- Why this is the first failure: {plain(finding['why'])}"
    yield from _ranks(newest.payload)
    for frame in finding.get("stack") or ():
        yield f"- Stack: {code(frame)}"
    for symptom in finding.get("symptoms") or ():
        yield (
            f"- Set aside as a symptom: line {symptom.get('line')}, {symptom.get('error_class')}:"
            f" {plain(str(symptom.get('why', '')))}"
        )


def _ranks(attempt: e.AttemptRecorded) -> Iterator[str]:
    """Say of a launch over several nodes which rank failed first, how each ended, and what they did not have alike."""
    if not attempt.ranks:
        return
    yield f"- First rank to fail: {', '.join(map(str, attempt.first_ranks))} ({plain(attempt.first_why)})"
    for rank in attempt.ranks:
        ended = f"{rank.outcome.value}, {rank.stage.value}, {rank.error_class.value}"
        said = f": {code(rank.root_text)}" if rank.root_text else f": {plain(rank.why)}" if rank.why else ""
        log = f"; log sha256 {code(rank.log_sha256)}" if rank.log_sha256 else ""
        yield f"- Rank {rank.rank} on {plain(rank.node)}: {ended}{said}{log}"
    if attempt.ranks_differ:
        yield f"- The ranks did not run the same thing: {plain('; '.join(attempt.ranks_differ))}"


def _attempts(case: Case) -> Iterator[str]:
    if not case.attempts and not case.withdrawn:
        return
    yield "## How often"
    yield ""
    yield "| attempt | recorded | seen | outcome | first failing stage | class | moved since the one before | log sha256 |"
    yield "|---|---|---|---|---|---|---|---|"
    for noted in case.attempts:
        yield _attempt_row(noted)
    for gone in case.withdrawn:
        yield ""
        yield (
            f"Attempt {gone.payload.attempt} (#{gone.payload.recorded_as}) was withdrawn by {plain(gone.actor)} (#{gone.seq})"
            f" and counts no more: {plain(gone.payload.reason)}"
        )
    for score in case.scores:
        value = "none" if score.payload.score is None else str(score.payload.score)
        yield ""
        yield (
            f"Attempts {score.payload.earlier} and {score.payload.later}: score {value} (#{score.seq}),"
            f" {plain(score.payload.why)}"
        )


def _charts(charts: Sequence[Picture]) -> Iterator[str]:
    if not charts:
        return
    yield "## Charts"
    yield "Drawn from the record, which holds the figures: the tables above and below, and `ledger.jsonl`."
    for chart in charts:
        yield ""
        yield f"![{plain(chart.what)} (#{chart.seq})]({chart.path})"


def _attempt_row(noted: Noted[e.AttemptRecorded]) -> str:
    payload = noted.payload
    cells = (
        f"{payload.attempt} (#{noted.seq})",
        at(noted),
        "here" if payload.origin == "observed" else "log from elsewhere",
        _OUTCOMES[payload.outcome],
        str(payload.finding.get("stage", "")),
        str(payload.finding.get("error_class", "")),
        plain("; ".join(payload.changed)) or "nothing",
        (payload.log_sha256 or "no log")[:16],
    )
    return f"| {' | '.join(cells)} |"


def _decision(case: Case) -> Iterator[str]:
    yield "## Decision"
    if not case.proposals:
        yield "No decision was proposed."
        return
    approvals = {noted.payload.proposal: noted for noted in case.approvals}
    rejections = {noted.payload.proposal: noted for noted in case.rejections}
    standing = seen.standing_proposal(case)
    for noted in case.proposals:
        payload = noted.payload
        yield f"- **#{noted.seq} {payload.kind.value}: {plain(payload.headline)}** (rule {payload.rule})"
        yield f"  - Proposed {at(noted)} by {plain(noted.actor)}"
        for title, lines in (
            ("Because", payload.reasons),
            ("Missing", payload.missing),
            ("Would change it", payload.would_change),
            ("Not concluded", payload.not_concluded),
            ("Carried out", payload.carry_out),
            ("Costs", payload.costs),
        ):
            for line in lines:
                yield f"  - {title}: {plain(line)}"
        if payload.note:
            yield f"  - Note: {plain(payload.note)}"
        if (approved := approvals.get(noted.seq)) is not None:
            yield f"  - Approved {at(approved)} by {plain(approved.actor)} (#{approved.seq}) {plain(approved.payload.reason)}"
        elif (rejected := rejections.get(noted.seq)) is not None:
            yield f"  - Rejected {at(rejected)} by {plain(rejected.actor)} (#{rejected.seq}): {plain(rejected.payload.reason)}"
        elif standing is not None and standing.seq == noted.seq:
            yield "  - Waits for an approver"
        else:
            yield "  - Void: a newer report or proposal arrived"


_SHOWN: tuple[tuple[seen.Side, tuple[str, ...]], ...] = (
    ("host", ("driver.loaded", "nvml.cuda", "nvml.count", "gpu.0.name", "os.kernel", "os.release")),
    ("container", ("image.reference", "image.digest", "image.id", "image.created", "python.version", "torch.version")),
    ("container", ("torch.cuda", "vllm.version", "vllm.metadata_version", "vllm.commit")),
    ("container", ("cuda.init", "torch.device_count")),
)


def _environment(case: Case) -> Iterator[str]:
    yield "## Environment"
    read = [(side, seen.field(case, side, name)) for side, names in _SHOWN for name in names]
    for side, one in read:
        if one is not None:
            yield f"- {side}: {code(one.text)} (#{one.seq})"
    if not any(one for _, one in read):
        yield "No fingerprint is on record; nothing here says what was loaded."
    for disagreement in case.fingerprints[-1].payload.disagreements if case.fingerprints else ():
        text = plain(str(disagreement.get("text", disagreement)))
        yield f"- Host and container disagree: {text} (#{case.fingerprints[-1].seq})"
    for noted in case.fingerprints:
        yield from (f"- Moved: {code(moved)} (#{noted.seq})" for moved in noted.payload.moved)
    yield from _boundary(case)


def _boundary(case: Case) -> Iterator[str]:
    if case.boundary is None:
        yield "- No driver verdict is on record."
        return
    boundary = case.boundary.payload
    yield (
        f"- Driver verdict **{boundary.verdict.value}** (#{case.boundary.seq}, rule {plain(boundary.rule)}, boundaries"
        f" {plain(boundary.snapshot)}, {boundary.age_days} days old)"
    )
    yield from (f"  - {plain(ground)}" for ground in boundary.grounds)


def _command(case: Case) -> Iterator[str]:
    yield "## Minimal launch command"
    if not case.baselines:
        pasted = case.opened.payload.command
        yield f"As pasted, not frozen: {code(pasted)}" if pasted else "No command is on record."
        return
    newest = case.baselines[-1]
    baseline = newest.payload.baseline
    yield f"- Baseline {code(newest.payload.digest)} (#{newest.seq}), engine {plain(str(baseline.get('engine')))}"
    if image := baseline.get("image"):
        yield f"- Image {code(image.get('reference', ''))}, digest {code(image.get('digest') or 'not read')}"
    if interpreter := baseline.get("interpreter"):
        yield f"- Interpreter {code(interpreter.get('python', ''))}, {len(interpreter.get('packages') or {})} packages"
    yield f"- Arguments: {code(' '.join(map(str, baseline.get('argv') or ())))}"
    for name, value in sorted((baseline.get("env") or {}).items()):
        yield f"- Environment: {code(f'{name}={value}')}"
    first = case.baselines[0]
    for removed in first.payload.removed:
        yield f"- Left out: {code(str(removed.get('option', '')))}, {plain(str(removed.get('why', '')))}"


def _sample(case: Case) -> Iterator[str]:
    sample: Mapping[str, Any] | None = case.baselines[-1].payload.baseline.get("sample") if case.baselines else None
    if sample:
        yield "## Fixed request"
        yield f"- {code(str(sample.get('path')))}, client {code(str(sample.get('client')))}"
        yield f"- Body: {code(str(sample.get('body')))}"


def _requests(case: Case) -> Iterator[str]:
    if case.requests:
        yield "## Fixed request, results"
    for noted in case.requests:
        payload = noted.payload
        yield (
            f"- #{noted.seq}, attempt {payload.attempt}: {payload.complete} of {payload.of} complete,"
            f" {payload.verdict}: {plain(payload.why)}"
        )


def _people(case: Case) -> Iterator[str]:
    if case.answers:
        yield "## What people said"
    for item, noted in sorted(case.answers.items()):
        note = f" ({plain(noted.payload.note)})" if noted.payload.note else ""
        yield f"- {item}: {plain(noted.payload.value)}{note}, {plain(noted.actor)}, {at(noted)}, #{noted.seq}"
    for entered in case.phases:
        if entered.payload.skipped:
            yield (
                f"- Gate before {entered.payload.phase.value} skipped by {plain(entered.actor)}, {at(entered)},"
                f" #{entered.seq}: {plain(entered.payload.reason)}"
            )


def _verify(case: Case, head_hash: str, exported_at: datetime | None) -> Iterator[str]:
    yield "## How to verify"
    yield f"- `baseline verify BUNDLE.zip`: needs neither Slack nor the bot. This page covers #1 to #{case.head_seq}."
    if head_hash:
        yield f"- Record head {code(head_hash)}: compare it with the head posted in the thread."
    if exported_at is not None:
        yield f"- Exported {utc(exported_at)}"
    yield f"- Numbers such as #{case.head_seq} are entries of the record in this bundle."
