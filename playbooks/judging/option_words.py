"""Arguments of the engine as options: grouped, spelt one way, and put in an order that means nothing."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_SHORT = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-dcp": "--decode-context-parallel-size",
    "-ep": "--enable-expert-parallel",
    "-q": "--quantization",
    "-cc": "--compilation-config",
    "-O": "--optimization-level",
    "-asc": "--api-server-count",
    "-n": "--nnodes",
    "-r": "--node-rank",
    "-sc": "--speculative-config",
}
PROGRAM_WORDS = (
    ("vllm", "serve"),
    ("serve",),
    ("python3", "-m", "vllm.entrypoints.openai.api_server"),
    ("python3", "-m", "vllm.entrypoints.api_server"),
    ("python3", "-m", "vllm.entrypoints.cli.main", "serve"),
)


@dataclass(frozen=True, slots=True)
class Option:
    """One option with its values; `name` is empty for a positional word (the model)."""

    name: str
    values: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The words as they are passed."""
        return (self.name, *self.values) if self.name else self.values

    @property
    def shown(self) -> str | None:
        """The value for a reader; None for a bare flag."""
        return " ".join(self.values) if self.values else None


def without_program(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Take `vllm serve` and its like off the front."""
    for words in PROGRAM_WORDS:
        if argv[: len(words)] == words:
            return argv[len(words) :]
    return argv


def options_of(argv: tuple[str, ...]) -> tuple[Option, ...]:
    """Group arguments into options; `--a=b` is `--a b`, `--a_b` is `--a-b`, JSON values in one spelling."""
    found: list[Option] = []
    for word in without_program(argv):
        if is_option(word):
            name, equals, value = word.partition("=")
            found.append(Option(_spelt(name), (_value(value),) if equals else ()))
        elif found and found[-1].name and not _is_full(found[-1]):
            found[-1] = Option(found[-1].name, (*found[-1].values, _value(word)))
        else:
            found.append(Option("", (word,)))
    return tuple(found)


def normalised(options: tuple[Option, ...]) -> tuple[str, ...]:
    """Return the words: positional ones first, options sorted by name, the last of a repeated single-valued one."""
    positional = tuple(word for option in options if not option.name for word in option.values)
    last: dict[str, Option] = {option.name: option for option in options if option.name}
    return (*positional, *(word for name in sorted(last) for word in last[name].words))


def is_option(word: str) -> bool:
    """Whether a word begins an option and is no negative number or bare dash."""
    return word.startswith("-") and word != "-" and not re.fullmatch(r"-\d+(?:\.\d+)?", word)


_SEVERAL = frozenset(
    {
        "--served-model-name",
        "--lora-modules",
        "--allowed-origins",
        "--middleware",
        "--api-key",
        "--cudagraph-capture-sizes",
    }
)


def _is_full(option: Option) -> bool:
    """Whether one more word cannot belong to the option: most take one value."""
    return bool(option.values) and option.name not in _SEVERAL


def _spelt(name: str) -> str:
    if name in _SHORT:
        return _SHORT[name]
    base, dot, key = name.partition(".")
    return (base.replace("_", "-") if base.startswith("--") else base) + dot + key


def _value(text: str) -> str:
    if not text.startswith(("{", "[")):
        return text
    try:
        return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
