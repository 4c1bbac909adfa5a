"""What a recipe says of boundaries: its own fields, what stands in prose, and what changed since the one before.

What is read from prose carries its sentence, so that a person can confirm it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from playbooks.judging.boundary_data import (
    Boundaries,
    Dated,
    DriverFile,
    HardwareRow,
    ModelBoundary,
    ModelFile,
    Note,
    OptionsFile,
)
from playbooks.judging.option_words import options_of
from playbooks.reading.recipe import Recipe

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*\[])|\n\s*\n|\n(?=\s*(?:[-*#|>]|\d+\.)\s)")
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("cuda_build", re.compile(r"\bcu(1[0-9])([0-9])\b")),
    ("cuda_build", re.compile(r"\bCUDA\s+(1[0-9])(?:\.([0-9]))?\b")),
    ("driver_branch", re.compile(r"\b[rR](5[0-9]{2}|6[0-9]{2})(?:\+|\b)")),
    ("driver_branch", re.compile(r"\bdriver\D{0,24}\b(5[0-9]{2}|6[0-9]{2})\b", re.IGNORECASE)),
    ("image_tag", re.compile(r"\b(?:vllm/)[\w./-]+:[\w.-]+")),
    ("image_tag", re.compile(r"\bno\b[^.\n]{0,60}\btag\b", re.IGNORECASE)),
)
_NEGATED = re.compile(r"\b(?:no|not|never|without|unsupported|older|build from|fails?)\b", re.IGNORECASE)
_LONGEST = 200
_Leaf = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProseBoundary:
    """A boundary found in words: kind, value, the sentence, and where it stands. To be confirmed by a person."""

    kind: str
    value: str
    sentence: str
    path: str
    negated: bool = False
    """The sentence says no, not, without …: what it names may be what is not supported."""


@dataclass(frozen=True, slots=True)
class RecipeChange:
    """One value of the recipe that changed; None = it was, or is, not there."""

    path: str
    before: str | None
    after: str | None


def prose_boundaries(recipe: Recipe) -> tuple[ProseBoundary, ...]:
    """Find CUDA builds, driver branches and image tags in the recipe's texts, each with its sentence."""
    found: dict[tuple[str, str, str], ProseBoundary] = {}
    for path, text in recipe.prose:
        for sentence in _sentences(text):
            for kind, pattern in _KINDS:
                for match in pattern.finditer(sentence):
                    value = _value(kind, match)
                    key = (kind, value, sentence)
                    found.setdefault(key, ProseBoundary(kind, value, sentence, path, bool(_NEGATED.search(sentence))))
    return tuple(found.values())


def changes(old: Recipe, new: Recipe) -> tuple[RecipeChange, ...]:
    """Name every value that changed from the old recipe to the new one, known to this version or not, by dotted path."""
    before, after = dict(_flat(old.raw)), dict(_flat(new.raw))
    paths = [*before, *(path for path in after if path not in before)]
    found = [change for path in paths for change in _moved(path, before.get(path), after.get(path))]
    was, now = ({found.sentence: found for found in prose_boundaries(recipe)} for recipe in (old, new))
    found += [RecipeChange(f"{was[gone].path}, in words", gone, None) for gone in was if gone not in now]
    found += [RecipeChange(f"{now[new_one].path}, in words", None, new_one) for new_one in now if new_one not in was]
    return tuple(found)


def _moved(path: str, before: _Leaf | None, after: _Leaf | None) -> Iterator[RecipeChange]:
    if before == after:
        return
    lists = [side for side in (before, after) if isinstance(side, tuple)]
    if len(lists) == 2 and any(word.startswith("--") for side in lists for word in side):
        was, now = ({option.name: option.shown or "on" for option in options_of(("", *side))} for side in lists)
        changed = [name for name in sorted({*was, *now}) if was.get(name) != now.get(name)]
        yield from (RecipeChange(f"{path} {name}".rstrip(), was.get(name), now.get(name)) for name in changed)
        if changed:
            return
    yield RecipeChange(path, _shown(before), _shown(after))


def _shown(leaf: _Leaf | None) -> str | None:
    return " ".join(leaf) if isinstance(leaf, tuple) else leaf


def from_recipe(recipe: Recipe, driver: DriverFile, options: OptionsFile, imported_on: date) -> Boundaries:
    """Return the boundaries that the recipe states; what stands in prose counts only when it is unambiguous.

    imported_on: the day it was imported, which is the day it was checked.
    """
    source = f"recipe {recipe.slug}" + (f" of {recipe.updated.isoformat()}" if recipe.updated else "")
    prose = prose_boundaries(recipe)
    model = ModelBoundary(
        ids=Dated(value=_model_ids(recipe), source=source, checked_on=imported_on),
        min_vllm=_dated(recipe.min_vllm_version, f"{source}, model.min_vllm_version", imported_on),
        cuda_build=_single(prose, "cuda_build", imported_on),
        min_driver_branch=_branch(prose, imported_on),
        vram_minimum_gb=_dated(_vram(recipe), f"{source}, variants.default.vram_minimum_gb", imported_on),
        required_flags=_dated(_required(recipe), f"{source}, model.base_args", imported_on),
    )
    profiles = {row.profile: row for row in options.recipes.profiles}
    kinds = {row.gpu.lower(): row.gpu for row in driver.gpus}
    floor = min(recipe.strategy_min_gpus.values(), default=0)
    hardware = tuple(
        HardwareRow(
            gpu=kinds[name],
            min_gpus=max(floor, 1),
            per_node=profiles[name].gpu_count if name in profiles else None,
            verified=status == "verified",
            source=f"{source}, meta.hardware",
            checked_on=imported_on,
        )
        for name, status in recipe.hardware.items()
        if name in kinds and status != "unsupported"
    )
    notes = tuple(
        Note(id=f"recipe-{number}", text=found.sentence[:400], source=f"{source}, {found.path}", checked_on=imported_on)
        for number, found in enumerate({found.sentence: found for found in prose}.values(), start=1)
    )
    return Boundaries(
        file=ModelFile(
            schema_="baseline-boundaries/1",
            id=recipe.slug,
            title=recipe.title,
            checked_on=imported_on,
            source=source,
            model=model,
            hardware=hardware,
            notes=notes,
        ),
        driver=driver,
        options=options,
    )


def _sentences(text: str) -> Iterator[str]:
    for part in _SENTENCE.split(text):
        sentence = " ".join(part.split())
        if sentence:
            yield sentence


def _value(kind: str, match: re.Match[str]) -> str:
    match kind:
        case "cuda_build":
            return f"{match[1]}.{match[2]}" if match[2] else match[1]
        case "driver_branch":
            return match[1]
        case _:
            return match[0]


def _single(prose: tuple[ProseBoundary, ...], kind: str, day: date) -> Dated[str] | None:
    """Return the one value that sentences without a negation agree on; None when they do not."""
    plain = [found for found in prose if found.kind == kind and not found.negated]
    if len({found.value for found in plain}) != 1:
        return None
    return Dated(value=plain[0].value, source=f"{plain[0].path}: {plain[0].sentence[:_LONGEST]}", checked_on=day)


def _branch(prose: tuple[ProseBoundary, ...], day: date) -> Dated[int] | None:
    found = _single(prose, "driver_branch", day)
    return None if found is None else Dated(value=int(found.value), source=found.source, checked_on=day)


def _dated(value: Any, source: str, day: date) -> Dated[Any] | None:
    return None if value in {None, ()} else Dated(value=value, source=source, checked_on=day)


def _model_ids(recipe: Recipe) -> tuple[str, ...]:
    variants = (variant.model_id for variant in recipe.variants.values())
    return tuple(dict.fromkeys((recipe.model_id, *(found for found in variants if found is not None))))


def _vram(recipe: Recipe) -> int | None:
    default = recipe.variants.get("default")
    return default.vram_minimum_gb if default is not None else None


def _required(recipe: Recipe) -> tuple[str, ...]:
    return tuple(word for word in recipe.base.args if word == "--trust-remote-code")


def _flat(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, _Leaf]]:
    """Flatten to dotted paths; a list is one value, for its order counts; the guide counts by its lines."""
    if isinstance(value, Mapping) and depth < 16:
        for key, item in value.items():
            yield from _flat(item, f"{path}.{key}" if path else str(key), depth + 1)
    elif path == "guide":
        yield path, f"{len(str(value).splitlines())} lines, {len(str(value))} characters"
    elif isinstance(value, list) and not any(isinstance(item, list | dict) for item in value):
        yield path, tuple(map(str, value))
    else:
        yield path, str(value)
