"""Feature probes against a real vLLM: what it can do is proven, what it was not started for is untested, never passed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from playbooks.judging.feature_facts import Feature, FeatureProbeFacts
from playbooks.judging.feature_probe import judge
from playbooks.judging.feature_requests import Asked, request, without_constraint
from tests.system.test_cache_engine import TINY, engine
from workers.adapters.engine_http import HttpxEngineHttp
from workers.jobs.cache_probe import Endpoint
from workers.jobs.feature_probe import probe_feature
from workers.probing_here import compare_prompts_here

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]


def probed(url: str, feature: Feature, *, tries: int = 4, **more: Any) -> FeatureProbeFacts:
    return probe_feature(
        HttpxEngineHttp(), Endpoint(url, {}, "tiny"), feature, target="attempt 1", tries=tries, timeout_s=60, **more
    )


def unconstrained(feature: Feature, n: int, **more: Any) -> Asked:
    return without_constraint(request(feature, n, **more))


def test_features_of_an_engine_with_random_weights(tmp_path: Path) -> None:
    with engine(TINY, tmp_path / "engine.log") as url:
        bound = probed(url, "structured_output", tries=20)
        assert (judge(bound).verdict, judge(bound).passed, judge(bound).of) == ("works", 20, 20), judge(bound)

        free = judge(probed(url, "structured_output", make=unconstrained))
        assert (free.verdict, free.passed) == ("fails", 0)
        assert set(free.failures) <= {"not_json", "truncated", "schema_violated"}

        for feature in ("tool_call", "vision", "speculative_decoding"):
            found = judge(probed(url, feature, tries=2))
            assert (feature, found.verdict) == (feature, "untested"), found
        assert judge(probed(url, "reasoning", tries=2)).verdict == "untested"

        system = {"role": "system", "content": "the quick brown fox jumps over the lazy dog " * 30}
        asked = tuple({"messages": [system, {"role": "user", "content": text}]} for text in ("a fox", "the dog"))
        diff, (_before, first, second) = compare_prompts_here(url, asked, key_variable=None)
        assert diff.unit == 128
        assert 256 <= (diff.reusable or 0) == diff.common // 128 * 128 < diff.common
        assert first != second

        long = probed(url, "long_context", tries=2)
        assert judge(long).verdict == "fails", "random weights find no word again"
        assert all(900 < (one.prompt_tokens or 0) < 2048 and one.http_status == 200 for one in long.tries), long
