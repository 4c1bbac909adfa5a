"""The conversation's use cases on a real store: opening, answers, logs, baselines, attempts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from bot.blocks import evidence_launches
from bot.blocks.texts import translator
from bot.errors import NodeSilent, Refused, Repeated
from bot.flows.answer_item import answer_item
from bot.flows.close_incident import close_incident, hand_over, skip_phase
from bot.flows.freeze_baseline import Wanted, freeze_baseline, keep_one
from bot.flows.node_jobs import request_node_job
from bot.flows.open_incident import Opening, open_incident
from bot.flows.record_log import record_log
from bot.flows.request_attempts import freeze_or_run
from bot.flows.show_status import show_cases, show_next, show_nodes, show_score, show_status
from bot.flows.stop_jobs import stop_jobs
from bot.ports import OutboxKind
from playbooks.evidence.entries import AttemptRecorded
from playbooks.vocabulary import JobKind, Outcome, Phase, Stage
from tests.support.bot_services import (
    APPROVER,
    NODE,
    RESPONDER,
    TestBot,
    kinds,
    make_bot,
    open_case,
    payloads,
    say_hello,
)
from tests.support.cases import finding
from tests.support.labels import LOGS
from tests.support.people import (
    COMMAND,
    FAILING_LOG,
    another_run,
    approver,
    outbox,
    record,
    responder,
    said,
    scene_of_a_cpu_node,
    viewer,
    words,
)


@pytest.fixture
def bot(tmp_path: Path) -> Iterator[TestBot]:
    made = make_bot(tmp_path)
    yield made
    made.store.close()


def reply(bot: TestBot, incident: str, attempt: int) -> str:
    """The evidence reply of an attempt as its thread shows it."""
    with bot.store.read() as reading:
        entries = list(reading.entries(incident))
        seq = next(e.seq for e in entries if e.kind == "attempt:recorded" and e.payload["attempt"] == attempt)
        case = reading.incident(incident).case
    payload = AttemptRecorded.model_validate(entries[seq - 1].payload)
    return "\n".join(evidence_launches.attempt(payload, case, translator("en")).lines)


def opened(bot: TestBot, *, node: str | None = None, key: str = "", command: str = "") -> str:
    return open_incident(
        bot.services, responder(key), Opening(title="K3 does not start", node=node, command=command)
    ).incident


class TestOpening:
    def test_saves_the_scene_at_once_when_the_node_answers(self, bot: TestBot) -> None:
        say_hello(bot)
        case = opened(bot, node=NODE)
        asked = [payload["job_kind"] for payload in payloads(bot, case, "job:requested")]
        assert asked == ["collect", "fingerprint"]
        assert len(outbox(bot, OutboxKind.JOB)) == 2
        assert len(outbox(bot, OutboxKind.PARENT)) == 1

    def test_a_silent_node_is_named_and_the_case_is_open_all_the_same(self, bot: TestBot) -> None:
        case = opened(bot, node=NODE)
        assert kinds(bot, case) == ["incident:opened"]
        assert any("has never reported" in said(note) for note in outbox(bot, OutboxKind.NOTE))

    def test_a_form_sent_three_times_opens_one_case(self, bot: TestBot) -> None:
        opened(bot, key="view:V1")
        for _again in range(2):
            with pytest.raises(Repeated):
                opened(bot, key="view:V1")
        with bot.services.store.read() as reading:
            assert len(reading.incidents()) == 1

    def test_a_viewer_is_refused_with_who_could(self, bot: TestBot) -> None:
        with pytest.raises(Refused) as refused:
            open_incident(bot.services, viewer(), Opening(title="x"))
        assert RESPONDER in words(refused)
        assert APPROVER in words(refused)

    def test_secrets_are_removed_before_anything_is_stored(self, bot: TestBot) -> None:
        case = opened(
            bot, command="docker run -e HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz123456 vllm/vllm-openai:kimi-k3"
        )
        assert "hf_abcdefghijklmnop" not in said(payloads(bot, case, "incident:opened"))

    @pytest.mark.parametrize(
        ("opening", "expected"),
        [
            pytest.param(Opening(title="  "), "title", id="no title"),
            pytest.param(Opening(title="x", node="gpu-zz"), "gpu-zz", id="unknown node"),
            pytest.param(Opening(title="x", playbook="nope"), "nope", id="unknown playbook"),
        ],
    )
    def test_a_form_that_names_what_is_not_there_is_refused(
        self, bot: TestBot, opening: Opening, expected: str
    ) -> None:
        with pytest.raises(Refused) as refused:
            open_incident(bot.services, responder(), opening)
        assert expected in words(refused)


class TestAnswers:
    def test_an_answer_goes_into_the_record_with_its_name(self, bot: TestBot) -> None:
        case = opened(bot)
        message = answer_item(bot.services, responder(), case, "cluster-owner", value="platform team")
        assert "#2" in message.text
        assert payloads(bot, case, "answer:recorded")[0]["value"] == "platform team"

    def test_the_next_question_is_asked_once(self, bot: TestBot) -> None:
        case = opened(bot)
        before = len(outbox(bot, OutboxKind.NOTE))
        answer_item(bot.services, responder(), case, "cluster-owner", value="a")
        answer_item(bot.services, responder(), case, "cluster-owner", value="b")
        assert len(outbox(bot, OutboxKind.NOTE)) == before

    @pytest.mark.parametrize(
        ("item", "value"),
        [pytest.param("cluster-owner", "  ", id="empty"), pytest.param("no-such-item", "x", id="no such item")],
    )
    def test_what_cannot_be_recorded_is_refused(self, bot: TestBot, item: str, value: str) -> None:
        case = opened(bot)
        with pytest.raises(Refused):
            answer_item(bot.services, responder(), case, item, value=value)
        assert kinds(bot, case) == ["incident:opened"]


class TestDroppedLogs:
    def test_two_logs_of_elsewhere_are_two_recorded_attempts_with_a_score(self, bot: TestBot) -> None:
        case = opened(bot, command=COMMAND)
        for number in (1, 2):
            record_log(
                bot.services, responder(f"event:{number}"), case, name=f"try-{number}.log", chunks=[another_run(number)]
            )
        attempts = payloads(bot, case, "attempt:recorded")
        assert [(a["attempt"], a["origin"], a["outcome"]) for a in attempts] == [
            (1, "recorded", "failed"),
            (2, "recorded", "failed"),
        ]
        assert [given["score"] for given in payloads(bot, case, "score:given")] == [2]
        assert len(outbox(bot, OutboxKind.FILE)) == 2

    def test_one_run_dropped_twice_is_no_second_attempt(self, bot: TestBot) -> None:
        case = opened(bot, command=COMMAND)
        record_log(bot.services, responder("event:1"), case, name="a.log", chunks=[FAILING_LOG])
        with pytest.raises(Refused) as caught:
            record_log(bot.services, responder("event:2"), case, name="again.log", chunks=[FAILING_LOG])
        assert "the log of attempt 1 again" in words(caught)
        assert len(payloads(bot, case, "attempt:recorded")) == 1
        assert payloads(bot, case, "score:given") == []

    def test_two_runs_that_print_no_time_may_print_the_same_bytes(self, bot: TestBot) -> None:
        case = opened(bot, command=COMMAND)
        silent = b"docker: Error response from daemon: could not select device driver with capabilities: [[gpu]]\n"
        for number in (1, 2):
            record_log(bot.services, responder(f"event:{number}"), case, name="a.log", chunks=[silent])
        assert len(payloads(bot, case, "attempt:recorded")) == 2

    def test_other_arguments_in_the_logs_are_named_where_people_say_one_baseline(self, bot: TestBot) -> None:
        case = opened(bot, command=COMMAND)
        other = another_run(2).replace(b"'model': '/models/none'", b"'model': '/models/else'")
        for number, log in enumerate((FAILING_LOG, another_run(1), other)):
            record_log(bot.services, responder(f"event:{number}"), case, name="a.log", chunks=[log])
        quiet, doubted = payloads(bot, case, "score:given")
        assert "arguments" not in quiet["why"]
        assert "model: /models/none → /models/else" in doubted["why"]
        told = [reply(bot, case, noted["attempt"]) for noted in payloads(bot, case, "attempt:recorded")]
        assert "none of the engine's arguments" in told[1]
        assert "by the logs: model: /models/none → /models/else" in told[2]

    def test_a_recorded_server_that_came_up_is_ready_by_its_own_word(self, bot: TestBot) -> None:
        case = opened(bot, command=COMMAND)
        came_up = (LOGS / "real-vllm" / "ok-minimal-r1.log").read_bytes()
        cut = came_up[: came_up.index(b"Application startup complete") - 2000]
        record_log(bot.services, responder("event:1"), case, name="ok.log", chunks=[came_up])
        record_log(bot.services, responder("event:2"), case, name="ok.log", chunks=[cut])
        up, unclear = payloads(bot, case, "attempt:recorded")
        assert up["outcome"] == "ready"
        assert unclear["outcome"] != "ready"

    def test_the_command_as_given_is_the_baseline_of_recorded_attempts(self, bot: TestBot) -> None:
        case = opened(bot, command=COMMAND)
        record_log(bot.services, responder(), case, name="a.log", chunks=[FAILING_LOG])
        frozen = payloads(bot, case, "baseline:frozen")[0]
        assert frozen["baseline"]["engine"] == "recorded"
        assert "--enable-prefix-caching" in frozen["baseline"]["argv"]

    def test_a_log_without_any_command_is_recorded_all_the_same(self, bot: TestBot) -> None:
        case = opened(bot)
        record_log(bot.services, responder(), case, name="a.log", chunks=[FAILING_LOG])
        assert payloads(bot, case, "baseline:frozen")[0]["derived_from"] == "no command was given"

    def test_the_same_event_three_times_records_one_attempt(self, bot: TestBot) -> None:
        case = opened(bot)
        record_log(bot.services, responder("message:C:1"), case, name="a.log", chunks=[FAILING_LOG])
        for _again in range(2):
            with pytest.raises(Repeated):
                record_log(bot.services, responder("message:C:1"), case, name="a.log", chunks=[FAILING_LOG])
        assert len(payloads(bot, case, "attempt:recorded")) == 1

    def test_a_viewer_records_nothing(self, bot: TestBot) -> None:
        case = opened(bot)
        with pytest.raises(Refused):
            record_log(bot.services, viewer(), case, name="a.log", chunks=[FAILING_LOG])
        assert bot.artifacts.files.keys() == {payloads(bot, case, "incident:opened")[0]["playbook_sha256"]}


class TestBaselines:
    def test_the_first_one_is_the_minimal_command_and_lists_what_was_left_out(self, bot: TestBot) -> None:
        case = opened(bot)
        freeze_baseline(bot.services, responder(), case, Wanted(COMMAND))
        frozen = payloads(bot, case, "baseline:frozen")[0]
        assert "--enable-prefix-caching" not in frozen["baseline"]["argv"]
        assert "--enable-prefix-caching" in [gone["option"] for gone in frozen["removed"]]

    def test_a_second_changed_variable_is_refused_with_both(self, bot: TestBot) -> None:
        case = opened(bot)
        freeze_baseline(bot.services, responder(), case, Wanted("vllm serve /models/tiny --max-model-len 2048"))
        with pytest.raises(Refused) as refused:
            freeze_baseline(
                bot.services, responder(), case, Wanted("vllm serve /models/tiny --max-model-len 4096 --dtype float32")
            )
        assert "two things" in words(refused)
        assert "--max-model-len" in words(refused)
        assert "--dtype" in words(refused)
        assert len(payloads(bot, case, "baseline:frozen")) == 1

    def test_the_presser_may_keep_one_of_the_two(self, bot: TestBot) -> None:
        case = opened(bot)
        freeze_baseline(bot.services, responder(), case, Wanted("vllm serve /models/tiny --max-model-len 2048"))
        with pytest.raises(Refused):
            freeze_baseline(
                bot.services, responder(), case, Wanted("vllm serve /models/tiny --max-model-len 4096 --dtype float32")
            )
        keep_one(bot.services, responder(), case, "0")
        changes = [frozen["change"] for frozen in payloads(bot, case, "baseline:frozen")]
        assert changes[0] is None
        assert changes[1]["variable"] in {"argument --dtype", "argument --max-model-len"}
        with pytest.raises(Refused):
            keep_one(bot.services, responder(), case, "0")

    def test_one_feature_may_be_added_back(self, bot: TestBot) -> None:
        case = opened(bot)
        freeze_baseline(bot.services, responder(), case, Wanted("vllm serve /models/tiny"))
        freeze_baseline(bot.services, responder(), case, Wanted("vllm serve /models/tiny --enable-prefix-caching"))
        assert payloads(bot, case, "baseline:frozen")[1]["change"]["variable"] == "argument --enable-prefix-caching"

    def test_what_is_no_command_is_refused_in_words(self, bot: TestBot) -> None:
        case = opened(bot)
        with pytest.raises(Refused) as refused:
            freeze_baseline(bot.services, responder(), case, Wanted("please help"))
        assert "could not read" in words(refused)


class TestAttempts:
    def ready_case(self, bot: TestBot) -> str:
        say_hello(bot)
        case = open_case(bot, command="vllm serve /models/tiny")
        record(bot, case, *scene_of_a_cpu_node())
        for item, value in (("failing-request", "none"), ("change-history", "none"), ("first-stack", "in the log")):
            answer_item(bot.services, responder(), case, item, value=value)
        return case

    def test_open_items_refuse_an_attempt_and_are_named(self, bot: TestBot) -> None:
        say_hello(bot)
        case = open_case(bot)
        with pytest.raises(Refused) as refused:
            freeze_or_run(bot.services, responder(), case, wanted=Wanted("vllm serve /models/tiny"), runs=2)
        assert "Still open" in words(refused)
        assert kinds(bot, case) == ["incident:opened"]

    def test_two_attempts_are_one_job_that_repeats(self, bot: TestBot) -> None:
        case = self.ready_case(bot)
        message = freeze_or_run(bot.services, responder(), case, wanted=Wanted("vllm serve /models/tiny"), runs=2)
        asked = payloads(bot, case, "job:requested")
        assert [(a["job_kind"], a["attempt"], a["params"]["repeat"]) for a in asked] == [("launch", 1, 1)]
        assert "Attempts 1 and 2" in message.text
        with bot.services.store.read() as reading:
            job = reading.jobs(incident=case)[0]
        assert job.request.baseline is not None
        assert job.request.baseline.sample is not None
        assert job.request.limits.stages

    def test_limits_of_stages_are_taken_as_typed_and_said(self, bot: TestBot) -> None:
        case = self.ready_case(bot)
        wanted = Wanted("vllm serve /models/tiny", limits="weight_loading 5400, engine_init 3600/1800")
        message = freeze_or_run(bot.services, responder(), case, wanted=wanted, runs=1)
        assert "weight_loading 5400/300" in said(message)
        with bot.services.store.read() as reading:
            limits = reading.jobs(incident=case)[0].request.limits
        assert limits.stages[Stage.WEIGHT_LOADING].total_s == 5400
        assert limits.stages[Stage.ENGINE_INIT].silence_s == 1800
        assert limits.total_s == 2400 + (5400 - 1500) + (3600 - 900)

    def test_limits_that_are_none_are_refused_and_nothing_is_recorded(self, bot: TestBot) -> None:
        case = self.ready_case(bot)
        before = kinds(bot, case)
        wanted = Wanted("vllm serve /models/tiny", limits="loading 5400")
        with pytest.raises(Refused) as refused:
            freeze_or_run(bot.services, responder(), case, wanted=wanted, runs=1)
        assert "expected a stage" in words(refused)
        assert kinds(bot, case) == before

    def test_a_node_that_went_silent_is_named_and_nothing_is_recorded(self, bot: TestBot) -> None:
        case = self.ready_case(bot)
        before = kinds(bot, case)
        bot.clock.forward(minutes=5)
        with pytest.raises(NodeSilent):
            freeze_or_run(bot.services, responder(), case, wanted=Wanted("vllm serve /models/tiny"), runs=1)
        assert kinds(bot, case) == before

    def test_a_running_job_can_be_stopped(self, bot: TestBot) -> None:
        case = self.ready_case(bot)
        freeze_or_run(bot.services, responder(), case, wanted=Wanted("vllm serve /models/tiny"), runs=1)
        stop_jobs(bot.services, responder(), case)
        assert payloads(bot, case, "job:ended")[0]["outcome"] == "cancelled"
        with pytest.raises(Refused):
            stop_jobs(bot.services, responder(), case)

    def test_a_case_without_a_node_freezes_only(self, bot: TestBot) -> None:
        case = opened(bot)
        freeze_or_run(bot.services, responder(), case, wanted=Wanted("vllm serve /models/tiny"), runs=2)
        assert "baseline:frozen" in kinds(bot, case)
        assert "job:requested" not in kinds(bot, case)

    def test_a_first_baseline_over_several_nodes_is_refused_by_name(self, bot: TestBot) -> None:
        case = opened(bot)
        several = "vllm serve /models/tiny --nnodes 2 --node-rank 0 --master-addr 10.0.0.1"
        with pytest.raises(Refused) as refused:
            freeze_or_run(bot.services, responder(), case, wanted=Wanted(several), runs=1)
        assert "would prove nothing" in words(refused)
        assert "--nnodes" in words(refused)
        assert "baseline:frozen" not in kinds(bot, case)

    def test_the_fixed_request_needs_a_held_engine(self, bot: TestBot) -> None:
        case = self.ready_case(bot)
        with pytest.raises(Refused) as refused:
            request_node_job(bot.services, responder(), case, JobKind.REQUEST)
        assert "no engine is held" in words(refused)

    def test_a_feature_is_probed_on_the_held_engine_and_by_its_name(self, bot: TestBot) -> None:
        case = self.ready_case(bot)
        with pytest.raises(Refused) as refused:
            request_node_job(bot.services, responder(), case, JobKind.FEATURE_PROBE, feature="vision")
        assert "no engine is held" in words(refused)
        held = AttemptRecorded(
            attempt=1,
            baseline_digest="b" * 64,
            origin="observed",
            outcome=Outcome.READY,
            finding=finding(),
            held_until=(bot.clock.now() + timedelta(hours=1)).isoformat(),
        )
        record(bot, case, held)
        with pytest.raises(Refused) as refused:
            request_node_job(bot.services, responder(), case, JobKind.FEATURE_PROBE, feature="telepathy")
        assert "no such feature" in words(refused)
        assert "tool_call" in words(refused)
        request_node_job(bot.services, responder(), case, JobKind.FEATURE_PROBE, feature="vision")
        asked = payloads(bot, case, "job:requested")[-1]
        assert (asked["job_kind"], asked["attempt"]) == ("feature_probe", 1)
        assert (asked["params"]["feature"], asked["params"]["tries"]) == ("vision", 20)

    def test_what_this_version_does_not_carry_out_is_refused_in_words(self, bot: TestBot) -> None:
        case = self.ready_case(bot)
        with pytest.raises(Refused) as refused:
            request_node_job(bot.services, responder(), case, JobKind.SWEEP)
        assert "does not carry out" in words(refused)


class TestTheCase:
    def test_is_closed_with_a_reason_and_then_takes_no_more(self, bot: TestBot) -> None:
        case = opened(bot)
        with pytest.raises(Refused):
            close_incident(bot.services, responder(), case, reason="  ")
        close_incident(bot.services, responder(), case, reason="solved elsewhere")
        with pytest.raises(Refused) as refused:
            answer_item(bot.services, responder(), case, "cluster-owner", value="x")
        assert "is closed" in words(refused)

    def test_is_handed_over_to_a_responder_only(self, bot: TestBot) -> None:
        case = opened(bot)
        with pytest.raises(Refused):
            hand_over(bot.services, responder(), case, to="U0VIEWER")
        hand_over(bot.services, responder(), case, to=APPROVER)
        with bot.services.store.read() as reading:
            incident = reading.incident(case)
        assert incident is not None
        assert incident.owner == APPROVER

    def test_a_phase_is_skipped_by_an_approver_who_does_not_own_it(self, bot: TestBot) -> None:
        case = opened(bot)
        with pytest.raises(Refused):
            skip_phase(bot.services, responder(), case, reason="known good")
        skip_phase(bot.services, approver(), case, reason="known good")
        assert payloads(bot, case, "phase:entered")[0] | {} == {
            "phase": Phase.BOUNDARY.value,
            "skipped": True,
            "reason": "known good",
        }
        hand_over(bot.services, responder(), case, to=APPROVER)
        with pytest.raises(Refused):
            skip_phase(bot.services, approver(), case, reason="again")

    def test_what_now_is_always_answered(self, bot: TestBot) -> None:
        say_hello(bot, gpus=("GPU-1",))
        case = open_case(bot)
        assert "Next:" in show_next(bot.services, viewer(), case).text
        assert case in show_status(bot.services, viewer(), case).text
        assert "No score yet" in show_score(bot.services, viewer(), case).text
        assert case in said(show_cases(bot.services, viewer()))
        assert NODE in said(show_nodes(bot.services, viewer()))
