"""The first steps of the README can be taken as they are written: what they name is there under that name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bot.sandbox.samples import Samples
from bot.sandbox.standin.table import load_table

ROOT = Path(__file__).resolve().parents[2]
READMES = ("README.md", "README.zh-Hans.md")
SHOWN = "\n".join(
    file.read_text(encoding="utf-8")
    for folder, pattern in (("bot/blocks", "*.py"), ("bot/sandbox/page", "*.js"), ("bot/sandbox/page", "*.html"))
    for file in sorted((ROOT / folder).glob(pattern))
)
"""Everything that puts a word on a button."""


def steps(readme: str) -> str:
    text = (ROOT / readme).read_text(encoding="utf-8")
    engine = re.findall(r"(?m)^.*\./dev lab.*$", text)
    return "\n".join([*re.findall(r"(?m)^\d\. .*$", text), *engine])


@pytest.mark.parametrize("readme", READMES)
def test_every_button_it_names_is_there(readme: str) -> None:
    named = re.findall(r"\*\*([^*]+)\*\*", steps(readme))
    assert named
    assert [label for label in named if f'"{label}"' not in SHOWN and f"> {label}<" not in SHOWN] == []


@pytest.mark.parametrize("readme", READMES)
def test_every_sample_and_person_it_names_is_there(readme: str) -> None:
    there = {one["title"] for one in Samples().listing()} | {
        one["real_name"] for one in load_table().workspace["people"]
    }
    named = re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", steps(readme))
    assert named
    assert set(named) - there == set()


@pytest.mark.parametrize("readme", READMES)
def test_the_bundle_has_the_name_that_the_export_gives_it(readme: str) -> None:
    assert re.search(r"baseline verify INC-\d{4}-record-\d+\.zip", steps(readme))
