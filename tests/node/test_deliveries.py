"""A delivery that must not run: unsigned, for another node, expired, not claimed, second, or of a kind not built."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from playbooks.evidence.signing import SigningKey, sign
from playbooks.vocabulary import JobKind, JobOutcome
from tests.support.fake_bot import FakeBot
from tests.support.node_builders import TestNode, job
from workers.errors import BotRefused, BotUnreachable
from workers.jobs import running
from workers.jobs.reporting import deliver_rest
from workers.jobs.running import Delivered, run_delivery

FINGERPRINT = JobKind.FINGERPRINT


def test_a_fingerprint_runs_and_is_reported_once(node: TestNode) -> None:
    assert node.deliver(job(FINGERPRINT)) is Delivered.RAN
    assert node.deliver(job(FINGERPRINT)) is Delivered.REPORTED_AGAIN
    assert node.bot.claims == ["job-1"]
    assert [report.outcome for report in node.bot.reports] == [JobOutcome.DONE] * 2
    assert node.bot.reports[0].fence == 1


def test_a_message_signed_by_somebody_else_touches_nothing(node: TestNode) -> None:
    envelope = sign(job(FINGERPRINT), SigningKey.generate(), "bot").model_dump(mode="json", by_alias=True)
    assert run_delivery(envelope, node.deps, bot=node.bot.bot_key.public) is Delivered.NOT_OURS
    assert node.deps.journal.job("job-1") is None


def test_an_altered_message_touches_nothing(node: TestNode) -> None:
    envelope = node.bot.envelope(job(FINGERPRINT))
    envelope["body"]["incident"] = "INC-0002"
    assert run_delivery(envelope, node.deps, bot=node.bot.bot_key.public) is Delivered.NOT_OURS


@pytest.mark.parametrize("raw", [{}, {"schema": 9, "key_id": "bot", "body": {}, "signature": ""}, {"schema": 1}])
def test_what_is_no_message_touches_nothing(node: TestNode, raw: dict[str, object]) -> None:
    assert run_delivery(raw, node.deps, bot=node.bot.bot_key.public) is Delivered.NOT_OURS


def test_a_job_for_another_node_is_left_alone(node: TestNode) -> None:
    assert node.deliver(job(FINGERPRINT, node="gpu-b2")) is Delivered.NOT_OURS


def test_an_expired_job_is_left_alone(node: TestNode) -> None:
    assert node.deliver(job(FINGERPRINT, not_after=datetime.now(UTC) - timedelta(seconds=1))) is Delivered.NOT_OURS


@pytest.mark.parametrize("reason", ["cancelled", "held", "expired"])
def test_without_the_bots_yes_nothing_starts_and_a_later_delivery_may(node: TestNode, reason: str) -> None:
    node.bot.refuse_claim = reason
    assert node.deliver(job(FINGERPRINT)) is Delivered.NOT_CLAIMED
    assert node.bot.reports == []
    node.bot.refuse_claim = ""
    assert node.deliver(job(FINGERPRINT)) is Delivered.RAN


def test_a_silent_bot_starts_nothing(node: TestNode) -> None:
    node.bot.down = True
    assert node.deliver(job(FINGERPRINT)) is Delivered.NOT_CLAIMED
    assert node.deps.journal.job("job-1") is None


def test_a_kind_that_is_not_built_is_refused_in_words(node: TestNode, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = JobKind.LADDER
    monkeypatch.setattr(running, "JOBS", {known: do for known, do in running.JOBS.items() if known is not kind})
    node.deliver(job(kind))
    report = node.bot.report_of("job-1")
    assert report is not None
    assert report.outcome is JobOutcome.REFUSED
    assert report.error == f"this worker cannot do {kind.value} jobs yet; nothing was started (rule kind)"


@pytest.mark.parametrize("seconds", [-90, 90])
def test_a_node_whose_clock_is_off_refuses_work(node: TestNode, seconds: int) -> None:
    node.bot.clock_off_s = seconds
    node.deliver(job(FINGERPRINT))
    report = node.bot.report_of("job-1")
    assert report is not None
    assert report.outcome is JobOutcome.REFUSED
    assert "off the bot's" in (report.error or "")
    assert abs(report.clock_offset_ms + seconds * 1000) < 2000


def test_a_mistake_of_ours_is_a_report_too(node: TestNode) -> None:
    def broken(**_: object) -> dict[str, object]:
        raise ZeroDivisionError("token=hf_abcdefghijklmnopqrstuvwx")

    object.__setattr__(node.deps.host, "read", broken)
    node.deliver(job(FINGERPRINT))
    report = node.bot.report_of("job-1")
    assert report is not None
    assert report.outcome is JobOutcome.INCONCLUSIVE
    assert "ZeroDivisionError" in (report.error or "")
    assert "hf_abc" not in (report.error or "")


def test_a_report_that_was_not_taken_is_kept_and_sent_later_with_its_files(node: TestNode) -> None:
    class Goes:
        """Goes down right after the claim."""

        def __init__(self, bot: FakeBot) -> None:
            self.read = node.deps.scenes.host
            self.bot = bot

        def __call__(self) -> object:
            self.bot.down = True
            return self.read()

    object.__setattr__(node.deps.scenes, "host", Goes(node.bot))
    assert node.deliver(job(JobKind.COLLECT)) is Delivered.RAN
    assert node.bot.reports == []
    deliver_rest(node.deps)
    assert len(node.deps.journal.unacknowledged()) == 1
    node.bot.down = False
    deliver_rest(node.deps)
    (report,) = node.bot.reports
    assert {ref.sha256 for ref in report.artifacts} == node.bot.files.keys()
    assert node.deps.journal.undelivered() == []
    assert list((node.folder / "spool").iterdir()) == []


def test_the_client_tells_silence_from_a_refusal(node: TestNode) -> None:
    node.bot.down = True
    with pytest.raises(BotUnreachable, match="HTTP 503"):
        node.deps.bot.claim("job-1", patience_s=1)
    node.bot.down = False
    bad = node.deps.spool.save_text("job-1", "x.txt", b"one")
    node.deps.spool.path(bad.sha256).write_bytes(b"two")
    with pytest.raises(BotRefused, match="digest mismatch") as found:
        node.deps.bot.put_artifact(bad, node.deps.spool.path(bad.sha256), job_id="job-1")
    assert found.value.status == 409


def test_an_answer_that_the_bot_did_not_sign_is_no_answer(node: TestNode) -> None:
    node.bot.bot_key = SigningKey.generate()
    with pytest.raises(BotUnreachable, match="expected an answer signed by the bot"):
        node.deps.bot.claim("job-1", patience_s=1)
