from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import stamina

from tests.support.fake_bot import FakeBot, serving
from tests.support.node_builders import TestNode, make_node


@pytest.fixture
def bot() -> Iterator[FakeBot]:
    with serving(FakeBot()) as served:
        yield served


@pytest.fixture
def node(tmp_path: Path, bot: FakeBot) -> Iterator[TestNode]:
    made = make_node(tmp_path, bot)
    yield made
    for engine in made.deps.engines.values():
        engine.sweep(spare=frozenset())
    made.deps.bot.close()


@pytest.fixture(autouse=True)
def _quick_retries() -> Iterator[None]:
    with stamina.set_testing(True, attempts=2):
        yield
