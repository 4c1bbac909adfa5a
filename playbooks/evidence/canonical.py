"""The bytes that are hashed and signed: RFC 8785 (JCS) of JSON without floats.

Decides what has canonical bytes and what has not. Time is text in UTC with microseconds, so that an entry read back
from any store has the bytes it was written with.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NoReturn

import rfc8785
from pydantic import BaseModel

from playbooks.errors import NotCanonical

INT_MAX = 2**53 - 1
"""Largest whole number that every JSON reader keeps exactly (RFC 8785 §3.2.2.3)."""
_INT_DIGITS = 16
_SHOWN_CHARS = 40
_DEEPEST = 100
_BEYOND_FFFF = re.compile("[\U00010000-\U0010ffff]")

# CPython's own encoder writes the bytes of RFC 8785 for JSON without floats, in a tenth of the time, unless characters
# beyond U+FFFF may stand in keys: those sort by UTF-16, which rfc8785 does. tests/core/test_canonical.py compares the two.
_encode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"), check_circular=False
).encode


def canonical_bytes(value: Any) -> bytes:
    """Return the one byte string that stands for this JSON value.

    - Takes None, bool, whole numbers, text, lists, tuples, mappings with text keys, models, and aware datetimes.
    - Keys sorted by UTF-16, no spaces, UTF-8.

    Raises:
        NotCanonical: a float, NaN, a number beyond 2**53 - 1, a lone surrogate, a naive time or another type is in it;
            the message names the place.
    """
    text = _dump(_plain(value, ""))
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise NotCanonical(f"no canonical bytes: a lone surrogate at character {error.start}") from error


def sha256_hex(data: bytes) -> str:
    """Return the digest as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def utc_text(at: datetime) -> str:
    """Return an aware time as `2026-12-01T08:30:00.000000Z`.

    Raises:
        NotCanonical: the time has no zone, so nobody can say when it was.
    """
    if at.utcoffset() is None:
        raise NotCanonical(f"expected a time with a zone, found {at.isoformat()} without one")
    return at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def read_utc(text: str) -> datetime:
    """Read a time that `utc_text` wrote, and only that form.

    Raises:
        NotCanonical: any other form.
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.utcoffset() is None or utc_text(at) != text:
        raise NotCanonical(f"expected a time like 2026-12-01T08:30:00.000000Z, found {text[:_SHOWN_CHARS]!r}")
    return at.astimezone(UTC)


def parse_canonical(data: bytes) -> Any:
    """Read JSON that must be in canonical form already.

    Raises:
        NotCanonical: no UTF-8, no JSON, a float, a repeated key, or other bytes than the canonical ones.
    """
    try:
        return parse_canonical_text(data.decode())
    except UnicodeDecodeError as error:
        raise NotCanonical(f"expected UTF-8, found byte 0x{data[error.start]:02x} at {error.start}") from error


def parse_canonical_text(text: str) -> Any:
    """Read JSON that must be in canonical form already, from text.

    Raises:
        NotCanonical: no JSON, a float, a repeated key, or another spelling than the canonical one.
    """
    try:
        value, _ = (_careful if _LONG_NUMBER.search(text) else _decoder).raw_decode(text)
    except json.JSONDecodeError as error:
        raise NotCanonical(f"expected JSON, found {error.msg} at character {error.pos}") from error
    except RecursionError as error:
        raise NotCanonical("expected JSON, found more levels of nesting than can be read") from error
    if _dump(value) != text:
        raise NotCanonical("expected canonical JSON (sorted keys, no spaces, no repeated key), found another spelling")
    return value


def _dump(plain: Any) -> str:
    try:
        text = _encode(plain)
        if text.isascii() or not _BEYOND_FFFF.search(text):
            return text
        return rfc8785.dumps(plain).decode()
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise NotCanonical(f"no canonical bytes: {error}") from error
    except RecursionError as error:
        raise NotCanonical("no canonical bytes: more levels of nesting than can be written") from error


def _plain(value: Any, path: str, depth: int = 0) -> Any:
    """Return the value as JSON types alone; `path` says where we are."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return _whole(int(value), path)
    if depth > _DEEPEST:
        raise NotCanonical(f"{_place(path[:_SHOWN_CHARS])}: expected at most {_DEEPEST} levels of nesting")
    if isinstance(value, Mapping):
        return {_key(k, path): _plain(v, f"{path}.{k}", depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v, f"{path}[{i}]", depth + 1) for i, v in enumerate(value)]
    if isinstance(value, datetime):
        return utc_text(value)
    if isinstance(value, BaseModel):
        return _plain(value.model_dump(mode="json"), path, depth)
    if isinstance(value, float):
        raise NotCanonical(f"{_place(path)}: expected whole milliseconds, bytes or text, found the float {value!r}")
    raise NotCanonical(f"{_place(path)}: expected JSON, found a {type(value).__name__}")


def _key(key: Any, path: str) -> str:
    if not isinstance(key, str):
        raise NotCanonical(f"{_place(path)}: expected text as key, found {key!r}")
    return str(key)


def _whole(number: int, path: str) -> int:
    if not -INT_MAX <= number <= INT_MAX:
        raise NotCanonical(f"{_place(path)}: expected a whole number up to 2**53 - 1, found {number}")
    return number


def _place(path: str) -> str:
    return path.removeprefix(".") or "value"


def _read_int(text: str) -> int:
    if len(text) > _INT_DIGITS + 1:
        raise NotCanonical(f"expected a whole number up to 2**53 - 1, found {text[:_SHOWN_CHARS]}")
    return _whole(int(text), "")


def _refuse_float(text: str) -> NoReturn:
    raise NotCanonical(f"expected whole numbers, found {text[:_SHOWN_CHARS]}")


_decoder = json.JSONDecoder(parse_float=_refuse_float, parse_constant=_refuse_float)
_careful = json.JSONDecoder(parse_float=_refuse_float, parse_constant=_refuse_float, parse_int=_read_int)
"""Looks at each number; needed only where one may be too long."""
_LONG_NUMBER = re.compile("[0-9]{16}")
