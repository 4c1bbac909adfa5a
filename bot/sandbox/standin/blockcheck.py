"""Checks blocks and views against the table; complaints read like Slack's, with JSON pointers.

It collects complaints instead of stopping at the first, because Slack does and because it saves a developer a round.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from bot.sandbox.standin.refusal import RefusedError, refused_blocks
from bot.sandbox.standin.table import Json, Table

_TEXT_PROPS = {"type", "text", "emoji", "verbatim"}


class _Check:
    """One pass over one payload."""

    def __init__(self, table: Table, surface: str) -> None:
        self._table = table
        self._surface = surface
        self.complaints: list[str] = []
        self._block_ids: set[str] = set()
        self._action_ids: set[str] = set()
        self._by_kind: dict[str, Callable[[Any, str, Json], None]] = {
            "string": self._string,
            "text": self._text,
            "plain": self._text,
            "bool": self._bool,
            "int": self._int,
            "enum": self._enum,
            "list": self._list,
            "object": self._object,
            "element": self._element,
            "text_or_element": self._text_or_element,
            "any": lambda _value, _at, _rule: None,
        }

    def complain(self, text: str, at: str) -> None:
        self.complaints.append(f"{text} [json-pointer:{at}]")

    def value(self, value: Any, at: str, rule: Json) -> None:
        self._by_kind[rule["kind"]](value, at, rule)

    def blocks(self, blocks: Any, at: str, most: int) -> None:
        if not isinstance(blocks, list):
            self.complain("must be an array", at)
            return
        if len(blocks) > most:
            self.complain(f"no more than {most} items allowed", at)
        seen: dict[str, int] = {}
        for n, block in enumerate(blocks):
            self._block(block, f"{at}/{n}")
            kind = str(block.get("type")) if isinstance(block, dict) else "?"
            seen[kind] = seen.get(kind, 0) + 1
            limit = self._table.blocks.get(kind, {}).get("per_message")
            if limit and seen[kind] > limit:
                self.complain(f"only {limit} {kind} allowed", f"{at}/{n}")

    def _block(self, block: Any, at: str) -> None:
        if not isinstance(block, dict):
            self.complain("must be an object", at)
            return
        spec = self._table.blocks.get(str(block.get("type")))
        if spec is None:
            self.complain(f"unsupported type: {block.get('type')}", f"{at}/type")
            return
        if self._surface not in spec["surfaces"]:
            self.complain(f"unsupported type for this surface: {block['type']}", f"{at}/type")
        self._id(block.get("block_id"), f"{at}/block_id", self._block_ids, "block_id")
        self._shape(block, at, spec, {"type", "block_id"})
        if "text_sum" in spec and text_sum(block) > spec["text_sum"]:
            self.complain(f"must be less than {spec['text_sum'] + 1} characters", at)

    def shape(self, value: Json, at: str, spec: Json, also: set[str]) -> None:
        self._shape(value, at, spec, also)

    def _shape(self, value: Json, at: str, spec: Json, also: set[str]) -> None:
        for name in spec.get("required", []):
            if value.get(name) is None:
                self.complain(f"missing required field: {name}", at)
        for group in ("one_of", "any_of"):
            names = spec.get(group)
            if names is None:
                continue
            given = [name for name in names if value.get(name) is not None]
            if not given:
                self.complain(f"missing required field: {' or '.join(names)}", at)
            if group == "one_of" and len(given) > 1:
                self.complain(f"only one of {', '.join(names)} allowed", at)
        for name, part in value.items():
            rule = spec["props"].get(name)
            if rule is not None and part is not None:
                self.value(part, f"{at}/{name}", rule)
            elif rule is None and name not in also:
                self.complain(f"invalid additional property: {name}", at)

    def _length(self, count: int, at: str, rule: Json, what: str) -> None:
        most, least = rule.get("max"), rule.get("min", 0)
        if most is not None and count > most:
            text = (
                f"must be less than {most + 1} characters"
                if what == "characters"
                else f"no more than {most} items allowed"
            )
            self.complain(text, at)
        if count < least:
            text = (
                f"must be more than {least - 1} characters"
                if what == "characters"
                else f"no fewer than {least} items allowed"
            )
            self.complain(text, at)

    def _string(self, value: Any, at: str, rule: Json) -> None:
        if not isinstance(value, str):
            self.complain("must be a string", at)
            return
        self._length(len(value), at, rule, "characters")
        if at.endswith("/action_id"):
            self._id(value, at, self._action_ids, "action_id")

    def _text(self, value: Any, at: str, rule: Json) -> None:
        if not isinstance(value, dict):
            self.complain("must be an object", at)
            return
        kinds = ("plain_text",) if rule["kind"] == "plain" else ("plain_text", "mrkdwn")
        if value.get("type") not in kinds:
            self.complain(f"must be one of: {', '.join(kinds)}", f"{at}/type")
        if not isinstance(value.get("text"), str):
            self.complain("missing required field: text", at)
            return
        self._length(len(value["text"]), f"{at}/text", rule, "characters")
        for name in value.keys() - _TEXT_PROPS:
            self.complain(f"invalid additional property: {name}", at)
        if value.get("type") == "mrkdwn" and "emoji" in value:
            self.complain("invalid additional property: emoji", at)

    def _bool(self, value: Any, at: str, _rule: Json) -> None:
        if not isinstance(value, bool):
            self.complain("must be a boolean", at)

    def _int(self, value: Any, at: str, rule: Json) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            self.complain("must be an integer", at)
        elif value > rule.get("max", value) or value < rule.get("min", value):
            self.complain(f"must be between {rule.get('min', '')} and {rule.get('max', '')}", at)

    def _enum(self, value: Any, at: str, rule: Json) -> None:
        if value not in rule["values"]:
            self.complain(f"must be one of: {', '.join(rule['values'])}", at)

    def _list(self, value: Any, at: str, rule: Json) -> None:
        if not isinstance(value, list):
            self.complain("must be an array", at)
            return
        self._length(len(value), at, rule, "items")
        for n, item in enumerate(value):
            self.value(item, f"{at}/{n}", rule["of"])

    def _object(self, value: Any, at: str, rule: Json) -> None:
        if not isinstance(value, dict):
            self.complain("must be an object", at)
            return
        self._shape(value, at, self._table.objects[rule["object"]], set())

    def _element(self, value: Any, at: str, rule: Json) -> None:
        allowed = self._table.element_groups[rule["group"]]
        if not isinstance(value, dict) or value.get("type") not in allowed:
            found = value.get("type") if isinstance(value, dict) else value
            self.complain(f"unsupported type: {found}", f"{at}/type")
            return
        self._shape(value, at, self._table.elements[value["type"]], {"type"})

    def _text_or_element(self, value: Any, at: str, rule: Json) -> None:
        if isinstance(value, dict) and value.get("type") in {"mrkdwn", "plain_text"}:
            self._text(value, at, {**rule, "kind": "text"})
        else:
            self._element(value, at, rule)

    def _id(self, value: Any, at: str, seen: set[str], name: str) -> None:
        if value is None:
            return
        if not isinstance(value, str) or not value:
            self.complain("must be a string", at)
            return
        if name == "block_id":
            self._length(len(value), at, {"max": 255}, "characters")
        if value in seen:
            self.complain(f"`{name}` {value!r} already exists", at)
        seen.add(value)


def text_sum(part: Any) -> int:
    """Return how many characters of text the blocks hold together."""
    if isinstance(part, dict):
        own = part.get("text")
        return (len(own) if isinstance(own, str) else 0) + sum(text_sum(child) for child in part.values())
    return sum(text_sum(child) for child in part) if isinstance(part, list) else 0


def check_message_blocks(table: Table, blocks: list[Any]) -> None:
    """Check a message's blocks.

    Raises:
        RefusedError: `invalid_blocks` with all complaints, or `msg_blocks_too_long`.
    """
    check = _Check(table, "message")
    check.blocks(blocks, "/blocks", table.limits["message_blocks"])
    if check.complaints:
        raise refused_blocks("invalid_blocks", check.complaints)
    if text_sum(blocks) > table.limits["block_text_sum"]:
        raise RefusedError("msg_blocks_too_long")


def check_view(table: Table, view: Json) -> None:
    """Check a modal or Home view.

    Raises:
        RefusedError: `invalid_arguments` with all complaints, or `view_too_large`.
    """
    kind = view.get("type")
    if kind not in table.view:
        raise refused_blocks("invalid_arguments", ["must be one of: modal, home [json-pointer:/view/type]"])
    if len(json.dumps(view, ensure_ascii=False).encode()) > table.limits["view_bytes"]:
        raise RefusedError("view_too_large")
    check = _Check(table, str(kind))
    check.shape(
        {name: part for name, part in view.items() if name != "blocks"},
        "/view",
        _without_blocks(table, str(kind)),
        {"type"},
    )
    if view.get("blocks") is None:
        check.complain("missing required field: blocks", "/view")
    else:
        check.blocks(view["blocks"], "/view/blocks", table.limits["view_blocks"])
    if kind == "modal" and not view.get("submit") and _has_input(view.get("blocks")):
        check.complain("missing required field: submit", "/view")
    if check.complaints:
        raise refused_blocks("invalid_arguments", check.complaints)


def _without_blocks(table: Table, kind: str) -> Json:
    spec = table.view[kind]
    return {**spec, "required": [name for name in spec["required"] if name != "blocks"]}


def _has_input(blocks: Any) -> bool:
    return isinstance(blocks, list) and any(
        isinstance(block, dict) and block.get("type") == "input" for block in blocks
    )
