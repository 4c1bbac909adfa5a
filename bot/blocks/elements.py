"""The few Block Kit elements that messages and modals are made of, cut to Slack's limits where they are made.

Leaves the wording to the modules beside it and the whole-message budget to `limits.fit`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bot.blocks.texts import Mrkdwn, cut, cut_marked, esc

Block = dict[str, Any]
SECTION_CHARS = 3000
BUTTON_CHARS = 75


@dataclass(frozen=True, slots=True)
class Message:
    """A message: blocks, and a text that makes sense alone (notifications, screen readers)."""

    text: str
    blocks: tuple[Block, ...]

    def payload(self) -> dict[str, Any]:
        """Return `{text, blocks}` as outbox rows and Slack calls carry it."""
        return {"text": self.text, "blocks": list(self.blocks)}


@dataclass(frozen=True, slots=True)
class Ref:
    """The one opaque id an action carries: incident (or `log`) and step; state is looked up, never carried."""

    subject: str
    step: str = ""

    def __str__(self) -> str:
        """Return the value of a button."""
        return f"{self.subject}:{self.step}"

    @classmethod
    def parse(cls, value: str) -> Ref:
        """Read a button's value back."""
        subject, _, step = value.partition(":")
        return cls(subject, step)


def section(text: Mrkdwn, *, accessory: Block | None = None) -> Block:
    """Return a section of mrkdwn."""
    block: Block = {"type": "section", "text": {"type": "mrkdwn", "text": cut_marked(text, SECTION_CHARS) or " "}}
    if accessory is not None:
        block["accessory"] = accessory
    return block


def sections(parts: Iterable[Mrkdwn]) -> list[Block]:
    """Put lines into as few sections as fit; a line is never split between two."""
    blocks: list[Block] = []
    gathered = ""
    for part in parts:
        if not part:
            continue
        line = cut_marked(part, SECTION_CHARS)
        if gathered and len(gathered) + 1 + len(line) > SECTION_CHARS:
            blocks.append(section(Mrkdwn(gathered)))
            gathered = line
        else:
            gathered = f"{gathered}\n{line}" if gathered else line
    if gathered:
        blocks.append(section(Mrkdwn(gathered)))
    return blocks


def context(text: Mrkdwn) -> Block:
    """Return a small grey line."""
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": cut_marked(text, SECTION_CHARS) or " "}]}


def button(label: str, action: str, ref: Ref | str, *, style: str | None = None, confirm: Block | None = None) -> Block:
    """Return a button; its action id is unique in a message by verb and value."""
    value = str(ref)
    block: Block = {
        "type": "button",
        "text": {"type": "plain_text", "text": cut(label, BUTTON_CHARS)},
        "action_id": cut(f"{action}|{value}", 255),
        "value": value,
    }
    if style:
        block["style"] = style
    if confirm:
        block["confirm"] = confirm
    return block


def menu(action: str, options: Sequence[tuple[str, Ref]]) -> Block:
    """Return an overflow menu of two to five further actions."""
    return {
        "type": "overflow",
        "action_id": action,
        "options": [
            {"text": {"type": "plain_text", "text": cut(label, BUTTON_CHARS)}, "value": cut(str(ref), 150)}
            for label, ref in options[:5]
        ],
    }


def actions(elements: Sequence[Block]) -> list[Block]:
    """Return a row of buttons, or nothing when there is none."""
    return [{"type": "actions", "elements": list(elements)}] if elements else []


def confirm(*, title: str, text: Mrkdwn, yes: str, no: str) -> Block:
    """Return a confirmation dialog of a button."""
    return {
        "title": {"type": "plain_text", "text": cut(title, 100)},
        "text": {"type": "mrkdwn", "text": cut(text, 300)},
        "confirm": {"type": "plain_text", "text": cut(yes, 30)},
        "deny": {"type": "plain_text", "text": cut(no, 30)},
    }


def option(label: str, value: str, *, description: str = "") -> Block:
    """Return one option of a select."""
    block: Block = {"text": {"type": "plain_text", "text": cut(label, 75) or "-"}, "value": cut(value, 150)}
    if description:
        block["description"] = {"type": "plain_text", "text": cut(description, 75)}
    return block


def text_input(
    block_id: str,
    label: str,
    *,
    multiline: bool = False,
    hint: str = "",
    initial: str = "",
    optional: bool = False,
    placeholder: str = "",
) -> Block:
    """Return a text field of a modal; 3,000 characters is the most Slack takes."""
    element: Block = {"type": "plain_text_input", "action_id": block_id, "multiline": multiline, "max_length": 3000}
    if initial:
        element["initial_value"] = cut(initial, 3000)
    if placeholder:
        element["placeholder"] = {"type": "plain_text", "text": cut(placeholder, 150)}
    return _input(block_id, label, element, hint=hint, optional=optional)


def select_input(
    block_id: str,
    label: str,
    options: Sequence[Block],
    *,
    initial: str | None = None,
    hint: str = "",
    optional: bool = False,
) -> Block:
    """Return a select of a modal; at most 100 options."""
    shown = list(options)[:100]
    element: Block = {"type": "static_select", "action_id": block_id, "options": shown}
    chosen = [entry for entry in shown if entry["value"] == initial]
    if chosen:
        element["initial_option"] = chosen[0]
    return _input(block_id, label, element, hint=hint, optional=optional)


def multi_select_input(block_id: str, label: str, options: Sequence[Block], *, hint: str = "") -> Block:
    """Return a select of a modal that takes any number of options, or none; at most 100 are offered."""
    element: Block = {"type": "multi_static_select", "action_id": block_id, "options": list(options)[:100]}
    return _input(block_id, label, element, hint=hint, optional=True)


def _input(block_id: str, label: str, element: Block, *, hint: str, optional: bool) -> Block:
    block: Block = {
        "type": "input",
        "block_id": block_id,
        "optional": optional,
        "label": {"type": "plain_text", "text": cut(label, 2000)},
        "element": element,
    }
    if hint:
        block["hint"] = {"type": "plain_text", "text": cut(hint, 2000)}
    return block


def modal(
    *, callback: str, metadata: str, title: str, blocks: Sequence[Block], submit: str | None, close: str
) -> Block:
    """Return a modal view; `metadata` is the one opaque id (or the channel, which a view does not carry by itself)."""
    view: Block = {
        "type": "modal",
        "callback_id": callback,
        "private_metadata": metadata,
        "title": {"type": "plain_text", "text": cut(title, 24)},
        "close": {"type": "plain_text", "text": cut(close, 24)},
        "blocks": list(blocks)[:100],
    }
    if submit:
        view["submit"] = {"type": "plain_text", "text": cut(submit, 24)}
    return view


def plain(text: str) -> Mrkdwn:
    """Escape a text for the message's fallback."""
    return esc(text)
