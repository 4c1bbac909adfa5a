"""Evidence replies of probes against a held engine: the prefix cache."""

from __future__ import annotations

from typing import Any

from bot.blocks.reply import Reply
from bot.blocks.terms import CACHE_VERDICTS, CAUSE_STATES
from bot.blocks.texts import Mrkdwn, Translate, code_block, esc
from playbooks.evidence import entries as e
from playbooks.guiding.case import Case

_HEAD = ("round", "request", "tokens", "expected", "cached", "counter", "ttft ms")
_FIELDS = ("round", "name", "tokens", "expected", "cached", "counted", "ttft_ms")


def cache(payload: e.CacheProbed, _case: Case, _: Translate) -> Reply:
    """Say what the probe proves, on which requests, and for a miss which causes are left."""
    lines: list[Mrkdwn] = [esc(_.reason(payload.grounds))]
    if payload.rows:
        lines.append(code_block(_table(payload.rows), max_lines=14, max_chars=1400))
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
    lines.append(_advice(payload.verdict, _))
    title = _(
        "Prefix cache of attempt {attempt}: {verdict}",
        attempt=payload.attempt,
        verdict=_(CACHE_VERDICTS[payload.verdict]),
    )
    return Reply(
        title, tuple(lines), footer=(_("A1 cold, A2 the same again, A3 and A4 other ends, N1 and N2 must not hit"),)
    )


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


def _table(rows: list[dict[str, Any]]) -> str:
    cells = [list(_HEAD)] + [["-" if row.get(name) is None else str(row[name]) for name in _FIELDS] for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEAD))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if column == 1 else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in cells
    )
