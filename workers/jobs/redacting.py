"""Takes out what must not leave the node: values this node filled in, then whatever looks like a secret."""

from __future__ import annotations

from collections.abc import Mapping

from playbooks.evidence.redaction import redact_text

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


def clean(text: str, secrets: Mapping[str, str]) -> str:
    """Return a text that may be told: without the node's own values and without what looks like a secret."""
    return redact_text(without_secrets(text, secrets)[0]).text
