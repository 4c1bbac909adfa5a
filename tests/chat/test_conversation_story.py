"""The story in one go: opened by command, two logs dropped, scored, decided, approved by another, exported, closed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.adapters.slack_calls import SlackCalls, web_client
from bot.adapters.slack_fetcher import SlackFetcher
from bot.adapters.slack_files import SlackFiles
from bot.adapters.slack_pace import Pace
from bot.adapters.slack_sender import SlackSender
from playbooks.errors import BrokenBundle
from playbooks.evidence import bundle
from tests.support.bot_services import APPROVER, RESPONDER, TestBot, kinds, make_bot, payloads
from tests.support.fake_slack import FakeSlack, Message, fake_slack
from tests.support.people import CHANNEL, COMMAND, FAILING_LOG, VIEWER, another_run
from tests.support.slack_requests import Door, door

ANSWERS = {
    "failing-request": "none, it never became ready",
    "change-history": "none; failed first at 02:10",
    "cluster-owner": "platform team",
}


class Story:
    """The app, its Slack and its senders; the clock moves with every round."""

    def __init__(self, bot: TestBot, slack: FakeSlack) -> None:
        self.bot, self.slack, self.door, self.seconds = bot, slack, door(bot, slack), 0.0
        calls = SlackCalls(web_client("xoxb-test", f"{slack.url}api/"), Pace(lambda: self.seconds))
        files = SlackFiles(calls, token="xoxb-test", hosts=frozenset({slack.url.split("/")[2]}))
        self.fetcher = SlackFetcher(bot.services, files)
        self.sender = SlackSender(bot.services, calls, files, monotonic=lambda: self.seconds)

    def settle(self) -> None:
        for _round in range(15):
            self.fetcher.send_due()
            self.sender.send_due()
            self.seconds += 5.0
            self.bot.clock.forward(seconds=5)

    @property
    def parent(self) -> Message:
        return next(message for message in self.slack.messages if message.thread_ts is None)

    def buttons(self, message: Message) -> dict[str, str]:
        rows = [block for block in message.blocks if block["type"] == "actions"]
        return {e["action_id"].partition("|")[0]: e.get("value", "") for row in rows for e in row["elements"]}

    async def drop(self, name: str, data: bytes, event_id: str) -> None:
        self.slack.downloads[f"/files/{name}"] = ("text/plain", data)
        file = {
            "id": event_id,
            "name": name,
            "size": len(data),
            "url_private_download": f"{self.slack.url}files/{name}",
        }
        event: dict[str, Any] = {
            "type": "message",
            "subtype": "file_share",
            "channel": CHANNEL,
            "channel_type": "channel",
            "user": RESPONDER,
            "ts": f"{event_id[2:]}.5",
            "thread_ts": self.parent.ts,
            "files": [file],
        }
        for retry in range(3):
            await self.door.event(event, event_id=event_id, retry=retry)
        self.settle()


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    with fake_slack() as slack:
        bot = make_bot(tmp_path, nodes=())
        yield Story(bot, slack)
        bot.store.close()


async def opened(story: Story) -> tuple[Door, str]:
    at = story.door
    await at.command("open")
    await at.submit(
        "open_incident", at.views()[0]["private_metadata"], {"title": "K3 does not start", "command": COMMAND}
    )
    story.settle()
    return at, "INC-0001"


async def test_two_dropped_logs_lead_to_an_approved_decision(story: Story) -> None:
    at, case = await opened(story)
    assert story.parent.text.startswith(f"{case} · K3 does not start")

    for item, value in ANSWERS.items():
        await at.submit("answer", f"{case}:{item}", {"value": value}, view=f"V{item}")
    await story.drop("try-1.log", FAILING_LOG, "Ev101")
    await story.drop("try-2.log", another_run(2), "Ev102")
    assert kinds(story.bot, case).count("attempt:recorded") == 2
    assert payloads(story.bot, case, "score:given")[0]["score"] == 2
    thread = story.slack.thread(story.parent.ts)
    assert any("Recorded attempt 2: " in text for text in thread)
    assert any("Score 2: attempts 1 and 2 end the same way" in text for text in thread)

    await at.press("more", selected_option={"value": f"{case}:propose"})
    story.settle()
    proposal = payloads(story.bot, case, "decision:proposed")[-1]
    assert proposal["kind"] != "hold", proposal
    posted = next(m for m in story.slack.messages if "Proposed:" in m.text)
    approve = story.buttons(posted)["approve"]

    await at.press(f"approve|{approve}", approve)
    await at.press(f"approve|{approve}", approve, user=VIEWER)
    assert "decision:approved" not in kinds(story.bot, case)
    await at.press(f"approve|{approve}", approve, user=APPROVER)
    assert kinds(story.bot, case).count("decision:approved") == 1

    await at.press(f"export|{case}:", f"{case}:")
    await at.submit("close", f"{case}:", {"reason": "the path is repaired"}, view="Vclose")
    story.settle()
    assert kinds(story.bot, case)[-2:] == ["bundle:exported", "incident:closed"]
    assert "*Closed:* the path is repaired" in story.parent.text
    assert [file["name"] for file in story.slack.files.values()] == [
        "try-1.log",
        "try-2.log",
        f"{case}-record-{proposal_end(story, case)}.zip",
    ]
    assert story.bot.services.store.dashboards() == []

    exported = payloads(story.bot, case, "bundle:exported")[0]["sha256"]
    verdict = bundle.verify(story.bot.artifacts.files[exported], key=story.bot.services.signing_key.public)
    assert verdict.problems == ()
    assert verdict.entries == proposal_end(story, case)
    with pytest.raises(BrokenBundle):
        bundle.verify(b"no bundle")


def proposal_end(story: Story, case: str) -> int:
    return int(payloads(story.bot, case, "bundle:exported")[0]["upto"])


async def test_evidence_replies_are_numbered_in_order_and_never_edited(story: Story) -> None:
    _at, _case = await opened(story)
    await story.drop("try-1.log", FAILING_LOG, "Ev101")
    numbered = [m for m in story.slack.messages if m.thread_ts and m.text.startswith("#")]
    numbers = [int(m.text[1:].partition(" ")[0]) for m in numbered]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) == len(numbers)
    assert all(m.edits == 0 for m in numbered)
