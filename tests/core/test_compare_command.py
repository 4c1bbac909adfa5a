"""`baseline compare`: two fingerprints of one node in time, or of two nodes at one time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from playbooks.commands.compare import register
from playbooks.messages import FingerprintFacts
from tests.support.fingerprints import container, facts, host


@pytest.fixture
def run():
    app = typer.Typer()
    register(app)
    app.callback()(lambda: None)

    def call(*words: str):
        return CliRunner().invoke(app, ["compare", *words])

    return call


def saved(path: Path, **changed: Any) -> str:
    sides = host(**{"os__hostname": "a1", **changed})
    found = FingerprintFacts(host=sides, container=container(), duration_ms=1)
    path.write_text(json.dumps(found.model_dump(mode="json") | {"disagreements": []}), encoding="utf-8")
    return str(path)


def test_one_node_in_time_names_the_variable_that_moved(run, tmp_path: Path) -> None:
    done = run(saved(tmp_path / "a.json"), saved(tmp_path / "b.json", driver__loaded="595.45.04"))
    assert done.exit_code == 1
    assert "a1: moved" in done.output
    assert "driver.loaded: 580.105.08 → 595.45.04" in done.output


def test_two_nodes_name_what_must_be_equal_and_is_not(run, tmp_path: Path) -> None:
    other = {"os__hostname": "a2", "driver__loaded": "595.45.04", "clock__timezone": "Asia/Shanghai"}
    done = run(saved(tmp_path / "a.json", clock__timezone="Etc/UTC"), saved(tmp_path / "b.json", **other))
    assert done.exit_code == 1
    assert "a1 and a2: differ" in done.output
    assert "the driver differs: 580.105.08 on a1, 595.45.04 on a2" in done.output
    assert "the time zone differs" in done.output


def test_volatile_fields_and_equal_nodes_differ_in_nothing(run, tmp_path: Path) -> None:
    same = run(saved(tmp_path / "a.json"), saved(tmp_path / "b.json", memory__available_bytes=5))
    assert (same.exit_code, "no stable variable moved" in same.output) == (0, True)
    nodes = run(saved(tmp_path / "a.json"), saved(tmp_path / "b.json", os__hostname="a2"), "--json")
    assert nodes.exit_code == 0
    told = json.loads(nodes.output)
    assert told["nodes"] == ["a1", "a2"]
    assert told["differs"] == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"host": 1, "duration_ms": 1}', "\xff"])
def test_what_is_no_fingerprint_is_said(run, tmp_path: Path, text: str) -> None:
    broken = tmp_path / "b.json"
    broken.write_bytes(text.encode("latin-1"))
    done = run(saved(tmp_path / "a.json"), str(broken))
    assert done.exit_code == 2
    assert "expected what `baseline fingerprint --json` prints" in done.output


def test_a_file_that_is_not_there_is_said(run, tmp_path: Path) -> None:
    done = run(str(tmp_path / "none.json"), str(tmp_path / "none.json"))
    assert done.exit_code == 2
    assert "No such file" in done.output


def test_the_fields_used_here_exist() -> None:
    assert facts(os__hostname="x", clock__timezone="y", clock__synchronised=True)
