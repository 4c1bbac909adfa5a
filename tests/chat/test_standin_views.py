"""Modals and the Home tab: triggers live three seconds and work once; answers to a submission do what Slack does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response

from tests.support.block_kit import modal, plain, section, text_input
from tests.support.standin_bench import ANA, OLGA, Bench, accepts, bench

Json = dict[str, Any]


@pytest.fixture
async def at(tmp_path: Path) -> AsyncIterator[Bench]:
    made = bench(tmp_path)
    yield made
    await made.close()


def named(block_id: str, **more: Any) -> Json:
    return text_input(**more) | {"block_id": block_id}


async def opened(at: Bench, *blocks: Json, **more: Any) -> Json:
    answer = await at.api("views.open", trigger_id=await at.trigger(), view=modal(*blocks, **more))
    assert answer["ok"], answer
    return answer["view"]


async def test_a_trigger_opens_one_modal(at: Bench) -> None:
    trigger = await at.trigger()
    first = await at.api("views.open", trigger_id=trigger, view=modal(section()))
    again = await at.api("views.open", trigger_id=trigger, view=modal(section()))
    assert first["ok"]
    assert again["error"] == "exchanged_trigger_id"
    assert [one["id"] for one in (await at.state(OLGA))["views"]] == [first["view"]["id"]]


async def test_a_trigger_is_dead_after_three_seconds(at: Bench) -> None:
    trigger = await at.trigger()
    at.now[0] += 3.1
    assert (await at.api("views.open", trigger_id=trigger, view=modal(section())))["error"] == "expired_trigger_id"


async def test_an_invented_trigger_opens_nothing(at: Bench) -> None:
    assert (await at.api("views.open", trigger_id="1.2.3", view=modal(section())))["error"] == "invalid_trigger_id"


async def test_a_malformed_view_is_refused_with_pointers(at: Bench) -> None:
    answer = await at.api("views.open", trigger_id=await at.trigger(), view=modal(section("")))
    assert answer["error"] == "invalid_arguments"
    assert answer["response_metadata"]["messages"] == [
        "[ERROR] must be more than 0 characters [json-pointer:/view/blocks/0/text/text]"
    ]


async def test_three_views_are_stacked_at_most(at: Bench) -> None:
    await opened(at, section())
    pushed = [
        (await at.api("views.push", trigger_id=await at.trigger(), view=modal(section())))["ok"] for _ in range(2)
    ]
    last = await at.api("views.push", trigger_id=await at.trigger(), view=modal(section()))
    assert pushed == [True, True]
    assert last["error"] == "push_limit_reached"


async def test_an_update_with_an_old_hash_conflicts(at: Bench) -> None:
    view = await opened(at, section())
    fresh = await at.api("views.update", view_id=view["id"], hash=view["hash"], view=modal(section("new")))
    stale = await at.api("views.update", view_id=view["id"], hash=view["hash"], view=modal(section("newer")))
    assert fresh["ok"]
    assert stale["error"] == "hash_conflict"


async def test_an_external_id_is_used_once(at: Bench) -> None:
    await opened(at, section(), external_id="one")
    answer = await at.api("views.push", trigger_id=await at.trigger(), view=modal(section(), external_id="one"))
    assert answer["error"] == "duplicate_external_id"


async def test_a_required_field_left_empty_is_not_sent(at: Bench) -> None:
    view = await opened(at, named("title"))
    done = await at.page("submit", user=OLGA, view=view["id"], values={})
    assert done["errors"] == {"title": "Please complete this required field."}
    assert at.app.got == []


async def test_a_field_takes_3000_characters(at: Bench) -> None:
    view = await opened(at, named("log", multiline=True))
    done = await at.page("submit", user=OLGA, view=view["id"], values={"log": {"t": "x" * 3001}})
    assert "3000 characters; yours has 3001" in done["errors"]["log"]


async def test_a_submission_carries_state_and_closes_the_modal(at: Bench) -> None:
    view = await opened(at, named("title"), private_metadata="C1")
    done = await at.page("submit", user=OLGA, view=view["id"], values={"title": {"t": "K3 fails"}})
    sent = at.app.got[0]
    assert done["ok"]
    assert sent["type"] == "view_submission"
    assert sent["view"]["state"]["values"] == {"title": {"t": {"type": "plain_text_input", "value": "K3 fails"}}}
    assert sent["view"]["private_metadata"] == "C1"
    assert sent["user"]["id"] == OLGA
    assert (await at.state(OLGA))["views"] == []


async def test_errors_keep_the_modal_open_and_stand_at_their_field(at: Bench) -> None:
    at.app.answer = accepts({"response_action": "errors", "errors": {"title": "Too vague"}})
    view = await opened(at, named("title"))
    done = await at.page("submit", user=OLGA, view=view["id"], values={"title": {"t": "x"}})
    assert (done["ok"], done["errors"]) == (False, {"title": "Too vague"})
    assert len((await at.state(OLGA))["views"]) == 1


async def test_errors_for_a_block_that_is_no_input_are_trouble(at: Bench) -> None:
    at.app.answer = accepts({"response_action": "errors", "errors": {"elsewhere": "?"}})
    view = await opened(at, named("title"))
    done = await at.page("submit", user=OLGA, view=view["id"], values={"title": {"t": "x"}})
    assert "trouble connecting" in done["error"]


@pytest.mark.parametrize(
    ("answer", "titles"),
    [
        pytest.param(
            {"response_action": "update", "view": modal(section(), title=plain("Next"))}, ["Next"], id="update"
        ),
        pytest.param(
            {"response_action": "push", "view": modal(section(), title=plain("Next"))}, ["T", "Next"], id="push"
        ),
        pytest.param({"response_action": "clear"}, [], id="clear"),
        pytest.param({}, [], id="close"),
    ],
)
async def test_what_becomes_of_the_modal(at: Bench, answer: Json, titles: list[str]) -> None:
    at.app.answer = accepts(answer)
    view = await opened(at, section())
    await at.page("submit", user=OLGA, view=view["id"], values={})
    assert [one["title"]["text"] for one in (await at.state(OLGA))["views"]] == titles


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"response_action": "update", "view": modal(section())}, id="update"),
        pytest.param({"response_action": "push", "view": modal(section())}, id="push"),
        pytest.param({"response_action": "errors", "errors": {"title": "?"}}, id="errors"),
    ],
)
async def test_an_answer_to_a_modal_that_closed_meanwhile_is_told_in_words(at: Bench, answer: Json) -> None:
    def close_and_answer(payload: Json) -> Response:
        at.standin.ws.close_views(OLGA)
        return accepts(answer)(payload)

    at.app.answer = close_and_answer
    view = await opened(at, named("title"))
    done = await at.page("submit", user=OLGA, view=view["id"], values={"title": {"t": "x"}})
    assert "not open any more" in done["error"]


async def test_a_form_submitted_three_times_at_once_is_answered_three_times(at: Bench) -> None:
    all_here = asyncio.Barrier(3)

    def together(_payload: Json) -> Any:
        first = len(at.app.got) == 1
        answer = "" if first else {"response_action": "update", "view": modal(section("recorded already"))}

        async def send_it(scope: Any, receive: Any, send: Any) -> None:
            await all_here.wait()
            await accepts(answer)({})(scope, receive, send)

        return send_it

    at.app.answer = together
    view = await opened(at, section())
    done = await asyncio.gather(*(at.page("submit", user=OLGA, view=view["id"], values={}) for _ in range(3)))
    assert [one["ok"] for one in done].count(True) >= 1
    assert all(one["ok"] or "not open any more" in one["error"] for one in done)


async def test_a_closed_modal_is_told_only_when_asked_for(at: Bench) -> None:
    quiet = await opened(at, section())
    await at.page("close", user=OLGA, view=quiet["id"])
    assert at.app.got == []
    loud = await opened(at, section(), notify_on_close=True)
    await at.page("close", user=OLGA, view=loud["id"])
    assert at.app.got[0]["type"] == "view_closed"


async def test_nobody_submits_another_persons_modal(at: Bench) -> None:
    view = await opened(at, section())
    assert (await at.page("submit", user=ANA, view=view["id"], values={}))["error"] == "not_found"


async def test_the_home_tab_is_published_per_person(at: Bench) -> None:
    answer = await at.api("views.publish", user_id=OLGA, view={"type": "home", "blocks": [section("mine")]})
    assert answer["ok"]
    assert (await at.state(OLGA))["home"]["blocks"][0]["text"]["text"] == "mine"
    assert (await at.state(ANA))["home"] is None


async def test_opening_the_home_tab_tells_the_app(at: Bench) -> None:
    await at.page("home", user=OLGA)
    await at.settle()
    event = at.app.events("app_home_opened")[0]
    assert (event["user"], event["tab"], event["channel"]) == (OLGA, "home", "D01OLGA")
