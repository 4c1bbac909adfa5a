"""The judging material that ships with the package; implements `bot.flows.services.Definitions`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playbooks import catalog

if TYPE_CHECKING:
    from playbooks.guiding.playbook import Playbook
    from playbooks.judging.boundary import Boundaries
    from playbooks.judging.signature_catalogue import Catalogue


class PackagedDefinitions:
    """Reads `playbooks/definitions`; each is parsed once per process."""

    def signatures(self) -> Catalogue:
        """Return the signature catalogue."""
        return catalog.load_catalogue()

    def boundaries(self) -> Boundaries:
        """Return the official boundaries."""
        return catalog.load_boundaries()

    def playbook_names(self) -> tuple[str, ...]:
        """Return the names of the playbooks."""
        return catalog.playbook_names()

    def playbook(self, name: str) -> Playbook:
        """Return a playbook."""
        return catalog.load_playbook(name)

    def playbook_bytes(self, name: str) -> bytes:
        """Return a playbook as it ships."""
        return catalog.playbook_bytes(name)
