"""The judging material: what ships with the package, and recipes that were imported; implements `bot.flows.services.Definitions`."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from playbooks import catalog
from playbooks.errors import InvalidDefinition
from playbooks.judging.minimal_command import names_model
from playbooks.judging.recipe_boundary import from_recipe
from playbooks.reading import recipe

if TYPE_CHECKING:
    from playbooks.guiding.playbook import Playbook
    from playbooks.judging.boundary import Boundaries
    from playbooks.judging.signature_catalogue import Catalogue

log = structlog.get_logger(__name__)


class PackagedDefinitions:
    """Reads `playbooks/definitions`, each parsed once per process, and the recipes of a folder, parsed anew when they change.

    recipes: where `baseline recipe import` keeps them; None = none are looked for.
    """

    def __init__(self, recipes: Path | None = None) -> None:
        self._recipes = recipes
        self._parsed: dict[Path, tuple[tuple[int, int], Boundaries | None]] = {}

    def signatures(self) -> Catalogue:
        """Return the signature catalogue."""
        return catalog.load_catalogue()

    def boundaries(self) -> Boundaries:
        """Return the official boundaries that ship with the package."""
        return catalog.load_boundaries()

    def recipe_for(self, model: str) -> Boundaries | None:
        """Return the imported recipe that names this model best, unless the shipped boundaries are newer for it."""
        named = [(len(names_model(model, one)), one.file.checked_on, one) for one in self._imported()]
        best = max((entry for entry in named if entry[0]), key=lambda entry: entry[:2], default=None)
        if best is None:
            return None
        shipped = self.boundaries()
        newer = shipped.file.checked_on > best[1] and len(names_model(model, shipped)) >= best[0]
        return None if newer else best[2]

    def _imported(self) -> list[Boundaries]:
        if self._recipes is None or not self._recipes.is_dir():
            return []
        found = (self._read(path) for path in sorted(self._recipes.glob("*.yaml")))
        return [one for one in found if one is not None]

    def _read(self, path: Path) -> Boundaries | None:
        """Read one recipe; one that cannot be read is named in the log and takes no other along."""
        try:
            state = path.stat()
            key = (state.st_mtime_ns, state.st_size)
            known = self._parsed.get(path)
            if known is not None and known[0] == key:
                return known[1]
            shipped = self.boundaries()
            read = recipe.read(path.read_text(encoding="utf-8"), name=str(path))
            parsed: Boundaries | None = from_recipe(read, shipped.driver, shipped.options, _imported_on(path))
        except (OSError, ValueError, InvalidDefinition) as error:
            log.warning("imported recipe not read", file=str(path), why=str(error))
            return None
        self._parsed[path] = (key, parsed)
        return parsed

    def playbook_names(self) -> tuple[str, ...]:
        """Return the names of the playbooks."""
        return catalog.playbook_names()

    def playbook(self, name: str) -> Playbook:
        """Return a playbook."""
        return catalog.load_playbook(name)

    def playbook_bytes(self, name: str) -> bytes:
        """Return a playbook as it ships."""
        return catalog.playbook_bytes(name)


def _imported_on(path: Path) -> date:
    meta = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    return date.fromisoformat(meta["imported_on"])
