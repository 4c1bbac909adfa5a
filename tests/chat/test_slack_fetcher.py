"""Dropped files: read with the token from Slack's hosts only, never along a redirect, and answered where they were dropped."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.adapters import slack_files
from bot.adapters.slack_calls import SlackCalls, web_client
from bot.adapters.slack_fetcher import SlackFetcher
from bot.adapters.slack_files import SlackFiles
from bot.adapters.slack_pace import Pace
from bot.flows.receive_message import Incoming, receive_message
from bot.ports import OutboxKind, OutboxState
from tests.support.bot_services import TestBot, make_bot, open_case, payloads
from tests.support.fake_slack import FakeSlack, fake_slack
from tests.support.people import FAILING_LOG, outbox, responder, said, viewer

zstd = slack_files.zstd

THREAD = "1796092860.000100"


class Rig:
    def __init__(self, bot: TestBot, slack: FakeSlack) -> None:
        self.bot, self.slack = bot, slack
        calls = SlackCalls(web_client("xoxb-test", f"{slack.url}api/"), Pace(lambda: 0.0))
        files = SlackFiles(calls, token="xoxb-test", hosts=frozenset({slack.url.split("/")[2]}))
        self.fetcher = SlackFetcher(bot.services, files)

    def drop(
        self,
        data: bytes | None = FAILING_LOG,
        *,
        kind: str = "text/plain",
        thread: str | None = None,
        who: Any = responder,
        **file: Any,
    ) -> None:
        if data is not None:
            self.slack.downloads["/files/a.log"] = (kind, data)
        found = {
            "id": "F1",
            "name": "a.log",
            "size": 10,
            "mimetype": "text/plain",
            "url_private_download": f"{self.slack.url}files/a.log",
            **file,
        }
        receive_message(
            self.bot.services,
            who("message:C:1"),
            Incoming(ts="1.1", text="", thread_ts=thread, files=(found,), mentioned=True),
        )

    def fetch(self) -> float:
        return self.fetcher.send_due()

    def replies(self) -> str:
        return "".join(said(payload) for payload in outbox(self.bot, OutboxKind.DIRECT))


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with fake_slack() as slack:
        bot = make_bot(tmp_path)
        yield Rig(bot, slack)
        bot.store.close()


def test_a_dropped_log_is_answered_in_its_thread(rig: Rig) -> None:
    rig.drop(who=viewer)
    rig.fetch()
    assert rig.slack.authorizations == ["Bearer xoxb-test"]
    assert outbox(rig.bot, OutboxKind.DIRECT)[0]["thread_ts"] == "1.1"
    assert "open_from_log" in rig.replies()


def test_a_log_dropped_into_a_case_is_a_recorded_attempt(rig: Rig) -> None:
    case = open_case(rig.bot, node=None)
    with rig.bot.services.store.write() as tx:
        tx.set_thread(case, THREAD)
    rig.drop(thread=THREAD)
    rig.fetch()
    assert payloads(rig.bot, case, "attempt:recorded")[0]["log_name"] == "a.log"


def test_a_gzipped_log_is_unpacked(rig: Rig) -> None:
    rig.drop(gzip.compress(FAILING_LOG), kind="application/gzip", name="a.log.gz", mimetype="application/gzip")
    rig.fetch()
    assert "open_from_log" in rig.replies()


def test_a_zstd_log_is_unpacked(rig: Rig) -> None:
    rig.drop(zstd.compress(FAILING_LOG), kind="application/zstd", name="a.log.zst", mimetype="application/zstd")
    rig.fetch()
    assert "open_from_log" in rig.replies()


def test_a_zstd_log_that_grows_too_large_unpacked_is_refused(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slack_files, "MAX_FILE_BYTES", 2000)
    rig.drop(zstd.compress(b"x" * 10_000_000))
    rig.fetch()
    assert "unpacked it is larger" in rig.replies()


@pytest.mark.parametrize(
    ("drop", "expected"),
    [
        pytest.param(
            {"data": b"<html>sign in</html>", "kind": "text/html"}, "files:read", id="HTML instead of the file"
        ),
        pytest.param({"data": None, "kind": "text/plain"}, "HTTP 404", id="gone"),
        pytest.param({"kind": "redirect:http://127.0.0.1:9/steal"}, "redirects elsewhere", id="a redirect"),
        pytest.param({"url_private_download": "http://evil.example/a.log"}, "evil.example", id="a foreign host"),
        pytest.param({"size": 10**12}, "limit is 256 MiB", id="too large"),
        pytest.param({"name": "a.log.xz"}, "drop the log itself", id="packed otherwise"),
        pytest.param({"data": zstd.compress(FAILING_LOG)[:-9]}, "does not unpack", id="cut zstd"),
        pytest.param({"data": b"\x89PNG\r\n\x1a\n" + bytes(200)}, "found a PNG picture", id="a picture"),
        pytest.param({"data": gzip.compress(bytes(257) + b"ustar")}, "found a tar archive", id="a packed archive"),
        pytest.param({"name": "logs.tgz"}, "drop the log itself", id="an archive"),
        pytest.param({"name": "logs.TAR.GZ"}, "drop the log itself", id="an archive by its long name"),
        pytest.param({"data": gzip.compress(FAILING_LOG)[:-9]}, "does not unpack", id="broken gzip"),
    ],
)
def test_what_cannot_be_read_is_said_where_it_was_dropped(rig: Rig, drop: dict[str, Any], expected: str) -> None:
    rig.drop(**drop)
    rig.fetch()
    assert expected in rig.replies()
    assert outbox(rig.bot, OutboxKind.FETCH)
    with rig.bot.services.store.read() as reading:
        assert reading.outbox(states=[OutboxState.WAITING], kinds=[OutboxKind.FETCH]) == []


def test_the_token_is_not_sent_to_a_foreign_host_or_along_a_redirect(rig: Rig) -> None:
    rig.slack.downloads["/second"] = ("text/plain", b"x")
    rig.drop(kind=f"redirect:{rig.slack.url}second")
    rig.fetch()
    assert len(rig.slack.authorizations) == 1


def test_a_log_that_grows_too_large_unpacked_is_refused(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slack_files, "MAX_FILE_BYTES", 2000)
    rig.drop(gzip.compress(b"x" * 100_000))
    rig.fetch()
    assert "unpacked it is larger" in rig.replies()


def test_a_slack_that_does_not_answer_delays_and_loses_nothing(rig: Rig) -> None:
    rig.drop(url_private_download=None)
    rig.slack.files["F1"] = {"shares": {}, "name": "a.log"}
    rig.slack.script["files.info"] = ["internal_error"]
    rig.fetch()
    assert rig.replies() == ""
    with rig.bot.services.store.read() as reading:
        assert reading.outbox(states=[OutboxState.WAITING], kinds=[OutboxKind.FETCH])[0].attempts == 1
    rig.bot.clock.forward(seconds=60)
    rig.fetch()
    assert "no address" in rig.replies()
