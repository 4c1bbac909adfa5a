"""How soon the bot answers Slack: signed requests at a fixed rate against the real process, beside a bare route in the same run.

Run: python benchmarks/ack.py [--rate N] [--seconds N] [--incidents N] [--without broker|slack]

- The bot is `baseline bot` over HTTP in a process of its own, on SQLite and loopback; Slack is a small Web API of the tests.
- Half of the requests are `/baseline status`, half are submitted answers, each of which becomes an entry of a ledger.
- Requests leave when they are due, whatever became of those before; latency counts from that moment, so a queue shows.
- The peer is a FastAPI route that checks the same signature and answers, in the same run at the same rate.
- At the end every answer that was taken must stand in a ledger once.

Bar: p99 at most 100 ms at 200 requests/s, also with the broker or Slack away.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import hmac
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any
from urllib.parse import urlencode

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bot.adapters.store import SqlStore
from bot.adapters.store.engines import open_engines
from bot.sandbox.broker import find_server
from bot.sandbox.keeping import free_port
from playbooks.evidence.entries import AnswerRecorded
from tests.support.fake_slack import fake_slack

ROOT = Path(__file__).resolve().parents[1]
SECRET, TEAM, CHANNEL, USER = "bench-secret", "T0HOME", "C0ONCALL", "U0RESPOND"
ITEM = "cluster-owner"
_FORM = "application/x-www-form-urlencoded"
_SLACK_LIMIT_S = 3.0
_PEER = """
import hashlib, hmac, os, sys
import uvicorn
from fastapi import FastAPI, Request, Response
app = FastAPI()
@app.post("/slack/events")
async def events(request: Request) -> Response:
    body = await request.body()
    base = f"v0:{request.headers['x-slack-request-timestamp']}:".encode() + body
    signed = "v0=" + hmac.new(os.environ["SECRET"].encode(), base, hashlib.sha256).hexdigest()
    return Response(status_code=200 if hmac.compare_digest(signed, request.headers["x-slack-signature"]) else 401)
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
"""


@dataclass(frozen=True, slots=True)
class Sent:
    """One request: kind, whether it was taken, and seconds from the moment it was due to its answer."""

    kind: str
    taken: bool
    took_s: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rate", type=int, default=200, help="requests a second")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--incidents", type=int, default=20, help="cases the answers go to, in turn")
    parser.add_argument("--without", choices=("broker", "slack"), help="what is away")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="baseline-bench-", dir=Path.cwd()) as name:
        folder = Path(name)
        with _peer() as url:
            bare = asyncio.run(_load(url, [""], options.rate, min(options.seconds, 10)))
            _say("bare route", bare)
        with _bot(folder, without=options.without) as url:
            cases = asyncio.run(_open_cases(url, folder, options.incidents))
            sent = asyncio.run(_load(url, cases, options.rate, options.seconds))
            own = _say(f"bot{f' without {options.without}' if options.without else ''}", sent)
        taken = sum(one.taken for one in sent if one.kind == "answer")
        twice, recorded = _recorded(folder, cases)
        print(f"answers taken {taken}, in the ledgers {recorded}, twice {twice}; os load {os.getloadavg()[0]:.1f}")
    return 0 if own <= 0.1 and taken == recorded and not twice else 1


def _say(name: str, sent: list[Sent]) -> float:
    """Print the spread and return the 99th percentile in seconds."""
    cuts = quantiles([one.took_s for one in sent], n=100)
    late = sum(one.took_s > _SLACK_LIMIT_S for one in sent)
    print(
        f"{name:22} {len(sent)} requests, taken {sum(one.taken for one in sent)}: p50 {cuts[49] * 1e3:.1f} ms, p95 {cuts[94] * 1e3:.1f} ms, "
        f"p99 {cuts[98] * 1e3:.1f} ms (bar 100 ms), longest {max(one.took_s for one in sent) * 1e3:.0f} ms, over 3 s {late}",
        flush=True,
    )
    return cuts[98]


# ---------------------------------------------------------------- the two servers


@contextmanager
def _peer() -> Iterator[str]:
    port = free_port()
    with _process([sys.executable, "-c", _PEER, str(port)], {"SECRET": SECRET}, f"http://127.0.0.1:{port}/none") as _:
        yield f"http://127.0.0.1:{port}/slack/events"


@contextmanager
def _bot(folder: Path, *, without: str | None) -> Iterator[str]:
    port, broker = free_port(), free_port()
    settings = {
        "BASELINE_DATA_DIR": str(folder / "data"),
        "BASELINE_BROKER_URL": f"redis://127.0.0.1:{broker}/0",
        "BASELINE_SLACK_MODE": "http",
        "BASELINE_SLACK_BOT_TOKEN": "xoxb-bench",
        "BASELINE_SLACK_SIGNING_SECRET": SECRET,
        "BASELINE_RESPONDERS": USER,
        "BASELINE_PORT": str(port),
    }
    with fake_slack() as slack:
        away = f"http://127.0.0.1:{free_port()}/"
        settings["BASELINE_SLACK_API_URL"] = (away if without == "slack" else slack.url) + "api/"
        server = [str(find_server()), "--bind", "127.0.0.1", "--port", str(broker), "--save", "", "--dir", str(folder)]
        with _process(server, {}, None, started=without != "broker"):
            command = [sys.executable, "-c", "from playbooks.cli import main; main()", "bot", "--log-json"]
            with _process(command, settings, f"http://127.0.0.1:{port}/healthz"):
                yield f"http://127.0.0.1:{port}/slack/events"


@contextmanager
def _process(command: list[str], settings: dict[str, str], url: str | None, *, started: bool = True) -> Iterator[None]:
    """Run a program until the block ends; with a URL, wait until something answers there."""
    if not started:
        yield
        return
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, **settings}, **quiet) as child:
        try:
            _answers(url, child)
            yield
        finally:
            child.terminate()
            child.wait(timeout=30)


def _answers(url: str | None, child: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    while url is not None:
        try:
            httpx.get(url, timeout=1)
        except httpx.HTTPError:
            if child.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return


# ---------------------------------------------------------------- the load


async def _open_cases(url: str, folder: Path, count: int) -> list[str]:
    async with httpx.AsyncClient(timeout=10) as client:
        for number in range(count):
            fields = {"title": f"bench {number}", "what_fails": "the launch", "channel": CHANNEL}
            answer = await _submit(client, url, "open_incident", CHANNEL, fields, view=f"VOPEN{number}")
            answer.raise_for_status()
    with _store(folder).read() as reading:
        cases = [incident.case.incident for incident in reading.incidents()]
    assert len(cases) == count, f"expected {count} cases, found {len(cases)}"
    return cases


async def _load(url: str, cases: list[str], rate: int, seconds: int) -> list[Sent]:
    """Send at the rate for so long, and return what became of each request."""
    limits = httpx.Limits(max_connections=400, max_keepalive_connections=400)
    async with httpx.AsyncClient(timeout=10, limits=limits) as client:
        started = time.perf_counter()
        tasks = []
        for number in range(rate * seconds):
            due = started + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.append(asyncio.create_task(_one(client, url, number, cases[number // 2 % len(cases)], due)))
        return await asyncio.gather(*tasks)


async def _one(client: httpx.AsyncClient, url: str, number: int, case: str, due: float) -> Sent:
    kind = "status" if number % 2 else "answer"
    try:
        if kind == "status":
            fields = {"command": "/baseline", "text": "status", "user_id": USER, "channel_id": CHANNEL, "team_id": TEAM}
            answer = await _post(client, url, urlencode({**fields, "trigger_id": f"t{number}", "response_url": ""}))
            taken = answer.status_code == 200
        else:
            said = {"value": f"answer {number}"}
            answer = await _submit(client, url, "answer", f"{case}:{ITEM}", said, view=f"V{number}")
            taken = answer.status_code == 200 and not answer.content.strip()
    except httpx.HTTPError:
        taken = False
    return Sent(kind, taken, time.perf_counter() - due)


async def _submit(
    client: httpx.AsyncClient, url: str, callback: str, metadata: str, fields: dict[str, str], *, view: str
) -> httpx.Response:
    values = {block: {"value": {"type": "plain_text_input", "value": value}} for block, value in fields.items()}
    form = {"id": view, "type": "modal", "hash": "h", "callback_id": callback, "private_metadata": metadata}
    payload = {
        "type": "view_submission",
        "user": {"id": USER, "team_id": TEAM},
        "team": {"id": TEAM},
        "trigger_id": "t",
        "view": {**form, "state": {"values": values}},
    }
    return await _post(client, url, urlencode({"payload": json.dumps(payload)}))


async def _post(client: httpx.AsyncClient, url: str, body: str) -> httpx.Response:
    stamp = str(int(time.time()))
    signed = hmac.new(SECRET.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()
    headers = {"content-type": _FORM, "x-slack-request-timestamp": stamp, "x-slack-signature": f"v0={signed}"}
    return await client.post(url, content=body, headers=headers)


# ---------------------------------------------------------------- what the ledgers hold


def _store(folder: Path) -> SqlStore:
    return SqlStore(open_engines(f"sqlite:///{folder / 'data' / 'baseline.db'}"))


def _recorded(folder: Path, cases: list[str]) -> tuple[int, int]:
    """Return how many answers stand twice, and how many stand there."""
    found: Counter[str] = Counter()
    with _store(folder).read() as reading:
        for case in cases:
            found.update(entry.payload["value"] for entry in reading.entries(case) if entry.kind == AnswerRecorded.KIND)
    return sum(count > 1 for count in found.values()), sum(found.values())


if __name__ == "__main__":
    sys.exit(main())
