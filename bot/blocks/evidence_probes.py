"""Evidence replies of probes against a held engine: the prefix cache, one feature, the pressure ladder."""

from __future__ import annotations

from typing import Any

from bot.blocks.evidence_launches import seconds
from bot.blocks.reply import Reply
from bot.blocks.terms import (
    CACHE_VERDICTS,
    CAUSE_STATES,
    FEATURE_FAILURES,
    FEATURE_NAMES,
    FEATURE_VERDICTS,
    LADDER_VERDICTS,
)
from bot.blocks.texts import N_, Mrkdwn, Translate, code_block, cut, esc, joined
from playbooks.evidence import entries as e
from playbooks.guiding.case import Case
from playbooks.judging.off_on import OffOn

_HEAD = ("r", "req", "tokens", "want", "got", "count", "ms")
"""Short, so that a row fits on a phone."""
_FIELDS = ("round", "name", "tokens", "expected", "cached", "counted", "ttft_ms")
_LADDER_HEAD = ("rung", "done", "tries", "ms", "ttft", "tok/s", "preempt", "wait", "kv/1000", "restarts")
_OTHER_FAILURE = N_("another failure")
_ALWAYS = 6
"""Columns that are always shown; the others where something was seen, so that a row fits on a phone."""
_LADDER_FIELDS = (
    "rung",
    "done",
    "tries",
    "latency_ms",
    "ttft_ms",
    "tokens_s",
    "preemptions",
    "waiting",
    "kv_permille",
    "restarts",
)


def cache(payload: e.CacheProbed, _case: Case, _: Translate) -> Reply:
    """Say what the probe proves, on which requests, and for a miss which causes are left."""
    lines: list[Mrkdwn] = [esc(_.reason(payload.grounds))]
    if payload.rows:
        lines.append(code_block(_table(payload.rows, _HEAD, _FIELDS, left=1), max_lines=14, max_chars=1400))
    lines += [esc(_.reason(remark)) for remark in payload.remarks[:5]]
    lines += [
        _(
            "Cause {name}: {state} - {text}",
            name=esc(_.reason(cause.get("name", "?"))),
            state=_(CAUSE_STATES.get(cause.get("state", ""), "not known")),
            text=esc(_.reason(cause.get("text", ""))),
        )
        for cause in payload.causes
        if cause.get("state") != "excluded"
    ][:6]
    lines += _off_on(payload.off_on, _)
    lines.append(_advice(payload.verdict, _))
    title = _(
        "Prefix cache of attempt {attempt}: {verdict}",
        attempt=payload.attempt,
        verdict=_(CACHE_VERDICTS[payload.verdict]),
    )
    return Reply(
        title,
        tuple(lines),
        footer=(
            _(
                "A1 cold, A2 the same again, A3 and A4 other ends, N1 and N2 must not hit; want and got: cached tokens expected and answered, count: by the counter"
            ),
        ),
    )


def _off_on(found: dict[str, Any] | None, _: Translate) -> list[Mrkdwn]:
    """Return start, memory and log of the launch with the cache beside the one without."""
    if found is None:
        return []
    both = OffOn.model_validate(found)
    parts = [_("Off (attempt {off}) against on (attempt {on})", off=both.off.attempt, on=both.on.attempt)]
    if both.off.ready_ms is not None and both.on.ready_ms is not None:
        parts.append(_("ready after {off} / {on}", off=seconds(both.off.ready_ms), on=seconds(both.on.ready_ms)))
    if both.off.memory_bytes is not None and both.on.memory_bytes is not None:
        off, on = (
            f"{side.memory_bytes / (1 << 30):.1f} GiB" for side in (both.off, both.on) if side.memory_bytes is not None
        )
        parts.append(_("GPU memory {off} / {on}", off=off, on=on))
    if both.logs_read:
        parts.append(_("lines of the start that one alone has: {off} / {on}", off=both.count_off, on=both.count_on))
    shown = [f"- {line}" for line in both.only_off] + [f"+ {line}" for line in both.only_on]
    return [joined(parts, " · "), code_block("\n".join(shown), max_lines=8, max_chars=800) if shown else Mrkdwn("")]


def _advice(verdict: str, _: Translate) -> Mrkdwn:
    match verdict:
        case "hit":
            return _(
                "_Proven by counters and answers, not by speed. That the service starts stably is another acceptance._"
            )
        case "miss":
            return _("*Next:* look at the causes above, one at a time. A miss is no reason to doubt the driver.")
        case "repeat_only":
            return _("*Next:* compare the token ids of two real requests: where do they part? Then retention.")
        case "disabled":
            return _("*Next:* add `--enable-prefix-caching` as the one change of the next attempt.")
        case "contaminated":
            return _("*Next:* repeat while nobody else uses the engine.")
        case _:
            return _("*Next:* this is no miss. Remove what the grounds name, and repeat.")


def ladder(payload: e.LadderClimbed, _case: Case, _: Translate) -> Reply:
    """Say how far the ladder went, the figures of each rung, and which layer the last one points to."""
    lines: list[Mrkdwn] = [esc(_.reason(payload.grounds))]
    if payload.rows:
        rows = [{**row, "done": f"{row.get('complete')}/{row.get('of')}", "rung": _rung(row)} for row in payload.rows]
        if payload.failed is not None and 0 <= payload.failed < len(rows):
            rows[payload.failed]["rung"] += " x"
        seen = [at for at, name in enumerate(_LADDER_FIELDS) if at < _ALWAYS or any(row.get(name) for row in rows)]
        head, fields = (tuple(names[at] for at in seen) for names in (_LADDER_HEAD, _LADDER_FIELDS))
        lines.append(code_block(_table(rows, head, fields, left=0), max_lines=22, max_chars=2000))
    lines += [esc(_.reason(remark)) for remark in payload.remarks[:5]]
    lines.append(_ladder_advice(payload.verdict, _))
    title = _(
        "Pressure ladder of attempt {attempt}: {verdict}",
        attempt=payload.attempt,
        verdict=_(LADDER_VERDICTS[payload.verdict]),
    )
    return Reply(title, tuple(lines), footer=(_("One thing grows a rung; x marks the rung that ended it"),))


def _rung(row: dict[str, Any]) -> str:
    shown = {"short": "short", "input": f"input {row.get('input')}", "output": f"output {row.get('output')}"}
    return shown.get(str(row.get("question")), f"{row.get('at_once')} at once")


def feature(payload: e.FeatureProbed, _case: Case, _: Translate) -> Reply:
    """Say whether a feature works: rate with its interval, what the failed tries did instead, and an example of each."""
    lines: list[Mrkdwn] = [esc(_.reason(payload.grounds))]
    if payload.of:
        rate = _("Rate {passed} of {of}", passed=payload.passed, of=payload.of)
        between = _("95 % interval {low}-{high} %", low=(payload.low or 0) // 10, high=((payload.high or 0) + 5) // 10)
        lines.append(joined([rate, between], " · "))
    lines += [
        _("{n}× {what}", n=count, what=_(FEATURE_FAILURES.get(kind, _OTHER_FAILURE)))
        if not kind.startswith("http_")
        else _("{n}× HTTP {status}", n=count, status=kind.removeprefix("http_"))
        for kind, count in list(payload.failures.items())[:6]
    ]
    shown = [
        f"{one.get('try', '?')} {one.get('how', '')} {one.get('kind', '')}: {one.get('said', '')}"
        for one in payload.examples
    ]
    if shown:
        lines.append(
            code_block("\n".join(cut(line.replace("\n", " "), 240) for line in shown), max_lines=4, max_chars=800)
        )
    lines += [esc(_.reason(remark)) for remark in payload.remarks[:3]]
    lines.append(_feature_advice(payload.verdict, _))
    title = _(
        "Feature of attempt {attempt}: {feature} - {verdict}",
        attempt=payload.attempt,
        feature=_(FEATURE_NAMES[payload.feature]) if payload.feature in FEATURE_NAMES else payload.feature,
        verdict=_(FEATURE_VERDICTS[payload.verdict]),
    )
    return Reply(
        title,
        tuple(lines),
        footer=(_("each try has another subject; arguments and JSON are checked against their schema"),),
    )


def _feature_advice(verdict: str, _: Translate) -> Mrkdwn:
    match verdict:
        case "works":
            return _("_Proven for these requests; an agent's real prompts are another matter._")
        case "untested":
            return _("*Next:* nothing is concluded. To test it, bring it back as the one change of the next attempt.")
        case "sometimes" | "fails":
            return _("*Next:* take it out again, re-verify the stable baseline, and report with the examples above.")
        case _:
            return _("*Next:* nothing is concluded. Remove what the grounds name, and repeat.")


def _ladder_advice(verdict: str, _: Translate) -> Mrkdwn:
    match verdict:
        case "climbed":
            return _("_Held as far as it was asked, on this hardware and engine version; larger loads are not proven._")
        case "capacity":
            return _("*Next:* is this input longer than what the last baseline served? Then cache capacity and limits.")
        case "scheduling":
            return _("*Next:* keep the single request, and look at scheduling, pre-emption and memory allocation.")
        case "environment":
            return _("*Next:* back to driver, container and communication. No memory tuning.")
        case "short_unstable":
            return _("*Next:* send the fixed request again; nothing heavier before it is stable.")
        case _:
            return _("*Next:* nothing is concluded. Remove what the grounds name, and repeat.")


def _table(rows: list[dict[str, Any]], head: tuple[str, ...], fields: tuple[str, ...], *, left: int) -> str:
    cells = [list(head)] + [["-" if row.get(name) is None else str(row[name]) for name in fields] for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if column == left else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in cells
    )
