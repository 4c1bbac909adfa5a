"""What this worker has taken on, durable across its own death: jobs, engines, evidence still to hand over.

One SQLite file per node, shared by the worker's processes. A job is entered in one transaction before any side effect, so
that a second delivery is harmless: a finished job has its report to send again, a running one is left alone, and one that
was cut by the worker's death becomes `lost` and is never run again. The journal decides nothing about engines.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from playbooks.messages import ArtifactRef, EngineEnd, HeldEngine, JobReport, JobRequest

_TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS jobs (
  job_id TEXT PRIMARY KEY, state TEXT NOT NULL, owner TEXT NOT NULL, request TEXT NOT NULL, fence INTEGER,
  report TEXT, acknowledged INTEGER NOT NULL DEFAULT 0, stop_by TEXT, entered_at TEXT NOT NULL, ended_at TEXT);
CREATE TABLE IF NOT EXISTS engines (
  job_id TEXT PRIMARY KEY, state TEXT NOT NULL, ref TEXT NOT NULL, held TEXT, how TEXT, detail TEXT NOT NULL DEFAULT '',
  told INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS artifacts (
  sha256 TEXT NOT NULL, job_id TEXT NOT NULL, ref TEXT NOT NULL, delivered INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (sha256, job_id));
"""


class Delivery(StrEnum):
    """What a delivery of a job finds."""

    FRESH = "fresh"
    RUNNING = "running"
    FINISHED = "finished"
    """Its report is there to be sent again."""


class JobState(StrEnum):
    """Life of a job on the node. `entered` has had no side effect yet."""

    ENTERED = "entered"
    RUNNING = "running"
    FINISHED = "finished"


class EngineLife(StrEnum):
    """Life of an engine of a job."""

    RUNNING = "running"
    HELD = "held"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as entered."""

    request: JobRequest
    state: JobState
    owner: str
    fence: int | None
    report: JobReport | None
    entered_at: datetime


@dataclass(frozen=True, slots=True)
class EngineRow:
    """An engine of a job: how it is found again, and the promise it is held under."""

    job_id: str
    life: EngineLife
    ref: dict[str, Any]
    held: HeldEngine | None
    how: str | None
    detail: str


class Journal:
    """The journal file of one node."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._open() as db:
            db.executescript(_TABLES)
        with self._transaction() as db:
            db.execute("INSERT OR IGNORE INTO meta VALUES ('instance', ?)", (uuid.uuid4().hex,))

    @property
    def instance(self) -> str:
        """Name of this journal; marks the processes and containers of this worker, so that no other one sweeps them."""
        with self._open() as db:
            return str(db.execute("SELECT value FROM meta WHERE key = 'instance'").fetchone()[0])

    # jobs

    def enter(self, request: JobRequest, *, owner: str, is_alive: Callable[[str], bool], now: datetime) -> Delivery:
        """Enter a job, or say what an earlier delivery left. One transaction, before any side effect."""
        with self._transaction() as db:
            row = db.execute("SELECT state, owner FROM jobs WHERE job_id = ?", (request.job_id,)).fetchone()
            if row is None:
                db.execute(
                    "INSERT INTO jobs (job_id, state, owner, request, entered_at) VALUES (?, ?, ?, ?, ?)",
                    (request.job_id, JobState.ENTERED, owner, request.model_dump_json(), now.isoformat()),
                )
                return Delivery.FRESH
            if row["state"] == JobState.FINISHED:
                return Delivery.FINISHED
            if row["state"] == JobState.ENTERED and not is_alive(row["owner"]):
                db.execute("UPDATE jobs SET owner = ? WHERE job_id = ?", (owner, request.job_id))
                return Delivery.FRESH
            return Delivery.RUNNING

    def start(self, job_id: str, *, fence: int | None) -> None:
        """The bot said yes: from here on there may be side effects."""
        with self._transaction() as db:
            db.execute("UPDATE jobs SET state = ?, fence = ? WHERE job_id = ?", (JobState.RUNNING, fence, job_id))

    def release(self, job_id: str) -> None:
        """Forget a job that did not start, so that a later delivery may."""
        with self._transaction() as db:
            db.execute("DELETE FROM jobs WHERE job_id = ? AND state = ?", (job_id, JobState.ENTERED))

    def finish(self, report: JobReport, *, now: datetime) -> None:
        """Store a job's report before it is sent; the first one stays."""
        with self._transaction() as db:
            db.execute(
                "UPDATE jobs SET state = ?, report = ?, ended_at = ? WHERE job_id = ? AND report IS NULL",
                (JobState.FINISHED, report.model_dump_json(), now.isoformat(), report.job_id),
            )

    def acknowledge(self, job_id: str) -> None:
        """The bot has recorded the report."""
        with self._transaction() as db:
            db.execute("UPDATE jobs SET acknowledged = 1 WHERE job_id = ?", (job_id,))

    def job(self, job_id: str) -> JobRow | None:
        """Return a job, or None."""
        return next(iter(self._jobs("WHERE job_id = ?", job_id)), None)

    def running(self) -> list[JobRow]:
        """Return the jobs that are entered or running."""
        return self._jobs("WHERE state IN (?, ?)", JobState.ENTERED, JobState.RUNNING)

    def unacknowledged(self) -> list[JobReport]:
        """Return the reports that the bot has not recorded yet, oldest first."""
        rows = self._jobs("WHERE state = ? AND acknowledged = 0 ORDER BY ended_at", JobState.FINISHED)
        return [row.report for row in rows if row.report is not None]

    def cut(self, is_alive: Callable[[str], bool]) -> list[JobRow]:
        """Return the running jobs whose process is gone; entered ones, which did nothing, are forgotten."""
        gone = [row for row in self.running() if not is_alive(row.owner)]
        for row in gone:
            if row.state is JobState.ENTERED:
                self.release(row.request.job_id)
        return [row for row in gone if row.state is JobState.RUNNING]

    def want_stop(self, job_id: str, *, by: str) -> bool:
        """Ask a running job to stop; False when it is not running here."""
        with self._transaction() as db:
            found = db.execute(
                "UPDATE jobs SET stop_by = ? WHERE job_id = ? AND state IN (?, ?)",
                (by, job_id, JobState.ENTERED, JobState.RUNNING),
            )
            return found.rowcount > 0

    def stop_wanted(self, job_id: str) -> str | None:
        """Return who asked this job to stop, or None."""
        with self._open() as db:
            row = db.execute("SELECT stop_by FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
        return row["stop_by"] if row is not None else None

    # engines

    def engine_started(self, job_id: str, ref: dict[str, Any]) -> None:
        """An engine of this job exists."""
        with self._transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO engines (job_id, state, ref) VALUES (?, ?, ?)",
                (job_id, EngineLife.RUNNING, json.dumps(ref)),
            )

    def hold(self, held: HeldEngine) -> None:
        """The engine lives on after its job, under this promise."""
        with self._transaction() as db:
            db.execute(
                "UPDATE engines SET state = ?, held = ? WHERE job_id = ?",
                (EngineLife.HELD, held.model_dump_json(), held.job_id),
            )

    def engine_ended(self, job_id: str, *, how: str, detail: str = "") -> bool:
        """The engine is gone; the first reason stays. True when it was news."""
        with self._transaction() as db:
            done = db.execute(
                "UPDATE engines SET state = ?, how = ?, detail = ? WHERE job_id = ? AND state != ?",
                (EngineLife.ENDED, how, detail, job_id, EngineLife.ENDED),
            )
            return done.rowcount > 0

    def engines(self, *lives: EngineLife) -> list[EngineRow]:
        """Return the engines in these states."""
        with self._open() as db:
            marks = ",".join("?" * len(lives))
            rows = db.execute(f"SELECT * FROM engines WHERE state IN ({marks})", lives).fetchall()  # noqa: S608 - question marks only
        return [_engine(row) for row in rows]

    def held(self, *, incident: str | None = None, attempt: int | None = None) -> list[EngineRow]:
        """Return the held engines, of one incident and attempt when asked for."""
        return [
            row
            for row in self.engines(EngineLife.HELD)
            if row.held is not None
            and (incident is None or row.held.incident == incident)
            and (attempt is None or row.held.attempt == attempt)
        ]

    def untold_ends(self) -> list[EngineRow]:
        """Return the ends of held engines that no answered hello has carried yet."""
        with self._open() as db:
            rows = db.execute(
                "SELECT * FROM engines WHERE state = ? AND held IS NOT NULL AND told = 0", (EngineLife.ENDED,)
            ).fetchall()
        return [_engine(row) for row in rows]

    def ends_told(self, job_ids: list[str]) -> None:
        """A hello that carried these ends was answered."""
        with self._transaction() as db:
            db.executemany("UPDATE engines SET told = 1 WHERE job_id = ?", [(job_id,) for job_id in job_ids])

    # evidence

    def add_artifact(self, job_id: str, ref: ArtifactRef) -> None:
        """A file lies in the spool for the bot."""
        with self._transaction() as db:
            db.execute(
                "INSERT OR IGNORE INTO artifacts (sha256, job_id, ref) VALUES (?, ?, ?)",
                (ref.sha256, job_id, ref.model_dump_json()),
            )

    def undelivered(self, job_id: str | None = None) -> list[tuple[str, ArtifactRef]]:
        """Return (job id, file) of what the bot has not stored yet."""
        where, values = ("AND job_id = ?", (job_id,)) if job_id is not None else ("", ())
        with self._open() as db:
            rows = db.execute(f"SELECT job_id, ref FROM artifacts WHERE delivered = 0 {where}", values).fetchall()  # noqa: S608 - fixed text
        return [(row["job_id"], ArtifactRef.model_validate_json(row["ref"])) for row in rows]

    def delivered(self, sha256: str) -> None:
        """The bot has stored the bytes."""
        with self._transaction() as db:
            db.execute("UPDATE artifacts SET delivered = 1 WHERE sha256 = ?", (sha256,))

    # the file

    def _jobs(self, where: str, *values: str) -> list[JobRow]:
        with self._open() as db:
            rows = db.execute(f"SELECT * FROM jobs {where}", values).fetchall()  # noqa: S608 - fixed text
        return [_job(row) for row in rows]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=10, isolation_level=None)) as db:
            db.row_factory = sqlite3.Row
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            yield db

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")


def end_of(row: EngineRow) -> EngineEnd | None:
    """Return the end of a held engine as the bot is told it; None for a death, which is told as `lost`."""
    if row.held is None or row.how not in {"stopped", "expired", "replaced"}:
        return None
    return EngineEnd.model_validate({"engine": row.held, "how": row.how, "detail": row.detail})


def _job(row: sqlite3.Row) -> JobRow:
    return JobRow(
        request=JobRequest.model_validate_json(row["request"]),
        state=JobState(row["state"]),
        owner=row["owner"],
        fence=row["fence"],
        report=JobReport.model_validate_json(row["report"]) if row["report"] else None,
        entered_at=datetime.fromisoformat(row["entered_at"]).astimezone(UTC),
    )


def _engine(row: sqlite3.Row) -> EngineRow:
    return EngineRow(
        job_id=row["job_id"],
        life=EngineLife(row["state"]),
        ref=json.loads(row["ref"]),
        held=HeldEngine.model_validate_json(row["held"]) if row["held"] else None,
        how=row["how"],
        detail=row["detail"],
    )
