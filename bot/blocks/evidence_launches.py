"""Evidence replies of launch and regression: baseline, attempts, score, fixed requests, held engines, analysed logs."""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import Any

from bot.blocks import evidence_ranks as ranks
from bot.blocks import findings
from bot.blocks.reply import Reply
from bot.blocks.terms import REQUEST_VERDICTS, STAGES
from bot.blocks.texts import Mrkdwn, Translate, code, code_block, cut, esc, joined, short, when
from playbooks.evidence import entries as e
from playbooks.guiding.case import Case, Noted
from playbooks.judging.finding import Finding
from playbooks.judging.recorded import SEEN_TO_RUN, moved_arguments
from playbooks.reading.watched import WatchedRun
from playbooks.vocabulary import DriverVerdict, Outcome, Stage


def baseline(payload: e.BaselineFrozen, case: Case, _: Translate) -> Reply:
    """Show the frozen command, what was left out of it and why, or the one change."""
    lines = []
    if payload.change:
        lines.append(change_line(payload.change, _))
    argv = [str(part) for part in payload.baseline.get("argv", [])]
    image = payload.baseline.get("image") or {}
    if image:
        lines.append(
            _(
                "Image {reference} {digest}",
                reference=code(image.get("reference", "?")),
                digest=short(image.get("digest")),
            )
        )
    if argv:
        lines.append(code_block(_command(argv), max_lines=12, max_chars=1600))
    lines += ranks.spread(payload, _)
    if payload.removed:
        left_out = joined(
            [
                Mrkdwn(f"{code(gone.get('option', '?'), limit=80)} ({esc(gone.get('why', ''))})")
                for gone in payload.removed[:6]
            ],
            ", ",
        )
        lines.append(_("Left out: {what}", what=left_out))
    if len(payload.removed) > 6:
        lines.append(_("… and {n} more options left out.", n=len(payload.removed) - 6))
    if payload.added:
        explicit = joined(
            [
                Mrkdwn(f"{code(new.get('option', '?'), limit=80)} ({esc(new.get('why', ''))})")
                for new in payload.added[:4]
            ],
            ", ",
        )
        lines.append(_("Made explicit: {what}", what=explicit))
    number = len(case.baselines)
    if payload.change:
        title = _("Baseline {n} frozen: one variable changed", n=number)
    elif payload.baseline.get("engine") == "recorded":
        title = _of_the_recorded(argv, payload.derived_from, _)
    else:
        title = _("Baseline frozen: the minimal command")
    return Reply(title, tuple(lines), footer=(_("baseline {digest}", digest=short(payload.digest)),))


def change_line(change: dict[str, Any], _: Translate) -> Mrkdwn:
    """Say the one change in words."""
    return _(
        "Changed: {variable} {before} → {after}",
        variable=code(change.get("variable", "?")),
        before=code(change.get("before") if change.get("before") is not None else _.plain("not set"), limit=120),
        after=code(change.get("after") if change.get("after") is not None else _.plain("not set"), limit=120),
    )


def _of_the_recorded(argv: list[str], whence: str, _: Translate) -> Mrkdwn:
    if not argv:
        return _("Baseline of the recorded attempts: no command was given")
    if whence == SEEN_TO_RUN:
        return _("Baseline of the recorded attempts: the command that was seen to run")
    return _("Baseline of the recorded attempts: the command as it was given")


def attempt(payload: e.AttemptRecorded, case: Case, _: Translate) -> Reply:
    """Name what failed first, whether it is the same as before, and how far it came."""
    found = Finding.model_validate(payload.finding)
    before = _previous(payload, case)
    lines = [_ending(payload, _)]
    if payload.outcome is not Outcome.NOT_OBSERVED:
        lines += [
            findings.first_failure(found, _, named=True) if payload.outcome is not Outcome.READY else Mrkdwn(""),
            findings.reached(found, _),
            *findings.symptoms(found, _, most=1),
            _changed(payload, before, _),
        ]
    elif payload.origin == "recorded":
        lines.append(
            _("The log shows no failure, and it does not show that the server came up. Drop the log up to its end.")
        )
    if payload.origin == "recorded":
        if payload.outcome is Outcome.READY and found.reached.position < Stage.ENDPOINT_READY.position:
            lines.append(_("The log says that the server came up; nobody is seen to send it a request."))
        lines += _looked_on(payload, _)
    lines += ranks.lines(payload, _)
    if payload.left_behind:
        lines.append(_("*Could not be verified gone:* {what}", what=cut("; ".join(payload.left_behind), 400)))
    if payload.tenants:
        lines.append(_("Other tenants on the node: {who}", who=cut(", ".join(payload.tenants), 300)))
    if payload.held_until:
        lines.append(
            _("The engine is held until {until} for requests.", until=when(datetime.fromisoformat(payload.held_until)))
        )
    if before is not None and case.boundary is not None and case.boundary.payload.verdict is DriverVerdict.BLOCKED:
        lines.append(
            _("_Whatever the score, the boundary does not open the next stage: see #{seq}._", seq=case.boundary.seq)
        )
    footer = []
    if payload.log_sha256:
        footer.append(_("full log attached · sha256 {digest}", digest=short(payload.log_sha256)))
    return Reply(_attempt_title(payload, found, _), tuple(lines), footer=tuple(footer))


def _looked_on(payload: e.AttemptRecorded, _: Translate) -> list[Mrkdwn]:
    if payload.watched is None:
        return [_("_Recorded attempt: read from a log that ran elsewhere; nothing was observed here._")]
    run = WatchedRun.model_validate(payload.watched)
    what = code(shlex.join(run.command) or run.container or "-", limit=200)
    lines = [
        _(
            "_Recorded attempt: `baseline watch` looked on at {where}, started and stopped nothing:_ {what}",
            where=run.where or "-",
            what=what,
        )
    ]
    if run.limits:
        lines.append(_("*Limits that passed:* {what}", what=cut("; ".join(run.limits), 300)))
    if run.dropped_bytes:
        lines.append(_("{bytes} bytes in the middle of the log were not kept.", bytes=run.dropped_bytes))
    return lines


def _attempt_title(payload: e.AttemptRecorded, found: Finding, _: Translate) -> Mrkdwn:
    name = (
        _("Recorded attempt {n}", n=payload.attempt)
        if payload.origin == "recorded"
        else _("Attempt {n}", n=payload.attempt)
    )
    match payload.outcome:
        case Outcome.READY:
            return _("{attempt}: ready", attempt=name)
        case Outcome.NOT_OBSERVED:
            return _("{attempt}: not observed - it gives no score", attempt=name)
        case Outcome.FAILED | Outcome.STOPPED_BY_LIMIT:
            if found.stage is Stage.NONE:
                return _("{attempt}: failed. {verdict}", attempt=name, verdict=findings.headline(found, _))
            return _(
                "{attempt}: {stage} failed. {verdict}",
                attempt=name,
                stage=_(STAGES[found.stage]),
                verdict=findings.headline(found, _),
            )


def _ending(payload: e.AttemptRecorded, _: Translate) -> Mrkdwn:
    parts = []
    if payload.ready_ms is not None:
        parts.append(_("Ready {time} after start.", time=seconds(payload.ready_ms)))
    if payload.limit:
        parts.append(
            _(
                "Stopped by the {kind} limit of {limit} s in {stage}.",
                kind=str(payload.limit.get("kind", "")),
                limit=payload.limit.get("limit_s", "?"),
                stage=_(STAGES.get(Stage(payload.limit.get("stage", "none")), "nothing")),
            )
        )
    elif payload.stopped_after_ms is not None and payload.outcome is Outcome.FAILED:
        parts.append(_("Stopped {time} after start.", time=seconds(payload.stopped_after_ms)))
    if payload.exit_code is not None:
        parts.append(_("Exit code {code}.", code=payload.exit_code))
    if payload.oom_killed is not None:
        parts.append(_("OOM-killed.") if payload.oom_killed else _("Not OOM-killed."))
    return joined(parts, " ")


def _changed(payload: e.AttemptRecorded, before: Noted[e.AttemptRecorded] | None, _: Translate) -> Mrkdwn:
    digest = short(payload.baseline_digest)
    if before is None:
        return _("First attempt of this baseline ({digest}).", digest=digest)
    if payload.changed:
        return _(
            "Changed since attempt {n}: {what}", n=before.payload.attempt, what=cut("; ".join(payload.changed), 500)
        )
    if payload.origin == "recorded":
        return _changed_by_the_logs(payload, before, _)
    return _("Changed since attempt {n}: nothing (baseline {digest}).", n=before.payload.attempt, digest=digest)


def _changed_by_the_logs(payload: e.AttemptRecorded, before: Noted[e.AttemptRecorded], _: Translate) -> Mrkdwn:
    """Say what the logs tell of a change: nothing here saw what ran."""
    n = before.payload.attempt
    moved = moved_arguments(Finding.model_validate(before.payload.finding), Finding.model_validate(payload.finding))
    if moved is None:
        return _("Changed since attempt {n}: not known, the logs do not tell the engine's arguments.", n=n)
    if moved:
        return _("Changed since attempt {n}, by the logs: {what}", n=n, what=cut("; ".join(moved), 500))
    return _("Changed since attempt {n}: none of the engine's arguments, by the logs; the rest is not known.", n=n)


def _previous(payload: e.AttemptRecorded, case: Case) -> Noted[e.AttemptRecorded] | None:
    earlier = [noted for noted in case.attempts if noted.payload.attempt < payload.attempt]
    return earlier[-1] if earlier else None


def withdrawn(payload: e.AttemptWithdrawn, _case: Case, _: Translate) -> Reply:
    """Say which attempt counts no more, and why; the record keeps both entries."""
    return Reply(
        _("Attempt {n} withdrawn", n=payload.attempt),
        (
            _("Reason: {reason}", reason=cut(payload.reason, 800)),
            _("It stays in the record as #{seq}; it and its scores count no more.", seq=payload.recorded_as),
        ),
    )


def score(payload: e.ScoreGiven, _case: Case, _: Translate) -> Reply:
    """Give the score in words and what it opens or stops."""
    pair = {"a": payload.earlier, "b": payload.later}
    if payload.score is None:
        return Reply(_("No score for attempts {a} and {b}", **pair), (esc(_.reason(payload.why)),))
    titles = {
        2: _("Score 2: attempts {a} and {b} end the same way", **pair),
        1: _("Score 1: attempts {a} and {b} fail in the same stage, but not alike", **pair),
        0: _("Score 0: attempts {a} and {b} end differently", **pair),
    }
    advice = {
        2: _("Two alike: this is stable. The next stage opens once every item of the gate is closed."),
        1: _("*Next:* look for leftovers and shared resources before another attempt."),
        0: _(
            "*Next:* stop tuning parameters and freeze again: loaded driver, GPUs in the container, image, shared memory, RDMA rights, scheduling."
        ),
    }
    lines = [
        esc(_.reason(payload.why)),
        _("Two root lines of one cause.") if payload.one_cause else Mrkdwn(""),
        advice[payload.score],
    ]
    return Reply(titles[payload.score], tuple(lines), footer=(_("row {row} of the score table", row=payload.row),))


def requests(payload: e.RequestRecorded, _case: Case, _: Translate) -> Reply:
    """Count complete runs; one success is never stable."""
    lines = [esc(payload.why)]
    lines += [
        _(
            "Run {n}: {how} in {time}",
            n=run.get("n", "?"),
            how=_("complete") if run.get("complete") else esc(cut(str(run.get("error") or _("incomplete")), 200)),
            time=seconds(int(run.get("ended_ms") or 0)),
        )
        for run in payload.runs[:5]
    ]
    return Reply(
        _(
            "Fixed request to attempt {attempt}: {verdict}, {complete} of {of} complete",
            attempt=payload.attempt,
            verdict=_(REQUEST_VERDICTS[payload.verdict]),
            complete=payload.complete,
            of=payload.of,
        ),
        tuple(lines),
    )


def held_ended(payload: e.HeldEnded, _case: Case, _: Translate) -> Reply:
    """Say how a held engine ended."""
    titles = {
        "stopped": _("Engine of attempt {n} stopped", n=payload.attempt),
        "expired": _("Engine of attempt {n} ended: its time was over", n=payload.attempt),
        "replaced": _("Engine of attempt {n} ended: the next attempt replaced it", n=payload.attempt),
        "died": _("Engine of attempt {n} died while it was held", n=payload.attempt),
    }
    return Reply(titles[payload.how], (esc(payload.detail),))


def log_analysed(payload: e.LogAnalysed, _case: Case, _: Translate) -> Reply:
    """Answer a log that is no attempt."""
    found = Finding.model_validate(payload.finding)
    return Reply(
        findings.headline(found, _),
        (
            findings.first_failure(found, _),
            findings.reached(found, _),
            *findings.symptoms(found, _),
            findings.next_step(found, _),
        ),
        footer=(_("log {name} · sha256 {digest}", name=payload.name, digest=short(payload.sha256)),),
    )


def seconds(milliseconds: int) -> str:
    """Write a duration for a reader: 850 ms, 11 s, 4 min 5 s."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    whole = milliseconds // 1000
    if whole < 10:
        return f"{whole}.{milliseconds % 1000 // 100} s"
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60} s"


def _command(argv: list[str]) -> str:
    """Return the command as it could be typed: the program first, an option a line."""
    rows = ["vllm serve"]
    for part in argv[1:] if argv[:1] == ["serve"] else argv:
        if part.startswith("-"):
            rows.append(part)
        else:
            rows[-1] += f" {part}"
    return " \\\n  ".join(rows)
