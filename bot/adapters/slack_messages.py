"""Which message an outbox row stands for, and the metadata by which it is found again."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from bot.blocks import dashboard as dashboards
from bot.blocks.elements import Message, sections
from bot.blocks.evidence import evidence
from bot.blocks.limits import fit
from bot.blocks.texts import Mrkdwn, cut, translator
from bot.flows.showing import dashboard_of, recorded_of
from bot.ports import OutboxKind

if TYPE_CHECKING:
    from bot.flows.services import Services
    from bot.ports import Incident, OutboxRow, Reading

EVENT = "baseline"
_MARKUP = re.compile(r"[*_`~]")


def message_of(services: Services, reading: Reading, row: OutboxRow, now: datetime) -> Message:
    """Render the message of a row when its turn comes."""
    incident = reading.incident(row.incident) if row.incident else None
    match row.kind:
        case OutboxKind.PARENT if incident is not None:
            return dashboard_message(dashboard_of(services, reading, incident, now), incident.language)
        case OutboxKind.EVIDENCE if incident is not None:
            recorded = recorded_of(services, reading, incident.id, int(row.payload["seq"]))
            if recorded is not None:
                return evidence(recorded, translator(incident.language))
        case _:
            pass
    text = Mrkdwn(str(row.payload.get("text", ""))) or Mrkdwn("…")
    blocks = tuple(row.payload.get("blocks") or sections([text]))
    return fit(Message(text, blocks))


def dashboard_message(shown: dashboards.Dashboard, language: str) -> Message:
    """Render a dashboard in the incident's language."""
    return dashboards.dashboard(shown, translator(language))


def metadata_of(row: OutboxRow) -> dict[str, Any]:
    """Return the metadata that identifies a row's message, also after the store was made anew."""
    return {"event_type": EVENT, "event_payload": {"row": key_of(row), "incident": row.incident or ""}}


def key_of(row: OutboxRow) -> str:
    """Return the row's key: its id with its time of birth."""
    return f"{row.id}-{int(row.created_at.timestamp() * 1000)}"


def plain_text(text: str) -> str:
    """Return a text without markup, for the one plain try."""
    return cut(_MARKUP.sub("", text), 3000) or "-"


def not_shared(title: str) -> Message:
    """Stand in for a file that Slack took and does not show."""
    _ = translator("en")
    said = _(
        "{title}: Slack took the file and does not show it. It is stored here and part of the bundle.", title=title
    )
    return fit(Message(said, tuple(sections([said]))))


def invitation(incident: Incident, channel: str) -> Message:
    """Tell the owner to invite the app."""
    _ = translator(incident.language)
    title = _("{incident} is recorded, but I am not in its channel yet.", incident=incident.id)
    lines = [
        Mrkdwn(f"*{title}*"),
        _(
            "Invite me there with `/invite @Baseline` in {channel}: the thread appears by itself.",
            channel=Mrkdwn(f"<#{channel}>"),
        ),
    ]
    return fit(Message(title, tuple(sections(lines))))
