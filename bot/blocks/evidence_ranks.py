"""What the evidence replies say of a launch over several nodes: who is which rank, and how each one ended."""

from __future__ import annotations

from bot.blocks.classes import HEADLINES
from bot.blocks.terms import STAGES
from bot.blocks.texts import Mrkdwn, Translate, code, cut, joined
from playbooks.evidence import entries as e
from playbooks.vocabulary import Outcome

_MOST = 16


def spread(payload: e.BaselineFrozen, _: Translate) -> list[Mrkdwn]:
    """Name the nodes of a baseline of several, and what is added to its command for each rank."""
    nodes = [str(node) for node in payload.baseline.get("nodes") or ()]
    if len(nodes) < 2:
        return []
    given = code(f"--nnodes {len(nodes)} --node-rank 0…{len(nodes) - 1}")
    return [
        _("Nodes: {head} (head, serves) · {others}", head=nodes[0], others=", ".join(nodes[1:])),
        _(
            "Added for each rank, and no part of the baseline: {given}, where they meet unless it is named above, {headless} but for the head.",
            given=given,
            headless=code("--headless"),
        ),
    ]


def lines(payload: e.AttemptRecorded, _: Translate) -> list[Mrkdwn]:
    """Say which rank failed first, and how each of them ended; nothing for a launch on one node."""
    if not payload.ranks:
        return []
    differ = cut("; ".join(payload.ranks_differ), 400)
    return [
        _first(payload, _),
        *(_rank(rank, payload, _) for rank in payload.ranks[:_MOST]),
        _("*The ranks did not run the same thing:* {what}", what=differ) if differ else Mrkdwn(""),
    ]


def _first(payload: e.AttemptRecorded, _: Translate) -> Mrkdwn:
    names = {rank.rank: rank.node for rank in payload.ranks}
    if len(payload.first_ranks) == 1:
        rank = payload.first_ranks[0]
        return _("*First to fail: rank {rank} on {node}.*", rank=rank, node=names.get(rank, "-"))
    if payload.first_ranks:
        shown = ", ".join(map(str, payload.first_ranks))
        return _("*First to fail: ranks {ranks}, too near in time for any clock to tell which.*", ranks=shown)
    if payload.outcome is Outcome.READY:
        return _("Every rank was ready.")
    return _("Not observed: {why}", why=payload.first_why)


def _rank(line: e.RankLine, payload: e.AttemptRecorded, _: Translate) -> Mrkdwn:
    place = {"rank": line.rank, "node": line.node}
    match line.outcome:
        case Outcome.READY:
            return _("• rank {rank} on {node}: ready", **place)
        case Outcome.NOT_OBSERVED:
            return _("• rank {rank} on {node}: {why}", **place, why=cut(line.why or "-", 200))
        case Outcome.FAILED | Outcome.STOPPED_BY_LIMIT:
            root = code(line.root_text, limit=160) if line.root_text else Mrkdwn("")
            said = joined([_(STAGES[line.stage]), _(HEADLINES[line.error_class]), root], " - ")
            if line.rank in payload.first_ranks:
                return _("• rank {rank} on {node}: {said}", **place, said=said)
            return _("• rank {rank} on {node}, later: {said}", **place, said=said)
