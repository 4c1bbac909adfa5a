"""The main job with a real vLLM: a broken model directory twice (score 2), then repaired as the one change and ready
twice (score 2), the next gate open, the fixed request sent to the held engine by a job of its own, prefix caching brought
back, probed and put back, the pressure ladder, and the bundle."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from playbooks.evidence import bundle
from tests.support.running_sandbox import running_sandbox

TINY = Path(__file__).resolve().parents[2] / ".lab" / "models" / "tiny-llama"
LAUNCHES_S = 400
pytestmark = [pytest.mark.engine, pytest.mark.timeout(1500)]


def test_a_broken_model_directory_is_repaired_as_the_one_change(tmp_path: Path) -> None:
    data = tmp_path / "data"
    model = data / "models" / "tiny"
    model.parent.mkdir(parents=True)
    shutil.copytree(TINY, model)
    shard = sorted(model.glob("*.safetensors"))[-1]
    whole = shard.read_bytes()
    shard.write_bytes(whole[:1000])

    with running_sandbox(data) as story:
        olga, ana = story.ws.as_user("olga"), story.ws.as_user("ana")
        command = f"VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=0-1 HF_HUB_OFFLINE=1 vllm serve {model} --served-model-name tiny --enforce-eager --max-model-len 4096 --dtype bfloat16"
        story.open(
            olga,
            title="The tiny model does not start",
            what_fails="after a copy",
            command=command,
            playbook="generic-vllm",
        )
        story.says("Boundary:", 120)
        story.answer(olga, "The first failing request", "none, it never became ready")
        story.answer(olga, "The first exception, with the complete log around it", "not kept")
        story.answer(olga, "Every change so far, and when it failed first", "the directory was copied today")

        # broken: twice the same first failure
        story.run(olga)
        story.times("weight loading failed", 2, LAUNCHES_S)
        story.says("Score 2", 60)

        # the decision, approved by the second person; the repair is the one change
        olga.mention("decide", story.thread)
        assert "files" in story.says("Proposed:", 30)
        ana.press("Approve", thread=story.thread)
        story.says("· Approved", 30)
        shard.write_bytes(whole)
        story.run(olga)
        repaired = story.ws.until(lambda: _attempt(data, 3), "the third attempt in the record", LAUNCHES_S)
        assert repaired["outcome"] == "ready"
        assert any(moved.startswith("model files") for moved in repaired["changed"])
        assert repaired["held_until"]

        # ready again, by the repeat that the form asks for: score 2, and the gate to the next phase opens
        again = story.ws.until(lambda: _attempt(data, 4), "the fourth attempt in the record", LAUNCHES_S)
        assert again["outcome"] == "ready"
        assert again["changed"] == []
        story.times("Score 2", 2, 60)
        story.says("Phase regression opened", 60)

        # a job of its own finds the engine that the launch left held
        olga.press("Send the fixed request", thread=story.thread, within_s=60)
        assert "3 of 3 complete" in story.says("Fixed request to attempt 4: stable", 120)

        # one feature comes back: launched, asked, probed - and the baseline is seen again
        olga.press("Bring prefix caching back", thread=story.thread, within_s=60)
        cached = story.ws.until(lambda: _attempt(data, 5), "the attempt with prefix caching", LAUNCHES_S)
        assert cached["outcome"] == "ready"
        olga.press("Send the fixed request", thread=story.thread, within_s=60)
        story.says("Fixed request to attempt 5: stable", 120)
        olga.press("Run the cache probe", thread=story.thread, within_s=60)
        said = story.says("Prefix cache of attempt 5: hits", 180)
        assert "A2 256, A3 256, A4 256 cached tokens, controls 0, 2 rounds alike" in said
        olga.press("Put the stable baseline back", thread=story.thread, within_s=60)
        back = story.ws.until(lambda: _attempt(data, 6), "the stable baseline again", LAUNCHES_S)
        assert back["outcome"] == "ready"
        assert back["baseline_digest"] == again["baseline_digest"]
        story.says("What does it carry?", 60)

        # pressure, one thing a rung, on the engine that is held
        olga.press("Run the pressure ladder", thread=story.thread, within_s=60)
        assert "every rung held" in story.says("Pressure ladder of attempt 6:", LAUNCHES_S)
        story.says("The feature was proven alone, and the baseline was seen again", 60)

        verdict = bundle.verify(story.bundle(olga))
        assert verdict.problems == ()


def _attempt(data: Path, number: int) -> dict[str, Any] | None:
    """The payload of an attempt in the record, None before it is there."""
    with contextlib.closing(sqlite3.connect(f"file:{data / 'baseline.db'}?mode=ro", uri=True)) as store:
        rows = store.execute("SELECT payload FROM entries WHERE kind = 'attempt:recorded' ORDER BY seq").fetchall()
    found = [json.loads(row[0]) for row in rows]
    return next((payload for payload in found if payload["attempt"] == number), None)
