"""Finding a message that may have been posted: by its metadata, in the thread or the channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.adapters.slack_messages import EVENT, key_of
from bot.errors import SlackRefused

if TYPE_CHECKING:
    from bot.adapters.slack_calls import SlackCalls
    from bot.ports import OutboxRow

_PAGES = 5
_SLACK_S = 120
"""How far Slack's clock may be off ours when the search is bounded in time."""


def find_message(calls: SlackCalls, row: OutboxRow, *, channel: str, thread_ts: str | None) -> str | None:
    """Return the `ts` of the row's message, None when Slack does not have it.

    Raises:
        SlackError: it could not be looked up; the row waits.
    """
    oldest = f"{row.created_at.timestamp() - _SLACK_S:.6f}"
    method = "conversations.replies" if thread_ts else "conversations.history"
    arguments = {"channel": channel, "include_all_metadata": True, "limit": 200, "oldest": oldest}
    if thread_ts:
        arguments["ts"] = thread_ts
    cursor = ""
    for _page in range(_PAGES):
        try:
            answer = calls.call_form(method, **arguments, **({"cursor": cursor} if cursor else {}))
        except SlackRefused:
            return None
        for message in answer.get("messages", []):
            metadata = message.get("metadata") or {}
            if metadata.get("event_type") == EVENT and metadata.get("event_payload", {}).get("row") == key_of(row):
                return str(message.get("ts", ""))
        cursor = str((answer.get("response_metadata") or {}).get("next_cursor") or "")
        if not cursor:
            return None
    return None
