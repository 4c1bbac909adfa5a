"""The main job on recorded attempts: from the slash command to a decision with a bundle that verifies. Everything is real:
Bolt over signed HTTP, the store, Celery over the embedded broker, and a worker in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from playbooks.evidence import bundle
from tests.support.labels import LOGS
from tests.support.running_sandbox import running_sandbox

REAL = LOGS / "real-vllm"


@pytest.mark.timeout(400)
def test_two_recorded_attempts_lead_to_a_decision_and_a_bundle_that_holds(tmp_path: Path) -> None:
    with running_sandbox(tmp_path / "data") as story:
        ws = story.ws
        olga, ana, otto = (ws.as_user(name) for name in ("olga", "ana", "otto"))
        story.open(
            olga,
            title="The tiny model does not start",
            what_fails="the weights cannot be read since the move",
            command="vllm serve /models/tiny --served-model-name tiny --api-key sk-abcdefghijklmnop1234 --enforce-eager",
        )
        opened = story.says("#1 · Opened")
        assert "sk-abcdefghijklmnop1234" not in opened

        # freeze and boundary: jobs really read this machine
        assert "uname" in story.says("Scene of this-machine saved", 90)
        assert "fields read" in story.says("Fingerprint of this-machine", 90)
        assert "cannot tell" in story.says("Boundary:", 30)

        # attempts that happened elsewhere, marked as such
        olga.drop(REAL / "truncated-safetensors-r1.log", thread=story.thread)
        first = story.says("Recorded attempt 1: weight loading failed")
        assert "nothing was observed here" in first
        assert "SafetensorError" in first
        olga.drop(REAL / "truncated-safetensors-r2.log", thread=story.thread)
        story.says("Recorded attempt 2: weight loading failed")
        assert "Two alike" in story.says("Score 2")

        # the decision needs a second person, and says why
        olga.mention("decide", story.thread)
        proposed = story.says("Proposed:", 30)
        assert "fix" in proposed
        assert "Not concluded" in proposed
        olga.press("Approve", thread=story.thread)
        olga.told("approver")
        otto.press("Approve", thread=story.thread)
        otto.told("Not done")
        assert story.count("· Approved") == 0
        ana.press("Approve", thread=story.thread)
        story.says("· Approved")
        ana.press("Approve", thread=story.thread)
        ana.told("Already approved")
        assert story.count("· Approved") == 1

        data = story.bundle(olga)
        verdict = bundle.verify(data)
        assert verdict.problems == ()
        page = bundle._unpack(data)[0]["README.md"].decode()
        for told in (
            "weight_files_bad",
            "score 2",
            "since the move",
            "fix_files",
            "Approved",
        ):
            assert told in page
        changed = bytearray(data)
        changed[len(changed) // 3] ^= 1
        assert bundle.verify(bytes(changed)).problems

        olga.mention("close the files are copied anew", story.thread)
        assert "copied anew" in story.says("· Closed")
