"""Prefix caching comes back by one press, is probed, and is put back: by a person, or by the bot when it moved the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bot.errors import Refused
from bot.flows.add_back import add_back, roll_back_a_failed_cache
from bot.flows.judged import Context
from bot.flows.node_jobs import request_node_job
from bot.flows.off_against_on import off_against_on
from bot.flows.show_status import show_next
from playbooks.evidence import entries as e
from playbooks.judging.baseline import Baseline
from playbooks.vocabulary import JobKind, Outcome, Phase
from tests.support.bot_services import NODE, TestBot, kinds, make_bot, open_case, payloads, say_hello
from tests.support.cases import docker_baseline, finding
from tests.support.people import outbox, record, responder, said, viewer, words

BASE = docker_baseline()


def attempt(number: int, baseline: Baseline, outcome: Outcome = Outcome.READY, **more: Any) -> e.AttemptRecorded:
    found = finding() if outcome is Outcome.READY else finding("kv_cache_too_small", "engine_init")
    held = "2026-12-01T04:00:00+00:00" if outcome is Outcome.READY else None
    return e.AttemptRecorded(
        **{
            "attempt": number,
            "baseline_digest": baseline.digest,
            "origin": "observed",
            "outcome": outcome,
            "finding": found,
            "held_until": held,
            **more,
        }
    )


def requested(number: int) -> e.RequestRecorded:
    return e.RequestRecorded(job_id="r", attempt=number, runs=[], complete=5, of=5, verdict="stable", why="5 of 5")


@pytest.fixture
def bot(tmp_path: Path) -> TestBot:
    made = make_bot(tmp_path)
    say_hello(made)
    return made


@pytest.fixture
def case(bot: TestBot) -> str:
    return stable_case(bot)


def stable_case(bot: TestBot, **changes: Any) -> str:
    """A case whose baseline is stable: ready twice, and its fixed request complete."""
    opened = open_case(bot, **changes)
    record(
        bot,
        opened,
        e.BaselineFrozen(digest=BASE.digest, baseline=BASE.model_dump(mode="json")),
        attempt(1, BASE),
        attempt(2, BASE),
        e.ScoreGiven(earlier=1, later=2, score=2, row="both-ready", why="ready twice"),
        e.PhaseEntered(phase=Phase.REGRESSION),
        requested(2),
        e.PhaseEntered(phase=Phase.ADD_BACK),
    )
    return opened


def newest_baseline(bot: TestBot, case: str) -> dict[str, Any]:
    return payloads(bot, case, "baseline:frozen")[-1]


def bring(bot: TestBot, case: str) -> Baseline:
    add_back(bot.services, responder("press:1"), case, "bring")
    return Baseline.model_validate(newest_baseline(bot, case)["baseline"])


def follow(bot: TestBot, case: str) -> None:
    with bot.store.write() as tx:
        roll_back_a_failed_cache(tx, bot.services, case, now=bot.clock.now())


def test_the_next_step_offers_the_cache_and_the_press_freezes_and_launches_it_alone(bot: TestBot, case: str) -> None:
    assert "Bring prefix caching back" in said(show_next(bot.services, responder(), case))
    message = add_back(bot.services, responder("press:1"), case, "bring")
    assert f"Attempt 3 is on its way to {NODE}" in message.text
    frozen = newest_baseline(bot, case)
    assert frozen["change"]["variable"] == "argument --enable-prefix-caching"
    assert frozen["change"]["after"] == "on"
    assert frozen["baseline"]["argv"].count("--enable-prefix-caching") == 1
    [job] = [one for one in payloads(bot, case, "job:requested") if one["job_kind"] == "launch"]
    assert job["attempt"] == 3


@pytest.mark.parametrize("what", ["back", "nonsense", "bring.tool-calls", "bring.telepathy", "back.tool-calls"])
def test_a_step_the_case_is_not_at_is_refused_and_freezes_nothing(bot: TestBot, case: str, what: str) -> None:
    before = kinds(bot, case)
    with pytest.raises(Refused) as refused:
        add_back(bot.services, responder("press:1"), case, what)
    assert "not at this step" in words(refused)
    assert kinds(bot, case) == before


def test_a_viewer_brings_nothing_back(bot: TestBot, case: str) -> None:
    with pytest.raises(Refused):
        add_back(bot.services, viewer("press:1"), case, "bring")
    assert kinds(bot, case).count("baseline:frozen") == 1


def test_a_second_press_of_the_same_delivery_or_of_another_starts_nothing_more(bot: TestBot, case: str) -> None:
    bring(bot, case)
    with pytest.raises(Refused):
        add_back(bot.services, responder("press:2"), case, "bring")
    assert kinds(bot, case).count("baseline:frozen") == 2


def test_a_node_that_is_silent_leaves_nothing_frozen(bot: TestBot, case: str) -> None:
    from bot.errors import JobNotAsked

    bot.clock.forward(hours=3)
    with pytest.raises(JobNotAsked):
        add_back(bot.services, responder("press:1"), case, "bring")
    assert kinds(bot, case).count("baseline:frozen") == 1


def test_the_probe_goes_to_the_held_engine_of_the_attempt(bot: TestBot, case: str) -> None:
    cached = bring(bot, case)
    record(bot, case, attempt(3, cached, job_id="x"), requested(3))
    request_node_job(bot.services, responder("press:2"), case, JobKind.CACHE_PROBE)
    job = payloads(bot, case, "job:requested")[-1]
    assert (job["job_kind"], job["params"]["target_attempt"]) == ("cache_probe", 3)


def test_without_a_held_engine_there_is_nothing_to_probe(bot: TestBot) -> None:
    opened = open_case(bot)
    with pytest.raises(Refused) as refused:
        request_node_job(bot.services, responder("press:1"), opened, JobKind.CACHE_PROBE)
    assert "no engine is held" in words(refused)


def test_a_cache_that_moved_the_result_is_switched_off_by_the_bot_itself_once_and_said(bot: TestBot, case: str) -> None:
    cached = bring(bot, case)
    record(bot, case, attempt(3, cached, Outcome.FAILED))
    follow(bot, case)
    frozen = newest_baseline(bot, case)
    assert frozen["digest"] == BASE.digest
    assert frozen["change"]["reason"] == "rolled back"
    assert payloads(bot, case, "job:requested")[-1]["attempt"] == 4
    shown = said(outbox(bot))
    assert "Prefix caching moved the result" in shown
    assert "kv_cache_too_small" in shown
    assert "not a fix" in shown
    follow(bot, case)
    assert kinds(bot, case).count("baseline:frozen") == 3, "it stops there"


def test_an_engine_that_died_under_the_probe_is_put_back_too(bot: TestBot, case: str) -> None:
    cached = bring(bot, case)
    record(bot, case, attempt(3, cached), requested(3), e.HeldEnded(attempt=3, how="died", detail="IndexError"))
    follow(bot, case)
    assert newest_baseline(bot, case)["digest"] == BASE.digest


def test_what_went_well_is_put_back_by_a_person_only(bot: TestBot, case: str) -> None:
    cached = bring(bot, case)
    probed = e.CacheProbed(job_id="p", attempt=3, verdict="hit", grounds="A2 256")
    record(bot, case, attempt(3, cached), requested(3), probed)
    follow(bot, case)
    assert kinds(bot, case).count("baseline:frozen") == 2
    add_back(bot.services, responder("press:2"), case, "back")
    assert newest_baseline(bot, case)["digest"] == BASE.digest


def after_the_cache(bot: TestBot) -> str:
    """A case of K3: the cache was brought back, judged and put back; the ladder was climbed."""
    playbook = bot.services.definitions.playbook_bytes("kimi-k3")
    case = stable_case(bot, playbook="kimi-k3", playbook_sha256=bot.services.artifacts.put(playbook))
    cached = bring(bot, case)
    back = {"variable": "argument --enable-prefix-caching", "before": "on", "after": None}
    job = payloads(bot, case, "job:requested")[-1]["job_id"]
    record(
        bot,
        case,
        attempt(3, cached, job_id=job),
        requested(3),
        e.CacheProbed(job_id="c", attempt=3, verdict="hit", grounds=""),
        e.BaselineFrozen(digest=BASE.digest, baseline=BASE.model_dump(mode="json"), change=back),
        attempt(4, BASE),
        e.LadderClimbed(job_id="l", attempt=4, verdict="climbed", grounds=""),
    )
    return case


def test_after_the_cache_the_playbooks_features_come_back_by_a_press_each(bot: TestBot) -> None:
    case = after_the_cache(bot)
    offered = said(show_next(bot.services, responder(), case))
    assert "Bring back, alone: Tool calls." in offered
    assert "bring.tool-calls" in offered
    add_back(bot.services, responder("press:2"), case, "bring.tool-calls")
    frozen = newest_baseline(bot, case)
    assert frozen["change"]["variable"] == "tool calls"
    assert "--enable-prefix-caching" not in frozen["baseline"]["argv"], "each on the stable baseline, alone"
    brought = Baseline.model_validate(frozen["baseline"])
    job = payloads(bot, case, "job:requested")[-1]["job_id"]
    record(bot, case, attempt(5, brought, job_id=job), requested(5))
    asked = said(show_next(bot.services, responder(), case))
    assert "Does it work? Probe it: Tool calls." in asked
    assert "probe|" in asked
    request_node_job(bot.services, responder("press:3"), case, JobKind.FEATURE_PROBE, feature="tool_call")
    assert payloads(bot, case, "job:requested")[-1]["params"]["target_attempt"] == 5


def test_a_feature_that_is_not_in_the_playbook_is_refused(bot: TestBot) -> None:
    case = after_the_cache(bot)
    with pytest.raises(Refused):
        add_back(bot.services, responder("press:2"), case, "bring.telepathy")


def test_the_launch_with_the_cache_is_compared_with_the_one_without(bot: TestBot) -> None:
    store = bot.services.artifacts
    case = stable_case(bot)
    cached = bring(bot, case)
    job = payloads(bot, case, "job:requested")[-1]["job_id"]
    plain, with_it = (
        store.put(b"INFO 12-01 02:41:03 [a.py:1] %s\nApplication startup complete.\n" % text)
        for text in (b"plain", b"Prefix caching on")
    )
    record(
        bot,
        case,
        attempt(2, BASE, log_sha256=plain, ready_ms=31_000),
        attempt(3, cached, job_id=job, log_sha256=with_it, ready_ms=32_000),
    )
    with bot.services.store.read() as reading:
        incident = reading.incident(case)
        asked = reading.job(job)
    assert incident is not None
    assert asked is not None
    context = Context(job=asked, report=None, case=incident.case, reports={}, now=bot.clock.now())  # type: ignore[arg-type]
    found = off_against_on(bot.services, context, 3)
    assert found is not None
    assert (found["off"]["ready_ms"], found["on"]["ready_ms"]) == (31_000, 32_000)
    assert (found["only_off"], found["only_on"]) == (["plain"], ["Prefix caching on"])
    assert off_against_on(bot.services, context, 2) is None, "the stable baseline has nothing to be compared with"
