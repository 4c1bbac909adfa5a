"""What a second delivery, a death and a restart find in the journal."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from playbooks.messages import ArtifactRef, HeldEngine, JobReport
from playbooks.vocabulary import JobKind, JobOutcome
from tests.support.node_builders import job
from workers.journal import Delivery, EngineLife, Journal, end_of

NOW = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.db")


def enter(journal: Journal, job_id: str = "job-1", *, owner: str = "me", alive: bool = True) -> Delivery:
    return journal.enter(job(JobKind.LAUNCH, job_id=job_id), owner=owner, is_alive=lambda _: alive, now=NOW)


def report(job_id: str = "job-1", outcome: JobOutcome = JobOutcome.DONE) -> JobReport:
    return JobReport(
        job_id=job_id,
        node="gpu-a1",
        kind=JobKind.LAUNCH,
        outcome=outcome,
        started_at=NOW,
        ended_at=NOW,
        duration_ms=1,
        worker_version="0",
    )


def held() -> HeldEngine:
    return HeldEngine(
        job_id="job-1",
        incident="INC-1",
        attempt=2,
        engine="process",
        what="process 1",
        endpoint="x",
        since=NOW,
        until=NOW,
    )


def test_a_job_is_fresh_once(journal: Journal) -> None:
    assert enter(journal) is Delivery.FRESH
    assert enter(journal) is Delivery.RUNNING
    journal.start("job-1", fence=4)
    assert enter(journal) is Delivery.RUNNING
    journal.finish(report(), now=NOW)
    assert enter(journal) is Delivery.FINISHED


def test_two_deliveries_at_the_same_moment_have_one_winner(journal: Journal) -> None:
    found: list[Delivery] = []
    threads = [threading.Thread(target=lambda n=n: found.append(enter(journal, owner=str(n)))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted([Delivery.FRESH, *[Delivery.RUNNING] * 7])


def test_a_job_that_never_started_may_be_taken_over_or_forgotten(journal: Journal) -> None:
    enter(journal, owner="dead")
    assert enter(journal, owner="me", alive=False) is Delivery.FRESH
    journal.release("job-1")
    assert enter(journal) is Delivery.FRESH
    assert journal.cut(lambda _: False) == []
    assert enter(journal) is Delivery.FRESH


def test_a_started_job_is_never_forgotten_nor_taken_over(journal: Journal) -> None:
    enter(journal, owner="dead")
    journal.start("job-1", fence=1)
    journal.release("job-1")
    assert enter(journal, owner="me", alive=False) is Delivery.RUNNING
    assert [row.request.job_id for row in journal.cut(lambda _: False)] == ["job-1"]
    assert journal.cut(lambda _: True) == []


def test_the_first_report_stays(journal: Journal) -> None:
    enter(journal)
    journal.start("job-1", fence=1)
    journal.finish(report(outcome=JobOutcome.LOST), now=NOW)
    journal.finish(report(outcome=JobOutcome.DONE), now=NOW)
    assert [stored.outcome for stored in journal.unacknowledged()] == [JobOutcome.LOST]
    journal.acknowledge("job-1")
    assert journal.unacknowledged() == []


def test_a_stop_reaches_only_a_job_that_runs(journal: Journal) -> None:
    assert not journal.want_stop("job-1", by="U1")
    enter(journal)
    assert journal.stop_wanted("job-1") is None
    assert journal.want_stop("job-1", by="U1")
    assert journal.stop_wanted("job-1") == "U1"
    assert journal.stop_wanted("job-2") is None


def test_the_end_of_a_held_engine_is_told_once_with_its_first_reason(journal: Journal) -> None:
    journal.engine_started("job-1", {"id": "x"})
    journal.hold(held())
    assert [row.life for row in journal.held(incident="INC-1", attempt=2)] == [EngineLife.HELD]
    assert journal.held(incident="INC-2") == []
    assert journal.engine_ended("job-1", how="expired")
    assert not journal.engine_ended("job-1", how="died")
    (row,) = journal.untold_ends()
    end = end_of(row)
    assert end is not None
    assert end.how == "expired"
    journal.ends_told(["job-1"])
    assert journal.untold_ends() == []


def test_a_death_is_no_end_that_somebody_made(journal: Journal) -> None:
    journal.engine_started("job-1", {"id": "x"})
    journal.hold(held())
    journal.engine_ended("job-1", how="died")
    (row,) = journal.untold_ends()
    assert end_of(row) is None


def test_files_are_listed_until_the_bot_has_them(journal: Journal) -> None:
    ref = ArtifactRef(sha256="a" * 64, name="engine.log", size_bytes=1)
    journal.add_artifact("job-1", ref)
    journal.add_artifact("job-1", ref)
    assert journal.undelivered() == [("job-1", ref)]
    assert journal.undelivered("job-2") == []
    journal.delivered(ref.sha256)
    assert journal.undelivered("job-1") == []


def test_another_opening_finds_the_same_name_and_jobs(tmp_path: Path, journal: Journal) -> None:
    enter(journal)
    again = Journal(tmp_path / "journal.db")
    assert again.instance == journal.instance
    assert again.job("job-1") is not None
    assert again.job("job-2") is None
