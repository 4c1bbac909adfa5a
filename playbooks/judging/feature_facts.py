"""What a probe of one feature brings from the node: each try as it was answered, and what the engine says of itself."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Feature = Literal["tool_call", "structured_output", "reasoning", "vision", "long_context", "speculative_decoding"]
FEATURES: tuple[Feature, ...] = (
    "tool_call", "structured_output", "reasoning", "vision", "long_context", "speculative_decoding",
)  # fmt: skip


class _Fact(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class ToolCall(_Fact):
    """A call of an answer; `arguments` as the engine wrote it."""

    name: str
    arguments: str


class FeatureTry(_Fact):
    """One request of a feature and its answer. Texts are cut and redacted on the node; times in ms.

    asked: what the answer is judged against, such as the city a tool is to be asked for.
    done: the answer ended as an answer does (body complete, or the stream's last event came).
    """

    n: int
    asked: str
    stream: bool = False
    http_status: int | None = None
    error: str | None = None
    finish_reason: str | None = None
    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    done: bool = False
    ended_ms: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class FeatureProbeFacts(_Fact):
    """A probe of one feature. drafts, accepted: by how much the counters of speculative decoding moved; None = there are none."""

    feature: Feature
    target: str
    tries: tuple[FeatureTry, ...] = ()
    max_len: int | None = None
    drafts: int | None = None
    accepted: int | None = None
    why_not: str = ""
    """Why no request could be made."""
    engine_alive: bool = True
    details: dict[str, Any] = {}
