"""A message that concerns the bot: a word to it, a pasted log, or dropped files. Stored first; answered by the senders.

What is no word, no log and no file is other people's talk and left alone.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bot.blocks.elements import Message
from bot.flows import show_status as show
from bot.flows.analyse_log import analyse_log
from bot.flows.close_incident import close_incident
from bot.flows.export_bundle import export_bundle
from bot.flows.once import once, reply
from bot.flows.probe_feature import probe
from bot.flows.propose_decision import propose_decision
from bot.flows.record_log import record_log
from bot.flows.refusing import EXPECTED, in_words
from bot.flows.showing import Asker
from bot.flows.withdraw_attempt import withdraw_attempt
from bot.ports import OutboxKind

if TYPE_CHECKING:
    from bot.flows.services import Services

_LINK = re.compile(r"<(?:https?|mailto|ftp)[^>|]*\|([^>]*)>|<((?:https?|mailto|ftp)[^>]*)>")
_FENCE = re.compile(r"```\n?(.*?)```", re.DOTALL)
_LOG_SIGNS = re.compile(
    r"Traceback \(most recent|\b(?:ERROR|WARNING|INFO|FATAL|CRITICAL)\b|Error\b|NVRM|nvidia-smi|exit(?:ed)? (?:code|with)",
    re.IGNORECASE,
)
_LOG_LINES = 3
_ANY_LOG_NAME = re.compile(r"(?:\.(?:log|txt|out|err|json)|(?<!\.tar)\.gz)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message as Slack delivered it; `text` without the mention of the bot."""

    ts: str
    text: str
    thread_ts: str | None = None
    files: tuple[dict[str, Any], ...] = ()
    direct: bool = False
    """Written in a direct message with the bot."""
    mentioned: bool = False

    @property
    def addressed(self) -> bool:
        """Whether it was said to the bot."""
        return self.direct or self.mentioned


def receive_message(services: Services, asker: Asker, incoming: Incoming) -> bool:
    """Take a message in; returns whether it concerned the bot. A second delivery changes nothing.

    Raises:
        StoreError: it could not be stored; Slack is to send it again.
    """
    with services.store.read() as reading:
        thread = incoming.thread_ts
        incident = reading.incident_in_thread(asker.channel, thread) if thread else None
    case = incident.id if incident is not None else None
    if incoming.files:
        wanted = [
            f for f in incoming.files if incoming.addressed or case or _ANY_LOG_NAME.search(str(f.get("name", "")))
        ]
        return _keep_files(services, asker, incoming, wanted) if wanted else False
    text = unescaped(incoming.text).strip()
    pasted = pasted_log(text, at_once=incoming.addressed)
    if pasted is not None and (incoming.addressed or case):
        _take_pasted(services, asker, incoming, case, pasted)
        return True
    if not incoming.addressed:
        return False
    _answer_word(services, asker, incoming, case, text)
    return True


def unescaped(text: str) -> str:
    """Return the text as it was typed: links by their label, entities resolved."""
    return html.unescape(_LINK.sub(lambda found: found.group(1) or found.group(2), text))


def pasted_log(text: str, *, at_once: bool) -> str | None:
    """Return the log in a message, if there is one: fenced, or several lines that read like a log.

    at_once: whether the message was said to the bot, so that one telling line is enough.
    """
    fenced = _FENCE.findall(text)
    if fenced:
        return "\n".join(fenced)
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) >= _LOG_LINES and _LOG_SIGNS.search(text):
        return text
    long_line = at_once and len(text) > 60 and _LOG_SIGNS.search(text) is not None
    return text if long_line else None


def _keep_files(services: Services, asker: Asker, incoming: Incoming, files: list[dict[str, Any]]) -> bool:
    now = services.clock.now()
    with once(services, asker) as tx:
        for file in files[:10]:
            kept = {
                key: file.get(key) for key in ("id", "name", "size", "mimetype", "url_private_download", "url_private")
            }
            payload = {
                "file": kept,
                "user": asker.user,
                "channel": asker.channel,
                "thread_ts": incoming.thread_ts,
                "ts": incoming.ts,
                "addressed": incoming.addressed,
            }
            tx.enqueue(OutboxKind.FETCH, payload, incident=None, at=now)
    return True


def _take_pasted(services: Services, asker: Asker, incoming: Incoming, case: str | None, text: str) -> None:
    chunks = [text.encode() + (b"" if text.endswith("\n") else b"\n")]
    thread = incoming.thread_ts or (None if incoming.direct else incoming.ts)
    if case is not None:
        _say_refusals(
            services, asker, thread, lambda: record_log(services, asker, case, name="pasted.log", chunks=chunks)
        )
    else:
        analyse_log(services, asker, name="pasted.log", chunks=chunks, answer_in=(thread,))


def _answer_word(services: Services, asker: Asker, incoming: Incoming, case: str | None, text: str) -> None:
    word, _sep, rest = text.partition(" ")
    thread = incoming.thread_ts or (None if incoming.direct else incoming.ts)
    word = word.lower().strip(" :,.!?")
    changes: dict[str, Callable[[str], Message]] = {
        "decide": lambda found: propose_decision(services, asker, found, remark=rest),
        "propose": lambda found: propose_decision(services, asker, found, remark=rest),
        "export": lambda found: export_bundle(services, asker, found),
        "probe": lambda found: probe(services, asker, found, rest),
        "withdraw": lambda found: withdraw_attempt(services, asker, found, rest),
        "close": lambda found: close_incident(services, asker, found, reason=rest),
    }
    if case is not None and word in changes:
        change = changes[word]
        _say_refusals(services, asker, thread, lambda: change(case))
        return
    reader = replace(asker, key="")
    message = _shown(services, reader, case, word, text)
    with once(services, asker) as tx:
        reply(tx, services, asker, message, thread_ts=thread)


def _shown(services: Services, asker: Asker, case: str | None, word: str, text: str) -> Message:
    if case is not None:
        match word:
            case "status":
                return show.show_status(services, asker, case)
            case "run":
                return show.show_run(services, asker, case)
            case "next" | "":
                return show.show_next(services, asker, case)
            case "score":
                return show.show_score(services, asker, case)
            case _:
                pass
    match word:
        case "status" | "next":
            return show.show_cases(services, asker)
        case "nodes":
            return show.show_nodes(services, asker)
        case _:
            return show.show_help(services, asker, text, in_case=case is not None)


def _say_refusals(services: Services, asker: Asker, thread: str | None, change: Callable[[], object]) -> None:
    """Make a change whose evidence is its answer; what is refused is said in the thread, once."""
    try:
        change()
    except EXPECTED as error:
        message = in_words(services, asker, error)
        with once(services, asker) as tx:
            reply(tx, services, asker, message, thread_ts=thread)
