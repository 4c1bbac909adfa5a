"""Takes out what must not leave the node: values this node filled in, then whatever looks like a secret."""

from __future__ import annotations

from collections.abc import Mapping

from playbooks.evidence.redaction import LineRedactor, redact_text

_SHORTEST = 6
"""Shorter filled-in values are left to the general rules: `1` or `true` would blank half a log."""


def without_secrets(text: str, secrets: Mapping[str, str]) -> tuple[str, int]:
    """Replace the node's own secret values by their references; returns the text and how many were replaced."""
    count = 0
    for name, value in secrets.items():
        if len(value) >= _SHORTEST and value in text:
            count += text.count(value)
            text = text.replace(value, f"${{node:{name}}}")
    return text, count


class LiveCleaner:
    """Cleans the lines of one log as they come; remembers a private key that began on an earlier line."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._secrets = secrets
        self._redactor = LineRedactor()

    def line(self, text: str) -> str:
        """Return a line that may be told."""
        return self._redactor.line(without_secrets(text, self._secrets)[0]).text

    def text(self, text: str) -> str:
        """Return a text beside the log that may be told."""
        return clean(text, self._secrets)


def clean(text: str, secrets: Mapping[str, str]) -> str:
    """Return a text that may be told: without the node's own values and without what looks like a secret."""
    return redact_text(without_secrets(text, secrets)[0]).text
