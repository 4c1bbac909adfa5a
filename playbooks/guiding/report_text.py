"""Markdown of a bundle's pages: texts of logs and people must not become markup."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from playbooks.guiding.case import Noted


def code(text: str) -> str:
    """Return text as a code span on one line, fenced by more backticks than it holds."""
    line = " ".join(str(text).split())
    fence = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def at(noted: Noted[Any]) -> str:
    """Return when an entry was written."""
    return utc(noted.at)


def utc(time: datetime) -> str:
    """Return a time in UTC."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def plain(text: str) -> str:
    """Return a person's text on one line without markup of its own."""
    line = " ".join(text.split())
    return _MARKUP.sub(r"\\\g<0>", line)


_MARKUP = re.compile(r"[\\`*\[\]<>#|]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
"""Characters that Markdown gives a meaning; an underscore inside a word has none."""
