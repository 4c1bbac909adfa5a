"""The official boundaries as values: dated, each fact with its source; read from `definitions/boundaries/`.

Three kinds of file: what a model's recipe demands, what the driver's vendor says, and which options of the engine a
minimal command leaves out. How they are compared is `boundary`'s and `minimal_command`'s.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from typing import Annotated, Any, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from playbooks import safe_yaml
from playbooks.errors import InvalidDefinition

T = TypeVar("T")


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"expected a regular expression: {error}") from error
    return pattern


Pattern = Annotated[str, AfterValidator(_compiles)]


class ImageClass(StrEnum):
    """What kind of build an image is; decides whether its version number means anything (R2.1)."""

    RELEASE = "release"
    K3_BRANCH = "k3_branch"
    NIGHTLY = "nightly"
    SELF_BUILT = "self_built"
    UNKNOWN = "unknown"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Dated(_Part, Generic[T]):
    """A fact with where it was read and the day it was checked."""

    value: T
    source: str
    checked_on: date


class Note(_Part):
    """A boundary in words; `when` says which facts make it worth telling."""

    id: str
    when: str = "always"
    text: str
    source: str
    checked_on: date


class ImageRule(_Part):
    """How a class of images is known: by its reference, or by the version that the engine in it reports."""

    image_class: ImageClass = Field(alias="class")
    reference: Pattern
    version: Pattern
    text: str
    compiler_cuda: str | None = None
    """CUDA of compilers bundled with the image, when it is newer than the image's own."""
    source: str
    checked_on: date


class HardwareRow(_Part):
    """GPUs of one kind: how many the model needs, how many a node has, and whether the recipe verified them."""

    gpu: str
    min_gpus: int
    per_node: int | None = None
    verified: bool = False
    source: str
    checked_on: date


class ModelBoundary(_Part):
    """What the model's recipe demands; None = it does not say."""

    ids: Dated[tuple[str, ...]]
    min_vllm: Dated[str] | None = None
    cuda_build: Dated[str] | None = None
    min_driver_branch: Dated[int] | None = None
    vram_minimum_gb: Dated[int] | None = None
    min_compute_capability: Dated[str] | None = None
    required_flags: Dated[tuple[str, ...]] | None = None
    kept_flags: Dated[tuple[str, ...]] | None = None
    hybrid: Dated[bool] | None = None


class ModelFile(_Part):
    """One model's boundaries as a file, or as imported from a recipe."""

    schema_: str = Field(alias="schema")
    id: str
    title: str
    checked_on: date
    source: str
    model: ModelBoundary
    images: tuple[ImageRule, ...] = ()
    hardware: tuple[HardwareRow, ...] = ()
    notes: tuple[Note, ...] = ()


class CudaMajor(_Part):
    """Lowest driver that runs any build of a CUDA major."""

    major: int
    floor: str
    source: str
    checked_on: date


class Toolkit(_Part):
    """Driver that ships with a toolkit."""

    cuda: str
    driver: str
    source: str
    checked_on: date


class DriverBranch(_Part):
    """A branch of the data-center driver and whether its life is over."""

    branch: int
    kind: str
    ended: bool
    end: str = ""
    max_cuda_major: int
    source: str
    checked_on: date


class GpuKind(_Part):
    """A kind of GPU by the word in its product name."""

    gpu: str
    compute_capability: str
    data_center: bool


class DriverFile(_Part):
    """What the driver's vendor says."""

    schema_: str = Field(alias="schema")
    id: str
    checked_on: date
    cuda: tuple[CudaMajor, ...]
    toolkits: tuple[Toolkit, ...]
    branches: tuple[DriverBranch, ...]
    gpus: tuple[GpuKind, ...]
    min_compute_capability: dict[str, str] = {}
    gpus_source: str

    def major(self, cuda: str) -> CudaMajor | None:
        """Return the row of a CUDA version's major."""
        first = cuda.split(".", maxsplit=1)[0]
        return next((row for row in self.cuda if str(row.major) == first), None)

    def toolkit(self, cuda: str) -> Toolkit | None:
        """Return the toolkit of a CUDA version, `13.0.2` counting as 13.0."""
        wanted = ".".join(cuda.split(".")[:2])
        return next((row for row in self.toolkits if row.cuda == wanted), None)

    def kind(self, name: str) -> GpuKind | None:
        """Return the kind of GPU that a product name holds; the longest word wins (GB300, not B300)."""
        found = [row for row in self.gpus if re.search(rf"(?<![A-Za-z0-9]){re.escape(row.gpu)}(?![A-Za-z0-9])", name)]
        return max(found, key=lambda row: len(row.gpu), default=None)


class RemovedOptions(_Part):
    """Options left out for one reason."""

    why: str
    options: tuple[str, ...]


class RemovedEnv(_Part):
    """A variable left out, and why."""

    name: str
    why: str


class MultiNode(_Part):
    """What shows that a command spans nodes or tunes communication."""

    options: tuple[str, ...]
    env_prefixes: tuple[str, ...]


class Caching(_Part):
    """The default of prefix caching by version and kind of model."""

    switch_on: str
    switch_off: str
    hybrid_on_from: str
    dense_on_from: str
    off_builds: Pattern
    hybrid_names: Pattern
    source: str
    checked_on: date


class Profile(_Part):
    """A hardware profile of the recipes' taxonomy; counts and memory are of one node or tray."""

    profile: str
    brand: str
    generation: str
    gpu_count: int
    vram_gb: int | None = None


class RecipeForm(_Part):
    """What a recipe file itself leaves to its taxonomy: profiles, and the flags of each strategy."""

    profiles: tuple[Profile, ...]
    strategy_flags: dict[str, tuple[str, ...]]
    source: str
    checked_on: date


class OptionsFile(_Part):
    """What a minimal command leaves out, and what it has to say aloud."""

    schema_: str = Field(alias="schema")
    id: str
    checked_on: date
    source: str
    removed: tuple[RemovedOptions, ...]
    removed_env: tuple[RemovedEnv, ...] = ()
    images: tuple[ImageRule, ...] = ()
    multi_node: MultiNode
    caching: Caching
    recipes: RecipeForm

    def why_removed(self) -> dict[str, str]:
        """Return option to reason."""
        return {option: group.why for group in self.removed for option in group.options}


class Boundaries(_Part):
    """One snapshot: a model's demands, the vendor's tables and the engine's options."""

    file: ModelFile
    driver: DriverFile
    options: OptionsFile

    @property
    def id(self) -> str:
        """Id of the model's snapshot."""
        return self.file.id

    @property
    def title(self) -> str:
        """Title for a reader."""
        return self.file.title

    @property
    def model(self) -> ModelBoundary:
        """What the recipe demands."""
        return self.file.model

    @property
    def images(self) -> tuple[ImageRule, ...]:
        """How images are known: the model's own first, then the project's releases."""
        return (*self.file.images, *self.options.images)

    @property
    def source(self) -> str:
        """Where the model's demands were read."""
        return self.file.source

    @property
    def checked_on(self) -> date:
        """The oldest day on which a part of the snapshot was checked: a chain is as fresh as its oldest link."""
        return min(self.file.checked_on, self.driver.checked_on, self.options.checked_on)

    def age_days(self, today: date) -> int:
        """Days since the snapshot was checked."""
        return (today - self.checked_on).days

    def without_model(self) -> Boundaries:
        """Return what holds for any model: the vendor's tables and the engine's options, no recipe's demands."""
        nobody = ModelBoundary(ids=Dated(value=(), source=self.options.source, checked_on=self.options.checked_on))
        file = ModelFile(
            schema_="baseline-boundaries/1",
            id="vllm",
            title="vLLM, no recipe of a model",
            checked_on=self.options.checked_on,
            source=self.driver.gpus_source,
            model=nobody,
        )
        return Boundaries(file=file, driver=self.driver, options=self.options)


_FILES: Mapping[str, type[ModelFile | DriverFile | OptionsFile]] = {
    "baseline-boundaries/1": ModelFile,
    "baseline-driver/1": DriverFile,
    "baseline-options/1": OptionsFile,
}


def parse_file(text: str, name: str) -> ModelFile | DriverFile | OptionsFile:
    """Parse one file of boundaries.

    Raises:
        InvalidDefinition: it breaks its form; the message holds file, path and expected form.
    """
    try:
        data: Any = safe_yaml.load(text)
    except safe_yaml.YamlFaults as error:
        raise InvalidDefinition(f"{name}: expected YAML, found {str(error).splitlines()[0]}") from error
    schema = data.get("schema") if isinstance(data, dict) else None
    form = _FILES.get(schema) if isinstance(schema, str) else None
    if form is None:
        raise InvalidDefinition(f"{name}: expected schema one of {', '.join(_FILES)}, found {schema!r}")
    try:
        return form.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InvalidDefinition(f"{name}: {place}: {first['msg']}, found {str(first['input'])[:80]!r}") from error


def parse_boundaries(files: Mapping[str, str]) -> Boundaries:
    """Parse the files of a snapshot by name; of several models the one checked last counts.

    Raises:
        InvalidDefinition: a file breaks its form, or one of the three kinds is missing.
    """
    parsed = [parse_file(text, name) for name, text in sorted(files.items())]
    models = [part for part in parsed if isinstance(part, ModelFile)]
    drivers = [part for part in parsed if isinstance(part, DriverFile)]
    options = [part for part in parsed if isinstance(part, OptionsFile)]
    if not models or len(drivers) != 1 or len(options) != 1:
        raise InvalidDefinition(
            f"boundaries: expected a model, one driver and one options file, found {len(models)}, {len(drivers)} and"
            f" {len(options)} in {', '.join(sorted(files)) or 'nothing'}"
        )
    return Boundaries(file=max(models, key=lambda part: part.checked_on), driver=drivers[0], options=options[0])
