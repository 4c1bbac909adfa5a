"""docs/configuration.md names every setting."""

from __future__ import annotations

import pytest
from pydantic_settings import BaseSettings

from bot.settings import Settings
from tests.support.configuration_page import PAGE, page
from workers.settings import NodeSettings


def test_the_page_is_what_the_settings_state() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("settings", [Settings, NodeSettings])
def test_every_setting_says_what_it_is(settings: type[BaseSettings]) -> None:
    assert [name for name, field in settings.model_fields.items() if not field.description] == []
