"""The cache probe against a server that tells the truth, and against one that lies in every way we know of."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from playbooks.judging.cache_facts import CacheProbeFacts
from playbooks.judging.prefix_cache import judge
from playbooks.vocabulary import JobKind, JobOutcome
from tests.support.lying_server import BLOCK, Lying, serving
from tests.support.node_builders import TestNode, job
from workers.adapters.engine_http import HttpxEngineHttp
from workers.cli import register
from workers.jobs import cache_probe
from workers.jobs.cache_probe import Endpoint, Probe


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_probe, "_IDLE_WAIT_S", 0.05)
    monkeypatch.setattr(cache_probe, "_COUNTED_WAIT_S", 0.05)


def probe(lying: Lying, *, rounds: int = 1, timeout_s: float = 5) -> CacheProbeFacts:
    http = HttpxEngineHttp()
    where = Endpoint(lying.url, {}, http.model_name(lying.url, headers={}))
    made = Probe(http, where, seed="job-1", timeout_s=timeout_s, sleep=time.sleep, monotonic=time.monotonic)
    return made.run("attempt 1", rounds=rounds)


def test_an_honest_engine_hits_the_exact_tokens_and_the_controls_do_not() -> None:
    with serving(Lying()) as honest:
        facts = probe(honest, rounds=2)
    assert judge(facts).verdict == "hit"
    assert judge(facts).remarks == ("2 engines answer behind this endpoint: a request may land on another one",)
    cached = {(shot.round, shot.name): shot.run.cached_tokens for shot in facts.shots}
    assert cached == {
        (n, name): 2 * BLOCK if name in {"A2", "A3", "A4"} else 0
        for n in (1, 2)
        for name in ("A1", "A2", "A3", "A4", "N1", "N2")
    }
    prompts = [body["prompt"] for body in honest.seen]
    assert prompts[0] == prompts[1]
    assert all(len(prompt) == 370 for prompt in prompts)
    assert prompts[2][:320] == prompts[0][:320]
    assert prompts[2][320] != prompts[0][320]
    assert prompts[5][0] != prompts[4][0]
    assert prompts[5][1:] == prompts[4][1:]
    assert len({body["cache_salt"] for body in honest.seen}) == 4, "an own and another salt in each round"


LIES = [
    pytest.param({"caches_nothing": True, "quick_repeats": True, "slow": 0.1}, "miss", "", id="speed without hits"),
    pytest.param({"slow": 0.1}, "hit", "", id="hits without speed"),
    pytest.param({"backwards": True}, "contaminated", "went backwards", id="counters that go backwards"),
    pytest.param({"details": False}, "hit", "counters alone", id="cached tokens are missing"),
    pytest.param({"other_model": True}, "inconclusive", "found one of another", id="another model answers"),
    pytest.param({"unavailable": 2}, "inconclusive", "warming up", id="503 for a while"),
    pytest.param({"half_closed": True}, "inconclusive", "without its last event", id="half-closed streams"),
    pytest.param({"slow_loris": True}, "inconclusive", "no complete answer within", id="slow loris"),
    pytest.param({"huge": True}, "inconclusive", "larger than", id="a body without end"),
    pytest.param({"comments": True}, "hit", "", id="keep-alive comments"),
    pytest.param({"twice_done": True}, "hit", "", id="the last event twice"),
    pytest.param({"usage": False}, "hit", "counters alone", id="usage is absent"),
    pytest.param({"inflated": 700}, "inconclusive", "one of them is wrong", id="counters that tell hits nobody had"),
    pytest.param({"counters": False}, "hit", "answers' cached tokens alone", id="no counters"),
    pytest.param({"counters": False, "details": False}, "inconclusive", "speed proves nothing", id="no channel at all"),
    pytest.param({"old_names": True}, "hit", "answers' cached tokens alone", id="counters of old versions, in blocks"),
    pytest.param({"caching": False}, "disabled", "", id="the cache is off"),
    pytest.param({"no_tokenize": True}, "hit", "prompts are text", id="no /tokenize"),
    pytest.param({"refuses_salt": True}, "hit", "takes no cache_salt", id="cache_salt is refused"),
    pytest.param({"busy": True}, "contaminated", "other requests", id="others are in the engine"),
    pytest.param({"foreign": True}, "contaminated", "others use the engine", id="others' tokens are counted"),
    pytest.param({"max_len": 150}, "inconclusive", "can ever hit", id="prompts shorter than a block"),
    pytest.param({"reset_after": 2}, "inconclusive", "reset", id="reset after the repeat"),
    pytest.param({"reset_after": 1}, "inconclusive", "reset", id="reset before the repeat"),
]  # fmt: skip


@pytest.mark.parametrize(("lies", "verdict", "says"), LIES)
def test_a_lie_gets_the_right_verdict_or_an_honest_inconclusive(lies: dict[str, Any], verdict: str, says: str) -> None:
    with serving(Lying(**lies)) as lying:
        begun = time.monotonic()
        found = judge(probe(lying, timeout_s=2))
        took = time.monotonic() - begun
    assert found.verdict == verdict, found
    assert says in f"{found.grounds} {' '.join(found.remarks)}"
    assert took < 60, "a request has its own time, and six of them are all"


def test_a_job_asks_the_held_engine_and_leaves_requests_and_scrapes_as_files(node: TestNode) -> None:
    from tests.node.test_launch import READY_LINES, launch

    held = launch(node, lines=READY_LINES, serve=True, hold_s=60).held
    assert held is not None
    node.deliver(job(JobKind.CACHE_PROBE, job_id="job-2", params={"target_attempt": 1, "rounds": 1, "timeout_s": 5}))
    report = node.bot.report_of("job-2")
    assert report is not None
    assert report.outcome is JobOutcome.DONE, report.error
    facts = CacheProbeFacts.model_validate(report.facts)
    assert facts.engine_alive
    assert judge(facts).verdict == "inconclusive", "the scripted engine has no metrics and caches nothing"
    names = {ref.name: ref.sha256 for ref in report.artifacts}
    assert json.loads(node.bot.files[names["cache-probe.json"]])["shots"][0]["name"] == "A1"
    assert "metrics.txt" in names


def test_an_attempt_that_is_not_held_is_not_probed(node: TestNode) -> None:
    node.deliver(job(JobKind.CACHE_PROBE, job_id="job-2", params={"target_attempt": 9}))
    report = node.bot.report_of("job-2")
    assert report is not None
    assert report.outcome is not JobOutcome.DONE
    assert "expected a held engine of attempt 9" in str(report.error)


@pytest.mark.parametrize(
    ("lies", "code", "says"),
    [
        ({}, 0, "Prefix cache of"),
        ({"caching": False}, 1, "disabled"),
        ({"busy": True}, 3, "contaminated"),
    ],
)
def test_a_person_probes_an_endpoint_by_its_address(lies: dict[str, Any], code: int, says: str) -> None:
    app = typer.Typer()
    register(app)
    with serving(Lying(**lies)) as lying:
        shown = CliRunner().invoke(app, ["probe-cache", f"{lying.url}/v1", "--rounds", "1", "--timeout", "5"])
        told = CliRunner().invoke(app, ["probe-cache", lying.url, "--rounds", "1", "--json"])
    assert (shown.exit_code, told.exit_code) == (code, code), shown.output
    assert says in shown.output
    assert json.loads(told.output)["verdict"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["127.0.0.1:8000"], "expected an address like"),
        (["ftp://127.0.0.1"], "expected an address like"),
        (["http://me:secret@127.0.0.1:1"], "expected an address like"),
        (["http://127.0.0.1:1"], "nobody at http://127.0.0.1:1 answers"),
        (["http://127.0.0.1:1", "--api-key-env", "NO_SUCH_VARIABLE"], "NO_SUCH_VARIABLE, found none"),
    ],
)
def test_an_address_that_is_none_is_said(words: list[str], says: str) -> None:
    app = typer.Typer()
    register(app)
    done = CliRunner().invoke(app, ["probe-cache", *words])
    assert done.exit_code == 3
    assert says in done.output
