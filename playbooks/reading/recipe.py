"""An official vLLM recipe (YAML, one file a model) to values; the format moves every week, so nothing unknown stops it.

Unknown keys are kept and listed, and so is what has another form than expected. Which arguments a profile comes to is
`judging.recipe_arguments`, which boundary it states is `judging.recipe_boundary`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from playbooks import safe_yaml
from playbooks.errors import InvalidDefinition

_MOST_CHARACTERS = 2_000_000
_MOST_NODES = 100_000
_TOP = frozenset(
    {"meta", "model", "variants", "compatible_strategies", "guide", "strategy_overrides", "hardware_overrides"}
    | {"features", "opt_in_features", "dependencies", "kv_offload_support", "omni", "default_strategy"}
    | {"strategy_hardware", "strategy_min_gpus", "hardware_opt_in_features", "hardware_notes"}
)
_META = frozenset(
    {"title", "slug", "provider", "description", "date_added", "date_updated", "difficulty", "tasks", "hardware"}
    | {"related_recipes", "default_hardware", "performance_headline"}
)
_MODEL = frozenset(
    {"model_id", "min_vllm_version", "architecture", "parameter_count", "active_parameters", "context_length"}
    | {"base_args", "base_env", "docker_image", "install", "nightly_required", "supports_dcp"}
)
_VARIANT = frozenset(
    {"precision", "vram_minimum_gb", "description", "model_id", "extra_args", "extra_env", "tp", "min_vllm_version"}
    | {"supported_hardware", "hardware_overrides", "label"}
)
_FEATURE = frozenset({"description", "args", "env", "strategies", "hardware_overrides", "modes", "default_mode"})
_OVERRIDE = frozenset({"extra_args", "extra_env", "tp", "docker_image", "args"})
_STRATEGY = frozenset(
    {"extra_args", "extra_env", "tp", "hardware_overrides", "router", "env", "prefill", "decode", "nodes", "pp", "dp"}
)


@dataclass(frozen=True, slots=True)
class Addition:
    """Arguments and environment that one part of a recipe adds; `tp` when it sets the tensor-parallel size."""

    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    tp: int | None = None
    tp_by_hardware: dict[str, int] = field(default_factory=dict)
    image: str | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """A variant of the model: precision, memory it needs at least, and what it adds."""

    addition: Addition
    precision: str | None = None
    vram_minimum_gb: int | None = None
    model_id: str | None = None
    min_vllm_version: str | None = None
    hardware: dict[str, Addition] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature with its arguments; `strategies` limits it when not empty."""

    addition: Addition
    strategies: tuple[str, ...] = ()
    hardware: dict[str, Addition] = field(default_factory=dict)
    opt_in: bool = False


@dataclass(frozen=True, slots=True)
class Strategy:
    """What a strategy adds; its blocks by hardware replace the recipe's own of that group."""

    addition: Addition
    hardware: dict[str, Addition] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe as read. None = it does not say.

    unknown: dotted paths of keys that this version does not know; their values are kept in `raw`.
    odd: what has another form than expected, in sentences with its path.
    """

    model_id: str
    title: str
    slug: str
    updated: dt.date | None
    min_vllm_version: str | None
    base: Addition
    images: dict[str, str]
    hardware: dict[str, str]
    default_hardware: str | None
    strategies: tuple[str, ...]
    default_strategy: str | None
    variants: dict[str, Variant]
    features: dict[str, Feature]
    hardware_overrides: dict[str, Addition]
    strategy_overrides: dict[str, Strategy]
    strategy_min_gpus: dict[str, int]
    prose: tuple[tuple[str, str], ...]
    """(path, text) of the guide and of the notes, where boundaries are written in words."""
    unknown: tuple[str, ...]
    odd: tuple[str, ...]
    raw: Mapping[str, Any]


def read(text: str, *, name: str = "recipe") -> Recipe:
    """Read a recipe.

    Raises:
        InvalidDefinition: it is no YAML mapping, or says neither which model nor which arguments it is about.
    """
    raw = _load(text, name)
    reader = _Reader()
    model = reader.mapping(raw, "model")
    meta = reader.mapping(raw, "meta")
    model_id = reader.text(model, "model.model_id")
    if model_id is None:
        raise InvalidDefinition(
            f"{name}: model.model_id: expected the model's id, found {type(model.get('model_id')).__name__}"
        )
    opt_in = set(reader.texts(raw.get("opt_in_features"), "opt_in_features"))
    unknown = tuple(_unknown(raw))
    return Recipe(
        model_id=model_id,
        title=reader.text(meta, "meta.title") or model_id,
        slug=reader.text(meta, "meta.slug") or model_id.rpartition("/")[2].lower(),
        updated=reader.day(meta.get("date_updated", meta.get("date_added")), "meta.date_updated"),
        min_vllm_version=reader.text(model, "model.min_vllm_version"),
        base=Addition(
            reader.texts(model.get("base_args"), "model.base_args"), reader.env(model.get("base_env"), "model.base_env")
        ),
        images=reader.images(model.get("docker_image"), "model.docker_image"),
        hardware=reader.env(meta.get("hardware"), "meta.hardware"),
        default_hardware=reader.text(meta, "meta.default_hardware"),
        strategies=reader.texts(raw.get("compatible_strategies"), "compatible_strategies"),
        default_strategy=reader.text(raw, "default_strategy"),
        variants={key: reader.variant(body, f"variants.{key}") for key, body in reader.items(raw, "variants")},
        features={
            key: reader.feature(body, f"features.{key}", key in opt_in) for key, body in reader.items(raw, "features")
        },
        hardware_overrides=reader.overrides(raw.get("hardware_overrides"), "hardware_overrides"),
        strategy_overrides={
            key: Strategy(
                reader.addition(body, f"strategy_overrides.{key}"),
                reader.overrides(body.get("hardware_overrides"), f"strategy_overrides.{key}.hardware_overrides"),
            )
            for key, body in reader.items(raw, "strategy_overrides")
        },
        strategy_min_gpus=reader.numbers(raw.get("strategy_min_gpus"), "strategy_min_gpus"),
        prose=tuple(_prose(raw)),
        unknown=unknown,
        odd=tuple(reader.odd),
        raw=raw,
    )


class _Loader(safe_yaml.SafeLoader):  # type: ignore[misc]  # PyYAML says no types of it
    """Leaves numbers with a point as text: an unquoted version 0.10 is not 0.1."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:float"]
    for first, resolvers in safe_yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _load(text: str, name: str) -> dict[str, Any]:
    if len(text) > _MOST_CHARACTERS:
        raise InvalidDefinition(
            f"{name}: expected a recipe of at most {_MOST_CHARACTERS} characters, found {len(text)}"
        )
    try:
        raw = yaml.load(text, Loader=_Loader)  # noqa: S506  # a safe loader of our own
    except safe_yaml.YamlFaults as error:
        raise InvalidDefinition(f"{name}: expected a recipe in YAML, found {str(error).splitlines()[0]}") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("model"), dict):
        found = ", ".join(map(str, raw)) if isinstance(raw, dict) else type(raw).__name__
        raise InvalidDefinition(
            f"{name}: expected a recipe with the keys meta and model, found {found[:120] or 'nothing'}"
        )
    if _is_endless(raw):
        raise InvalidDefinition(
            f"{name}: expected a recipe, found anchors that repeat into more than {_MOST_NODES} values"
        )
    return {str(key): value for key, value in raw.items()}


def _is_endless(raw: Any) -> bool:
    stack, seen = [raw], 0
    while stack and seen <= _MOST_NODES:
        node = stack.pop()
        seen += 1
        stack.extend(node.values() if isinstance(node, dict) else node if isinstance(node, list) else ())
    return seen > _MOST_NODES


class _Reader:
    """Takes values of the expected form and notes the others, with their path."""

    def __init__(self) -> None:
        self.odd: list[str] = []

    def mapping(self, parent: Mapping[str, Any], path: str) -> dict[str, Any]:
        value = parent.get(path.rpartition(".")[2])
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._odd(path, "a mapping", value)
            return {}
        return {str(key): item for key, item in value.items()}

    def items(self, parent: Mapping[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        for key, body in self.mapping(parent, path).items():
            if isinstance(body, dict):
                yield key, {str(name): value for name, value in body.items()}
            elif body is not None:
                self._odd(f"{path}.{key}", "a mapping", body)
            else:
                yield key, {}

    def text(self, parent: Mapping[str, Any], path: str) -> str | None:
        value = parent.get(path.rpartition(".")[2])
        if value is None or isinstance(value, dict | list):
            if value is not None:
                self._odd(path, "a text", value)
            return None
        return _as_text(value)

    def texts(self, value: Any, path: str) -> tuple[str, ...]:
        if value is None:
            return ()
        if isinstance(value, str):
            self._odd(path, "a list", value)
            return tuple(value.split())
        if not isinstance(value, list):
            self._odd(path, "a list", value)
            return ()
        return tuple(self._word(item, f"{path}[{index}]") for index, item in enumerate(value))

    def env(self, value: Any, path: str) -> dict[str, str]:
        if value is None:
            return {}
        if isinstance(value, list):
            self._odd(path, "a mapping", value)
            pairs = (str(item).partition("=") for item in value)
            return {name: text for name, _, text in pairs}
        if not isinstance(value, dict):
            self._odd(path, "a mapping", value)
            return {}
        return {str(name): _as_text(item) for name, item in value.items() if item is not None}

    def numbers(self, value: Any, path: str) -> dict[str, int]:
        if not isinstance(value, dict):
            if value is not None:
                self._odd(path, "a mapping", value)
            return {}
        found = {str(key): self.number(item, f"{path}.{key}") for key, item in value.items()}
        return {key: number for key, number in found.items() if number is not None}

    def number(self, value: Any, path: str) -> int | None:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and (match := re.fullmatch(r"\s*(\d+)(?:\.0+)?\s*", value)):
            return int(match[1])
        if value is not None:
            self._odd(path, "a whole number", value)
        return None

    def day(self, value: Any, path: str) -> dt.date | None:
        if isinstance(value, dt.datetime):
            return value.date()
        if isinstance(value, dt.date):
            return value
        if isinstance(value, str):
            try:
                return dt.date.fromisoformat(value.strip()[:10])
            except ValueError:
                pass
        if value is not None:
            self._odd(path, "a date", value)
        return None

    def images(self, value: Any, path: str) -> dict[str, str]:
        if isinstance(value, str):
            return {"": value}
        if isinstance(value, dict):
            found: dict[str, str] = {}
            for key, item in value.items():
                for inner, image in self.images(item, f"{path}.{key}").items():
                    found[f"{key}.{inner}" if inner else str(key)] = image
            return found
        if value is not None:
            self._odd(path, "an image", value)
        return {}

    def addition(self, body: Mapping[str, Any], path: str) -> Addition:
        tp = body.get("tp")
        return Addition(
            args=self.texts(body.get("extra_args", body.get("args")), f"{path}.extra_args"),
            env=self.env(body.get("extra_env", body.get("env")), f"{path}.extra_env"),
            tp=None if isinstance(tp, dict) else self.number(tp, f"{path}.tp"),
            tp_by_hardware=self.numbers(tp, f"{path}.tp") if isinstance(tp, dict) else {},
            image=next(iter(self.images(body.get("docker_image"), f"{path}.docker_image").values()), None),
        )

    def overrides(self, value: Any, path: str) -> dict[str, Addition]:
        return {key: self.addition(body, f"{path}.{key}") for key, body in self.items({"x": value}, f"{path}.x")}

    def variant(self, body: dict[str, Any], path: str) -> Variant:
        return Variant(
            addition=self.addition(body, path),
            precision=self.text(body, f"{path}.precision"),
            vram_minimum_gb=self.number(body.get("vram_minimum_gb"), f"{path}.vram_minimum_gb"),
            model_id=self.text(body, f"{path}.model_id"),
            min_vllm_version=self.text(body, f"{path}.min_vllm_version"),
            hardware=self.overrides(body.get("hardware_overrides"), f"{path}.hardware_overrides"),
        )

    def feature(self, body: dict[str, Any], path: str, opt_in: bool) -> Feature:
        mode = self.mapping(self.mapping(body, f"{path}.modes"), f"{path}.modes.{body.get('default_mode')}")
        own, chosen = self.addition(body, path), self.addition(mode, f"{path}.modes")
        return Feature(
            addition=Addition((*own.args, *chosen.args), {**own.env, **chosen.env}),
            strategies=self.texts(body.get("strategies"), f"{path}.strategies"),
            hardware=self.overrides(body.get("hardware_overrides"), f"{path}.hardware_overrides"),
            opt_in=opt_in,
        )

    def _word(self, item: Any, path: str) -> str:
        if isinstance(item, dict | list):
            self._odd(path, "a word", item)
        return _as_text(item)

    def _odd(self, path: str, expected: str, found: Any) -> None:
        shown = _as_text(found)
        self.odd.append(f"{path.removesuffix('.x')}: expected {expected}, found {type(found).__name__} {shown[:60]!r}")


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else str(value)


def _unknown(raw: Mapping[str, Any]) -> Iterator[str]:
    yield from (key for key in raw if key not in _TOP)
    for parent, known in (("meta", _META), ("model", _MODEL)):
        body = raw.get(parent)
        yield from (f"{parent}.{key}" for key in body if key not in known) if isinstance(body, dict) else ()
    for parent, known in (
        ("variants", _VARIANT),
        ("features", _FEATURE),
        ("hardware_overrides", _OVERRIDE),
        ("strategy_overrides", _STRATEGY),
    ):
        bodies = raw.get(parent)
        for name, body in bodies.items() if isinstance(bodies, dict) else ():
            yield from (f"{parent}.{name}.{key}" for key in body if key not in known) if isinstance(body, dict) else ()


def _prose(raw: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    guide = raw.get("guide")
    if isinstance(guide, str):
        yield "guide", guide
    for path, node in _texts_of(raw.get("model"), "model"):
        if path.endswith(".note"):
            yield path, node
    for key in ("dependencies", "hardware_notes"):
        yield from _texts_of(raw.get(key), key)


def _texts_of(value: Any, path: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif depth < 8:
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, item in items:
            yield from _texts_of(item, f"{path}.{key}", depth + 1)
