"""Two requests compared token by token: where they part, and how much of the second a prefix cache can reuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from playbooks.judging.token_diff import token_diff
from tests.support.chatting_server import Chatting, Said, chatting
from workers.cli import register

SYSTEM = {"role": "system", "content": " ".join(f"rule{n}" for n in range(40))}


def said(folder: Path, unit: int | None, first: Any, second: Any, *words: str) -> Any:
    app = typer.Typer()
    register(app)
    paths = []
    for name, body in (("a.json", first), ("b.json", second)):
        path = folder / name
        path.write_text(body if isinstance(body, str) else json.dumps(body))
        paths.append(str(path))
    with chatting(Chatting(lambda _body, _n: Said(), unit=unit)) as server:
        return CliRunner().invoke(app, ["compare-prompts", server.url, *paths, *words])


def asked(question: str, *tools: str) -> dict[str, Any]:
    return {"messages": [SYSTEM, {"role": "user", "content": question}], "tools": [{"name": name} for name in tools]}


def test_another_question_behind_one_prefix_can_hit_in_whole_units(tmp_path: Path) -> None:
    done = said(tmp_path, 16, asked("what time"), asked("which day"), "--json")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["equal"]) == (0, False)
    assert found["reusable"] == found["common"] // 16 * 16 > 16
    assert "what" in found["first"]
    assert "which" in found["second"]


def test_tools_in_another_order_leave_nothing_to_reuse_and_the_place_is_shown(tmp_path: Path) -> None:
    done = said(tmp_path, 16, asked("what time", "clock", "mail"), asked("what time", "mail", "clock"))
    assert done.exit_code == 1
    assert "before the first unit of 16 is full" in done.output
    assert "clock" in done.output


def test_the_same_request_twice(tmp_path: Path) -> None:
    done = said(tmp_path, 16, asked("what time"), asked("what time"))
    assert done.exit_code == 0
    assert "equal" in done.output


def test_an_engine_that_does_not_tell_its_unit(tmp_path: Path) -> None:
    done = said(tmp_path, None, asked("what time"), asked("which day"))
    assert done.exit_code == 3
    assert "does not say its cache's unit" in done.output


@pytest.mark.parametrize(("body", "says"), [("{", "expected a JSON body"), ("[]", "expected an object"), ('{"model": "x"}', "`messages` or `prompt`")])  # fmt: skip
def test_what_is_no_request_is_said(tmp_path: Path, body: str, says: str) -> None:
    done = said(tmp_path, 16, asked("x"), body)
    assert done.exit_code == 2
    assert says in done.output


@pytest.mark.parametrize(
    ("a", "b", "unit", "common", "reusable"),
    [
        pytest.param([1, 2, 3, 4, 5], [1, 2, 3, 4, 9], 2, 4, 4, id="whole units"),
        pytest.param([1, 2, 3, 4], [1, 2, 3, 4], 2, 4, 2, id="the last token is computed anew"),
        pytest.param([1], [2], 4, 0, 0, id="nothing alike"),
        pytest.param([1, 2, 3], [1, 2, 3, 4, 5], 4, 3, 0, id="alike, and short of a unit"),
        pytest.param([], [], 4, 0, 0, id="empty"),
        pytest.param([1, 2], [1, 2], None, 2, None, id="no unit"),
        pytest.param([1, 2], [1, 2], 0, 2, None, id="a unit that is none"),
    ],
)
def test_what_can_be_reused(a: list[int], b: list[int], unit: int | None, common: int, reusable: int | None) -> None:
    found = token_diff(a, b, unit=unit)
    assert (found.common, found.reusable) == (common, reusable)
    assert found.verdict
