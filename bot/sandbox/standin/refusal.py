"""How the Web API says no: HTTP 200 with `ok: false`, an error word, and for blocks where and why."""

from __future__ import annotations

from typing import Any


class RefusedError(Exception):
    """The call is refused; `error` is Slack's word for why."""

    def __init__(self, error: str, **extra: Any) -> None:
        super().__init__(error)
        self.error = error
        self.extra = extra

    def body(self) -> dict[str, Any]:
        """Return the answer's body."""
        return {"ok": False, "error": self.error, **self.extra}


def refused_blocks(error: str, complaints: list[str]) -> RefusedError:
    """Return the refusal of blocks or a view, with every complaint twice, as Slack sends them."""
    return RefusedError(
        error, errors=complaints, response_metadata={"messages": [f"[ERROR] {one}" for one in complaints]}
    )
