"""No secret that is pasted, dropped or typed reaches the store, a file, a message that waits to be sent, or the bot's own log."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog

from bot.errors import Refused
from bot.flows.analyse_log import analyse_log
from bot.flows.answer_item import answer_item
from bot.flows.export_bundle import export_bundle
from bot.flows.open_incident import Opening, open_incident
from bot.flows.record_log import record_log
from playbooks.reading.watched import WatchedRun, first_line
from tests.support.bot_services import make_bot
from tests.support.people import FAILING_LOG, approver, responder
from tests.support.secret_texts import TAKEN


@pytest.mark.parametrize(("text", "secret"), TAKEN)
def test_a_secret_stays_outside(tmp_path: Path, text: str, secret: str) -> None:
    bot = make_bot(tmp_path)
    said: list[str] = []
    structlog.configure(
        processors=[
            lambda _logger, _name, event: said.append(repr(event)) or (_ for _ in ()).throw(structlog.DropEvent)
        ]
    )
    case = open_incident(
        bot.services, responder("form:1"), Opening(title="x", what_fails=text[:2500], command=text)
    ).incident
    log = FAILING_LOG + text.encode() + b"\n"
    record_log(bot.services, responder("event:1"), case, name="a.log", chunks=[log[:100], log[100:]])
    watched = first_line(WatchedRun(command=("sh", "-c", text), exit_code=1)) + log.replace(b"02:41:", b"02:42:")
    record_log(bot.services, responder("event:2"), case, name="w.log", chunks=[watched])
    analyse_log(bot.services, responder("event:3"), name="pasted.log", chunks=[text.encode()], answer_in=(None,))
    try:
        answer_item(bot.services, responder("form:2"), case, "cluster-owner", value=text)
    except Refused as refused:
        said.append(f"{refused.text} {refused.blocks}")
    said.append(repr(export_bundle(bot.services, approver("press:1"), case)))
    bot.store.close()
    places = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    places |= {f"file {sha256[:8]}": data for sha256, data in bot.artifacts.files.items()}
    places["what was said"] = "\n".join(said).encode()
    ordinary = bot.services.definitions.playbook_bytes(bot.services.playbook) + FAILING_LOG
    wanted = secret.encode().removeprefix(b"=")
    if len(wanted) > 3 and wanted not in ordinary:
        assert [name for name, data in places.items() if wanted in data] == []
