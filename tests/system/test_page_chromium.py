"""The page in a real browser: wide and at phone width, by pointer, by keyboard, and as a screen reader names things."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright
from slack_bolt.adapter.fastapi.async_handler import AsyncSlackRequestHandler
from starlette.responses import Response

from bot.sandbox.keeping import free_port
from tests.chat.test_standin_bolt import bolt_app
from tests.support.block_kit import actions, button, modal, option, plain, section, text_input
from tests.support.workspace import Running, served, standin

pytestmark = [pytest.mark.services, pytest.mark.timeout(180)]
CHANNEL, OLGA, ANA = "C01INCIDENTS", "U01OLGA", "U02ANA"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
expect.set_options(timeout=20_000)  # as long as a busy machine may take
WIDE, PHONE = {"width": 1360, "height": 860}, {"width": 390, "height": 800}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert program, "expected Chromium on PATH: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with standin(tmp_path) as made:
        api = FastAPI()
        handler = AsyncSlackRequestHandler(bolt_app(made))

        @api.post("/slack/events")
        async def events(request: Request) -> Response:
            return await handler.handle(request)

        with served(api, free_port()) as url:
            made.bot_url = url
            yield made


@pytest.fixture(params=[WIDE, PHONE], ids=["wide", "phone"])
def page(request: pytest.FixtureRequest, chromium: Browser, running: Running) -> Iterator[Page]:
    context = chromium.new_context(viewport=request.param)
    made = context.new_page()
    wrong: list[str] = []
    made.on("pageerror", lambda error: wrong.append(str(error)))
    made.on(
        "console",
        lambda message: wrong.append(message.text) if message.type == "error" and "409" not in message.text else None,
    )
    made.goto(running.url)
    expect(made.get_by_role("heading", name="# gpu-incidents")).to_be_visible()
    yield made
    sideways = made.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    context.close()
    assert wrong == []
    assert sideways == 0, "expected nothing to stick out sideways"


def call(running: Running, method: str, **args: Any) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {running.credentials.bot_token}"}
    answer = running.ws.http.post(f"/api/{method}", json=args, headers=headers).json()
    assert answer["ok"], answer
    return dict(answer)


def to_rail(page: Page) -> None:
    if page.get_by_role("button", name="Show channels").is_visible():
        page.get_by_role("button", name="Show channels").click()


def test_a_case_is_opened_by_command_and_modal(page: Page) -> None:
    field = page.get_by_role("textbox", name="Message")
    field.fill("/baseline open")
    field.press("Enter")
    form = page.get_by_role("dialog", name="T")
    form.get_by_label("L", exact=True).fill("K3 does not start")
    form.get_by_role("button", name="Go").click()
    expect(form).to_be_hidden()
    expect(page.get_by_role("log", name="Messages").get_by_role("button", name="Go")).to_be_visible()


def test_a_required_field_says_so_at_the_field(page: Page) -> None:
    page.get_by_role("textbox", name="Message").fill("/baseline open")
    page.keyboard.press("Enter")
    form = page.get_by_role("dialog", name="T")
    form.get_by_role("button", name="Go").click()
    expect(form.get_by_role("alert").filter(has_text="required field")).to_be_visible()
    expect(form.get_by_label("L", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    expect(form).to_be_hidden()


def test_a_long_paste_becomes_a_file(page: Page) -> None:
    page.get_by_role("textbox", name="Message").focus()
    page.evaluate(
        """() => { const data = new DataTransfer(); data.setData("text/plain", "line\\n".repeat(700));
        document.getElementById("composer-text").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true })); }"""
    )
    expect(page.get_by_text("pasted.log · 3 KB")).to_be_visible()
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_role("link", name="View pasted.log")).to_be_visible()


def test_a_file_is_dropped_onto_the_channel(page: Page) -> None:
    page.evaluate(
        """() => { const data = new DataTransfer(); data.items.add(new File(["ERROR x"], "engine.log"));
        document.getElementById("main").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true })); }"""
    )
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_role("link", name="View engine.log")).to_be_visible()


def test_a_recorded_log_is_one_click_away(page: Page) -> None:
    to_rail(page)
    page.get_by_role("button", name="Drop a recorded log", exact=False).first.click()
    page.get_by_role("button", name="Drop into #gpu-incidents: Model path not found - attempt 1").click()
    to_main = page.get_by_role("button", name="# gpu-incidents")
    if to_main.is_visible():
        to_main.click()
    expect(page.get_by_role("link", name="View bad-model-path-r1.log").first).to_be_visible()


def test_a_thread_is_opened_answered_and_left_by_keyboard(page: Page, running: Running) -> None:
    parent = call(running, "chat.postMessage", channel=CHANNEL, text="INC-0001")
    call(running, "chat.postMessage", channel=CHANNEL, text="evidence", thread_ts=parent["ts"])
    link = page.get_by_role("button", name="1 reply")
    link.focus()
    page.keyboard.press("Enter")
    reply = page.get_by_role("textbox", name="Reply")
    reply.fill("thanks")
    reply.press("Enter")
    expect(page.get_by_role("log", name="Replies").get_by_text("thanks")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("log", name="Replies")).to_be_hidden()
    expect(page.get_by_role("button", name="2 replies")).to_be_visible()


def test_an_edit_does_not_take_the_focus_away(page: Page, running: Running) -> None:
    blocks = [actions(button(1), button(2, text=plain("Second")))]
    posted = call(running, "chat.postMessage", channel=CHANNEL, text="x", blocks=blocks)
    page.get_by_role("button", name="Second").focus()
    call(running, "chat.update", channel=CHANNEL, ts=posted["ts"], text="y", blocks=[section("edited"), *blocks])
    expect(page.get_by_text("edited", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Second")).to_be_focused()


def test_what_is_posted_between_loading_and_listening_is_shown(page: Page, running: Running) -> None:
    def posted_meanwhile(route: Route) -> None:
        call(running, "chat.postMessage", channel=CHANNEL, text="posted meanwhile")
        route.continue_()

    page.route("**/page/stream*", posted_meanwhile, times=1)
    page.reload()
    expect(page.get_by_text("posted meanwhile", exact=True)).to_be_visible()


def test_a_menu_works_by_keyboard(page: Page, running: Running) -> None:
    menu = {"type": "overflow", "action_id": "more", "options": [option(1), option(2)]}
    call(running, "chat.postMessage", channel=CHANNEL, text="x", blocks=[actions(menu)])
    opener = page.get_by_role("button", name="More actions", exact=True)
    opener.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem", name="o1")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("menuitem", name="o2")).to_be_focused()
    page.keyboard.press("Escape")
    expect(opener).to_be_focused()
    expect(page.get_by_role("menuitem", name="o2")).to_be_hidden()


def test_a_confirmation_is_asked_for(page: Page, running: Running) -> None:
    ask = {
        "title": plain("Sure?"),
        "text": plain("It stops the job."),
        "confirm": plain("Stop it"),
        "deny": plain("Keep it"),
    }
    call(running, "chat.postMessage", channel=CHANNEL, text="x", blocks=[actions(button(9, confirm=ask))])
    page.get_by_role("log", name="Messages").get_by_role("button", name="Go").click()
    box = page.get_by_role("dialog", name="Sure?")
    expect(box).to_contain_text("It stops the job.")
    box.get_by_role("button", name="Keep it").click()
    expect(box).to_be_hidden()


def test_every_kind_of_field_can_be_filled_in(page: Page, running: Running) -> None:
    fields = [
        text_input(multiline=True, max_length=20),
        {
            "type": "input",
            "label": plain("Pick"),
            "element": {"type": "static_select", "action_id": "s", "options": [option(1), option(2)]},
        },
        {
            "type": "input",
            "label": plain("One of"),
            "element": {"type": "radio_buttons", "action_id": "r", "options": [option(3), option(4)]},
        },
        {
            "type": "input",
            "label": plain("Some of"),
            "element": {"type": "checkboxes", "action_id": "c", "options": [option(5), option(6)]},
        },
        {
            "type": "input",
            "label": plain("Who"),
            "element": {"type": "users_select", "action_id": "u"},
            "hint": plain("A second person"),
        },
        {
            "type": "input",
            "label": plain("File"),
            "optional": True,
            "element": {"type": "file_input", "action_id": "f"},
        },
    ]
    trigger = running.standin.ws.tickets.trigger(OLGA)
    call(running, "views.open", trigger_id=trigger, view=modal(*fields))
    form = page.get_by_role("dialog", name="T")
    form.get_by_label("L", exact=True).fill("x" * 21)
    expect(form.get_by_text("21 of 20 characters")).to_be_visible()
    form.get_by_label("L", exact=True).fill("short")
    form.get_by_label("Pick").select_option("o2")
    form.get_by_role("radio", name="o3").check()
    form.get_by_role("checkbox", name="o5").check()
    form.get_by_role("checkbox", name="o6").check()
    form.get_by_label("Who").select_option("Ana Costa")
    form.get_by_label("File").set_input_files({"name": "a.log", "mimeType": "text/plain", "buffer": b"x"})
    expect(form.get_by_text("1 file(s) ready")).to_be_visible()
    form.get_by_role("button", name="Go").click()
    expect(
        form.get_by_role("alert").filter(has_text="trouble connecting")
    ).to_be_visible()  # the small app knows no such form
    state = next(iter(running.standin.ws.views.values()))["state"]["values"]
    values = {action: value for block in state.values() for action, value in block.items()}
    assert values["t"]["value"] == "short"
    assert values["s"]["selected_option"]["value"] == "v2"
    assert values["r"]["selected_option"]["value"] == "v3"
    assert [one["value"] for one in values["c"]["selected_options"]] == ["v5", "v6"]
    assert values["u"]["selected_user"] == ANA
    assert values["f"]["files"][0]["name"] == "a.log"


def test_an_ephemeral_message_is_marked_and_another_person_does_not_see_it(page: Page, running: Running) -> None:
    call(running, "chat.postEphemeral", channel=CHANNEL, user=OLGA, text="for your eyes")
    expect(page.get_by_text("Only visible to you")).to_be_visible()
    to_rail(page)
    page.get_by_label("Act as").select_option(ANA)
    expect(page.get_by_text("for your eyes")).to_have_count(0)


def test_the_home_tab_is_shown(page: Page, running: Running) -> None:
    call(running, "views.publish", user_id=OLGA, view={"type": "home", "blocks": [section("My open cases")]})
    to_rail(page)
    page.get_by_role("button", name="Baseline", exact=True).click()
    page.get_by_role("tab", name="Home").click()
    expect(page.get_by_role("tabpanel", name="Home")).to_contain_text("My open cases")


def test_faults_are_switched_on_and_named(page: Page, running: Running) -> None:
    to_rail(page)
    page.get_by_role("button", name="Faults").click()
    page.get_by_role("checkbox", name="Rate limited").check()
    page.keyboard.press("Escape")
    running.ws.until(lambda: running.ws.state()["faults"]["rate_limited"], "the fault")
    if page.get_by_role("button", name="# gpu-incidents").is_visible():
        page.get_by_role("button", name="# gpu-incidents").click()
    expect(page.get_by_text("Faults on: rate limited")).to_be_visible()


def test_log_text_runs_nothing_and_chinese_is_shown(page: Page, running: Running) -> None:
    text = "&lt;img src=x onerror=alert(1)&gt; *首个失败阶段* `设备识别` <!channel>"
    call(running, "chat.postMessage", channel=CHANNEL, text=text)
    log = page.get_by_role("log", name="Messages")
    expect(log.get_by_text("<img src=x onerror=alert(1)>")).to_be_visible()
    expect(log.locator("strong", has_text="首个失败阶段")).to_be_visible()
    assert log.locator("img[src=x]").count() == 0


def test_every_control_has_a_name(page: Page, running: Running) -> None:
    call(running, "chat.postMessage", channel=CHANNEL, text="x", blocks=[section("y"), actions(button(1))])
    expect(page.get_by_role("button", name="Go")).to_be_visible()
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button,a[href],input:not([hidden]),select,textarea,img")].filter((node) =>
        !(node.getAttribute("aria-label") || node.getAttribute("alt") !== null && node.tagName === "IMG" || node.textContent.trim() ||
        node.labels?.length || node.title)).map((node) => node.outerHTML)"""
    )
    assert nameless == []
