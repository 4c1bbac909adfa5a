"""Calls to Slack's Web API, and what each failure means for the row that was to be sent.

The SDK's own connection-error retry is off: after an answer that was lost on the way, Slack may have posted, so the
message is looked up by its metadata first. Every failure of the library becomes one of the five classes here.
"""

from __future__ import annotations

import http.client
from typing import Any
from urllib.error import URLError

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web import SlackResponse

from bot.adapters.slack_pace import Pace
from bot.errors import (
    SlackAccessLost,
    SlackError,
    SlackOutcomeUnclear,
    SlackRateLimited,
    SlackRefused,
    SlackRefusedContent,
)

TIMEOUT_S = 15
CONTENT = frozenset(
    {
        "invalid_blocks",
        "invalid_blocks_format",
        "msg_blocks_too_long",
        "msg_too_long",
        "no_text",
        "metadata_too_large",
        "invalid_metadata_schema",
        "invalid_metadata_format",
        "markdown_text_conflict",
        "too_many_attachments",
        "invalid_arguments",
    }
)
"""Slack refuses what is said: once more as plain text, then passed over."""
GONE = frozenset(
    {"message_not_found", "cant_update_message", "edit_window_closed", "is_inactive", "streaming_state_conflict"}
)
"""The message to edit is not there any more: it is posted anew."""
ACCESS = frozenset(
    {
        "not_authed",
        "invalid_auth",
        "account_inactive",
        "token_revoked",
        "token_expired",
        "team_access_not_granted",
        "not_allowed_token_type",
        "org_login_required",
        "ekm_access_denied",
    }
)
"""Nothing can be sent until the operator acts: rows wait."""
UNCLEAR = frozenset({"internal_error", "fatal_error", "service_unavailable", "request_timeout"})
"""The call may have taken effect: look before sending again."""
RATE = frozenset({"ratelimited", "rate_limited", "message_limit_exceeded"})
ABSENT = frozenset({"not_in_channel", "channel_not_found"})


def web_client(token: str, api_url: str = "https://slack.com/api/") -> WebClient:
    """Return a client for Slack or any emulator; the URL may end with a slash or not."""
    client = WebClient(token=token, base_url=f"{api_url.rstrip('/')}/", timeout=TIMEOUT_S)
    client.retry_handlers = []
    return client


class SlackCalls:
    """One workspace's calls at Slack's pace; raises the classes above and nothing of the library's."""

    def __init__(self, client: WebClient, pace: Pace) -> None:
        self.client = client
        self.pace = pace

    def wait(self, method: str, channel: str = "") -> float:
        """Return the seconds until this method may be called."""
        return self.pace.wait(method, channel)

    def call(self, method: str, /, channel: str = "", **arguments: Any) -> dict[str, Any]:
        """Call one method with JSON arguments and return the answer.

        Raises:
            SlackError: one of its five kinds.
        """
        self.pace.spend(method, channel)
        body = {**arguments, **({"channel": channel} if channel else {})}
        try:
            response = self.client.api_call(method, json=body)
        except SlackApiError as error:
            raise self._refused(method, error) from error
        except (SlackClientError, URLError, OSError, http.client.HTTPException, ValueError) as error:
            raise SlackOutcomeUnclear(f"{method}: {type(error).__name__}: {error}", error="no_answer") from error
        return dict(response.data) if isinstance(response.data, dict) else {}

    def call_form(self, method: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a method that reads form arguments only (files.*, conversations.*).

        Raises:
            SlackError: one of its five kinds.
        """
        self.pace.spend(method)
        try:
            response = self.client.api_call(method, params=arguments)
        except SlackApiError as error:
            raise self._refused(method, error) from error
        except (SlackClientError, URLError, OSError, http.client.HTTPException, ValueError) as error:
            raise SlackOutcomeUnclear(f"{method}: {type(error).__name__}: {error}", error="no_answer") from error
        return dict(response.data) if isinstance(response.data, dict) else {}

    def _refused(self, method: str, error: SlackApiError) -> SlackError:
        response = error.response
        status, headers, name = _answer(response)
        text = f"{method}: {name}"
        if status == 429 or name in RATE:
            seconds = _seconds(headers)
            self.pace.close(method, seconds)
            return SlackRateLimited(text, error=name, retry_after_s=seconds)
        if name in UNCLEAR or status >= 500:
            return SlackOutcomeUnclear(text, error=name)
        if name in ACCESS:
            return SlackAccessLost(text, error=name)
        if name in CONTENT:
            return SlackRefusedContent(text, error=name)
        return SlackRefused(text, error=name)


def _answer(response: Any) -> tuple[int, dict[str, str], str]:
    """Return status, headers as text, and Slack's word; the library hands over either of two shapes."""
    if isinstance(response, SlackResponse):
        status, headers, data = response.status_code, response.headers or {}, response.data
    else:
        status, headers, data = response.get("status", 200), response.get("headers") or {}, response
    word = data.get("error") if isinstance(data, dict) else None
    plain = {name: str(value[0] if isinstance(value, list) else value) for name, value in headers.items()}
    return int(status), plain, str(word or f"HTTP {status}")


def _seconds(headers: dict[str, str]) -> float:
    for name, value in headers.items():
        if name.lower() == "retry-after":
            return float(value) if value.isdecimal() else 30.0
    return 30.0
