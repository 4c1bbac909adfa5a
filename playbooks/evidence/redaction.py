"""Takes secrets out of text before it is hashed, stored or told; counts what it took."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from playbooks.secret_names import BEARER, USERINFO, VALUE_SHAPES, is_secret_name

MARK = "[redacted]"
_PAIR = re.compile(r"(?P<name>[A-Za-z_][\w-]{2,60})(?P<eq>[\"']?\s*[=:]\s*[\"']?)(?P<value>[^\s\"',;&]{4,})")


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets, and how many were replaced."""

    text: str
    count: int


def redact_stream(lines: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """Redact lines one by one; a private key that spans lines is taken out whole. Yields each line with its count."""
    inside = False
    for line in lines:
        if inside:
            inside = b"-----END" not in line
            yield (MARK.encode() + (b"\n" if line.endswith(b"\n") else b"")), 0
            continue
        if b"PRIVATE KEY-----" in line and b"-----BEGIN" in line and b"-----END" not in line:
            inside = True
            yield (MARK.encode() + (b"\n" if line.endswith(b"\n") else b"")), 1
            continue
        text = line.decode("utf-8", "surrogateescape")
        done = redact_text(text)
        yield (done.text.encode("utf-8", "surrogateescape") if done.count else line), done.count


def redact_text(text: str) -> Redacted:
    """Return the text with secrets replaced; line breaks stay where they are."""
    count = 0

    def shape(_: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return MARK

    def pair(found: re.Match[str]) -> str:
        nonlocal count
        if found["value"].startswith(("${", MARK)) or not is_secret_name(found["name"]):
            return found[0]
        count += 1
        return f"{found['name']}{found['eq']}{MARK}"

    for pattern in VALUE_SHAPES:
        text = pattern.sub(shape, text)
    text = BEARER.sub(lambda m: (shape(m), f"{m[1]} {MARK}")[1], text)
    text = USERINFO.sub(lambda m: (shape(m), f"{m[1]}{MARK}@")[1], text)
    return Redacted(_PAIR.sub(pair, text), count)
