"""Which arguments and variables a recipe comes to for one hardware profile, in the order that the format documents.

base → variant → strategy flag → strategy → hardware (or the strategy's replacement) → features that are on. Of a
repeated flag or variable the last one wins; each keeps the part that it came from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from playbooks.errors import InvalidDefinition
from playbooks.judging.boundary_data import Profile, RecipeForm
from playbooks.judging.option_words import Option, normalised, options_of
from playbooks.reading.command_values import CommandKind, ContainerSpec, LaunchCommand
from playbooks.reading.recipe import Addition, Recipe


@dataclass(frozen=True, slots=True)
class Resolved:
    """The launch of one profile: arguments normalised, environment, image, and where each argument came from."""

    profile: str
    strategy: str
    variant: str
    model_id: str
    argv: tuple[str, ...]
    env: dict[str, str]
    image: str | None
    origins: tuple[tuple[str, str], ...]
    """(option, part of the recipe), in the order they applied."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Choice:
    hardware: str
    strategy: str
    variant: str
    features: Sequence[str] | None
    known: Profile | None

    @property
    def groups(self) -> tuple[str, ...]:
        """Groups of the hardware, the widest first: the narrowest is the last word."""
        return (self.known.brand, self.known.generation, self.hardware) if self.known is not None else (self.hardware,)


def resolve(
    recipe: Recipe,
    form: RecipeForm,
    *,
    profile: str | None = None,
    strategy: str | None = None,
    variant: str = "default",
    features: Sequence[str] | None = None,
) -> Resolved:
    """Resolve the launch of one profile.

    features: those that are on; None = all that are not opt-in.

    Raises:
        InvalidDefinition: the recipe has no such variant, strategy or feature; the message lists what it has.
    """
    hardware = profile or recipe.default_hardware or next(iter(recipe.hardware), "") or "unknown"
    known = next((row for row in form.profiles if row.profile == hardware), None)
    chosen = strategy or recipe.default_strategy or _first_strategy(recipe)
    choice = _Choice(hardware, chosen, variant, features, known)
    _expect("strategy", chosen, {*recipe.strategies, *recipe.strategy_overrides}, empty_ok=True)
    _expect("variant", variant, set(recipe.variants), empty_ok=variant == "default")
    for name in features or ():
        _expect("feature", name, set(recipe.features))
    notes = (
        []
        if known is not None
        else [f"{hardware} is no profile of the known taxonomy: groups of hardware were not applied"]
    )
    options: list[Option] = []
    origins: list[tuple[str, str]] = []
    env: dict[str, str] = {}
    image: str | None = None
    for origin, addition in _parts(recipe, form, choice):
        for option in options_of(("", *addition.args))[1:]:
            options.append(option)
            origins.append((option.name or option.words[0], origin))
        env.update(addition.env)
        image = addition.image or image
    body = recipe.variants.get(variant)
    model_id = (body.model_id if body is not None else None) or recipe.model_id
    if image is None:
        image = _image(recipe.images, known)
    return Resolved(
        hardware, chosen, variant, model_id, (model_id, *normalised(options)), env, image, tuple(origins), tuple(notes)
    )


def command_of(resolved: Resolved, reference: str | None = None) -> LaunchCommand:
    """Return the launch as a command, so that a minimal one can be derived from it."""
    image = reference or resolved.image
    argv = resolved.argv if image else ("vllm", "serve", *resolved.argv)
    return LaunchCommand(
        CommandKind.DOCKER_RUN if image else CommandKind.VLLM_SERVE,
        argv,
        image=image,
        env=dict(resolved.env),
        container=ContainerSpec(ipc_mode="host", gpus="all") if image else None,
        notes=resolved.notes,
    )


def _parts(recipe: Recipe, form: RecipeForm, choice: _Choice) -> Iterator[tuple[str, Addition]]:
    strategy, groups = choice.strategy, choice.groups
    yield "model.base_args", recipe.base
    body = recipe.variants.get(choice.variant)
    if body is not None:
        here = f"variants.{choice.variant}"
        yield here, body.addition
        yield from ((f"{here}.hardware_overrides.{name}", part) for name, part in _matching(body.hardware, groups))
    override = recipe.strategy_overrides.get(strategy)
    gpus = choice.known.gpu_count if choice.known is not None else 1
    size = _tensor_parallel(recipe, choice) or gpus
    flags = form.strategy_flags.get(strategy, ())
    yield f"strategy {strategy}", Addition(tuple(word.format(tp=size, gpus=gpus) for word in flags))
    if override is not None:
        yield f"strategy_overrides.{strategy}", override.addition
    replaced = override.hardware if override is not None else {}
    for group in groups:
        if group in replaced:
            yield f"strategy_overrides.{strategy}.hardware_overrides.{group}", replaced[group]
        elif group in recipe.hardware_overrides:
            yield f"hardware_overrides.{group}", recipe.hardware_overrides[group]
    for name, feature in recipe.features.items():
        on = not feature.opt_in if choice.features is None else name in choice.features
        if on and (not feature.strategies or strategy in feature.strategies):
            here = f"features.{name}"
            yield here, feature.addition
            yield from (
                (f"{here}.hardware_overrides.{group}", part) for group, part in _matching(feature.hardware, groups)
            )


def _matching(blocks: Mapping[str, Addition], groups: tuple[str, ...]) -> Iterator[tuple[str, Addition]]:
    return ((group, blocks[group]) for group in groups if group in blocks)


def _tensor_parallel(recipe: Recipe, choice: _Choice) -> int | None:
    """Return the tensor-parallel size of the narrowest place that states one."""
    groups = tuple(reversed(choice.groups))
    places: list[Addition] = []
    override, body = recipe.strategy_overrides.get(choice.strategy), recipe.variants.get(choice.variant)
    if override is not None:
        places += [*(part for _, part in _matching(override.hardware, groups)), override.addition]
    places += [part for _, part in _matching(recipe.hardware_overrides, groups)]
    if body is not None:
        places += [*(part for _, part in _matching(body.hardware, groups)), body.addition]
    for place in places:
        found = next((place.tp_by_hardware[group] for group in groups if group in place.tp_by_hardware), place.tp)
        if found is not None:
            return found
    return None


def _first_strategy(recipe: Recipe) -> str:
    return "single_node_tp" if "single_node_tp" in recipe.strategies or not recipe.strategies else recipe.strategies[0]


def _image(images: Mapping[str, str], known: Profile | None) -> str | None:
    brand = known.brand if known is not None else "nvidia"
    return next((images[key] for key in ("", brand, *images) if key in images), None)


def _expect(what: str, name: str, known: set[str], *, empty_ok: bool = False) -> None:
    if name not in known and not (empty_ok and not known):
        raise InvalidDefinition(
            f"expected a {what} of the recipe ({', '.join(sorted(known)) or 'it has none'}), found {name!r}"
        )
