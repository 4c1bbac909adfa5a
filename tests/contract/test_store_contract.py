"""What every incident store promises: on SQLite always, on PostgreSQL with the services."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import NullPool, create_engine

from bot.adapters.store import SqlStore, open_store
from bot.errors import StoreBusy, StoreConflict, StoreCorrupt, UnknownIncident, UnknownJob
from bot.ports import ArtifactMeta, JobState, OutboxKind, OutboxRow, OutboxState
from playbooks.errors import MalformedMessage, NotCanonical
from playbooks.evidence import chain
from playbooks.evidence.entries import DecisionApproved, IncidentClosed, PhaseEntered, SceneCollected
from playbooks.guiding.case import fold
from playbooks.judging.ranks import RankEnd, RankOf
from playbooks.messages import NodeHello
from playbooks.vocabulary import JobOutcome, Outcome, Phase
from tests.support.stores import AT, answer, fresh_postgresql, fresh_sqlite, job_request, opened, opening

LATER = AT + timedelta(minutes=5)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.services)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return fresh_sqlite(tmp_path)
    return fresh_postgresql(request.getfixturevalue("postgres_url"))


@pytest.fixture
def another(url: str) -> Iterator[Callable[..., SqlStore]]:
    """Open further stores on the same database, as other processes would."""
    stores: list[SqlStore] = []

    def make(**options: Any) -> SqlStore:
        stores.append(open_store(url, **options))
        return stores[-1]

    yield make
    for one in stores:
        one.close()


@pytest.fixture
def store(another: Callable[..., SqlStore]) -> SqlStore:
    return another()


def run_sql(url: str, statement: str) -> None:
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql(statement)


# incidents and their ledger


def test_incidents_are_counted_and_begin_with_their_first_entry(store: SqlStore) -> None:
    first, second = opened(store), opened(store, channel="C2", owner="U2")
    assert (first.id, second.id) == ("INC-0001", "INC-0002")
    with store.read() as reading:
        [entry] = reading.entries("INC-0002")
        assert reading.incident("INC-0002") == second
    assert (entry.seq, entry.kind, entry.actor, entry.previous) == (1, "incident:opened", "user:U2", chain.GENESIS)
    assert second.head_seq == 1
    assert second.head_hash == chain.head_hash("INC-0002", 1, entry.hash)
    assert second.case.opened.payload == opening()


def test_an_incident_opened_in_vain_leaves_no_gap(store: SqlStore) -> None:
    def fails() -> None:
        with store.write() as tx:
            tx.open_incident(channel="C", owner="U", payload=opening(), at=AT, language="en")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert opened(store).id == "INC-0001"


def test_only_an_opening_opens(store: SqlStore) -> None:
    with pytest.raises(StoreConflict, match="expected incident:opened"), store.write() as tx:
        tx.open_incident(channel="C", owner="U", payload=answer("x"), at=AT, language="en")


def test_appended_entries_form_a_chain_and_come_back_as_they_were_written(store: SqlStore) -> None:
    incident = opened(store)
    taipei = datetime(2026, 12, 1, 11, 0, 0, 1, tzinfo=timezone(timedelta(hours=8)))
    with store.write() as tx:
        one = tx.append(incident.id, answer("第一 ✓ \u2028 \U0001f600"), actor="user:U1", at=taipei)
        two = tx.append(incident.id, answer("b"), actor="node:a", at=LATER, artifacts=("a" * 64, "b" * 64))
    with store.read() as reading:
        found = list(reading.entries(incident.id))
        assert found[1:] == [one, two]
        assert reading.entry(incident.id, 3) == two
        assert reading.entry(incident.id, 4) is None
        newest = reading.incident(incident.id)
        assert list(reading.entries(incident.id, after=2)) == [two]
    assert one.at == taipei
    assert one.at.tzinfo is UTC
    assert newest is not None
    assert chain.verify(found) == (3, newest.head_hash)
    assert newest.case == fold(incident.id, found)


def test_many_entries_are_read_page_by_page(store: SqlStore) -> None:
    incident = opened(store)
    with store.write() as tx:
        for n in range(1001):
            tx.append(incident.id, answer(str(n)), actor="bot", at=AT, post=False)
    with store.read() as reading:
        assert [entry.seq for entry in reading.entries(incident.id)] == list(range(1, 1003))
        assert chain.verify(reading.entries(incident.id))[0] == 1002


def test_a_block_that_fails_records_nothing(store: SqlStore) -> None:
    incident = opened(store)

    def fails() -> None:
        with store.write() as tx:
            tx.append(incident.id, answer("x"), actor="bot", at=AT)
            tx.set_owner(incident.id, "U9")
            tx.first_time("key", at=AT)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    with store.write() as tx:
        assert tx.lock(incident.id) == incident
        assert tx.first_time("key", at=AT)
        assert tx.append(incident.id, answer("y"), actor="bot", at=AT).seq == 2


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        pytest.param(SceneCollected(job_id="J", node="n", saved={}, container={"s": 1.5}), NotCanonical, id="a float"),
        pytest.param(answer("\ud800"), NotCanonical, id="a lone surrogate"),
        pytest.param(opening(), MalformedMessage, id="a second opening"),
    ],
)
def test_what_cannot_stand_in_the_ledger_is_refused_and_nothing_is_recorded(
    store: SqlStore, payload: Any, error: type[Exception]
) -> None:
    incident = opened(store)
    with pytest.raises(error), store.write() as tx:
        tx.append(incident.id, payload, actor="bot", at=AT)
    with store.read() as reading:
        assert reading.incident(incident.id) == incident


def test_a_time_without_a_zone_is_refused(store: SqlStore) -> None:
    incident = opened(store)
    with pytest.raises(NotCanonical, match="without one"), store.write() as tx:
        tx.append(incident.id, answer("x"), actor="bot", at=AT.replace(tzinfo=None))


def test_secrets_that_reach_the_ledger_are_taken_out_before_they_are_hashed(store: SqlStore) -> None:
    incident = opened(store)
    with store.write() as tx:
        tx.append(incident.id, answer("HF_TOKEN=letmein"), actor="user:U1", at=AT)
    with store.read() as reading:
        entries = list(reading.entries(incident.id))
    assert entries[1].payload["value"] == "HF_TOKEN=[redacted]"
    chain.verify(entries)


def test_nobody_knows_an_incident_that_is_not_there(store: SqlStore) -> None:
    with store.read() as reading:
        assert reading.incident("INC-0404") is None
        assert reading.incident_in_thread("C1", "1.0") is None
        assert list(reading.entries("INC-0404")) == []
    for call in (
        lambda tx: tx.lock("INC-0404"),
        lambda tx: tx.append("INC-0404", answer("x"), actor="bot", at=AT),
        lambda tx: tx.want_dashboard("INC-0404"),
        lambda tx: tx.set_thread("INC-0404", "1.0"),
    ):
        with pytest.raises(UnknownIncident, match="INC-0404"), store.write() as tx:
            call(tx)


def test_incidents_are_found_by_thread_channel_and_state(store: SqlStore) -> None:
    first = opened(store, at=AT)
    second = opened(store, channel="C2", at=LATER)
    with store.write() as tx:
        tx.set_thread(first.id, "1700000000.000100")
        tx.append(second.id, IncidentClosed(reason="done"), actor="user:U1", at=LATER)
    with store.read() as reading:
        found = reading.incident_in_thread("C1", "1700000000.000100")
        assert found is not None
        assert (found.id, found.thread_ts) == (first.id, "1700000000.000100")
        assert reading.incident_in_thread("C2", "1700000000.000100") is None
        assert [i.id for i in reading.incidents()] == [first.id]
        assert [i.id for i in reading.incidents(open_only=False)] == [second.id, first.id]
        assert [i.id for i in reading.incidents(open_only=False, channel="C2")] == [second.id]
        assert [i.id for i in reading.incidents(open_only=False, limit=1)] == [second.id]
        closed = reading.incident(second.id)
    assert closed is not None
    assert closed.case.phase is Phase.CLOSED


def test_an_owner_may_change(store: SqlStore) -> None:
    incident = opened(store)
    with store.write() as tx:
        tx.set_owner(incident.id, "U7")
        assert tx.lock(incident.id).owner == "U7"


def test_every_process_sees_the_same_case(another: Callable[..., SqlStore]) -> None:
    one, two = another(), another()
    incident = opened(one)
    for n, writer in enumerate([one, two, two, one, two]):
        with writer.write() as tx:
            tx.append(incident.id, PhaseEntered(phase=list(Phase)[n]), actor="bot", at=AT)
        cases = []
        for reader in (one, two, another()):
            with reader.read() as reading:
                found = reading.incident(incident.id)
                assert found is not None
                cases.append(found.case)
        assert cases[0] == cases[1] == cases[2]
        assert cases[0].phase is list(Phase)[n]


def test_reading_inside_a_transaction_sees_what_it_appended(store: SqlStore) -> None:
    incident = opened(store)
    with store.write() as tx:
        assert tx.incident(incident.id) == incident
        tx.append(incident.id, answer("x"), actor="bot", at=AT)
        inside = tx.incident(incident.id)
        assert inside is not None
        assert inside.head_seq == inside.case.head_seq == 2


def test_a_picture_stays_the_same_while_others_write(store: SqlStore) -> None:
    incident = opened(store)
    with store.read() as reading:
        before = reading.incident(incident.id)
        with store.write() as tx:
            tx.append(incident.id, answer("x"), actor="bot", at=AT)
        assert reading.incident(incident.id) == before
        assert len(list(reading.entries(incident.id))) == 1


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param("DELETE FROM entries WHERE seq = 2", id="the newest entry is gone"),
        pytest.param("DELETE FROM entries WHERE seq = 1", id="the first entry is gone"),
        pytest.param("DELETE FROM entries", id="all entries are gone"),
        pytest.param("UPDATE entries SET payload = '{' WHERE seq = 2", id="a payload is no JSON"),
        pytest.param("UPDATE entries SET at = 'yesterday' WHERE seq = 2", id="a time is none"),
        pytest.param("UPDATE entries SET kind = 'incident:opened' WHERE seq = 2", id="it opens twice"),
    ],
)
def test_a_damaged_ledger_is_said_to_be_damaged(another: Callable[..., SqlStore], url: str, damage: str) -> None:
    store = another()
    incident = opened(store)
    with store.write() as tx:
        tx.append(incident.id, answer("x"), actor="bot", at=AT)
    run_sql(url, damage)
    with pytest.raises(StoreCorrupt), another().read() as reading:
        reading.incident(incident.id)


def test_two_entries_of_one_number_are_refused(store: SqlStore, url: str) -> None:
    opened(store)
    with pytest.raises(Exception, match=r"(?i)unique"):
        run_sql(url, "INSERT INTO entries SELECT * FROM entries")


# many at once


def test_threads_appending_at_once_make_one_unbroken_chain(another: Callable[..., SqlStore]) -> None:
    stores = [another(wait_ms=30_000), another(wait_ms=30_000)]
    incident = opened(stores[0])
    start = threading.Barrier(8)

    def write(n: int) -> None:
        start.wait()
        for k in range(10):
            with stores[n % 2].write() as tx:
                tx.append(incident.id, answer(f"{n}.{k}"), actor=f"user:U{n}", at=AT)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    with another().read() as reading:
        entries = list(reading.entries(incident.id))
        newest = reading.incident(incident.id)
    assert newest is not None
    assert chain.verify(entries) == (81, newest.head_hash)
    assert {e.payload["value"] for e in entries[1:]} == {f"{n}.{k}" for n in range(8) for k in range(10)}


def test_incidents_opened_at_once_have_ids_of_their_own(another: Callable[..., SqlStore]) -> None:
    stores = [another(wait_ms=30_000), another(wait_ms=30_000)]
    with ThreadPoolExecutor(6) as pool:
        ids = list(pool.map(lambda n: opened(stores[n % 2]).id, range(12)))
    assert sorted(ids) == [f"INC-{n:04d}" for n in range(1, 13)]


def test_one_of_many_wins_a_lease_and_one_a_delivery(another: Callable[..., SqlStore]) -> None:
    stores = [another(wait_ms=30_000), another(wait_ms=30_000)]

    def take(n: int) -> tuple[bool, bool]:
        with stores[n % 2].write() as tx:
            won = tx.take_lease("gpu-a1", incident="INC-0001", job_id=f"J{n}", at=AT) is not None
            return won, tx.first_time("event", at=AT)

    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(take, range(12)))
    assert [sum(column) for column in zip(*results, strict=True)] == [1, 1]


def test_a_writer_that_waits_too_long_is_told_so_and_records_nothing(another: Callable[..., SqlStore]) -> None:
    holder, waiting = another(), another(wait_ms=60)
    incident = opened(holder)
    with holder.write() as tx:
        tx.lock(incident.id)
        with pytest.raises(StoreBusy, match="nothing was recorded"), waiting.write() as late:
            late.append(incident.id, answer("late"), actor="bot", at=AT)
    with waiting.write() as tx:
        assert tx.append(incident.id, answer("x"), actor="bot", at=AT).seq == 2


# jobs, leases, nodes


def test_a_job_is_recorded_with_its_outbox_row(store: SqlStore) -> None:
    opened(store)
    with store.write() as tx:
        job = tx.add_job(job_request())
    with store.read() as reading:
        assert reading.job("J1") == job
        assert reading.job("J2") is None
        [row] = reading.due_jobs(now=AT)
    assert job.state is JobState.WANTED
    assert job.request == job_request()
    assert (row.kind, row.payload, row.incident) == (OutboxKind.JOB, {"job_id": "J1"}, "INC-0001")


def test_a_job_id_is_used_once(store: SqlStore) -> None:
    with store.write() as tx:
        tx.add_job(job_request())
    with pytest.raises(StoreConflict), store.write() as tx:
        tx.add_job(job_request())


def test_a_job_is_changed_by_name(store: SqlStore) -> None:
    with store.write() as tx:
        tx.add_job(job_request())
        assert tx.lock_job("J1").state is JobState.WANTED
        job = tx.update_job("J1", state=JobState.CLAIMED, fence=3, claimed_at=LATER, stage="weight_loading", note="n")
    assert (job.state, job.fence, job.claimed_at, job.stage, job.note) == (
        JobState.CLAIMED,
        3,
        LATER,
        "weight_loading",
        "n",
    )


def test_nobody_knows_a_job_that_is_not_there(store: SqlStore) -> None:
    for call in (lambda tx: tx.lock_job("J9"), lambda tx: tx.update_job("J9", note="x")):
        with pytest.raises(UnknownJob, match="J9"), store.write() as tx:
            call(tx)


def test_jobs_are_found_by_incident_node_and_state(store: SqlStore) -> None:
    with store.write() as tx:
        tx.add_job(job_request("J1"))
        tx.add_job(job_request("J2", node="gpu-b2", at=LATER))
        tx.add_job(job_request("J3", incident="INC-0002", at=LATER))
        tx.update_job("J1", state=JobState.ENDED, outcome="done")
    with store.read() as reading:
        assert [j.id for j in reading.jobs()] == ["J2", "J3"]
        assert [j.id for j in reading.jobs(active_only=False)] == ["J1", "J2", "J3"]
        assert [j.id for j in reading.jobs(incident="INC-0001", active_only=False)] == ["J1", "J2"]
        assert [j.id for j in reading.jobs(node="gpu-b2")] == ["J2"]


def test_a_lease_has_one_holder_and_a_rising_number(store: SqlStore) -> None:
    with store.write() as tx:
        first = tx.take_lease("gpu-a1", incident="INC-0001", job_id="J1", at=AT)
        assert first is not None
        assert tx.lease("gpu-a1") == first
        assert tx.take_lease("gpu-a1", incident="INC-0002", job_id="J2", at=LATER) is None
        assert tx.take_lease("gpu-a1", incident="INC-0001", job_id="J1", at=LATER) == first
        assert tx.take_lease("gpu-b2", incident="INC-0002", job_id="J2", at=LATER) is not None
        assert not tx.end_lease("gpu-a1", fence=first.fence + 1)
        assert tx.end_lease("gpu-a1", fence=first.fence)
        assert tx.lease("gpu-a1") is None
        second = tx.take_lease("gpu-a1", incident="INC-0002", job_id="J2", at=LATER)
    assert second is not None
    assert second.fence > first.fence


def test_leases_of_several_nodes_are_taken_together_or_not_at_all(store: SqlStore) -> None:
    with store.write() as tx:
        assert tx.take_lease("gpu-b2", incident="INC-0002", job_id="J9", at=AT) is not None
        wanted = {"gpu-a1": "J1", "gpu-b2": "J2", "gpu-c3": "J3"}
        assert tx.take_leases(wanted, incident="INC-0001", at=AT) is None
        assert [tx.lease(node) is None for node in ("gpu-a1", "gpu-b2", "gpu-c3")] == [True, False, True]
        held = tx.lease("gpu-b2")
        assert held is not None
        assert tx.end_lease("gpu-b2", fence=held.fence)
        taken = tx.take_leases(wanted, incident="INC-0001", at=AT)
    assert taken is not None
    assert {node: lease.job_id for node, lease in taken.items()} == wanted
    assert taken["gpu-b2"].fence > held.fence


def test_of_two_groups_at_the_same_moment_one_takes_every_node_fifty_times(
    another: Callable[..., SqlStore],
) -> None:
    stores = [another(), another()]
    orders = [("gpu-a1", "gpu-b2"), ("gpu-b2", "gpu-a1")]

    def take(number: int, turn: int) -> bool:
        with stores[number].write() as tx:
            wanted = {node: f"J{turn}-{number}-{node}" for node in orders[number]}
            return tx.take_leases(wanted, incident=f"INC-{number}", at=AT) is not None

    with ThreadPoolExecutor(2) as pool:
        for turn in range(50):
            assert sorted(pool.map(take, (0, 1), (turn, turn))) == [False, True]
            with stores[0].write() as tx:
                leases = [tx.lease(node) for node in ("gpu-a1", "gpu-b2")]
                assert len({lease.incident for lease in leases if lease is not None}) == 1
                assert [tx.end_lease(one.node, fence=one.fence) for one in leases if one is not None] == [True, True]


def test_jobs_of_a_group_are_found_by_rank_with_their_ends(store: SqlStore) -> None:
    def of_rank(rank: int) -> RankOf:
        return RankOf(group="G1", rank=rank, nodes=("gpu-a1", "gpu-b2"))

    with store.write() as tx:
        tx.add_job(job_request("J2", node="gpu-b2").model_copy(update={"rank": of_rank(1)}))
        tx.add_job(job_request("J1").model_copy(update={"rank": of_rank(0)}))
        tx.add_job(job_request("J3"))
        end = RankEnd(rank=1, node="gpu-b2", job_id="J2", job_outcome=JobOutcome.LOST, outcome=Outcome.NOT_OBSERVED)
        tx.update_job("J2", state=JobState.ENDED, rank_end=end)
    with store.read() as reading:
        found = reading.group_jobs("G1")
        assert [job.id for job in found] == ["J1", "J2"]
        assert [job.rank_end for job in found] == [None, end]
        assert reading.group_jobs("G2") == []


def hello(**changes: Any) -> NodeHello:
    return NodeHello.model_validate(
        {"node": "gpu-a1", "version": "0.1.0", "catalogue": "c", "policy_sha256": "p", "at": AT} | changes
    )


def test_a_node_keeps_its_key_and_its_newest_word(store: SqlStore) -> None:
    with store.write() as tx:
        tx.enrol_node("gpu-a1", "KEY")
        tx.enrol_node("gpu-b2", None)
        tx.save_hello(hello(), at=AT)
        tx.save_hello(hello(version="0.2.0"), at=LATER)
        tx.enrol_node("gpu-a1", "KEY2")
    with store.read() as reading:
        node = reading.node("gpu-a1")
        assert [n.name for n in reading.nodes()] == ["gpu-a1", "gpu-b2"]
        assert reading.node("gpu-c3") is None
    assert node is not None
    assert (node.public_key, node.hello, node.heard_at) == ("KEY2", hello(version="0.2.0"), LATER)


def test_a_hello_that_this_version_cannot_read_is_none(store: SqlStore, url: str) -> None:
    with store.write() as tx:
        tx.save_hello(hello(), at=AT)
    run_sql(url, "UPDATE nodes SET hello = '{}'")
    with store.read() as reading:
        node = reading.node("gpu-a1")
    assert node is not None
    assert (node.hello, node.heard_at) == (None, AT)


def test_a_job_whose_request_cannot_be_read_is_named(store: SqlStore, url: str) -> None:
    with store.write() as tx:
        tx.add_job(job_request())
    run_sql(url, "UPDATE jobs SET request = '{}'")
    with pytest.raises(StoreCorrupt, match="job J1"), store.read() as reading:
        reading.job("J1")


# outbox


def enqueue(store: SqlStore, *kinds: OutboxKind, incident: str | None = "INC-0001") -> list[int]:
    with store.write() as tx:
        return [tx.enqueue(kind, {"n": n}, incident=incident, at=AT) for n, kind in enumerate(kinds)]


def due(store: SqlStore, now: datetime = AT) -> list[int]:
    with store.read() as reading:
        return [row.id for row in reading.due_messages(now=now)]


def row_of(store: SqlStore, row_id: int) -> OutboxRow:
    with store.read() as reading:
        return next(row for row in reading.outbox(states=OutboxState) if row.id == row_id)


def test_replies_of_a_thread_go_out_one_after_the_other(store: SqlStore) -> None:
    parent, reply, note = enqueue(store, OutboxKind.PARENT, OutboxKind.EVIDENCE, OutboxKind.NOTE)
    [other] = enqueue(store, OutboxKind.EVIDENCE, incident="INC-0002")
    assert due(store) == [parent, other]
    with store.write() as tx:
        tx.outbox_marked(parent)
    assert due(store) == [parent, other]
    assert row_of(store, parent).state is OutboxState.MARKED
    assert row_of(store, parent).attempts == 1
    with store.write() as tx:
        tx.outbox_done(parent, external_id="17.1")
        tx.outbox_undeliverable(other, error="channel archived")
    assert due(store) == [reply]
    with store.write() as tx:
        tx.outbox_undeliverable(reply, error="msg_too_long")
    assert due(store) == [note]
    assert (row_of(store, parent).external_id, row_of(store, reply).error) == ("17.1", "msg_too_long")


def test_a_reply_to_be_tried_later_holds_its_thread_and_no_other(store: SqlStore) -> None:
    first, second = enqueue(store, OutboxKind.EVIDENCE, OutboxKind.FILE)
    [other] = enqueue(store, OutboxKind.EVIDENCE, incident="INC-0002")
    with store.write() as tx:
        tx.outbox_retry(first, not_before=LATER, error="ratelimited")
    assert due(store) == [other]
    assert due(store, LATER) == [first, other]
    assert second not in due(store, LATER)
    assert row_of(store, first).error == "ratelimited"


def test_what_belongs_to_no_thread_waits_for_nobody(store: SqlStore) -> None:
    waiting, private = enqueue(store, OutboxKind.EVIDENCE, OutboxKind.EPHEMERAL)
    [direct] = enqueue(store, OutboxKind.DIRECT, incident=None)
    [loose] = enqueue(store, OutboxKind.NOTE, incident=None)
    assert due(store) == [waiting, private, direct, loose]


def test_jobs_have_a_lane_of_their_own(store: SqlStore) -> None:
    reply, job, fetch = enqueue(store, OutboxKind.EVIDENCE, OutboxKind.JOB, OutboxKind.FETCH)
    assert due(store) == [reply]
    with store.read() as reading:
        assert [row.id for row in reading.due_jobs(now=AT)] == [job]
        fetches = reading.outbox(states=[OutboxState.WAITING], kinds=[OutboxKind.FETCH])
        assert [row.id for row in fetches] == [fetch]
        assert len(reading.outbox(states=OutboxState)) == 3
        assert len(reading.outbox(states=OutboxState, limit=2)) == 2
        assert reading.outbox(states=[OutboxState.DONE]) == []


def test_a_row_may_wait_for_its_time(store: SqlStore) -> None:
    with store.write() as tx:
        tx.enqueue(OutboxKind.DIRECT, {}, incident=None, at=AT, not_before=LATER)
        assert tx.next_due_at() == LATER
    assert due(store) == []
    assert len(due(store, LATER)) == 1


def test_nothing_is_due_when_nothing_is_open(store: SqlStore) -> None:
    [row] = enqueue(store, OutboxKind.DIRECT)
    with store.write() as tx:
        tx.outbox_done(row)
        assert tx.next_due_at() is None


def test_a_row_is_changed_by_name(store: SqlStore) -> None:
    [row] = enqueue(store, OutboxKind.NOTE)
    with store.write() as tx:
        tx.update_outbox(row, payload={"text": "再见"}, state=OutboxState.DONE, external_id="F1")
    changed = row_of(store, row)
    assert (changed.payload, changed.state, changed.external_id) == ({"text": "再见"}, OutboxState.DONE, "F1")
    with pytest.raises(StoreConflict, match="no outbox row"), store.write() as tx:
        tx.update_outbox(row + 99, error="x")


def test_rows_that_were_sent_are_forgotten_in_time(store: SqlStore) -> None:
    done, waiting = enqueue(store, OutboxKind.DIRECT, OutboxKind.DIRECT)
    with store.write() as tx:
        tx.outbox_done(done)
        assert tx.forget_sent(before=AT) == 0
        assert tx.forget_sent(before=LATER) == 1
    assert due(store) == [waiting]


def test_an_evidence_entry_queues_its_reply_unless_told_not_to(store: SqlStore) -> None:
    incident = opened(store)
    with store.write() as tx:
        tx.append(incident.id, answer("x"), actor="bot", at=AT)
        tx.append(incident.id, DecisionApproved(proposal=1), actor="bot", at=AT, post=False)
    with store.read() as reading:
        rows = reading.outbox(states=OutboxState)
    assert [(row.kind, row.payload) for row in rows] == [(OutboxKind.PARENT, {}), (OutboxKind.EVIDENCE, {"seq": 2})]


# dashboards, the right to send, small memories


def test_dashboards_are_wanted_oldest_wish_first(store: SqlStore) -> None:
    first, second = opened(store), opened(store)
    assert store.dashboards() == []
    for incident in (second, first, second):
        with store.write() as tx:
            tx.want_dashboard(incident.id)
    assert store.dashboards() == [(second.id, 2), (first.id, 1)]
    assert store.dashboards(limit=1) == [(second.id, 2)]
    store.dashboard_posted(second.id, 1)
    assert (second.id, 2) in store.dashboards()
    store.dashboard_posted(second.id, 2)
    store.dashboard_posted(second.id, 1)
    assert store.dashboards() == [(first.id, 1)]
    with store.write() as tx:
        tx.append(second.id, answer("x"), actor="bot", at=AT)
    assert store.dashboards() == [(first.id, 1), (second.id, 3)]


def test_one_process_sends_at_a_time(store: SqlStore) -> None:
    assert store.sender_lease("slack", "a", now=AT, ttl_s=30)
    assert store.sender_lease("slack", "a", now=AT + timedelta(seconds=10), ttl_s=30)
    assert not store.sender_lease("slack", "b", now=AT + timedelta(seconds=39), ttl_s=30)
    assert store.sender_lease("jobs", "b", now=AT, ttl_s=30)
    assert store.sender_lease("slack", "b", now=AT + timedelta(seconds=40), ttl_s=30)
    assert not store.sender_lease("slack", "a", now=AT + timedelta(seconds=41), ttl_s=30)
    store.end_sender_lease("slack", "a", now=AT)
    assert not store.sender_lease("slack", "a", now=AT + timedelta(seconds=41), ttl_s=30)
    store.end_sender_lease("slack", "b", now=AT + timedelta(seconds=41))
    assert store.sender_lease("slack", "a", now=AT + timedelta(seconds=41), ttl_s=30)


def test_a_delivery_is_new_once(store: SqlStore) -> None:
    with store.write() as tx:
        assert tx.first_time("Ev1", at=AT)
        assert not tx.first_time("Ev1", at=LATER)
        assert tx.first_time("Ev2", at=LATER)
    with store.write() as tx:
        assert not tx.first_time("Ev1", at=LATER)
        assert tx.forget_deliveries(before=LATER) == 1
        assert tx.first_time("Ev1", at=LATER)


def meta(**changes: Any) -> ArtifactMeta:
    values = {"sha256": "a" * 64, "name": "engine.log", "size_bytes": 7, "media_type": "text/plain"}
    return ArtifactMeta(**{**values, "incident": "INC-0001", "stored": False, "redactions": 2, **changes})


def test_a_file_that_is_stored_stays_stored(store: SqlStore) -> None:
    with store.write() as tx:
        tx.note_artifact(meta())
        assert tx.artifact("a" * 64) == meta()
        tx.artifact_stored("a" * 64)
        tx.note_artifact(meta(stored=False, incident="INC-0002"))
        tx.note_artifact(meta(sha256="b" * 64))
        tx.note_artifact(meta(sha256="b" * 64, stored=True))
    with store.read() as reading:
        assert reading.artifact("a" * 64) == meta(stored=True)
        assert reading.artifact("b" * 64) == meta(sha256="b" * 64, stored=True)
        assert reading.artifact("c" * 64) is None
        assert [m.sha256[0] for m in reading.artifacts("INC-0001")] == ["a", "b"]


def test_settings_and_places_are_remembered(store: SqlStore) -> None:
    incident = opened(store)
    with store.write() as tx:
        tx.set_preference("U1", "language", "en")
        tx.set_preference("U1", "language", "zh-Hans")
        tx.set_message_ts(incident.id, "progress", "1.0")
        tx.set_message_ts(incident.id, "progress", "2.0")
    with store.read() as reading:
        assert reading.preference("U1", "language") == "zh-Hans"
        assert reading.preference("U2", "language") is None
        assert reading.message_ts(incident.id, "progress") == "2.0"
        assert reading.message_ts(incident.id, "other") is None
