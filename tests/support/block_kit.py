"""Small valid blocks and views, to make one thing of them wrong."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def plain(text: str) -> Json:
    return {"type": "plain_text", "text": text}


def mrkdwn(text: str) -> Json:
    return {"type": "mrkdwn", "text": text}


def section(text: str = "x", **more: Any) -> Json:
    return {"type": "section", "text": mrkdwn(text), **more}


def button(n: int = 0, **more: Any) -> Json:
    return {"type": "button", "text": plain("Go"), "action_id": f"a{n}", **more}


def option(n: int = 0, **more: Any) -> Json:
    return {"text": plain(f"o{n}"), "value": f"v{n}", **more}


def actions(*elements: Json) -> Json:
    return {"type": "actions", "elements": list(elements)}


def modal(*blocks: Json, **more: Any) -> Json:
    return {"type": "modal", "title": plain("T"), "submit": plain("Go"), "blocks": list(blocks), **more}


def text_input(**more: Any) -> Json:
    return {"type": "input", "label": plain("L"), "element": {"type": "plain_text_input", "action_id": "t", **more}}
