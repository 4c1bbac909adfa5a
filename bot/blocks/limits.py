"""Slack's limits on messages and views, also those that its SDK does not check; and fitting a message into them.

Source: Slack's Block Kit reference; the sum over a message is undocumented and was seen to refuse 11,341 characters, so
the budget is 10,000. `violations` names each with a JSON pointer, as Slack does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from bot.blocks.elements import Message
from bot.blocks.texts import cut_marked

MESSAGE_BLOCKS = 50
VIEW_BLOCKS = 100
VIEW_BYTES = 250_000
MESSAGE_CHARS = 10_000
FALLBACK_CHARS = 3_000
_PINGS = re.compile(r"<!(?!date\^)")
_TEXT_LIMITS = {"section": 3000, "header": 150}
_ELEMENTS = {"actions": 25, "context": 10}
_BUTTON = {"text": 75, "value": 2000, "url": 3000, "accessibility_label": 75}
_CONFIRM = {"title": 100, "text": 300, "confirm": 30, "deny": 30}
_OPTIONS = {"overflow": 5, "static_select": 100, "checkboxes": 10, "radio_buttons": 10}
_OPTION = {"text": 75, "description": 75}


def violations(message: Message) -> list[str]:
    """Return what Slack would refuse in a message; empty = nothing."""
    found = list(_blocks(list(message.blocks), most=MESSAGE_BLOCKS, where="/blocks"))
    if not message.text.strip():
        found.append("/text: empty")
    if len(message.text) > FALLBACK_CHARS:
        found.append(f"/text: {len(message.text)} characters, limit {FALLBACK_CHARS}")
    total = sum(len(text) for text in _texts(list(message.blocks)))
    if total > MESSAGE_CHARS:
        found.append(f"/blocks: {total} characters in all, budget {MESSAGE_CHARS}")
    found += [
        f"{text[:40]!r} would ping" for text in (message.text, *_texts(list(message.blocks))) if _PINGS.search(text)
    ]
    return found


def view_violations(view: dict[str, Any]) -> list[str]:
    """Return what Slack would refuse in a modal or home view; empty = nothing."""
    found = list(_blocks(view.get("blocks", []), most=VIEW_BLOCKS, where="/view/blocks"))
    for name in ("title", "submit", "close"):
        if name in view:
            found += _length(view[name]["text"], 24, f"/view/{name}")
    if (size := len(json.dumps(view, ensure_ascii=False).encode())) > VIEW_BYTES:
        found.append(f"/view: {size} bytes, limit {VIEW_BYTES}")
    found += _length(view.get("private_metadata", "") or " ", 3000, "/view/private_metadata")
    found += _length(view.get("callback_id", "") or " ", 255, "/view/callback_id")
    if (
        any(block["type"] == "input" for block in view.get("blocks", []))
        and "submit" not in view
        and view["type"] == "modal"
    ):
        found.append("/view/submit: needed with inputs")
    return found


def fit(message: Message) -> Message:
    """Cut the longest texts until the whole message is inside the budget; buttons and the first block stay whole."""
    blocks = [dict(block) for block in message.blocks][:MESSAGE_BLOCKS]
    while (over := sum(len(text) for text in _texts(blocks)) - MESSAGE_CHARS) > 0:
        longest = max(
            (block for block in blocks if block["type"] == "section"), key=lambda block: len(block["text"]["text"])
        )
        text = longest["text"]["text"]
        shorter = _cut_text(text, max(len(text) - over - 1, 200))
        if len(shorter) >= len(text):
            break
        longest["text"] = {**longest["text"], "text": shorter}
    return Message(cut_marked(message.text, FALLBACK_CHARS), tuple(blocks))


def _cut_text(text: str, limit: int) -> str:
    """Cut inside a text, closing a code block that the cut left open."""
    shorter = cut_marked(text, limit)
    return shorter if shorter.count("```") % 2 == 0 else cut_marked(text, limit - 4) + "\n```"


def _blocks(blocks: list[dict[str, Any]], *, most: int, where: str) -> Iterator[str]:
    if len(blocks) > most:
        yield f"{where}: {len(blocks)} blocks, limit {most}"
    seen: set[str] = set()
    seen_actions: set[str] = set()
    for index, block in enumerate(blocks):
        at = f"{where}/{index}"
        yield from _block(block, at)
        yield from _identity(block.get("block_id"), seen, f"{at}/block_id")
        for number, element in enumerate(_interactive(block)):
            yield from _element(element, f"{at}/elements/{number}")
            yield from _identity(element.get("action_id"), seen_actions, f"{at}/elements/{number}")


def _block(block: dict[str, Any], at: str) -> Iterator[str]:
    kind = block["type"]
    elements = block.get("elements", [])
    if kind in _TEXT_LIMITS and "text" in block:
        yield from _length(block["text"]["text"], _TEXT_LIMITS[kind], f"{at}/text")
    if kind in _ELEMENTS and not 1 <= len(elements) <= _ELEMENTS[kind]:
        yield f"{at}/elements: {len(elements)}, limit 1..{_ELEMENTS[kind]}"
    match kind:
        case "section":
            yield from _fields(block.get("fields", []), at)
        case "context":
            for number, element in enumerate(elements):
                yield from _length(element.get("text", element.get("alt_text", "")), 3000, f"{at}/elements/{number}")
        case "input":
            yield from _length(block["label"]["text"], 2000, f"{at}/label")
            yield from _length(block.get("hint", {"text": " "})["text"], 2000, f"{at}/hint")
        case _:
            return


def _interactive(block: dict[str, Any]) -> list[dict[str, Any]]:
    held = list(block.get("elements", [])) if block["type"] == "actions" else []
    return held + [block[key] for key in ("accessory", "element") if key in block]


def _fields(fields: list[dict[str, Any]], at: str) -> Iterator[str]:
    if len(fields) > 10:
        yield f"{at}/fields: {len(fields)}, limit 10"
    for number, entry in enumerate(fields):
        yield from _length(entry["text"], 2000, f"{at}/fields/{number}")


def _element(element: dict[str, Any], at: str) -> Iterator[str]:
    match element["type"]:
        case "button":
            yield from _button(element, at)
        case "plain_text_input":
            if element.get("max_length", 1) > 3000:
                yield f"{at}/max_length: {element['max_length']}, limit 3000"
            yield from _length(element.get("initial_value", " "), 3000, f"{at}/initial_value")
        case kind if kind in _OPTIONS:
            yield from _options(element.get("options", []), _OPTIONS[kind], at)
        case _:
            pass
    if "placeholder" in element:
        yield from _length(element["placeholder"]["text"], 150, f"{at}/placeholder")


def _button(element: dict[str, Any], at: str) -> Iterator[str]:
    for key, limit in _BUTTON.items():
        if key in element:
            value = element[key]["text"] if isinstance(element[key], dict) else element[key]
            yield from _length(value, limit, f"{at}/{key}")
    for key, limit in _CONFIRM.items():
        if key in element.get("confirm", {}):
            yield from _length(element["confirm"][key]["text"], limit, f"{at}/confirm/{key}")


def _options(options: list[dict[str, Any]], most: int, at: str) -> Iterator[str]:
    if not 1 <= len(options) <= most:
        yield f"{at}/options: {len(options)}, limit 1..{most}"
    for number, entry in enumerate(options):
        yield from _length(entry["value"], 150, f"{at}/options/{number}/value")
        for key, limit in _OPTION.items():
            if key in entry:
                yield from _length(entry[key]["text"], limit, f"{at}/options/{number}/{key}")


def _identity(value: str | None, seen: set[str], at: str) -> Iterator[str]:
    if value is None:
        return
    yield from _length(value, 255, at)
    if value in seen:
        yield f"{at}: {value!r} is used twice"
    seen.add(value)


def _length(text: str, limit: int, at: str) -> Iterator[str]:
    if not text:
        yield f"{at}: must be more than 0 characters"
    if len(text) > limit:
        yield f"{at}: {len(text)} characters, limit {limit}"


def _texts(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for key, inner in value.items():
                if key in {"text", "alt_text"} and isinstance(inner, str):
                    yield inner
                elif isinstance(inner, dict | list):
                    yield from _texts(inner)
        case list():
            for inner in value:
                yield from _texts(inner)
        case _:
            return
