"""The requests of a feature's probe: bodies of `/v1/chat/completions`, each with a subject of its own.

One subject a try, so that no try is answered from the cache of the one before, and an answer to another question shows.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from playbooks.judging.feature_facts import Feature

TRIES = 20
TOOL = "get_time"
_SUBJECTS = (
    "Paris", "Lima", "Oslo", "Cairo", "Quito", "Tokyo", "Delhi", "Rome", "Perth", "Seoul",
    "Accra", "Bern", "Dakar", "Hanoi", "Kyiv", "Lagos", "Milan", "Nairobi", "Porto", "Riga",
)  # fmt: skip
_COLOURS: tuple[tuple[str, tuple[int, int, int]], ...] = (
    ("red", (220, 20, 20)), ("green", (20, 160, 40)), ("blue", (20, 60, 220)), ("yellow", (240, 220, 20)),
    ("black", (0, 0, 0)), ("white", (255, 255, 255)),
)  # fmt: skip
_ANSWER_TOKENS = 1024
"""Room for a model that thinks before it answers."""
_LONG_ANSWER = 32
_PIXELS = 32
FILLER = "The garden behind the old bridge was quiet in the morning. "
FILLER_TOKENS = 14
"""What a sentence of filler is in most tokenizers; where the engine tells, it is asked."""
LONG_SHARE = (1, 2)
"""A long context is this much of the longest that the engine takes."""


class ToolArguments(BaseModel):
    """What the probe's tool takes."""

    model_config = ConfigDict(extra="forbid", strict=True)
    city: str = Field(min_length=1, description="Name of the city")
    unit: Literal["12h", "24h"] = Field(description="How to write the time")


class StructuredAnswer(BaseModel):
    """What a structured answer holds: small enough that even a model without sense can end it."""

    model_config = ConfigDict(extra="forbid", strict=True)
    city: Literal[_SUBJECTS]  # type: ignore[valid-type]
    north: bool
    size: Literal["small", "middle", "large"]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: its body, and the subject that the answer is judged against."""

    subject: str
    body: Mapping[str, Any]

    @property
    def stream(self) -> bool:
        """Whether the answer comes as events."""
        return bool(self.body.get("stream"))


def request(
    feature: Feature, n: int, *, model: str | None, max_len: int | None = None, filler_tokens: int = FILLER_TOKENS
) -> Asked:
    """Return try `n` (from 1) of a feature. Tries of tools stream every second time, for parsers differ there.

    max_len: the longest context of the engine in tokens, and filler_tokens those of one sentence of filler; for `long_context`.
    """
    subject = _SUBJECTS[(n - 1) % len(_SUBJECTS)]
    asked = Asked(subject, {})
    match feature:
        case "tool_call":
            asked = Asked(subject, _tool(subject, stream=n % 2 == 0))
        case "structured_output":
            asked = Asked(subject, _structured(subject))
        case "reasoning":
            text = f"Is {subject} north of the equator? Think first, then answer in one word."
            asked = Asked(subject, _chat(text, stream=n % 2 == 0))
        case "vision":
            asked = _vision(n)
        case "long_context":
            asked = _long(subject, max_len or 0, filler_tokens)
        case "speculative_decoding":
            asked = Asked(subject, _chat(f"Write the name {subject} ten times.", max_tokens=64))
    common = {"temperature": 0.6, "seed": n, **({"model": model} if model else {})}
    if feature in {"long_context", "speculative_decoding"}:
        common["temperature"] = 0
    return Asked(asked.subject, {**asked.body, **common})


def _chat(
    text: str | list[dict[str, Any]], *, stream: bool = False, max_tokens: int = _ANSWER_TOKENS
) -> dict[str, Any]:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": text}], "max_tokens": max_tokens}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


def _tool(city: str, *, stream: bool) -> dict[str, Any]:
    function = {
        "name": TOOL,
        "description": "Tell what time it is in a city.",
        "parameters": ToolArguments.model_json_schema(),
    }
    text = f"What time is it in {city}, written as 24h? Use the tool; do not guess."
    return {
        **_chat(text, stream=stream),
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "auto",
    }


def _structured(city: str) -> dict[str, Any]:
    schema = {"name": "city", "schema": StructuredAnswer.model_json_schema(), "strict": True}
    text = f"Describe {city} as JSON with the keys city, north and size."
    return {**_chat(text, max_tokens=512), "response_format": {"type": "json_schema", "json_schema": schema}}


def without_constraint(asked: Asked) -> Asked:
    """Return a structured request with its constraint taken out: what the model does by itself."""
    return Asked(asked.subject, {name: part for name, part in asked.body.items() if name != "response_format"})


def _vision(n: int) -> Asked:
    name, colour = _COLOURS[(n - 1) % len(_COLOURS)]
    url = f"data:image/png;base64,{base64.b64encode(picture(colour)).decode()}"
    parts: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": url}},
        {
            "type": "text",
            "text": "Which colour is this square? Answer with one word: " + ", ".join(c for c, _ in _COLOURS) + ".",
        },
    ]
    return Asked(name, _chat(parts))


def _long(subject: str, max_len: int, filler_tokens: int) -> Asked:
    tokens = max_len * LONG_SHARE[0] // LONG_SHARE[1]
    text = FILLER * max(tokens // filler_tokens, 1)
    return Asked(
        subject, _chat(f"{text}\nThe word of the day is {subject}. Which word is it?", max_tokens=_LONG_ANSWER)
    )


def picture(colour: tuple[int, int, int]) -> bytes:
    """Return a small PNG of one colour, made without a library for it is a constant of the probe (PNG, ISO/IEC 15948)."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", _PIXELS, _PIXELS, 8, 2, 0, 0, 0)
    rows = (b"\0" + bytes(colour) * _PIXELS) * _PIXELS
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
