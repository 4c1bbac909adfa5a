"""People of a conversation's tests, what they press, and what they read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bot.errors import Refused
from bot.flows.showing import Asker
from bot.ports import OutboxKind, OutboxState
from playbooks.evidence.entries import BoundaryJudged, FingerprintRecorded, Payload, SceneCollected
from playbooks.vocabulary import DriverVerdict
from tests.support.bot_services import APPROVER, NODE, RESPONDER, TestBot
from tests.support.cases import CPU_CONTAINER, CPU_HOST

OTHER_APPROVER = "U0SECOND"
VIEWER = "U0VIEWER"
CHANNEL = "C0ONCALL"
COMMAND = "vllm serve /models/tiny --max-model-len 2048 --enable-prefix-caching"
FAILING_LOG = b"""INFO 12-01 02:41:03 [api_server.py:1351] vLLM API server version 0.32.0
INFO 12-01 02:41:03 [utils.py:233] non-default args: {'model_tag': '/models/none', 'model': '/models/none'}
Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/transformers/utils/hub.py", line 479, in cached_files
    hf_hub_download(
huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/models/none'. Use `repo_type` argument if needed.
OSError: /models/none is not a local folder and is not a valid model identifier listed on the hub
"""


def another_run(number: int) -> bytes:
    """The log of another run of the same failure: other times, and its own bytes."""
    return FAILING_LOG.replace(b"02:41:", b"02:%02d:" % (41 + number))


def responder(key: str = "", channel: str = CHANNEL) -> Asker:
    return Asker(RESPONDER, channel, key)


def approver(key: str = "", user: str = APPROVER) -> Asker:
    return Asker(user, CHANNEL, key)


def viewer(key: str = "") -> Asker:
    return Asker(VIEWER, CHANNEL, key)


def outbox(bot: TestBot, *kinds: OutboxKind) -> list[dict[str, Any]]:
    """Return the payloads of what waits to be sent."""
    with bot.services.store.read() as reading:
        return [row.payload for row in reading.outbox(states=list(OutboxState), kinds=kinds or None)]


def said(payload: Any) -> str:
    """Return all text of a message, as a reader sees it."""
    return json.dumps(payload.payload() if hasattr(payload, "payload") else payload, ensure_ascii=False)


def words(refused: pytest.ExceptionInfo[Refused]) -> str:
    """Return all text of a refusal."""
    return refused.value.text + json.dumps(refused.value.blocks, ensure_ascii=False)


def record(bot: TestBot, case: str, *payloads: Payload, actor: str = f"node:{NODE}") -> None:
    """Append entries as a node's reports would."""
    with bot.services.store.write() as tx:
        for payload in payloads:
            tx.append(case, payload, actor=actor, at=bot.clock.now())


def scene_of_a_cpu_node() -> tuple[Payload, ...]:
    """Return what collect and fingerprint bring from a machine without a GPU."""
    facts = {
        "host": CPU_HOST,
        "container": CPU_CONTAINER,
        "container_source": "python /venv/bin/python",
        "duration_ms": 4,
    }
    return (
        SceneCollected(job_id="JOB-A", node=NODE, saved={"log": "1" * 64}),
        FingerprintRecorded(job_id="JOB-B", node=NODE, facts=facts, stable_sha256="2" * 64),
        BoundaryJudged(verdict=DriverVerdict.UNKNOWN, grounds=["no driver"], rule="B-09", snapshot="s", age_days=1),
    )
