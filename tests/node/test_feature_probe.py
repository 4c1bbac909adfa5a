"""Probes of features against a server that answers as engines and their parsers do, well and badly."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from playbooks.judging.feature_facts import FEATURES, Feature, FeatureProbeFacts
from playbooks.judging.feature_probe import FeatureJudged, interval, judge
from playbooks.judging.feature_requests import picture, request, without_constraint
from playbooks.vocabulary import JobKind, JobOutcome
from tests.support.chatting_server import Body, Chatting, Said, chatting
from tests.support.node_builders import TestNode, job
from workers.adapters.engine_http import HttpxEngineHttp
from workers.cli import register
from workers.jobs.cache_probe import Endpoint
from workers.jobs.feature_probe import probe_feature

GOOD_CALL = [("get_time", '{"city": "Paris", "unit": "24h"}')]
Answer = Callable[[Body, int], Said]


def always(said: Said) -> Answer:
    return lambda _body, _n: said


def probed(feature: Feature, answer: Answer, *, tries: int = 4, **more: Any) -> tuple[FeatureProbeFacts, FeatureJudged]:
    with chatting(Chatting(answer, **more)) as server:
        where = Endpoint(server.url, {}, "tiny")
        facts = probe_feature(HttpxEngineHttp(), where, feature, target="attempt 1", tries=tries, timeout_s=5)
    return facts, judge(facts)


CALLS = [
    pytest.param(Said(calls=GOOD_CALL, finish="tool_calls"), "works", {}, id="a good call"),
    pytest.param(Said(content="", finish="tool_calls"), "fails", {"empty_tool_calls": 4}, id="empty tool_calls"),
    pytest.param(Said(content="<|open|>tools<|sep|>get_time"), "fails", {"raw_markers": 4}, id="raw markers"),
    pytest.param(Said(content="<tool_call>{}</tool_call>"), "fails", {"raw_markers": 4}, id="raw markers of another family"),
    pytest.param(Said(content=None, reasoning="I call get_time(Paris)"), "fails", {"call_in_reasoning": 4}, id="a call inside the reasoning"),
    pytest.param(Said(calls=[("get_time", '{"city": "Paris"')], finish="tool_calls"), "fails", {"invalid_arguments": 4}, id="arguments that are no JSON"),
    pytest.param(Said(calls=[("get_time", '{"city": 7, "unit": "24h"}')]), "fails", {"invalid_arguments": 4}, id="arguments of another type"),
    pytest.param(Said(calls=[("get_time", '{"city": "Paris", "unit": "24h", "x": 1}')]), "fails", {"invalid_arguments": 4}, id="arguments nobody asked for"),
    pytest.param(Said(calls=[("search", "{}")]), "fails", {"wrong_tool": 4}, id="another tool"),
    pytest.param(Said(content="It is noon."), "fails", {"no_call": 4}, id="no call at all"),
    pytest.param(Said(content="Well, ", finish="length"), "fails", {"truncated": 4}, id="cut at its length"),
    pytest.param(Said(calls=GOOD_CALL, cut=True), "sometimes", {"cut_stream": 2}, id="a stream without its end"),
    pytest.param(Said(status=400, error='"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'), "untested", {"cannot": 4}, id="not started for it"),
    pytest.param(Said(status=400, error="Unknown field"), "fails", {"http_400": 4}, id="refused for another reason"),
    pytest.param(Said(status=500, error="boom"), "fails", {"http_500": 4}, id="an error of the server"),
    pytest.param(Said(hang_up=True), "inconclusive", {"no_answer": 3}, id="nobody answers"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "verdict", "failures"), CALLS)
def test_each_answer_to_a_tool_request_has_its_own_verdict(said: Said, verdict: str, failures: dict[str, int]) -> None:
    facts, judged = probed("tool_call", always(said))
    assert (judged.verdict, judged.failures) == (verdict, failures)
    assert [one.stream for one in facts.tries] == [n % 2 == 0 for n in range(1, len(facts.tries) + 1)]
    assert {example["kind"] for example in judged.examples} == set(failures)


def test_a_parser_that_fails_only_while_streaming_is_said() -> None:
    def answer(body: Body, _n: int) -> Said:
        return Said(reasoning="get_time", content="") if body.get("stream") else Said(calls=GOOD_CALL)

    _facts, judged = probed("tool_call", answer)
    assert judged.verdict == "sometimes"
    assert judged.remarks == ("streaming 0 of 2, not streaming 2 of 2: the parser differs between the two",)


def test_one_bad_answer_of_twenty_is_no_working_feature() -> None:
    _facts, judged = probed(
        "tool_call",
        lambda _body, n: Said(content="", finish="tool_calls") if n == 7 else Said(calls=GOOD_CALL),
        tries=20,
    )
    assert (judged.verdict, judged.passed, judged.of, judged.low, judged.high) == ("sometimes", 19, 20, 763, 992)


OTHERS = [
    pytest.param("structured_output", Said(content='{"city": "Paris", "north": true, "size": "large"}'), "works", {}, id="valid JSON"),
    pytest.param("structured_output", Said(content='{"city": "Paris", "north": "yes", "size": "large"}'), "fails", {"schema_violated": 4}, id="JSON of another shape"),
    pytest.param("structured_output", Said(content='Sure! {"city"'), "fails", {"not_json": 4}, id="no JSON"),
    pytest.param("structured_output", Said(content='{"city": "Par', finish="length"), "fails", {"truncated": 4}, id="JSON cut at its length"),
    pytest.param("reasoning", Said(reasoning="North.", content="Yes"), "works", {}, id="reasoning and text"),
    pytest.param("reasoning", Said(content="Yes"), "untested", {"no_reasoning": 4}, id="no reasoning at all"),
    pytest.param("reasoning", Said(content="<think>North.</think>Yes"), "fails", {"think_in_content": 4}, id="thinking in the text"),
    pytest.param("reasoning", Said(reasoning="North. Yes", content=None), "fails", {"no_content": 4}, id="everything is reasoning"),
    pytest.param("reasoning", Said(reasoning="North", content="", finish="length"), "fails", {"truncated": 4}, id="never ends thinking"),
    pytest.param("vision", Said(content="I see a square."), "fails", {"wrong_answer": 4}, id="a colour that is not told"),
    pytest.param("vision", Said(status=400, error="tiny is not a multimodal model"), "untested", {"cannot": 4}, id="no eyes"),
    pytest.param("vision", Said(status=400, error="At most 0 image(s) may be provided in one prompt."), "untested", {"cannot": 4}, id="language model only"),
    pytest.param("long_context", Said(content="", finish="length"), "fails", {"truncated": 4}, id="nothing said of a long input"),
    pytest.param("long_context", Said(status=400, error="This model's maximum context length is 4096 tokens"), "fails", {"http_400": 4}, id="a long input refused"),
]  # fmt: skip


@pytest.mark.parametrize(("feature", "said", "verdict", "failures"), OTHERS)
def test_each_answer_of_the_other_features(
    feature: Feature, said: Said, verdict: str, failures: dict[str, int]
) -> None:
    _facts, judged = probed(feature, always(said))
    assert (judged.verdict, judged.failures) == (verdict, failures)


def test_a_colour_that_is_told_and_a_word_that_is_found_again() -> None:
    def sees(body: Body, _n: int) -> Said:
        url = body["messages"][0]["content"][0]["image_url"]["url"]
        data = base64.b64decode(url.partition("base64,")[2])
        colours = {picture((220, 20, 20)): "Red.", picture((20, 160, 40)): "It is green"}
        return Said(content=colours.get(data, "?"))

    _facts, judged = probed("vision", sees, tries=2)
    assert judged.verdict == "works"
    facts, judged = probed(
        "long_context", lambda body, _n: Said(content=body["messages"][0]["content"].split("of the day is ")[1][:5])
    )
    assert judged.verdict == "works"
    assert judged.remarks == ("the longest input had 2000 tokens of 4096",)
    assert all(len(one.asked) > 3 for one in facts.tries)


def test_a_long_context_is_sized_from_the_engine_and_not_guessed() -> None:
    _facts, judged = probed("long_context", always(Said(content="x")), max_len=None)
    assert (judged.verdict, judged.grounds) == ("untested", "the engine does not say how long its context is")
    short, long = (
        len(request("long_context", 1, model=None, max_len=size).body["messages"][0]["content"])
        for size in (4096, 65536)
    )
    assert 14 < long / short < 17


@pytest.mark.parametrize(
    ("drafts", "verdict"), [([5, 25], "works"), ([5, 5], "fails"), ([], "untested")], ids=["on", "no drafts", "off"]
)
def test_speculative_decoding_is_told_by_its_counters(drafts: list[int], verdict: str) -> None:
    facts, judged = probed("speculative_decoding", always(Said(content="Paris")), drafts=list(drafts))
    assert judged.verdict == verdict
    assert (facts.drafts, facts.accepted) == (
        (drafts[1] - drafts[0], 2 * (drafts[1] - drafts[0])) if drafts else (None, None)
    )


def test_an_engine_that_died_is_no_untested_feature() -> None:
    facts, _judged = probed("vision", always(Said(status=400, error="not a multimodal model")))
    assert judge(facts.model_copy(update={"engine_alive": False})).verdict == "fails"


@pytest.mark.parametrize(
    ("passed", "of", "low", "high"),
    [(20, 20, 838, 1000), (0, 20, 0, 162), (10, 20, 299, 701), (1, 1, 206, 1000), (5, 10, 236, 764)],
)
def test_the_interval_is_wilsons(passed: int, of: int, low: int, high: int) -> None:
    """Values of the score interval without continuity correction, as R's `prop.test(correct=FALSE)` gives them."""
    assert interval(passed, of) == (low, high)


@pytest.mark.parametrize("feature", FEATURES)
def test_no_two_tries_ask_the_same(feature: Feature) -> None:
    bodies = [json.dumps(request(feature, n, model="tiny", max_len=2048).body, sort_keys=True) for n in range(1, 21)]
    assert len(set(bodies)) == 20


def test_the_constraint_can_be_taken_out() -> None:
    asked = request("structured_output", 1, model=None)
    assert "response_format" in asked.body
    assert "response_format" not in without_constraint(asked).body


def test_from_a_terminal() -> None:
    app = typer.Typer()
    register(app)
    with chatting(Chatting(always(Said(content='{"city": "Rome", "north": true, "size": "large"}')))) as server:
        said = CliRunner().invoke(app, ["probe-feature", server.url, "structured-output", "--tries", "5"])
        assert said.exit_code == 0, said.output
        assert "structured_output: works - 5 of 5 tries" in said.output
        told = CliRunner().invoke(app, ["probe-feature", server.url, "reasoning", "--tries", "2", "--json"])
        assert told.exit_code == 3
        assert json.loads(told.stdout)["verdict"] == "untested"
        assert CliRunner().invoke(app, ["probe-feature", server.url, "telepathy"]).exit_code == 2


def test_without_an_engine_the_job_is_refused_in_words(node: TestNode) -> None:
    node.deliver(job(JobKind.FEATURE_PROBE, params={"target_attempt": 1, "feature": "tool_call"}))
    report = node.bot.report_of("job-1")
    assert report is not None
    assert report.outcome is not JobOutcome.DONE
    assert "expected a held engine of attempt 1" in (report.error or "")


def test_parameters_that_are_none_are_said(node: TestNode) -> None:
    node.deliver(job(JobKind.FEATURE_PROBE, params={"target_attempt": 1, "feature": "telepathy"}))
    report = node.bot.report_of("job-1")
    assert report is not None
    assert "feature probe parameters" in (report.error or "")
