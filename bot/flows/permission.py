"""Who may do what in a case (R16): checked where the action is recorded, failing closed, refused with who could."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.blocks.notices import needs_role
from bot.blocks.texts import Translate, joined
from bot.errors import Refused
from playbooks.errors import RuleViolation
from playbooks.guiding import roles
from playbooks.guiding.roles import Action
from playbooks.vocabulary import Role

if TYPE_CHECKING:
    from bot.flows.services import People, Services
    from bot.flows.showing import Asker

__all__ = ["Action", "require", "users_with"]


def require(services: Services, asker: Asker, action: Action, _: Translate) -> None:
    """Let the asker do it.

    Raises:
        Refused: the asker's role is too low; the message names the role and who has it.
    """
    try:
        roles.require(services.people.role_of(asker.user), action)
    except RuleViolation as error:
        why = _.told(str(error))
        if services.people.groups is not None and (unread := services.people.groups.unreadable):
            groups = ", ".join(sorted(unread))
            why = joined(
                [why, _("Members of {groups} could not be read from Slack, so nobody counts by them.", groups=groups)],
                " ",
            )
        message = needs_role(why, users_with(services.people, roles.who_could(action)), _)
        raise Refused(message.text, blocks=message.blocks) from error


def users_with(people: People, wanted: tuple[Role, ...]) -> list[str]:
    """Return the users who have one of the roles, in a stable order."""
    return sorted(user for user in people.known if people.role_of(user) in wanted)
