"""Try one feature of the held engine, said in the thread: `probe tool_call`; without a name, which ones there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.blocks.elements import Message
from bot.blocks.notices import features
from bot.blocks.terms import FEATURE_NAMES
from bot.flows.node_jobs import request_node_job
from bot.flows.once import once, reply
from bot.flows.showing import Asker, known, language_for
from playbooks.vocabulary import JobKind

if TYPE_CHECKING:
    from bot.flows.services import Services


def probe(services: Services, asker: Asker, incident_id: str, said: str) -> Message:
    """Ask the node to probe the feature that was named; a name that is none is refused with those there are.

    Raises:
        Repeated: this was taken already.
        Refused: the asker may not, or no engine is held.
    """
    name = said.strip().lower().strip("`.,").replace(" ", "_").replace("-", "_")
    if name:
        return request_node_job(services, asker, incident_id, JobKind.FEATURE_PROBE, feature=name)
    with services.store.read() as reading:
        incident = known(reading, incident_id)
        _ = language_for(reading, asker, incident)
    message = features(incident_id, tuple(FEATURE_NAMES.items()), _)
    with once(services, asker) as tx:
        reply(tx, services, asker, message, thread_ts=incident.thread_ts)
    return message
