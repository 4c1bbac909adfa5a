"""Evidence replies of freeze and boundary: opening, answers, jobs, scene, fingerprint, driver verdict."""

from __future__ import annotations

from collections import Counter
from typing import Any

from bot.blocks import findings
from bot.blocks.reply import Reply
from bot.blocks.terms import DRIVER_VERDICTS, FIELD_VERDICTS, JOB_OUTCOMES, JOBS
from bot.blocks.texts import Mrkdwn, Translate, code_block, cut, esc, padded, short
from playbooks.evidence import entries as e
from playbooks.guiding.case import Case
from playbooks.judging.finding import Finding
from playbooks.judging.verdict_table import Row, verdict_table
from playbooks.messages import FingerprintFacts
from playbooks.vocabulary import DriverVerdict, FieldStatus

_MOST_LINES = 4
_MOST_ROWS = 18
_VERDICT_WIDTH = 13


def opened(payload: e.IncidentOpened, _case: Case, _: Translate) -> Reply:
    """Say what fails, where, and with which command, in the opener's words."""
    lines = [
        esc(payload.what_fails),
        _(
            "Node: {node} · playbook {playbook}",
            node=", ".join(payload.nodes) or payload.node or _("none named"),
            playbook=payload.playbook,
        ),
    ]
    if payload.command:
        lines.append(code_block(payload.command, max_lines=8, max_chars=1200))
    return Reply(
        _("Opened: {title}", title=payload.title),
        tuple(lines),
        footer=(_("playbook {digest}", digest=short(payload.playbook_sha256)),),
    )


def answered(payload: e.AnswerRecorded, _case: Case, _: Translate) -> Reply:
    """Show a person's answer."""
    note = (esc(payload.note),) if payload.note else ()
    return Reply(_("{item}: {value}", item=payload.item, value=cut(payload.value, 600)), note)


def job_requested(payload: e.JobRequested, _case: Case, _: Translate) -> Reply:
    """Say that a job was asked for."""
    what = _(JOBS[payload.job_kind])
    if payload.attempt is not None:
        what = _("{what} {n}", what=what, n=payload.attempt)
    return Reply(_("Asked of {node}: {what}", node=payload.node, what=what))


def job_ended(payload: e.JobEnded, _case: Case, _: Translate) -> Reply:
    """Say that a job ended without facts, and why."""
    what = _(JOBS[payload.job_kind])
    if payload.attempt is not None:
        what = _("{what} {n}", what=what, n=payload.attempt)
    return Reply(
        _("No result: {what} - {outcome}", what=what, outcome=_(JOB_OUTCOMES[payload.outcome])), (esc(payload.detail),)
    )


def scene(payload: e.SceneCollected, _case: Case, _: Translate) -> Reply:
    """List what was saved and what could not be read; both are facts."""
    missing = [f"{role} ({why})" for role, why in sorted(payload.missing.items())]
    lines = [_("Saved: {roles}.", roles=", ".join(sorted(payload.saved)) or _("nothing"))]
    if missing:
        lines.append(_("Could not be read: {roles}.", roles=cut("; ".join(missing), 800)))
    if payload.finding:
        found = Finding.model_validate(payload.finding)
        lines += [_("In its log: {verdict}.", verdict=findings.headline(found, _)), findings.first_failure(found, _)]
    return Reply(
        _(
            "Scene of {node} saved: {n} files, {m} not readable",
            node=payload.node,
            n=len(payload.saved),
            m=len(missing),
        ),
        tuple(lines),
        footer=(_("redacted: {n} values", n=payload.redactions),) if payload.redactions else (),
    )


def fingerprint(payload: e.FingerprintRecorded, case: Case, _: Translate) -> Reply:
    """Show the fields a decision rests on, what does not fit together or is left over, and what moved."""
    host, container = payload.facts.get("host", {}), payload.facts.get("container", {})
    rows = _rows(payload)
    count = Counter(row.verdict for row in rows)
    fine = count["agrees"] + count["read"]
    lines = [
        _("Differs: {n} · not readable: {m} · agrees or read: {k}", n=count["differs"], m=count["not_readable"], k=fine)
    ]
    lines += [
        _("Worth a look: {text}", text=str(found.get("text", found.get("rule", ""))))
        for found in payload.disagreements[:_MOST_LINES]
    ]
    if len(payload.disagreements) > _MOST_LINES:
        lines.append(_("… and {n} more.", n=len(payload.disagreements) - _MOST_LINES))
    first = len(case.fingerprints) <= 1
    if payload.moved:
        lines.append(_("Moved since the last reading: {what}", what=cut("; ".join(payload.moved), 800)))
    elif not first:
        lines.append(_("Nothing moved since the last reading."))
    lines.append(_table(rows, _))
    read = sum(1 for value in [*host.values(), *container.values()] if _status(value) == FieldStatus.OK)
    total = len(host) + len(container)
    if payload.disagreements:
        title = _("Fingerprint of {node}: {n}× worth a look", node=payload.node, n=len(payload.disagreements))
    elif payload.moved:
        title = _("Fingerprint of {node}: something moved, {n}×", node=payload.node, n=len(payload.moved))
    else:
        title = _("Fingerprint of {node} read", node=payload.node)
    return Reply(
        title,
        tuple(lines),
        footer=(
            _("host | inside"),
            _("{read} of {total} fields read", read=read, total=total),
            _("stable part {digest}", digest=short(payload.stable_sha256)),
        ),
    )


def boundary(payload: e.BoundaryJudged, _case: Case, _: Translate) -> Reply:
    """Give the driver verdict with its grounds, and other boundary findings."""
    titles = {
        DriverVerdict.SUPPORTED: _("Boundary: the loaded driver supports this image"),
        DriverVerdict.COMPAT_ONLY: _("Boundary: this driver runs the image through the compatibility package only"),
        DriverVerdict.BLOCKED: _("Boundary *blocked*: this driver cannot run this image"),
        DriverVerdict.UNKNOWN: _("Boundary: cannot tell yet"),
    }
    lines = [esc(ground) for ground in payload.grounds[:_MOST_LINES]]
    lines += [_("Also: {text}", text=str(found.get("text", ""))) for found in payload.findings[:_MOST_LINES]]
    if payload.verdict is DriverVerdict.BLOCKED:
        lines.append(_("Lower context length or concurrency does not help here."))
    return Reply(
        Mrkdwn(titles[payload.verdict].replace("*", "")),
        tuple(lines),
        footer=(
            _("rule {rule}", rule=payload.rule),
            _("boundaries {snapshot} ({age})", snapshot=payload.snapshot, age=_age(payload.age_days, _)),
            _("verdict: {verdict}", verdict=_(DRIVER_VERDICTS[payload.verdict])),
        ),
    )


def _age(days: int, _: Translate) -> Mrkdwn:
    if days <= 0:
        return _("today")
    return _("1 day ago") if days == 1 else _("{days} days ago", days=days)


def _rows(payload: e.FingerprintRecorded) -> tuple[Row, ...]:
    facts = FingerprintFacts.model_validate({"duration_ms": 0, **payload.facts})
    return verdict_table(facts.host, facts.container, [str(one.get("rule", "")) for one in payload.disagreements])


def _table(rows: tuple[Row, ...], _: Translate) -> Mrkdwn:
    """Return the verdict table: what differs first, each topic a line that a phone shows whole."""
    lines = [
        f"{padded(_(FIELD_VERDICTS[row.verdict]), _VERDICT_WIDTH)}{row.topic:<10}{_both(row)}"
        for row in rows
        if row.verdict != "absent"
    ]
    absent = ", ".join(row.topic for row in rows if row.verdict == "absent")
    if absent:
        lines.append(f"{padded(_(FIELD_VERDICTS['absent']), _VERDICT_WIDTH)}{absent}")
    return code_block("\n".join(lines), max_lines=_MOST_ROWS, max_chars=1200)


def _both(row: Row) -> str:
    if not row.host or not row.container or row.host == row.container:
        return row.host or row.container
    return f"{row.host} | {row.container}"


def _status(field: Any) -> str:
    return str(field.get("status", "")) if isinstance(field, dict) else ""
