"""What an evidence reply consists of before it becomes blocks."""

from __future__ import annotations

from dataclasses import dataclass

from bot.blocks.elements import Block
from bot.blocks.texts import Mrkdwn


@dataclass(frozen=True, slots=True)
class Reply:
    """Title (the verdict), lines, footer facts, at most three buttons."""

    title: Mrkdwn
    lines: tuple[Mrkdwn, ...] = ()
    footer: tuple[Mrkdwn, ...] = ()
    buttons: tuple[Block, ...] = ()
    shows_head: bool = False
    """Whether the head of the ledger is posted with it: with each decision, so that a cut tail shows."""
