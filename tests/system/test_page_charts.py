"""Charts on the page in a real browser: from a node's reports through the sender and the stand-in to the reader's eye."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from bot.adapters.charts import PillowCharts
from bot.adapters.charts.sheet import TEXT, WIDTH
from bot.adapters.slack_calls import SlackCalls, web_client
from bot.adapters.slack_files import SlackFiles
from bot.adapters.slack_pace import Pace
from bot.adapters.slack_sender import SlackSender
from bot.flows.record_report import record_report
from playbooks.judging.ladder_facts import Question
from playbooks.messages import CacheProbeParams, LadderParams, StageSpan
from playbooks.vocabulary import JobKind, Outcome, Stage
from tests.chat.test_reports import claimed, failed, report_of, run_attempt
from tests.core.test_ladder import climbed_to
from tests.core.test_prefix_cache import HIT, facts, shots
from tests.support.bot_services import TestBot, make_bot, open_case
from tests.support.charts import samples
from tests.support.workspace import Running, standin
from tests.system.test_page_chromium import CHANNEL, FLAGS, PHONE, WIDE

pytestmark = [pytest.mark.services, pytest.mark.timeout(180)]
ALTS = ("Stages of the attempts, up to attempt 2. 1 failed", "GPU memory of", "Prefix cache of", "Pressure ladder of")
expect.set_options(timeout=20_000)  # as long as a busy machine may take


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with standin(tmp_path_factory.mktemp("slack")) as made:
        record_some(made, make_bot(tmp_path_factory.mktemp("bot"), charts=PillowCharts()))
        yield made


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert program, "expected Chromium on PATH: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


def record_some(running: Running, bot: TestBot) -> None:
    """Record two attempts, a probe and a ladder, and let everything be sent."""
    mine = bot.services.definitions.signatures().digest
    incident = open_case(bot, channel=CHANNEL)
    spans = [StageSpan(stage=Stage.CONTAINER_INIT, started_ms=0, ended_ms=1200)]
    spans += [StageSpan(stage=Stage.DEVICE_RECOGNITION, started_ms=1200, ended_ms=4000)]
    late = [StageSpan(stage=Stage.WEIGHT_LOADING, started_ms=4000, ended_ms=9000)]
    late += [StageSpan(stage=Stage.ENGINE_INIT, started_ms=9000)]
    run_attempt(bot, incident, 1, failed(mine, stages=tuple(spans)), mine)
    again = failed(mine, outcome=Outcome.FAILED, stages=(*spans, *late), memory_samples=samples(11, begins_at_s=8))
    run_attempt(bot, incident, 2, again, mine)
    params = CacheProbeParams(target_attempt=2).model_dump(mode="json")
    probe = facts(shots(HIT), shots(HIT, number=2, start=9000))
    record_report(bot.services, report_of(bot, claimed(bot, incident, JobKind.CACHE_PROBE, params=params), probe))
    params = LadderParams(target_attempt=2).model_dump(mode="json")
    ladder = climbed_to(Question.CONCURRENCY, "timed out")
    record_report(bot.services, report_of(bot, claimed(bot, incident, JobKind.LADDER, params=params), ladder))
    seconds = [0.0]
    calls = SlackCalls(web_client(running.credentials.bot_token, running.api_url), Pace(lambda: seconds[0]))
    files = SlackFiles(calls, token=running.credentials.bot_token, hosts=frozenset({running.url.split("/")[2]}))
    sender = SlackSender(bot.services, calls, files, monotonic=lambda: seconds[0])

    def all_shown() -> bool:
        sender.send_due()
        seconds[0] += 5.0
        bot.clock.forward(seconds=5)
        shown = [f for m in running.ws.replies(running.ws.messages()[0]["ts"]) for f in m.get("files") or ()]
        return len([file for file in shown if file["mimetype"] == "image/png"]) == len(ALTS) + 1

    running.ws.until(all_shown, "the charts in the thread", 60)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_charts_are_shown_as_pictures_with_their_figures_as_alt_text(
    chromium: Browser, running: Running, viewport: dict[str, int], scheme: str
) -> None:
    context = chromium.new_context(viewport=viewport, color_scheme=scheme)
    page = context.new_page()
    page.goto(running.url)
    page.get_by_role("button", name=re.compile("[0-9]+ replies")).first.click()
    for alt in ALTS:
        picture = page.get_by_role("img", name=re.compile(f"^{re.escape(alt)}"))
        picture.scroll_into_view_if_needed()
        expect(picture).to_be_visible()
        expect(picture).to_have_js_property("complete", True)
        assert picture.evaluate("node => node.naturalWidth") == WIDTH
        shown = picture.evaluate("node => node.clientWidth")
        assert shown <= viewport["width"]
        assert shown * TEXT / WIDTH >= 10, f"expected text of 10 px and more, found {shown * TEXT / WIDTH:.1f}"
    sideways = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    context.close()
    assert sideways == 0, "expected nothing to stick out sideways"
