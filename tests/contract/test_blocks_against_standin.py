"""Every agreed message and form passes the stand-in's own check, which was written apart from ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bot.sandbox.standin.blockcheck import check_message_blocks, check_view
from bot.sandbox.standin.table import load_table

GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "blocks").glob("*.json"))


@pytest.mark.parametrize("path", GOLDEN, ids=[path.stem for path in GOLDEN])
def test_slack_as_the_stand_in_knows_it_takes_it(path: Path) -> None:
    found = json.loads(path.read_text())
    if "type" in found:
        check_view(load_table(), found)
    else:
        check_message_blocks(load_table(), found["blocks"])
