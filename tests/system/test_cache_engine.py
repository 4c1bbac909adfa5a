"""The cache probe against a real vLLM: exact hits, a cache that is off, other people's traffic, a reset in the middle.

The default run starts one engine; `./dev test-engine --all` also one without caching, one whose prompts are shorter than a
block, and a hybrid model whose block is several times the usual.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from playbooks.catalog import load_catalogue
from playbooks.judging.baseline import FixedSample
from playbooks.judging.cache_facts import CacheProbeFacts
from playbooks.judging.first_failure import analyse_text
from playbooks.judging.prefix_cache import judge
from tests.support.services import free_port
from workers.adapters.engine_http import HttpxEngineHttp
from workers.jobs.cache_probe import Endpoint, Probe

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / ".lab"
TINY = LAB / "models" / "tiny-llama"
MODELS = ROOT / "tests" / "support" / "lab_model.py"
START_S = 300
pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]
ALL = bool(os.environ.get("BASELINE_TEST_ALL"))


@contextlib.contextmanager
def engine(model: Path, log: Path, *words: str, max_len: int = 2048) -> Iterator[str]:
    """Start the lab's vLLM, wait until it answers, and end it with its whole session."""
    port = free_port()
    command = [LAB / "venv" / "bin" / "vllm", "serve", model, "--host", "127.0.0.1", "--port", str(port)]
    command += [
        "--served-model-name",
        "tiny",
        "--enforce-eager",
        "--dtype",
        "bfloat16",
        "--max-model-len",
        str(max_len),
        *words,
    ]
    env = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_SERVER_DEV_MODE": "1"}
    with (
        log.open("wb") as out,
        subprocess.Popen(command, stdout=out, stderr=out, env=env, start_new_session=True) as child,
    ):
        try:
            url, until = f"http://127.0.0.1:{port}", time.monotonic() + START_S
            while HttpxEngineHttp().health(url) != 200:
                assert child.poll() is None, log.read_text(encoding="utf-8", errors="replace")[-2000:]
                assert time.monotonic() < until, "expected a ready engine"
                time.sleep(0.3)
            yield url
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGTERM)
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)


class Between(HttpxEngineHttp):
    """Does something once, before the request of that number."""

    def __init__(self, number: int, act: Callable[[], object]) -> None:
        self._number, self._act, self._count = number, act, 0

    def ask(self, endpoint: str, *args: Any, **kwargs: Any) -> Any:
        self._count += 1
        if self._count == self._number:
            self._act()
        return super().ask(endpoint, *args, **kwargs)


def probe(
    url: str, log: Path, *, http: HttpxEngineHttp | None = None, rounds: int = 1, seed: str = "a"
) -> CacheProbeFacts:
    made = http or HttpxEngineHttp()
    headers: Mapping[str, str] = {}
    where = Endpoint(url, headers, made.model_name(url, headers=headers))
    return Probe(made, where, seed=seed, timeout_s=60, sleep=time.sleep, monotonic=time.monotonic, log=log).run(
        "attempt 1", rounds=rounds
    )


def cached(facts: CacheProbeFacts) -> dict[tuple[int, str], int | None]:
    return {(shot.round, shot.name): shot.run.cached_tokens for shot in facts.shots}


def test_a_dense_engine_hits_exactly_and_what_disturbs_is_told(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    with engine(TINY, log, "--enable-prefix-caching", "--enable-prompt-tokens-details") as url:
        facts = probe(url, log, rounds=2)
        found = judge(facts)
        assert (found.verdict, found.remarks) == ("hit", ()), found
        assert facts.config.block == 128
        hits = {"A2", "A3", "A4"}
        assert cached(facts) == {
            (n, name): 256 if name in hits else 0 for n in (1, 2) for name in ("A1", "A2", "A3", "A4", "N1", "N2")
        }

        def reset() -> None:
            assert httpx.post(f"{url}/reset_prefix_cache", timeout=10).status_code == 200

        for number in (2, 3, 4):
            after = judge(probe(url, log, http=Between(number, reset), seed=f"reset-{number}"))
            assert after.verdict != "hit", f"reset before request {number}: {after}"

        begun, stop = threading.Event(), threading.Event()

        def foreign() -> None:
            body = {"model": "tiny", "prompt": "the quick brown fox", "max_tokens": 50, "ignore_eos": True}
            with httpx.Client(timeout=60) as client:
                while not stop.is_set():
                    client.post(f"{url}/v1/completions", json=body).raise_for_status()
                    begun.set()

        others = threading.Thread(target=foreign, daemon=True)
        others.start()
        assert begun.wait(60), "expected an answer to the other person before the probe begins"
        disturbed = judge(probe(url, log, seed="foreign"))
        stop.set()
        others.join(60)
        assert disturbed.verdict == "contaminated", disturbed


if ALL:  # one engine in the default run

    @pytest.mark.parametrize(
        ("words", "max_len", "verdict", "says"),
        [
            pytest.param(("--no-enable-prefix-caching",), 2048, "disabled", "", id="the cache is off"),
            pytest.param(
                ("--enable-prefix-caching",), 120, "inconclusive", "can ever hit", id="prompts are shorter than a block"
            ),
            pytest.param(
                ("--enable-prefix-caching", "--block-size", "32"),
                2048,
                "hit",
                "counters alone",
                id="another block, no details in the answers",
            ),
        ],
    )
    def test_other_set_ups_of_a_dense_engine(
        tmp_path: Path, words: tuple[str, ...], max_len: int, verdict: str, says: str
    ) -> None:
        log = tmp_path / "engine.log"
        with engine(TINY, log, *words, max_len=max_len) as url:
            found = judge(probe(url, log))
        assert found.verdict == verdict, found
        assert says in f"{found.grounds} {' '.join(found.remarks)}"

    def test_a_hybrid_model_is_sized_by_its_own_block_where_a_short_probe_would_say_miss(tmp_path: Path) -> None:
        model, log = tmp_path / "hybrid", tmp_path / "engine.log"
        subprocess.run(
            [LAB / "venv" / "bin" / "python", MODELS, model, "qwen3-next"], check=True, timeout=120, stdout=sys.stderr
        )
        # with these dimensions the model's kernels run, and its block is five times the usual
        config = model / "config.json"
        config.write_text(config.read_text().replace('head_dim": 32', 'head_dim": 128'))
        with engine(
            model,
            log,
            "--load-format",
            "dummy",
            "--enable-prefix-caching",
            "--enable-prompt-tokens-details",
            max_len=8192,
        ) as url:
            facts = probe(url, log, rounds=2)
        block = facts.config.block
        assert block in {640, 1152}, "the block follows the state's type, which vLLM chooses by the CPU"
        assert facts.prefix_tokens is not None
        assert facts.prefix_tokens >= 2 * block
        found = judge(facts)
        assert found.verdict == "hit", f"{found} {cached(facts)}"
        assert {cached(facts)[n, name] for n in (1, 2) for name in ("A3", "A4")} == {2 * block}

    def test_a_hybrid_that_the_cache_kills_on_its_first_long_request(tmp_path: Path) -> None:
        model, log = tmp_path / "hybrid", tmp_path / "engine.log"
        subprocess.run(
            [LAB / "venv" / "bin" / "python", MODELS, model, "granite"], check=True, timeout=120, stdout=sys.stderr
        )
        short = FixedSample(body='{"prompt": "the quick brown fox", "max_tokens": 4, "temperature": 0}')
        words = ("--load-format", "dummy", "--enable-prompt-tokens-details")
        with engine(model, log, *words, "--enable-prefix-caching", max_len=4096) as url:
            ask = HttpxEngineHttp().ask
            assert ask(url, short, n=1, timeout_s=60, model="tiny", headers={}).run.complete
            found = judge(probe(url, log))
            assert found.verdict == "inconclusive", found
            assert "did not complete" in found.grounds
        finding = analyse_text(log.read_bytes(), load_catalogue())
        assert finding.stage == "serving"
        assert (finding.root_text or "").startswith("IndexError")

        with engine(model, log, *words, "--no-enable-prefix-caching", max_len=4096) as url:
            long = FixedSample(
                body=json.dumps({"prompt": "the quick brown fox " * 200, "max_tokens": 4, "temperature": 0})
            )
            answer = HttpxEngineHttp().ask(url, long, n=1, timeout_s=60, model="tiny", headers={})
            assert answer.run.complete, answer.run.error
            assert (answer.run.prompt_tokens or 0) > 256
            assert judge(probe(url, log)).verdict == "disabled"
