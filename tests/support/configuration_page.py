"""docs/configuration.md as the settings classes state it. Write it anew: `python -m tests.support.configuration_page`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import SecretStr
from pydantic_settings import BaseSettings

from bot.settings import Settings
from workers.settings import NodeSettings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"
_HEAD = """# Configuration

Generated from `bot/settings.py` and `workers/settings.py` by `python -m tests.support.configuration_page`; a test holds them
together.

Settings are environment variables, read once at start.
An empty variable counts as not set.
Secrets never show in logs, messages or `baseline doctor`.
"""


def page() -> str:
    """Return the whole page."""
    return "\n".join([_HEAD, "## Bot", "", *_table(Settings), "", "## Node", "", *_table(NodeSettings), ""])


def _table(settings: type[BaseSettings]) -> list[str]:
    rows = ["| variable | default | what it is |", "| --- | --- | --- |"]
    for name, field in settings.model_fields.items():
        rows.append(f"| `BASELINE_{name.upper()}` | {_shown(field.default)} | {field.description} |")
    return rows


def _shown(default: Any) -> str:
    if isinstance(default, SecretStr):
        default = default.get_secret_value()
    if default is None or default in {"", ()}:
        return "-"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
