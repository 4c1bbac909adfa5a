"""Files go up in three steps, appear a moment later, and are read back with the token and the scope only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.standin_bench import CHANNEL, HOST, OLGA, Bench, bench


@pytest.fixture
async def at(tmp_path: Path) -> AsyncIterator[Bench]:
    made = bench(tmp_path)
    made.standin.ws.table.limits["share_after_ms"] = 0
    yield made
    await made.close()


async def uploaded(at: Bench, data: bytes = b"line 1\n", **where: str) -> dict[str, object]:
    asked = await at.api("files.getUploadURLExternal", filename="engine.log", length=len(data), alt_txt="the log")
    sent = await at.http.post(asked["upload_url"].removeprefix(HOST), content=data)
    assert sent.status_code == 200
    answer = await at.api(
        "files.completeUploadExternal", files=[{"id": asked["file_id"], "title": "Engine log"}], **where
    )
    assert answer["ok"], answer
    return answer["files"][0]


async def test_an_upload_is_shared_into_the_thread_after_the_answer(at: Bench) -> None:
    parent = await at.api("chat.postMessage", channel=CHANNEL, text="parent")
    file = await uploaded(at, channel_id=CHANNEL, thread_ts=parent["ts"], initial_comment="full log")
    assert file["shares"] == {}
    await at.settle()
    info = await at.api("files.info", file=str(file["id"]))
    share = info["file"]["shares"]["public"][CHANNEL][0]
    thread = await at.api("conversations.replies", channel=CHANNEL, ts=parent["ts"])
    assert share["thread_ts"] == parent["ts"]
    assert (thread["messages"][1]["ts"], thread["messages"][1]["text"]) == (share["ts"], "full log")
    assert thread["messages"][1]["files"][0]["title"] == "Engine log"


async def test_a_share_may_never_come(at: Bench) -> None:
    await at.page("faults", share="never")
    file = await uploaded(at, channel_id=CHANNEL)
    await at.settle()
    assert (await at.api("files.info", file=str(file["id"])))["file"]["shares"] == {}


async def test_an_upload_url_works_once_and_counts_bytes(at: Bench) -> None:
    asked = await at.api("files.getUploadURLExternal", filename="a.log", length=3)
    path = asked["upload_url"].removeprefix(HOST)
    assert (await at.http.post(path, content=b"four")).status_code == 400
    assert (await at.http.post(path, content=b"abc")).status_code == 404


async def test_a_file_without_bytes_is_not_completed(at: Bench) -> None:
    asked = await at.api("files.getUploadURLExternal", filename="a.log", length=3)
    assert (await at.api("files.completeUploadExternal", files=[{"id": asked["file_id"]}]))["error"] == "file_not_found"


async def test_a_dropped_file_is_read_with_the_token(at: Bench) -> None:
    data = b"(EngineCore pid=1) ERROR \xff\n"
    up = (await at.http.post("/page/upload", params={"user": OLGA, "name": "engine.log"}, content=data)).json()
    await at.page("say", user=OLGA, channel=CHANNEL, text="see", files=[up["data"]["file"]])
    message = (await at.state())["messages"][CHANNEL][-1]
    url = message["files"][0]["url_private_download"].removeprefix(HOST)
    mine = await at.http.get(url, headers={"Authorization": f"Bearer {at.credentials.bot_token}"})
    assert message["subtype"] == "file_share"
    assert mine.content == data


@pytest.mark.parametrize("how", ["no token", "a foreign token", "no scope"])
async def test_who_may_not_read_a_file_is_shown_a_sign_in_page_with_status_200(at: Bench, how: str) -> None:
    done = await at.page("drop", user=OLGA, channel=CHANNEL, sample="healthy")
    assert done["ok"]
    url = (await at.state())["messages"][CHANNEL][-1]["files"][0]["url_private_download"].removeprefix(HOST)
    token = {"no token": None, "a foreign token": "xoxb-not-ours", "no scope": at.credentials.bot_token}[how]
    if how == "no scope":
        await at.page("faults", missing_scope="files:read")
    answer = await at.http.get(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, "text/html")


async def test_a_file_is_shown_to_the_page_as_text_that_runs_nothing(at: Bench) -> None:
    up = (
        await at.http.post("/page/upload", params={"user": OLGA, "name": "x.html"}, content=b"<script>1</script>")
    ).json()
    answer = await at.http.get(f"/page/file/{up['data']['file']}")
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_nobody_sends_another_persons_file(at: Bench) -> None:
    up = (await at.http.post("/page/upload", params={"user": OLGA, "name": "x.log"}, content=b"x")).json()
    done = await at.page("say", user="U02ANA", channel=CHANNEL, files=[up["data"]["file"]])
    assert done["error"] == "file_not_found"


async def test_every_sample_can_be_dropped(at: Bench) -> None:
    samples = (await at.state())["samples"]
    assert len(samples) >= 10
    for sample in samples:
        assert (await at.page("drop", user=OLGA, channel=CHANNEL, sample=sample["id"]))["ok"], sample
        assert (await at.http.get(f"/page/sample/{sample['id']}")).status_code == 200
