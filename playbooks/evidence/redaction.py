"""Takes secrets out of text before it is hashed, stored or told; counts what it took.

A secret is recognised by the name before it (`playbooks.secret_names`) or by its own shape. Every pattern looks at one
line and a bounded stretch of it, so that the time is linear in the text; a line without any telling word is passed over.
Redacting twice is redacting once.
"""

from __future__ import annotations

import base64
import binascii
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ahocorasick_rs import BytesAhoCorasick, Implementation

from playbooks.secret_names import VALUE_SHAPES, is_secret_name

MARK = "[redacted]"
_TELLING = (
    "token", "secret", "passw", "passphrase", "_pass", "pwd", "credential", "key", "auth", "bearer", "basic", "cookie",
    "login", "jwt", "signature", "sig=", "curl", "sshpass", "://", "private",
    "hf_", "sk-", "xox", "xapp-", "ghp_", "gho_", "ghr_", "ghs_", "ghu_", "github_pat_", "glpat-", "nvapi-",
    "akia", "asia", "aiza", "eyj",
)  # fmt: skip
"""In lower case; a line with none of these holds nothing that a pattern below finds."""
_MAY_HOLD = re.compile("|".join(map(re.escape, _TELLING)))
_WORDS = BytesAhoCorasick([word.encode() for word in _TELLING], implementation=Implementation.DFA)
_A_UNIT = (b" tokens/s,", b" ------/-,")
"""On each line of statistics of an engine at work, and no name of anything."""

_SHAPES = tuple(pattern for pattern in VALUE_SHAPES if "PRIVATE KEY" not in pattern.pattern)
_SHAPE = re.compile("|".join(pattern.pattern for pattern in _SHAPES))
_NAME_WORD = re.compile(r"token|secret|passw|passphrase|pass\b|pwd|credential|key|auth|jwt|bearer")
"""In lower case; every secret name (`playbooks.secret_names`) holds one of these."""
_SLACK_HOOK = re.compile(r"(hooks\.slack(?:-gov)?\.com/)([A-Za-z]{1,20}/[A-Za-z0-9/_-]{8,200})")
_USERINFO = re.compile(r"(://)([^\s/?#'\"<>|`]{1,512})@")
_QUERY = re.compile(
    r"(?i)([?&](?:amp;)?(?:x-amz-(?:signature|credential|security-token)|signature|sig|se|access_token|id_token|token|api_?key"
    r"|key|code|password|secret|policy|key-pair-id)=)([^&\s\"'<>]{4,4096})"
)
_AUTHORIZATION = re.compile(
    r"(?i)(authorization\\?[\"']?\s{0,8}[:=,]\s{0,8}\\?[\"']?)(?:(bearer|basic|token|digest|negotiate|aws4-hmac-sha256)(?:\s{1,8}|\\ ))?"
    r"([^\s\"'\\,;]{1,4096})"
)
_WHOLE_SCHEMES = frozenset({"digest", "aws4-hmac-sha256"})
_REST_OF_VALUE = re.compile(r"[^\"'\\\r\n]*")
_COOKIE = re.compile(r"(?i)(?<![\w-])((?:set-)?cookie\\?[\"']?\s{0,8}:\s{0,8}\\?[\"']?)([^\"'\\\r\n]{1,8192})")
_SCHEME = re.compile(r"(?i)(?<![\w-])(bearer|basic)((?:\s{1,8}|\\ ))([A-Za-z0-9._~+/=-]{8,4096})")
_NAMED = re.compile(
    r"(?<![\w-])(?:(?P<name>-{0,2}[A-Za-z_][\w-]{1,80})\\{0,15}[\"']?\s{0,8}[=:]>?\s{0,8}"
    r"|--(?P<flag>[A-Za-z][\w-]{1,80})(?:\\{0,15}[\"']\s{0,8},\s{0,8}|\s{1,8}))"
)
"""A name and the sign after it: `NAME=`, `"name": `, `--flag `, `'--flag', `. What follows is read by `_VALUE`."""
_VALUE = re.compile(
    r"\\{0,15}\"(?P<double>[^\"\\\r\n]{1,8192})|\\{0,15}'(?P<single>[^'\\\r\n]{1,8192})|\[(?P<list>\s{0,8}\\{0,15}[\"'][^\]\r\n]{1,8192})"
    r"|(?P<bare>[^\s\"',;&(){}\\<>|]{1,8192})"
)
_LOGIN = re.compile(
    r"(?i)(\blogin\s{1,8}\S{1,200}\s{1,8}password\s{1,8}|\bsshpass\s{1,8}-p\s{0,8}|\bdocker\s{1,8}login\b[^\r\n]{0,200}?\s-p\s{1,8})(\S{1,512})"
)
_CURL_USER = re.compile(r"(\bcurl\b[^\r\n]{0,400}?\s(?:-u|--user)\s{1,8}[\"']?[^\s:\"']{1,200}:)([^\s\"']{1,512})")

_SECOND = (
    ("hooks.slack", _SLACK_HOOK),
    ("?", _QUERY),
    ("cookie", _COOKIE),
    ("login", _LOGIN),
    ("sshpass", _LOGIN),
    ("curl", _CURL_USER),
)
"""Patterns whose second group is the secret, by a word that must be in the line, in lower case."""

_PLACEHOLDER = re.compile(
    r"(?i)(?:none|null|true|false|nil|undefined|unset|required|missing|empty|optional\b.*|str|string|bytes|int|bool|any|\*+|x{3,}|\.{2,}"
    r"|<.*|\$.*|%.*|\[redacted.*|\[|#.*|/.*|-.*|=.*)"
)
_ATTRIBUTE = re.compile(r"(?:self|cls|args|kwargs|cfg|config|os|settings|request)[.\[(].*")
_CODE = re.compile(rf"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|{_ATTRIBUTE.pattern}")
_STATED = re.compile(r"[^\s\"',\\]{1,8192}")
"""A value on a command line or in an environment file: it ends with the word."""
_FURTHER = re.compile(r"[ \t]{1,8}(?=[^\s-])(?=\S*[-_\d])([^\s\"',;&(){}\\<>|]{1,8192})")
"""A second key after `--api-key`, which takes several; a word of prose has no digit and no hyphen."""
_STRONG = re.compile(
    r"(?i)secret|passw|passphrase|credential|api_?-?key|authorization|auth_?-?token|access_?-?key|access_?-?token|hf_?-?token|hub_?-?token"
)
_HEADERS = ("authorization", "cookie")
"""Names with patterns of their own."""
_DIGIT, _LETTER = re.compile(r"\d"), re.compile(r"[A-Za-z]")
_SHORTEST_WEAK = 6
_LONG = 20

_PEM_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_BODY = re.compile(r"(?:^|[\s\]|:])[A-Za-z0-9+/=]{40,}\s*$|(?:Proc-Type|DEK-Info|Comment|Version):[^\r\n]*$|^\s*$")
_PEM_LAST = re.compile(r"^\s*[A-Za-z0-9+/=]{1,80}\s*$")
_PEM_MOST_LINES = 400
_MOST_PASSES = 8


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets, and how many were replaced."""

    text: str
    count: int


class LineRedactor:
    """Redacts a log line by line; remembers a private key that began on an earlier line."""

    def __init__(self) -> None:
        self._key_lines = 0
        """Lines of the private key seen so far; 0 = not inside one."""
        self._ending = False

    @property
    def inside_key(self) -> bool:
        """Whether a private key began and has not ended."""
        return self._key_lines > 0

    def line(self, text: str) -> Redacted:
        """Return the line without its secrets; its line end stays."""
        if self._key_lines:
            body = text.rstrip("\r\n")
            if end := _PEM_END.search(body):
                self._key_lines, self._ending = 0, False
                rest = self._ordinary(text[end.end() :])
                return Redacted(MARK + rest.text, rest.count)
            if self._key_lines < _PEM_MOST_LINES and self._is_key(body):
                self._key_lines += 1
                return Redacted(MARK + text[len(body) :], 0)
            self._key_lines, self._ending = 0, False
        return self._ordinary(text)

    def lines(self, text: str) -> Redacted:
        """Return a piece of whole lines without its secrets; the pieces of one text go through one redactor."""
        if not self._key_lines and not may_hold_secret(text):
            return Redacted(text, 0)
        done = [self.line(line) for line in _lines(text)]
        return Redacted("".join(part.text for part in done), sum(part.count for part in done))

    def block(self, data: bytes) -> tuple[bytes, int]:
        """Return bytes of whole lines without their secrets, and how many were taken; lines without a telling word are not decoded."""
        hits = [end for _, _, end in _WORDS.find_matches_as_indexes(data.lower().replace(*_A_UNIT))]
        parts: list[bytes] = []
        count = at = kept = place = 0
        while at < len(data):
            if not self._key_lines:
                place = bisect_right(hits, at, place)
                if place == len(hits):
                    break
                at = max(at, data.rfind(b"\n", at, hits[place] - 1) + 1)
            stop = data.find(b"\n", at) + 1 or len(data)
            text = data[at:stop].decode("utf-8", "surrogateescape")
            done = self.line(text)
            if done.text != text:
                parts += [data[kept:at], done.text.encode("utf-8", "surrogateescape")]
                kept = stop
            count, at = count + done.count, stop
        return b"".join([*parts, data[kept:]]), count

    def _is_key(self, body: str) -> bool:
        """Whether a line goes on with the key: key material, or one short last piece of it."""
        if self._ending:
            return False
        if _PEM_BODY.search(body):
            return True
        self._ending = True
        return _PEM_LAST.match(body) is not None

    def _ordinary(self, text: str) -> Redacted:
        if not may_hold_secret(text):
            return Redacted(text, 0)
        count = 0
        begin = _PEM_BEGIN.search(text)
        while begin:
            count += 1
            end = _PEM_END.search(text, begin.end())
            if end is None:
                self._key_lines = 1
                eol = text[len(text.rstrip("\r\n")) :]
                text = text[: begin.start()] + MARK + eol
                break
            text = text[: begin.start()] + MARK + text[end.end() :]
            begin = _PEM_BEGIN.search(text, begin.start() + len(MARK))
        for _ in range(_MOST_PASSES):  # what stood glued to a secret is seen once that is gone
            done = _OneLine().redact(text)
            text, count = done.text, count + done.count
            if not done.count:
                break
        return Redacted(text, count)


def redact_stream(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """Redact pieces of whole lines one by one; a private key that spans lines is taken out whole. Yields each with its count."""
    redactor = LineRedactor()
    for block in blocks:
        yield redactor.block(block)


def redact_text(text: str) -> Redacted:
    """Return the text with secrets replaced; line breaks stay where they are."""
    return LineRedactor().lines(text)


def may_hold_secret(text: str) -> bool:
    """Whether a text has any word that a secret is told by; quick, for what is written often and rarely holds one."""
    return _MAY_HOLD.search(text.lower()) is not None


def redact_env(env: Mapping[str, str]) -> tuple[dict[str, str], int]:
    """Return the environment with secret values replaced, by name or by shape; names stay."""
    cleaned, count = redact_json(dict(env))
    return cleaned, count


def redact_argv(argv: Iterable[str]) -> tuple[tuple[str, ...], int]:
    """Return the arguments with secrets replaced: after `--api-key`, in `--hf-token=…`, in JSON, in URLs, by shape."""
    cleaned: list[str] = []
    count, secret_follows = 0, False
    for word in argv:
        if secret_follows and not word.startswith("-") and _is_value(word):
            cleaned.append(MARK)
            count += 1
            continue  # --api-key takes several values
        secret_follows = word.startswith("-") and "=" not in word and is_secret_name(word.lstrip("-"))
        done = redact_text(word)
        cleaned.append(done.text)
        count += done.count
    return tuple(cleaned), count


def redact_json(value: Any, name: str = "") -> tuple[Any, int]:
    """Return JSON with secrets replaced, by the key before them or by shape; name: the key that holds the value."""
    match value:
        case str():
            if is_secret_name(name) and _is_value(value):
                return MARK, 1
            done = redact_text(value)
            return done.text, done.count
        case Mapping():
            parts = {key: redact_json(inner, str(key)) for key, inner in value.items()}
            return {key: part[0] for key, part in parts.items()}, sum(part[1] for part in parts.values())
        case list() | tuple() if all(isinstance(item, str) for item in value) and not is_secret_name(name):
            words, count = redact_argv(value)
            return list(words), count
        case list() | tuple():
            done_items = [redact_json(item, name) for item in value]
            return [item[0] for item in done_items], sum(item[1] for item in done_items)
        case _:
            return value, 0


class _OneLine:
    """One line on its way through the patterns."""

    def __init__(self) -> None:
        self._count = 0

    def redact(self, text: str) -> Redacted:
        """Run the patterns whose telling word is there; headers first, for they hold other secrets' shapes."""
        low = text.lower()
        if "authorization" in low:
            text = self._authorizations(text)
        if _SHAPE.search(text):
            for pattern in _SHAPES:
                text = pattern.sub(self._whole, text)
        if "://" in text:
            text = _USERINFO.sub(self._userinfo, text)
        if "bearer" in low or "basic" in low:
            text = _SCHEME.sub(self._scheme, text)
        for word, pattern in _SECOND:
            if word in low:
                text = pattern.sub(self._second, text)
        if _NAME_WORD.search(low):
            text = self._named(text)
        return Redacted(text, self._count)

    def _mark(self) -> str:
        self._count += 1
        return MARK

    def _whole(self, _found: re.Match[str]) -> str:
        return self._mark()

    def _second(self, found: re.Match[str]) -> str:
        """Replace what stands in the second group."""
        return found[0] if _PLACEHOLDER.fullmatch(found[2].strip()) else found[1] + self._mark()

    def _userinfo(self, found: re.Match[str]) -> str:
        if found[2] == "git" or _PLACEHOLDER.fullmatch(found[2]):
            return found[0]
        return f"{found[1]}{self._mark()}@"

    def _authorizations(self, text: str) -> str:
        parts: list[str] = []
        at = 0
        for found in _AUTHORIZATION.finditer(text):
            if found.start() < at or _PLACEHOLDER.fullmatch(found[3]):
                continue
            parts += [text[at : found.start(3)], self._mark()]
            at = found.end()
            if (found[2] or "").lower() in _WHOLE_SCHEMES:
                rest = _REST_OF_VALUE.match(text, at)
                at = rest.end() if rest else at
        return "".join([*parts, text[at:]])

    def _scheme(self, found: re.Match[str]) -> str:
        value = found[3]
        is_secret = _is_basic(value) if found[1].lower() == "basic" else _looks_random(value)
        return f"{found[1]}{found[2]}{self._mark()}" if is_secret else found[0]

    def _named(self, text: str) -> str:
        """Replace the values after names of secrets."""
        parts: list[str] = []
        done = 0
        for found in _NAMED.finditer(text):
            name = (found["name"] or found["flag"]).lstrip("-")
            if found.end() < done or not _NAME_WORD.search(name.lower()):
                continue
            value = _VALUE.match(text, found.end())
            if value is None or (found["flag"] and value[0].startswith("-")) or not self._is_secret(found, name, value):
                continue
            kind = value.lastgroup or "bare"
            mark = f'"{self._mark()}"' if kind == "list" else self._mark()
            parts += [text[done : value.start(kind)], mark]
            done = value.end()
            if kind == "bare" and _is_stated(found):
                whole = _STATED.match(text, value.start())
                done = max(done, whole.end() if whole else 0)
                while found["flag"] and (further := _FURTHER.match(text, done)) and _is_value(further[1]):
                    parts += [text[done : further.start(1)], self._mark()]
                    done = further.end()
        return "".join([*parts, text[done:]])

    @staticmethod
    def _is_secret(found: re.Match[str], name: str, value: re.Match[str]) -> bool:
        if value["list"]:
            return is_secret_name(name) and MARK[:-1] not in value["list"]
        text = value[value.lastgroup or "bare"]
        return _is_secret_pair(name, text, quoted=value["bare"] is None, stated=_is_stated(found))


def _is_stated(found: re.Match[str]) -> bool:
    """Whether a name is a flag or a variable of the environment, so that what follows is a value and no source code."""
    return bool(found["flag"]) or found["name"].startswith("--") or (found["name"].isupper() and found[0].endswith("="))


def _is_secret_pair(name: str, value: str, *, quoted: bool, stated: bool) -> bool:
    """Whether `name=value` in a text tells a secret; source code and the model's own tokens do not."""
    if name.lower() == "auth":
        return _is_basic(value)
    if name.lower().endswith(_HEADERS) or not is_secret_name(name) or not _is_value(value):
        return False
    if stated and _STRONG.search(name):
        return not (_ATTRIBUTE.fullmatch(value) or (value.isupper() and is_secret_name(value)))
    if not quoted and (_CODE.fullmatch(value) or (value.isidentifier() and is_secret_name(value))):
        return False
    if _STRONG.search(name):
        return True
    return len(value) >= _SHORTEST_WEAK and (_looks_random(value) or (quoted or name.isupper()))


def _is_value(value: str) -> bool:
    """Whether a value is one at all: not a placeholder, a reference, or taken out already."""
    return bool(value.strip()) and not _PLACEHOLDER.fullmatch(value.strip())


def _looks_random(value: str) -> bool:
    return bool(_DIGIT.search(value) and _LETTER.search(value)) or (len(value) >= _LONG and " " not in value)


def _is_basic(value: str) -> bool:
    """Whether a value is base64 of `user:password`."""
    try:
        return ":" in base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return False


def _lines(text: str) -> Iterator[str]:
    """Split after line feeds and nowhere else."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start : end + 1]
        start = end + 1
    if start < len(text):
        yield text[start:]
