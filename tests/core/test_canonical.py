"""The bytes that are hashed: RFC 8785 without floats, one spelling for one value."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from playbooks.errors import NotCanonical
from playbooks.evidence.canonical import INT_MAX, canonical_bytes, parse_canonical, read_utc, sha256_hex, utc_text

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-INT_MAX, INT_MAX) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


class Colour(StrEnum):
    RED = "red"


class Model(BaseModel):
    at: datetime
    colour: Colour


@given(JSON)
def test_the_bytes_are_those_of_rfc_8785(value: Any) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(value)


@given(JSON)
def test_canonical_bytes_read_back_as_what_was_written(value: Any) -> None:
    assert parse_canonical(canonical_bytes(value)) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"b": 1, "a": [True, None]}, b'{"a":[true,null],"b":1}'),
        ({"€": 1, "\r": 2, "\U0001f600": 3, "\ufb33": 4}, '{"\\r":2,"€":1,"\U0001f600":3,"\ufb33":4}'.encode()),
        ('\x00\b\t\n\f\r\x1f"\\/\x7f\u2028', b'"\\u0000\\b\\t\\n\\f\\r\\u001f\\"\\\\/\x7f\xe2\x80\xa8"'),
        ((1, 2), b"[1,2]"),
        (Colour.RED, b'"red"'),
        ({Colour.RED: 1}, b'{"red":1}'),
        (datetime(2026, 12, 1, 10, tzinfo=timezone(timedelta(hours=8))), b'"2026-12-01T02:00:00.000000Z"'),
        (
            Model(at=datetime(2026, 12, 1, tzinfo=UTC), colour=Colour.RED),
            b'{"at":"2026-12-01T00:00:00Z","colour":"red"}',
        ),
        (INT_MAX, b"9007199254740991"),
    ],
)
def test_values_and_their_bytes(value: Any, expected: bytes) -> None:
    assert canonical_bytes(value) == expected


DEEP: Any = None
for _ in range(300):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param({"runs": [{"seconds": 1.5}]}, r"runs\[0\]\.seconds: .*float 1\.5", id="a float, by its place"),
        pytest.param(float("nan"), "value: .*nan", id="not a number"),
        pytest.param(float("inf"), "inf", id="infinity"),
        pytest.param(-0.0, "float", id="minus zero"),
        pytest.param({"n": INT_MAX + 1}, r"n: expected a whole number up to 2\*\*53 - 1", id="a number too long"),
        pytest.param({"n": -INT_MAX - 1}, r"2\*\*53", id="a negative number too long"),
        pytest.param("\ud800", "no canonical bytes", id="a lone surrogate"),
        pytest.param({"\udfff\U0001f600": 1}, "no canonical bytes", id="a lone surrogate in a key"),
        pytest.param({1: "x"}, "expected text as key, found 1", id="a key that is no text"),
        pytest.param({"a": {1, 2}}, "a: expected JSON, found a set", id="a set"),
        pytest.param(b"x", "found a bytes", id="bytes"),
        pytest.param(datetime(2026, 12, 1), "without one", id="a time without a zone"),  # noqa: DTZ001
        pytest.param(DEEP, "levels of nesting", id="too deep"),
    ],
)
def test_what_has_no_canonical_bytes_is_refused(value: Any, message: str) -> None:
    with pytest.raises(NotCanonical, match=message):
        canonical_bytes(value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"\xff", "expected UTF-8, found byte 0xff at 0", id="no UTF-8"),
        pytest.param(b"{", "expected JSON", id="cut"),
        pytest.param(b"", "expected JSON", id="empty"),
        pytest.param(b"1.0", "expected whole numbers, found 1.0", id="a float"),
        pytest.param(b"1e3", "expected whole numbers", id="an exponent"),
        pytest.param(b"NaN", "expected whole numbers, found NaN", id="not a number"),
        pytest.param(b"90071992547409920", r"2\*\*53", id="a long number"),
        pytest.param(b"9" * 99, r"2\*\*53", id="a very long number"),
        pytest.param(b"-0", "another spelling", id="minus zero"),
        pytest.param(b'{"a": 1}', "another spelling", id="a space"),
        pytest.param(b'{"b":1,"a":1}', "another spelling", id="unsorted keys"),
        pytest.param(b'{"a":1,"a":1}', "another spelling", id="a repeated key"),
        pytest.param(b'"\\u0041"', "another spelling", id="a needless escape"),
        pytest.param(b'"\\ud800"', "another spelling", id="a lone surrogate"),
        pytest.param(b"1 ", "another spelling", id="something after it"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, "nesting", id="too deep"),
    ],
)
def test_other_spellings_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(NotCanonical, match=message):
        parse_canonical(data)


def test_a_long_number_inside_a_text_is_no_number() -> None:
    assert parse_canonical(b'{"digits":"99999999999999999999","n":12}') == {"digits": "9" * 20, "n": 12}


@given(st.datetimes(timezones=st.timezones()))
def test_a_time_comes_back_as_the_same_moment(at: datetime) -> None:
    try:
        text = utc_text(at)
    except OverflowError:  # the first and last day of the calendar have no UTC
        return
    assert read_utc(text) == at.astimezone(UTC)
    assert read_utc(text).tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    ["", "now", "2026-12-01", "2026-12-01T08:30:00Z", "2026-12-01T08:30:00.000000", "2026-12-01T08:30:00.000000+00:00"],
)
def test_a_time_has_one_spelling(text: str) -> None:
    with pytest.raises(NotCanonical, match="expected a time like"):
        read_utc(text)


def test_a_digest_is_64_lower_case_digits() -> None:
    assert sha256_hex(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_what_other_readers_would_read_is_what_was_meant() -> None:
    value = {"text": "错误 \U0001f600", "n": [1, -2, 0]}
    assert json.loads(canonical_bytes(value)) == value
