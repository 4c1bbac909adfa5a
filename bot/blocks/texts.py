"""Texts: catalogue look-up by English source text, and escaping of everything that is inserted.

`Translate` is safe by default: a value that is not `Mrkdwn` is escaped, so a traceback cannot ping a channel.
Catalogues lie in `locale/<language>.po`; a text that is missing there is shown in English.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from functools import lru_cache
from importlib.resources import files
from io import BytesIO

from babel.messages.pofile import read_po

from bot.blocks.sentences import parts_of_reason, taken_apart

LANGUAGES = ("en", "zh-Hans", "zh-Hant")
_BACKTICKS = re.compile(r"`+")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]")


class Mrkdwn(str):
    """Text that may be shown as it is: a source text, or something escaped already."""

    __slots__ = ()


def esc(text: object) -> Mrkdwn:
    """Escape what Slack reads as markup, and drop control characters; identifiers and log text go through here."""
    if isinstance(text, Mrkdwn):
        return text
    plain = _CONTROL.sub("", str(text))
    return Mrkdwn(plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def cut(text: str, limit: int) -> str:
    """Cut text to at most `limit` characters, with an ellipsis where something is missing."""
    return text if len(text) <= limit else text[: max(limit - 1, 0)] + "…"


def cut_marked(text: str, limit: int) -> str:
    """Return escaped text with its tail cut off, never inside an entity or a `<…>` that Slack reads."""
    if len(text) <= limit:
        return text
    shorter = text[: limit - 1]
    for opens, closes in (("<", ">"), ("&", ";")):
        begun = shorter.rfind(opens)
        if begun >= 0 and closes not in shorter[begun:] and closes in text[begun:]:
            shorter = shorter[:begun]
    return shorter + "…"


def padded(text: str, width: int) -> str:
    """Return text filled up to a width in columns; a wide character takes two."""
    taken = sum(2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1 for char in text)
    return text + " " * max(width - taken, 0)


def bold(text: Mrkdwn) -> Mrkdwn:
    """Show a title in bold; an asterisk or line break that stands in it cannot end that."""
    return Mrkdwn(f"*{' '.join(text.split()).replace('*', '∗')}*")


def code(text: object, *, limit: int = 300) -> Mrkdwn:
    """Show log text or an identifier as code in one line; a backtick inside cannot end it."""
    one_line = " ".join(_BACKTICKS.sub("'", _CONTROL.sub("", str(text))).split())
    return Mrkdwn(f"`{esc(cut(one_line, limit))}`") if one_line else Mrkdwn("`…`")


def code_block(text: str, *, max_lines: int = 8, max_chars: int = 1800) -> Mrkdwn:
    """Show log lines as a block of code, cut in lines and characters."""
    rows = _CONTROL.sub("", _BACKTICKS.sub("'", text.replace("\r", ""))).strip("\n").split("\n")
    shown = [cut(row.rstrip(), 300) for row in rows[:max_lines]]
    if len(rows) > max_lines:
        shown.append("…")
    return Mrkdwn(f"```\n{cut(esc(chr(10).join(shown)), max_chars)}\n```")


def short(digest: str | None) -> Mrkdwn:
    """Show a digest by its first eight digits."""
    digits = (digest or "").removeprefix("sha256:")
    return Mrkdwn(f"`{esc(digits[:8])}…`") if digits else Mrkdwn("`-`")


def person(actor: str) -> Mrkdwn:
    """Name an actor of the ledger: a person as mention, a node or the bot by name."""
    kind, _, name = actor.partition(":")
    if kind == "user" and re.fullmatch(r"[A-Z0-9]{2,24}", name):
        return Mrkdwn(f"<@{name}>")
    return esc(name or kind)


def when(at: datetime) -> Mrkdwn:
    """Show a time in UTC, and in the reader's own time where the client can."""
    utc = at.astimezone(UTC)
    return Mrkdwn(f"{utc:%H:%M} UTC (<!date^{int(utc.timestamp())}^{{date_num}} {{time}}|{utc:%Y-%m-%d %H:%M} UTC>)")


def joined(parts: list[Mrkdwn] | tuple[Mrkdwn, ...], separator: str = "\n") -> Mrkdwn:
    """Join safe texts, leaving out the empty ones."""
    return Mrkdwn(separator.join(part for part in parts if part))


class Translate:
    """Looks texts up in one language and fills in values, escaping them."""

    def __init__(self, language: str) -> None:
        self.language = language if language in LANGUAGES else "en"
        self._texts = _catalogue(self.language)

    def __call__(self, source: str, /, **values: object) -> Mrkdwn:
        """Return the text for mrkdwn: values are escaped unless they are `Mrkdwn`."""
        text = self._texts.get(source, source)
        return Mrkdwn(text.format(**{name: esc(value) for name, value in values.items()}) if values else text)

    def told(self, source: str) -> Mrkdwn:
        """Return a text that the core made, which may hold a person's or a log's words: looked up, then escaped."""
        return esc(self.told_plain(source))

    def told_plain(self, source: str) -> str:
        """Return the same unescaped, for plain_text elements and for what is cut before it is shown."""
        text = self._texts.get(source)
        if text is not None:
            return text
        template, values = taken_apart(source) or ("", {})
        if template not in self._texts:
            return source
        return self._texts[template].format(**{name: self.told_plain(value) for name, value in values.items()})

    def reason(self, source: str) -> str:
        """Return what the judgement gave as its reason, unescaped: its clauses are looked up one by one."""
        if (whole := self.told_plain(source)) != source:
            return whole
        return "; ".join(self._clause(part) for part in source.split("; "))

    def _clause(self, source: str) -> str:
        if (whole := self.told_plain(source)) != source:
            return whole
        text, more, cited = parts_of_reason(source)
        said, added = self.told_plain(text), self.told_plain(more)
        if added == more:
            added = ", ".join(self.told_plain(part) for part in more.split(", "))
        if (said, added) == (text, more):
            return source
        return (self.plain("{reason}: {more}", reason=said, more=added) if more else said) + cited

    def plain(self, source: str, /, **values: object) -> str:
        """Return the text for plain_text elements (buttons, titles), where Slack reads no markup."""
        text = self._texts.get(source, source)
        return text.format(**values) if values else text


def N_(source: str) -> str:  # noqa: N802 - gettext's own name for "translated later", known to the extractor
    """Mark a text of a table for the catalogue."""
    return source


@lru_cache(maxsize=len(LANGUAGES))
def translator(language: str) -> Translate:
    """Return the translator of a language; an unknown one reads English."""
    return Translate(language)


@lru_cache(maxsize=len(LANGUAGES))
def _catalogue(language: str) -> dict[str, str]:
    if language == "en":
        return {}
    source = files("bot.blocks").joinpath("locale", f"{language}.po")
    if not source.is_file():
        return {}
    catalogue = read_po(BytesIO(source.read_bytes()))
    return {str(m.id): str(m.string) for m in catalogue if m.id and m.string and not m.fuzzy}
