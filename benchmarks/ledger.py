"""The ledger against its peers in the same run: appends against a bare insert loop, verification in entries per second.

Run: python benchmarks/ledger.py [--entries N] [--rounds N] [--url URL]

- Append: one incident, one transaction per entry (state, entry, outbox row), against a loop that only inserts a row of the
  same size into a bare table with the same settings (WAL, synchronous=FULL, one BEGIN IMMEDIATE … COMMIT each). The two
  alternate; medians of rounds. Bar: at least 0.7.
- Verify: `ledger.jsonl` as in a bundle, read strictly and checked. Bar: at least 50,000 entries a second.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Engine, text

from bot.adapters.store import SqlStore, migrate
from bot.adapters.store.engines import open_engines
from playbooks.evidence import chain
from playbooks.evidence.entries import AnswerRecorded, IncidentOpened

AT = datetime(2026, 12, 1, 2, 41, tzinfo=UTC)
ROW = {
    "incident": "INC-0001", "previous": "0" * 64, "hash": "1" * 64, "kind": "answer:recorded", "actor": "user:U0123456",
    "at": "2026-12-01T02:41:00.000000Z", "payload": '{"item":"first-failure-time","note":"","value":"02:41"}', "artifacts": "[]",
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--entries", type=int, default=300, help="appends per round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--verify", type=int, default=50_000, help="entries of the verified ledger")
    parser.add_argument("--url", help="database to use; default: SQLite in a folder of its own")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="baseline-bench-", dir=Path.cwd()) as folder:
        append_against_insert(options.url or f"sqlite:///{folder}/bench.db", options.entries, options.rounds)
    verify(options.verify)


def append_against_insert(url: str, entries: int, rounds: int) -> None:
    migrate(url)
    engines = open_engines(url)
    store = SqlStore(engines)
    with store.write() as tx:
        payload = IncidentOpened(title="bench", node=None, playbook="kimi-k3", playbook_sha256="0" * 64)
        incident = tx.open_incident(channel="C", owner="U", payload=payload, at=AT, language="en").id
    answer = AnswerRecorded(item="first-failure-time", value="02:41")

    def append() -> None:
        with store.write() as tx:
            tx.append(incident, answer, actor="user:U0123456", at=AT)

    insert = bare_insert(engines.writing)
    rates: dict[str, list[float]] = {"append": [], "insert": []}
    for _ in range(rounds):
        rates["insert"].append(rate(insert, entries))
        rates["append"].append(rate(append, entries))
    ours, bare = (statistics.median(rates[name]) for name in ("append", "insert"))
    print(f"append {ours:8.0f}/s   bare insert {bare:8.0f}/s   ratio {ours / bare:.2f} (bar 0.70)")
    with store.read() as reading:
        count, _ = chain.verify(reading.entries(incident))
    print(f"       chain of {count} entries holds")
    store.close()


def bare_insert(engine: Engine) -> Callable[[], None]:
    """Return the peer: one prepared insert in one transaction, by the same driver, pool and settings."""
    with engine.begin() as connection:
        columns = ", ".join(f"{name} TEXT NOT NULL" for name in ROW)
        connection.execute(text("DROP TABLE IF EXISTS bare"))
        connection.execute(text(f"CREATE TABLE bare (seq BIGINT NOT NULL UNIQUE, {columns})"))
    statement = text(f"INSERT INTO bare VALUES (:seq, {', '.join(f':{name}' for name in ROW)})")
    count = 0

    def insert() -> None:
        nonlocal count
        count += 1
        with engine.begin() as connection:
            connection.execute(statement, {"seq": count, **ROW})

    return insert


def rate(call: Callable[[], None], times: int) -> float:
    started = time.perf_counter()
    for _ in range(times):
        call()
    return times / (time.perf_counter() - started)


def verify(entries: int) -> None:
    data = ledger(entries)
    times = []
    for _ in range(3):
        started = time.perf_counter()
        chain.verify_ledger(data, incident="INC-0001")
        times.append(time.perf_counter() - started)
    print(f"verify {entries / min(times):8.0f} entries/s (bar 50000), {len(data) / min(times) / 1e6:.0f} MB/s")


def ledger(entries: int) -> bytes:
    lines, last = [], chain.GENESIS
    for seq in range(1, entries + 1):
        content = {
            "incident": "INC-0001",
            "seq": seq,
            "previous": last,
            "kind": "answer:recorded",
            "actor": "user:U0123456",
            "at": AT,
            "payload": {"item": "first-failure-time", "note": "", "value": f"02:41 {seq}"},
            "artifacts": (),
        }
        entry = chain.LedgerEntry(hash=chain.entry_hash(**content), **content)
        lines.append(chain.dump_line(entry))
        last = entry.hash
    return b"\n".join([*lines, b""])


if __name__ == "__main__":
    main()
