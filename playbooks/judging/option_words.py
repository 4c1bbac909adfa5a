"""Arguments of the engine as options: grouped, spelt one way, and put in an order that means nothing.

No word is lost: what stands behind an option that is not known stays with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

_SHORT = {
    "-m": "--model",
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-dpl": "--data-parallel-size-local",
    "-dpn": "--data-parallel-rank",
    "-dpa": "--data-parallel-address",
    "-dpp": "--data-parallel-rpc-port",
    "-dpb": "--data-parallel-backend",
    "-dph": "--data-parallel-hybrid-lb",
    "-dcp": "--decode-context-parallel-size",
    "-pcp": "--prefill-context-parallel-size",
    "-ep": "--enable-expert-parallel",
    "-q": "--quantization",
    "-cc": "--compilation-config",
    "-O": "--optimization-level",
    "-asc": "--api-server-count",
    "-n": "--nnodes",
    "-r": "--node-rank",
    "-sc": "--speculative-config",
    "-ac": "--attention-config",
    "-h": "--help",
}
_GLUED = re.compile(r"(-O)(\d|\{.*)", re.DOTALL)
PROGRAM_WORDS = (
    ("vllm", "serve"),
    ("python3", "-m", "vllm.entrypoints.openai.api_server"),
    ("python3", "-m", "vllm.entrypoints.api_server"),
    ("python3", "-m", "vllm.entrypoints.cli.main", "serve"),
    ("python3", "-m", "vllm", "serve"),
    ("serve",),
)
REPEATED = frozenset({"--middleware", "--lora-modules", "--api-key"})
"""Options that add up when they are given again; of all others the last one counts."""
_SWITCH = re.compile(
    r"--(?:no-|enable-|disable-|trust-|enforce-|skip-|headless$|async-scheduling$|language-model-only$|use-)"
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
    def base(self) -> str:
        """The name without a key behind a dot: `--speculative-config.model` is of `--speculative-config`."""
        return self.name.partition(".")[0]

    @property
    def key(self) -> str:
        """What the option sets: `--no-x` and `--x` set the same."""
        return f"--{self.name[5:]}" if self.name.startswith("--no-") else self.name

    @property
    def shown(self) -> str | None:
        """The value for a reader; None for a bare flag."""
        return " ".join(self.values) if self.values else None


def program_of(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words that start the program, () when the image's own entrypoint does."""
    return next((words for words in PROGRAM_WORDS if argv[: len(words)] == words), ())


def options_of(argv: tuple[str, ...]) -> tuple[Option, ...]:
    """Group arguments into options; `--a=b` is `--a b`, `--a_b` is `--a-b`, JSON values in one spelling."""
    words = argv[len(program_of(argv)) :]
    model_known = (bool(words) and not is_option(words[0])) or any(
        _spelt(word.partition("=")[0]) == "--model" for word in words
    )
    found: list[Option] = []
    for word in words:
        if is_option(word):
            name, value = _split(word)
            found.append(Option(_spelt(name), () if value is None else (_value(value),)))
        elif found and found[-1].name and (model_known or _takes(found[-1])):
            found[-1] = Option(found[-1].name, (*found[-1].values, _value(word)))
        else:
            found.append(Option("", (word,)))
            model_known = True
    return tuple(found)


def normalised(options: Iterable[Option]) -> tuple[str, ...]:
    """Return the words: positional ones first, options sorted by what they set; of a repeated one the last, unless it adds up."""
    positional: list[str] = []
    named: dict[str, list[Option]] = {}
    for option in options:
        if not option.name:
            positional.extend(option.values)
        elif option.name in REPEATED:
            named.setdefault(option.key, []).append(option)
        else:
            named[option.key] = [option]
    return (*positional, *(word for name in sorted(named) for option in named[name] for word in option.words))


def overridden(options: Iterable[Option]) -> tuple[Option, ...]:
    """Return the options that a later one of the same name makes void."""
    last: dict[str, Option] = {}
    void: list[Option] = []
    for option in options:
        if not option.name or option.name in REPEATED:
            continue
        if option.key in last:
            void.append(last[option.key])
        last[option.key] = option
    return tuple(void)


def is_option(word: str) -> bool:
    """Whether a word begins an option and is no negative number or bare dash."""
    return word.startswith("-") and word not in {"-", "--"} and not re.fullmatch(r"-[\d.]+", word)


def _takes(option: Option) -> bool:
    """Whether one more word may be the option's, while no model was named yet."""
    return not option.values and not _SWITCH.match(option.name)


def _split(word: str) -> tuple[str, str | None]:
    if match := _GLUED.fullmatch(word):
        return match[1], match[2].removeprefix("=")
    name, equals, value = word.partition("=")
    return name, value if equals else None


def _spelt(name: str) -> str:
    if name in _SHORT:
        return _SHORT[name]
    base, dot, key = name.partition(".")
    return (base.replace("_", "-") if base.startswith("--") else _SHORT.get(base, base)) + dot + key


def _value(text: str) -> str:
    if not text.startswith(("{", "[")):
        return text
    try:
        return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
