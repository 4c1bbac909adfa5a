"""Buttons and menus: one opaque id each (case and step); everything else is looked up.

Forms are opened first, for a trigger lives three seconds; everything that changes something is stored, then acked.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bot.blocks.elements import Message, Ref
from bot.flows import forms
from bot.flows import show_status as show
from bot.flows.add_back import add_back
from bot.flows.analyse_log import explain_not_oom, show_lines
from bot.flows.ask_people import ask_about
from bot.flows.compare_nodes import let_differences_stand
from bot.flows.export_bundle import export_bundle
from bot.flows.freeze_baseline import keep_one
from bot.flows.judge_decision import Judgement, judge_decision
from bot.flows.node_jobs import request_node_job
from bot.flows.propose_decision import propose_decision
from bot.flows.stop_jobs import stop_jobs
from bot.handlers.edge import Body, asker_of, later, open_view, outcome, tell, turned_away
from playbooks.vocabulary import JobKind

if TYPE_CHECKING:
    from slack_bolt.app.async_app import AsyncApp
    from slack_bolt.context.ack.async_ack import AsyncAck
    from slack_bolt.context.async_context import AsyncBoltContext
    from slack_sdk.web.async_client import AsyncWebClient

    from bot.flows.services import Services
    from bot.flows.showing import Asker

Flow = Callable[..., Any]
_SEPARATOR = "|"


def register(app: AsyncApp, services: Services) -> None:
    """Bind every action id: `verb|case:step` for buttons, `more` for the menu."""

    async def press(ack: AsyncAck, body: Body, client: AsyncWebClient, context: AsyncBoltContext) -> None:
        if await turned_away(body, context, ack, client):
            return
        action = body["actions"][0]
        verb, ref = _meant(action)
        asker = asker_of(body, key=_key(body, action))
        flow, arguments, opens_form = _flow(verb, ref)
        done: Any = await outcome(services, flow, services, asker, *arguments)
        said: Message | None = done if isinstance(done, Message) else None
        if opens_form and said is None:
            said = await open_view(client, str(body.get("trigger_id", "")), done, body)
        await ack()
        if said is not None:
            later(tell(body, client, said))

    app.action(re.compile(r"^[a-z_]+(\||$)"))(press)


def _meant(action: dict[str, Any]) -> tuple[str, Ref]:
    """Return verb and reference; in the menu the chosen step is the verb."""
    verb = str(action.get("action_id", "")).partition(_SEPARATOR)[0]
    if verb == "more":
        ref = Ref.parse(str((action.get("selected_option") or {}).get("value", "")))
        return ref.step, Ref(ref.subject)
    return verb, Ref.parse(str(action.get("value", "")))


def _key(body: Body, action: dict[str, Any]) -> str:
    """Return the delivery key of a press: message or view, action, time, person."""
    place = (body.get("container") or {}).get("message_ts") or (body.get("view") or {}).get("id", "")
    user = (body.get("user") or {}).get("id", "")
    return f"press:{place}:{action.get('action_id', '')}:{action.get('action_ts', '')}:{user}"


def _flow(verb: str, ref: Ref) -> tuple[Flow, tuple[Any, ...], bool]:
    """Return flow, arguments, and whether the flow's result is a form to open."""
    case, step = ref.subject, ref.step
    match verb:
        case "answer":
            return forms.answer_form, (case, step), True
        case "job" if step == JobKind.LAUNCH.value:
            return forms.attempt_form, (case,), True
        case "job":
            kind = JobKind(step) if step in set(JobKind) else JobKind.FINGERPRINT
            return request_node_job, (case, kind), False
        case "probe":
            return _probe, (case, step), False
        case "review":
            return forms.review_form, (case,), True
        case "reject" | "skip" | "close":
            return forms.reason_form, (case, verb, step), True
        case "hand_over":
            return forms.hand_over_form, (case,), True
        case "open_from_log":
            return _open_from_log, (step,), True
        case _:
            return _change(verb, case, step)


def _change(verb: str, case: str, step: str) -> tuple[Flow, tuple[Any, ...], bool]:
    match verb:
        case "approve":
            judgement = Judgement(proposal=int(step) if step.isdecimal() else 0, approve=True)
            return judge_decision, (case, judgement), False
        case "ask" | "add_back":
            return (ask_about if verb == "ask" else add_back), (case, step), False
        case "propose" | "nodes_differ":
            return (propose_decision if verb == "propose" else let_differences_stand), (case,), False
        case "export":
            return export_bundle, (case,), False
        case "cancel":
            return stop_jobs, (case,), False
        case "keep":
            return keep_one, (case, step), False
        case "show_lines":
            return show_lines, (step,), False
        case "why_not_oom":
            return explain_not_oom, (step,), False
        case "status":
            return show.show_status, (case,), False
        case _:
            return show.show_next, (case,), False


def _probe(services: Services, asker: Asker, incident_id: str, feature: str) -> Any:
    return request_node_job(services, asker, incident_id, JobKind.FEATURE_PROBE, feature=feature)


def _open_from_log(services: Services, asker: Asker, sha256: str) -> Any:
    return forms.open_form(services, asker, log=sha256)
