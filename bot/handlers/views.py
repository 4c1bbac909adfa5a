"""Submitted forms: decode the fields, call one flow, close the form or show in it why nothing was recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bot.blocks.elements import Message, Ref
from bot.flows.analyse_log import Answered, analyse_log
from bot.flows.answer_item import answer_item
from bot.flows.close_incident import close_incident, hand_over, skip_phase
from bot.flows.freeze_baseline import Wanted
from bot.flows.judge_decision import Judgement, judge_decision
from bot.flows.open_incident import Opening, open_incident
from bot.flows.request_attempts import freeze_or_run
from bot.handlers.edge import Body, asker_of, outcome, shown_in_modal, turned_away

if TYPE_CHECKING:
    from slack_bolt.app.async_app import AsyncApp
    from slack_bolt.context.ack.async_ack import AsyncAck
    from slack_bolt.context.async_context import AsyncBoltContext
    from slack_sdk.web.async_client import AsyncWebClient

    from bot.flows.services import Services
    from bot.flows.showing import Asker

CALLBACKS = ("open_incident", "answer", "attempt", "judge", "reject", "skip", "close", "hand_over", "analyse")


def register(app: AsyncApp, services: Services) -> None:
    """Bind the forms."""

    async def submit(ack: AsyncAck, body: Body, client: AsyncWebClient, context: AsyncBoltContext) -> None:
        if await turned_away(body, context, ack, client):
            return
        view = body["view"]
        asker = asker_of(body, key=f"view:{view.get('id', '')}:{view.get('hash', '')}")
        done = await outcome(services, submitted, services, asker, view)
        if isinstance(done, Message):
            await ack(response_action="update", view=shown_in_modal(done))
        else:
            await ack()

    for callback in CALLBACKS:
        app.view(callback)(submit)


def submitted(services: Services, asker: Asker, view: dict[str, Any]) -> Message | None:
    """Carry a form out; returns a message only where the answer is shown in the form itself."""
    ref = Ref.parse(str(view.get("private_metadata", "")))
    case, step = ref.subject, ref.step
    fields = _fields(view)
    match str(view["callback_id"]):
        case "open_incident":
            _open(services, replace(asker, channel=fields.get("channel") or case), step, fields)
        case "answer":
            answer_item(services, asker, case, step, value=fields.get("value", ""), note=fields.get("note", ""))
        case "attempt":
            nodes = tuple(filter(None, fields.get("nodes", "").split(",")))
            wanted = Wanted(
                command=fields.get("command", ""),
                reason=fields.get("reason", ""),
                limits=fields.get("limits", ""),
                nodes=nodes,
            )
            freeze_or_run(services, asker, case, wanted=wanted, runs=2 if fields.get("runs") == "2" else 1)
        case "judge" | "reject":
            approve = fields.get("choice") == "approve"
            said = Judgement(
                proposal=int(step) if step.isdecimal() else 0, approve=approve, reason=fields.get("reason", "")
            )
            judge_decision(services, asker, case, said)
        case "skip":
            skip_phase(services, asker, case, reason=fields.get("reason", ""))
        case "close":
            close_incident(services, asker, case, reason=fields.get("reason", ""))
        case "hand_over":
            hand_over(services, asker, case, to=fields.get("owner", ""))
        case _:
            return _analyse(services, replace(asker, channel=case), fields).message
    return None


def _open(services: Services, asker: Asker, log: str, fields: dict[str, str]) -> None:
    opening = Opening(
        title=fields.get("title", ""),
        node=fields.get("node") or None,
        more_nodes=tuple(filter(None, fields.get("more_nodes", "").split(","))),
        what_fails=fields.get("what_fails", ""),
        command=fields.get("command", ""),
        playbook=fields.get("playbook", ""),
        log_sha256=log,
    )
    open_incident(services, asker, opening)


def _analyse(services: Services, asker: Asker, fields: dict[str, str]) -> Answered:
    text = fields.get("log", "")
    return analyse_log(services, asker, name="pasted.log", chunks=[text.encode() + b"\n"])


def _fields(view: dict[str, Any]) -> dict[str, str]:
    """Return the form's values by block id, whatever kind of element they are of."""
    found: dict[str, str] = {}
    for block_id, elements in (view.get("state") or {}).get("values", {}).items():
        for element in elements.values():
            chosen = element.get("selected_option") or {}
            value = element.get("value") or chosen.get("value") or element.get("selected_user")
            value = value or element.get("selected_conversation")
            value = value or ",".join(str(one.get("value", "")) for one in element.get("selected_options") or ())
            if value:
                found[str(block_id)] = str(value)
    return found
