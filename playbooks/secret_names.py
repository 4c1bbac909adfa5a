"""Which names and values are secrets: the one rule that command readers and the redaction of text share.

A name decides by its words, so that `HF_TOKEN` and `--api-key` are secrets while `--max-num-batched-tokens`,
`VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE` and `--tokenizer-mode` are tuning. A value decides by the shapes that issuers print.
"""

from __future__ import annotations

import re

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ALWAYS = frozenset(
    {
        "secret",
        "secrets",
        "password",
        "passwd",
        "passphrase",
        "credential",
        "credentials",
        "apikey",
        "authorization",
        "cookie",
    }
    | {"privatekey", "bearer", "passwort", "authtoken", "accesstoken", "jwt", "secretkey", "accesskey"}
)
_TUNING_BEFORE_TOKEN = frozenset(
    {
        "eos",
        "bos",
        "pad",
        "unk",
        "cls",
        "sep",
        "mask",
        "eot",
        "eom",
        "eod",
        "image",
        "video",
        "audio",
        "vision",
        "think",
    }
    | {"special", "stop", "start", "end", "begin", "next", "last", "first", "per", "single", "new", "draft", "bonus"}
    | {"output", "prompt", "input", "generated", "sampled", "each", "one", "multi", "dummy", "placeholder", "call"}
    | {"reasoning", "section", "added", "top", "target", "accepted", "rejected"}
)
"""Words that make a token one of the model's, not one of the door: `eos_token`, `prompt_token`."""
_TUNING_AFTER_TOKEN = frozenset(
    {
        "threshold",
        "budget",
        "size",
        "limit",
        "limits",
        "count",
        "per",
        "id",
        "ids",
        "length",
        "len",
        "ratio",
        "num",
        "max",
    }
    | {
        "min",
        "stream",
        "interval",
        "mode",
        "parallelism",
        "type",
        "bucket",
        "rate",
        "usage",
        "details",
        "class",
        "level",
    }
)
_KEYS_THAT_ARE_NO_SECRET = frozenset(
    {"cache", "routing", "partition", "sort", "primary", "foreign", "public", "config", "metadata"}
)
VALUE_SHAPES: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern)
    for pattern in (
        r"\bhf_[A-Za-z0-9]{16,}\b",
        r"\bsk-[A-Za-z0-9_-]{16,}",
        r"\bxox[abeprs]-[A-Za-z0-9-]{8,}",
        r"\bxapp-[A-Za-z0-9-]{8,}",
        r"\bgh[oprsu]_[A-Za-z0-9]{20,}\b",
        r"\bgithub_pat_[A-Za-z0-9_]{20,}\b",
        r"\bglpat-[A-Za-z0-9_-]{16,}",
        r"\bnvapi-[A-Za-z0-9_-]{16,}",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"\bAIza[A-Za-z0-9_-]{35}",
        r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
    )
)
"""Values that are secrets whatever their name."""
BEARER = re.compile(r"(?i)\b(authorization\s*[:=]\s*(?:bearer|basic|token)?|bearer|basic)\s+([A-Za-z0-9._~+/=-]{8,})")
"""An authorization header; group 2 is the secret."""
USERINFO = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]*://)([^\s/?#@'\"]+)@")
"""A URL with user info; group 2 is the secret."""


def is_secret_name(name: str) -> bool:
    """Whether a variable, flag or JSON key of this name holds a secret."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words:
        return False
    if _ALWAYS.intersection(words):
        return True
    for position, word in enumerate(words):
        following = words[position + 1] if position + 1 < len(words) else ""
        before = words[position - 1] if position else ""
        if word == "token" and following not in _TUNING_AFTER_TOKEN and before not in _TUNING_BEFORE_TOKEN:
            return True
        if word == "key" and before and before not in _KEYS_THAT_ARE_NO_SECRET and following in {"", "id", "file"}:
            return following != "file"
        if word == "keys" and before in {"api", "access", "secret", "private", "auth", "signing"}:
            return True
    return words[-1] in {"pass", "pwd"} and len(words) > 1
