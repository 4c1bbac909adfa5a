"""The playbook of an incident: the one it was opened with, whatever this version ships by now."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from playbooks.guiding.playbook import Playbook, parse_playbook

if TYPE_CHECKING:
    from bot.flows.services import Services
    from playbooks.guiding.case import Case


def case_playbook(services: Services, case: Case) -> Playbook:
    """Return the playbook whose bytes the incident keeps as an artifact.

    Raises:
        UnknownArtifact: the bytes are gone, and this version ships another text under that name.
        InvalidDefinition: this version cannot read it.
    """
    opened = case.opened.payload
    if opened.playbook in services.definitions.playbook_names():
        shipped = services.definitions.playbook(opened.playbook)
        if shipped.sha256 == opened.playbook_sha256:
            return shipped
    return _parse(services.artifacts.get(opened.playbook_sha256), f"{opened.playbook}.yaml")


@lru_cache(maxsize=16)
def _parse(data: bytes, file: str) -> Playbook:
    return parse_playbook(data, file=file)
