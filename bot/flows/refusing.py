"""What an expected failure of a flow says to the asker; the same words for presses, forms and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.blocks.elements import Message, sections
from bot.blocks.notices import notice, refusal
from bot.blocks.texts import Mrkdwn, esc, translator
from bot.errors import ArtifactError, JobNotAsked, Refused, Repeated, UnknownIncident
from bot.flows.showing import Asker, language_for
from playbooks.errors import PlaybookError

if TYPE_CHECKING:
    from bot.blocks.texts import Translate
    from bot.flows.services import Services

EXPECTED = (Refused, JobNotAsked, UnknownIncident, ArtifactError, PlaybookError)
"""What is answered in words; a store that does not answer is not among them, for nothing of it may be lost."""


def in_words(services: Services, asker: Asker, error: Exception) -> Message:
    """Return the refusal as the asker is told."""
    if isinstance(error, Refused):
        return Message(error.text, error.blocks or tuple(sections([Mrkdwn(error.text)])))
    with services.store.read() as reading:
        _ = language_for(reading, asker)
    return words_of(error, _)


def words_of(error: Exception, _: Translate | None = None) -> Message:
    """Return the words for an expected failure, in a language if one is known."""
    _ = _ or translator("en")
    match error:
        case Refused():
            return Message(error.text, error.blocks or tuple(sections([Mrkdwn(error.text)])))
        case Repeated():
            return notice(_("That was recorded already; nothing was done twice."))
        case UnknownIncident():
            return refusal(_("There is no such case"), esc(str(error)))
        case JobNotAsked():
            return refusal(_("Not started: the node cannot be asked now"), _("{why}.", why=str(error)))
        case ArtifactError():
            return refusal(_("Not recorded: the file store does not have it"), esc(str(error)))
        case _:
            return refusal(_("Not done"), esc(str(error)))
