"""Ask about a proposal: the question becomes a line in the thread that names the proposer and the owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.blocks.elements import Message
from bot.blocks.notices import notice
from bot.blocks.texts import joined, person, translator
from bot.flows.once import once
from bot.flows.showing import Asker, known, language_for
from bot.ports import OutboxKind

if TYPE_CHECKING:
    from bot.flows.services import Services


def ask_about(services: Services, asker: Asker, incident_id: str, step: str) -> Message:
    """Say in the thread that somebody has a question on proposal `step`.

    Raises:
        Repeated: this press was taken already.
        UnknownIncident: no incident of that id.
    """
    with once(services, asker) as tx:
        incident = known(tx, incident_id)
        proposal = next((noted for noted in incident.case.proposals if str(noted.seq) == step), None)
        _ = translator(incident.language)
        asked = [*([proposal.actor] if proposal is not None else []), f"user:{incident.owner}"]
        people = joined([person(actor) for actor in dict.fromkeys(asked)], ", ")
        said = notice(
            _("{who} has a question on #{seq}", who=person(asker.actor), seq=step),
            _("{people}: please look here.", people=people),
        )
        tx.enqueue(OutboxKind.NOTE, said.payload(), incident=incident_id, at=services.clock.now())
        own = language_for(tx, asker, incident)
    return notice(own("Write your question into the thread. Told of it: {people}.", people=people))
