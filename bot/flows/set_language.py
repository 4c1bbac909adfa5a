"""Choose the language: one's own for what only oneself sees, or a channel's for its threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.blocks.elements import Message
from bot.blocks.notices import notice, refusal
from bot.blocks.texts import LANGUAGES, esc, translator
from bot.flows.once import once, refuse
from bot.flows.permission import Action, require
from bot.flows.showing import Asker, language_for

if TYPE_CHECKING:
    from bot.flows.services import Services

_HERE = "here"


def set_language(services: Services, asker: Asker, wanted: str) -> Message:
    """Remember the language: `zh-Hans` for oneself, `zh-Hans here` for the channel's new cases.

    Raises:
        Repeated: this command was taken already.
        Refused: no such language, or the asker may not choose for the channel.
    """
    name, _sep, where = wanted.partition(" ")
    known = {language.lower(): language for language in LANGUAGES}
    with services.store.read() as reading:
        own = language_for(reading, asker)
    if name.lower() not in known:
        raise refuse(refusal(own("Not done"), own("Languages: {names}.", names=esc(", ".join(LANGUAGES)))))
    for_channel = where.strip().lower() == _HERE
    if for_channel:
        require(services, asker, Action.OPEN, own)
    language = known[name.lower()]
    scope = f"channel:{asker.channel}" if for_channel else f"user:{asker.user}"
    with once(services, asker) as tx:
        tx.set_preference(scope, "language", language)
    _ = translator(language)
    return notice(_("New cases of this channel are in English.") if for_channel else _("I answer you in English."))
