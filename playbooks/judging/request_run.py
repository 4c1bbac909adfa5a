"""One request as it was answered: times, end, counts. On the wire, and what is judged of it."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict


class RequestRun(BaseModel):
    """One run of the fixed request. Times in milliseconds since its start; None = did not happen."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    n: int
    started_at: datetime
    first_token_ms: int | None = None
    ended_ms: int
    http_status: int | None = None
    finish_reason: str | None = None
    complete: bool
    error: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    output_sha256: str | None = None
    output_head: str = ""
    system_fingerprint: str | None = None
