"""The stand-in's table of Block Kit limits: what just fits is taken, one more is refused with a pointer to where."""

from __future__ import annotations

from typing import Any

import pytest

from bot.sandbox.standin.blockcheck import check_message_blocks, check_view, text_sum
from bot.sandbox.standin.refusal import RefusedError
from bot.sandbox.standin.table import load_table
from tests.support.block_kit import actions, button, modal, mrkdwn, option, plain, section, text_input

Json = dict[str, Any]
TABLE = load_table()


def complaints(blocks: list[Any]) -> list[str]:
    try:
        check_message_blocks(TABLE, blocks)
    except RefusedError as refused:
        return refused.extra.get("errors", [refused.error])
    return []


def view_complaints(view: Json) -> list[str]:
    try:
        check_view(TABLE, view)
    except RefusedError as refused:
        return refused.extra.get("errors", [refused.error])
    return []


FITS_AND_NOT: list[Any] = [
    pytest.param([section("x" * 3000)], [section("x" * 3001)], "must be less than 3001 characters [json-pointer:/blocks/0/text/text]", id="section text 3000"),
    pytest.param([section("x")], [section("")], "must be more than 0 characters [json-pointer:/blocks/0/text/text]", id="no empty text"),
    pytest.param([section()] * 50, [section()] * 51, "no more than 50 items allowed [json-pointer:/blocks]", id="50 blocks"),
    pytest.param([actions(*[button(n) for n in range(25)])], [actions(*[button(n) for n in range(26)])], "no more than 25 items allowed [json-pointer:/blocks/0/elements]", id="25 elements in a row"),
    pytest.param([{"type": "header", "text": plain("x" * 150)}], [{"type": "header", "text": plain("x" * 151)}], "must be less than 151 characters [json-pointer:/blocks/0/text/text]", id="header 150"),
    pytest.param([{"type": "header", "text": plain("x")}], [{"type": "header", "text": mrkdwn("x")}], "must be one of: plain_text [json-pointer:/blocks/0/text/type]", id="header is plain text"),
    pytest.param([{"type": "context", "elements": [mrkdwn("x")] * 10}], [{"type": "context", "elements": [mrkdwn("x")] * 11}], "no more than 10 items allowed [json-pointer:/blocks/0/elements]", id="context 10"),
    pytest.param([section(fields=[mrkdwn("x" * 2000)] * 1)], [section(fields=[mrkdwn("x" * 2001)])], "must be less than 2001 characters [json-pointer:/blocks/0/fields/0/text]", id="field 2000"),
    pytest.param([section(fields=[mrkdwn("x")] * 10)], [section(fields=[mrkdwn("x")] * 11)], "no more than 10 items allowed [json-pointer:/blocks/0/fields]", id="10 fields"),
    pytest.param([actions(button(text=plain("x" * 75)))], [actions(button(text=plain("x" * 76)))], "must be less than 76 characters [json-pointer:/blocks/0/elements/0/text/text]", id="button 75"),
    pytest.param([actions(button(value="x" * 2000))], [actions(button(value="x" * 2001))], "must be less than 2001 characters [json-pointer:/blocks/0/elements/0/value]", id="button value 2000"),
    pytest.param([actions(button(1), button(2))], [actions(button(1), button(1))], "`action_id` 'a1' already exists [json-pointer:/blocks/0/elements/1/action_id]", id="action ids once"),
    pytest.param([section(block_id="b")], [section(block_id="b"), section(block_id="b")], "`block_id` 'b' already exists [json-pointer:/blocks/1/block_id]", id="block ids once"),
    pytest.param([section(block_id="b" * 255)], [section(block_id="b" * 256)], "must be less than 256 characters [json-pointer:/blocks/0/block_id]", id="block id 255"),
    pytest.param([actions({"type": "checkboxes", "options": [option(n) for n in range(10)]})], [actions({"type": "checkboxes", "options": [option(n) for n in range(11)]})], "no more than 10 items allowed [json-pointer:/blocks/0/elements/0/options]", id="10 checkboxes"),
    pytest.param([actions({"type": "overflow", "options": [option(n) for n in range(5)]})], [actions({"type": "overflow", "options": [option(n) for n in range(6)]})], "no more than 5 items allowed [json-pointer:/blocks/0/elements/0/options]", id="overflow 5"),
    pytest.param([actions({"type": "static_select", "options": [option(n) for n in range(100)]})], [actions({"type": "static_select", "options": [option(n) for n in range(101)]})], "no more than 100 items allowed [json-pointer:/blocks/0/elements/0/options]", id="select 100"),
    pytest.param([actions({"type": "overflow", "options": [option(value="v" * 150)]})], [actions({"type": "overflow", "options": [option(value="v" * 151)]})], "must be less than 151 characters [json-pointer:/blocks/0/elements/0/options/0/value]", id="option value 150"),
    pytest.param(
        [actions(button(confirm={"title": plain("t"), "text": plain("x" * 300), "confirm": plain("y"), "deny": plain("n")}))],
        [actions(button(confirm={"title": plain("t"), "text": plain("x" * 301), "confirm": plain("y"), "deny": plain("n")}))],
        "must be less than 301 characters [json-pointer:/blocks/0/elements/0/confirm/text/text]", id="confirm 300",
    ),
    pytest.param([{"type": "image", "image_url": "http://x/y.png", "alt_text": "a"}], [{"type": "image", "image_url": "http://x/y.png"}], "missing required field: alt_text [json-pointer:/blocks/0]", id="images have an alt text"),
    pytest.param([section()], [{"type": "section"}], "missing required field: text or fields [json-pointer:/blocks/0]", id="a section says something"),
    pytest.param([section()], [{"type": "sektion"}], "unsupported type: sektion [json-pointer:/blocks/0/type]", id="unknown block"),
    pytest.param([section()], [section(colour="red")], "invalid additional property: colour [json-pointer:/blocks/0]", id="unknown property"),
    pytest.param([section()], [{"type": "alert", "text": plain("x")}], "unsupported type for this surface: alert [json-pointer:/blocks/0/type]", id="alerts are for modals"),
    pytest.param([section()], [section(accessory={"type": "plain_text_input"})], "unsupported type: plain_text_input [json-pointer:/blocks/0/accessory/type]", id="an input is no accessory"),
    pytest.param([{"type": "table", "rows": [[{"type": "raw_text", "text": "x"}]] * 100}], [{"type": "table", "rows": [[{"type": "raw_text", "text": "x"}]] * 101}], "no more than 100 items allowed [json-pointer:/blocks/0/rows]", id="table 100 rows"),
    pytest.param([{"type": "table", "rows": [[{"type": "raw_text", "text": "x"}]]}], [{"type": "table", "rows": [[{"type": "raw_text", "text": ""}]]}], "must be more than 0 characters [json-pointer:/blocks/0/rows/0/0/text]", id="no empty cell"),
    pytest.param([section()], ["x"], "must be an object [json-pointer:/blocks/0]", id="a block is an object"),
]  # fmt: skip


@pytest.mark.parametrize(("fits", "too_much", "complaint"), FITS_AND_NOT)
def test_message_limits(fits: list[Json], too_much: list[Json], complaint: str) -> None:
    assert complaints(fits) == []
    assert complaint in complaints(too_much)


@pytest.mark.parametrize(
    ("fits", "too_much", "complaint"),
    [
        pytest.param(modal(section(), title=plain("x" * 24)), modal(section(), title=plain("x" * 25)), "must be less than 25 characters [json-pointer:/view/title/text]", id="title 24"),
        pytest.param(modal(*[section()] * 100), modal(*[section()] * 101), "no more than 100 items allowed [json-pointer:/view/blocks]", id="100 blocks"),
        pytest.param(modal(section(), private_metadata="x" * 3000), modal(section(), private_metadata="x" * 3001), "must be less than 3001 characters [json-pointer:/view/private_metadata]", id="private metadata 3000"),
        pytest.param(modal(text_input(max_length=3000)), modal(text_input(max_length=3001)), "must be between 1 and 3000 [json-pointer:/view/blocks/0/element/max_length]", id="a paste field holds 3000"),
        pytest.param(modal(text_input(), submit=plain("Go")), modal(text_input(), submit=None), "missing required field: submit [json-pointer:/view]", id="inputs need a submit button"),
        pytest.param(modal(section()), {"type": "modal", "blocks": [section()]}, "missing required field: title [json-pointer:/view]", id="a modal has a title"),
        pytest.param({"type": "home", "blocks": [section()]}, {"type": "home", "blocks": [{"type": "markdown", "text": "x"}]}, "unsupported type for this surface: markdown [json-pointer:/view/blocks/0/type]", id="markdown is for messages"),
        pytest.param(modal(section()), {"type": "window"}, "must be one of: modal, home [json-pointer:/view/type]", id="modal or home"),
        pytest.param(modal(section()), modal(*[section("x" * 3000, block_id=f"b{n}") for n in range(90)]), "view_too_large", id="250 KB"),
    ],
)  # fmt: skip
def test_view_limits(fits: Json, too_much: Json, complaint: str) -> None:
    assert view_complaints(fits) == []
    assert complaint in view_complaints(too_much)


def test_all_complaints_come_at_once() -> None:
    assert len(complaints([section(""), {"type": "header", "text": plain("x" * 151)}, {"type": "nope"}])) == 3


def test_the_sum_of_all_text_is_limited() -> None:
    blocks = [section("x" * 2825)] * 4
    assert text_sum(blocks) == 11_300
    assert complaints(blocks) == []
    assert complaints([*blocks, section("y")]) == ["msg_blocks_too_long"]
