"""The official boundaries as a value: dated, with sources; read from `definitions/boundaries/`."""

from __future__ import annotations

from datetime import date
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from playbooks.errors import InvalidDefinition


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Note(_Part):
    """A boundary in words, with its source and the day it was checked."""

    id: str
    text: str
    source: str
    checked_on: date


class Hardware(_Part):
    """GPUs the recipe verified, and how many it needs of each kind."""

    verified: tuple[str, ...] = ()
    min_gpus: dict[str, int] = {}
    min_compute_capability: str | None = None


class ModelBoundary(_Part):
    """What the model's recipe demands."""

    ids: tuple[str, ...]
    min_vllm: str | None = None
    cuda_build: str | None = None
    min_driver_branch: int | None = None
    vram_minimum_gb: int | None = None
    image_tags: tuple[str, ...] = ()
    required_flags: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    hardware: Hardware = Hardware()


class Cuda(_Part):
    """Drivers that CUDA needs: by major the floor, by toolkit its own driver."""

    floors: dict[str, str]
    toolkits: dict[str, str]
    source: str


class DriverBranch(_Part):
    """A branch of the data-center driver and whether its life is over."""

    branch: int
    kind: str
    over: bool
    end: str = ""


class Boundaries(_Part):
    """One dated snapshot of boundaries."""

    schema_: str
    id: str
    title: str
    checked_on: date
    source: str
    model: ModelBoundary
    cuda: Cuda
    driver_branches: tuple[DriverBranch, ...] = ()
    data_center_gpus: tuple[str, ...] = ()

    def age_days(self, today: date) -> int:
        """Days since the snapshot was checked."""
        return (today - self.checked_on).days


def parse_boundaries(text: str, name: str = "boundaries") -> Boundaries:
    """Parse the YAML text of a snapshot.

    Raises:
        InvalidDefinition: it breaks the form; the message holds file, path and expected form.
    """
    try:
        data: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidDefinition(f"{name}: no YAML: {error}") from error
    if not isinstance(data, dict) or data.get("schema") != "baseline-boundaries/1":
        found = data.get("schema") if isinstance(data, dict) else data
        raise InvalidDefinition(f"{name}: expected schema `baseline-boundaries/1`, found {found!r}")
    content = {("schema_" if key == "schema" else key): value for key, value in data.items()}
    try:
        return Boundaries.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InvalidDefinition(f"{name}: {place}: {first['msg']}, found {str(first['input'])[:80]!r}") from error
