"""Pasted shell text to simple commands: continuation lines, quotes, comments, operators, redirections, assignments.

Nothing is expanded; what a shell would expand stays as written and is noted. Chat programs turn `--` into a dash and
straight quotes into curly ones: both are turned back, with a note.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from playbooks.errors import InvalidCommand

_CURLY = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "\u00a0": " ", "\u200b": "", "\u2060": ""})
_DASH = re.compile(r"(?:(?<=\s)|^)[—–](?=[A-Za-z])")
_CONTINUED = re.compile(r"[ \t]*[\\`^][ \t]*\r?\n[ \t]*")
_PROMPT = re.compile(r"^\s*(?:\[?[\w.-]+@[\w.-]+[^$#\n]{0,40}[$#]|[$#>%])\s+(?=\S)")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_OPERATOR = re.compile(r"[;&|<>]+")
_SUBSTITUTION = re.compile(r"\$\([^()\n]*\)|`[^`\n]*`")
_HOLD = {ord(" "): "\x1c", ord(";"): "\x1d", ord("|"): "\x1e", ord("'"): "\x1f", ord('"'): "\x1a"}
"""A command substitution is one word, whatever stands in it."""
_LET_GO = {ord(held): chr(plain) for plain, held in _HOLD.items()}
_EXPANDED = re.compile(r"(?<!\\)\$(?!\{node:)(?:\{[^}]*\}|\([^)]*\)?|[A-Za-z_][A-Za-z0-9_]*)")
_ESCAPED = re.compile(r"&(amp|lt|gt);")
_UNESCAPED = {"amp": "&", "lt": "<", "gt": ">"}
"""How a chat program hands these characters on."""
_BLOCK_FENCE = re.compile(r"^\s*```[\w-]*\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """Assignments before a command, and its words."""

    assignments: tuple[tuple[str, str], ...]
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Script:
    """The simple commands of a text in order, and what was repaired or left as it is."""

    commands: tuple[SimpleCommand, ...]
    notes: tuple[str, ...]


def read(text: str) -> Script:
    """Split the text into simple commands.

    Raises:
        InvalidCommand: a quote is left open.
    """
    notes: list[str] = []
    plain = _ESCAPED.sub(lambda match: _UNESCAPED[match[1]], _BLOCK_FENCE.sub("", text))
    dashes = _DASH.sub("--", plain.translate(_CURLY))
    if dashes != plain:
        notes.append("curly quotes or long dashes of the chat program were turned back into plain ones")
    words: list[str] = []
    for line in _logical_lines(dashes, notes):
        words += [*_words(line), ";"]
    return Script(tuple(_commands(words)), tuple(notes))


def expansions(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the shell expressions that stand unexpanded in the words, `$MODEL`, `$(pwd)`, in order, each once."""
    return tuple(dict.fromkeys(match[0] for word in words for match in _EXPANDED.finditer(word)))


def _logical_lines(text: str, notes: list[str]) -> list[str]:
    without_comments = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("# "))
    lines: list[str] = []
    for line in _CONTINUED.sub(" ", without_comments + "\n").splitlines():
        bare = _PROMPT.sub("", line) if not lines or not line.startswith((" ", "\t")) else line
        if not bare.strip() or bare.lstrip().startswith("#"):
            continue
        if lines and bare.lstrip().startswith("-"):
            notes.append("a line that starts with an option was joined to the line before it")
            lines[-1] += " " + bare.strip()
        elif lines and _open_quote(lines[-1]):
            lines[-1] += "\n" + bare
        else:
            lines.append(bare.rstrip().removesuffix("\\"))
    return lines


def _open_quote(line: str) -> bool:
    try:
        shlex.split(line)
    except ValueError:
        return True
    return False


def _words(line: str) -> list[str]:
    held = _SUBSTITUTION.sub(lambda match: match[0].translate(_HOLD), line)
    lexer = shlex.shlex(held, posix=True, punctuation_chars=";&|<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        for word in lexer:
            if word.startswith("#"):
                break
            words.append(word.translate(_LET_GO))
    except ValueError as error:
        raise InvalidCommand(f"expected balanced quotes, found {str(error).lower()} in {line[:80]!r}") from error
    return words


def _commands(words: list[str]) -> list[SimpleCommand]:
    commands: list[SimpleCommand] = []
    assignments: list[tuple[str, str]] = []
    current: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif _OPERATOR.fullmatch(word) and ("<" in word or ">" in word):
            if current and current[-1] in {"0", "1", "2"}:
                current.pop()
            skip = True  # the target of a redirection
        elif _OPERATOR.fullmatch(word):
            if current or assignments:
                commands.append(SimpleCommand(tuple(assignments), tuple(current)))
            assignments, current = [], []
        elif not current and (assigned := _ASSIGNMENT.fullmatch(word)):
            assignments.append((assigned[1], assigned[2]))
        else:
            current.append(word)
    return commands
