"""Two baselines compared variable by variable; one variable at most may change (R6.7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from playbooks.errors import InvalidCommand, SecondVariable
from playbooks.judging.baseline import Baseline, Change, ContainerOptions, ImageRef, Interpreter, ModelFiles
from playbooks.judging.option_words import REPEATED, Option, normalised, options_of

_ARGUMENT, _ENV, _MOUNT, _CONTAINER = "argument ", "environment ", "mount ", "container "


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable that differs; None = not set. `detail` lists what differs inside it."""

    name: str
    before: str | None
    after: str | None
    detail: tuple[str, ...] = ()


def diff(a: Baseline, b: Baseline) -> tuple[Variable, ...]:
    """Name every variable in which `b` differs from `a`, in a fixed order."""
    return tuple(_differences(a, b))


def one_change(a: Baseline, b: Baseline, *, reason: str = "", expected: str = "") -> Change | None:
    """Return the one change from `a` to `b`, None when nothing differs.

    Raises:
        SecondVariable: more than one variable differs; the message names them.
    """
    found = diff(a, b)
    if not found:
        return None
    if len(found) > 1:
        names = ", ".join(f"{v.name} ({_shown(v.before)} → {_shown(v.after)})" for v in found)
        raise SecondVariable(
            f"expected one changed variable, found {len(found)}: {names}", items=tuple(v.name for v in found)
        )
    only = found[0]
    return Change(variable=only.name, before=only.before, after=only.after, reason=reason, expected=expected)


def apply(baseline: Baseline, change: Change) -> Baseline:
    """Return the baseline with the change made; inverse of naming it by `diff`.

    Raises:
        InvalidCommand: the variable is not one that can be set by name.
    """
    name, value = change.variable, change.after
    if name.startswith(_ARGUMENT):
        return baseline.model_copy(update={"argv": _with_option(baseline.argv, name.removeprefix(_ARGUMENT), value)})
    if name.startswith(_ENV):
        env = {k: v for k, v in baseline.env.items() if k != name.removeprefix(_ENV)}
        if value is not None:
            env[name.removeprefix(_ENV)] = value
        return baseline.model_copy(update={"env": dict(sorted(env.items()))})
    if name == "image":
        reference, _, digest = (value or "").partition("@")
        image = ImageRef(reference=reference, digest=digest or None) if value else None
        return baseline.model_copy(update={"image": image})
    if name == "model files":
        # a repaired directory: what is in it is read again by the node before the next start
        return baseline.model_copy(update={"model": None})
    if name == "interpreter":
        return baseline.model_copy(update={"interpreter": Interpreter(python=value) if value else None})
    raise InvalidCommand(
        f"expected a variable that can be set by name (an argument, environment, image, interpreter), found {name!r}"
    )


def _differences(a: Baseline, b: Baseline) -> Iterator[Variable]:
    if a.engine != b.engine:
        yield Variable("engine", a.engine, b.engine)
    if (image := _image(a, b)) is not None:
        yield image
    if (interpreter := _interpreter(a, b)) is not None:
        yield interpreter
    yield from _arguments(a.argv, b.argv)
    yield from _mapping(_ENV, a.env, b.env)
    yield from _mapping(_MOUNT, _mounts(a), _mounts(b))
    yield from _mapping(_CONTAINER, _container(a.container), _container(b.container))
    if (model := _model(a.model, b.model)) is not None:
        yield model
    for name, before, after in (("gpus", a.gpus, b.gpus), ("nodes", a.nodes, b.nodes)):
        if before and after and before != after:
            yield Variable(name, ", ".join(before), ", ".join(after))
    if a.driver and b.driver and a.driver != b.driver:
        yield Variable("driver", a.driver, b.driver)
    if a.sample is not None and b.sample is not None and a.sample != b.sample:
        yield Variable("request sample", a.sample.body, b.sample.body)


def _arguments(a: tuple[str, ...], b: tuple[str, ...]) -> Iterator[Variable]:
    before, after = _by_name(a), _by_name(b)
    for name in sorted({*before, *after}):
        x, y = before.get(name), after.get(name)
        if x == y:
            continue
        negation = f"--no-{name[2:]}"
        if name.startswith("--no-") and f"--{name[5:]}" in {*before, *after}:
            continue  # told with the positive name
        if x is None and negation in before:
            x = "off"
        if y is None and negation in after:
            y = "off"
        yield Variable(f"{_ARGUMENT}{name}", x, y)


def _by_name(argv: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for option in options_of(argv):
        name = "model" if option.name in {"", "--model"} else option.name
        shown = option.shown if option.shown is not None else "on"
        found[name] = f"{found[name]} {shown}" if name in found and name in REPEATED else shown
    return found


def _with_option(argv: tuple[str, ...], name: str, value: str | None) -> tuple[str, ...]:
    options = options_of(argv)
    by_option = any(option.name == "--model" for option in options)
    wanted = ("--model" if by_option else "") if name == "model" else name
    rest = tuple(option for option in options if option.name not in {wanted, f"--no-{name[2:]}"})
    if value is None:
        return normalised(rest)
    if value == "off":
        return normalised((*rest, Option(f"--no-{name[2:]}")))
    values = () if value == "on" else tuple(value.split(" ")) if not value.startswith(("{", "[")) else (value,)
    return normalised((*rest, Option(wanted, values)))


def _mapping(kind: str, a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[Variable]:
    for name in sorted({*a, *b}):
        if a.get(name) != b.get(name):
            yield Variable(f"{kind}{name}", a.get(name), b.get(name))


def _mounts(baseline: Baseline) -> dict[str, str]:
    return {m.target: f"{m.source}{' (read-only)' if m.read_only else ''}" for m in baseline.mounts}


def _container(options: ContainerOptions | None) -> dict[str, str]:
    dumped: dict[str, Any] = {} if options is None else options.model_dump(mode="json", exclude_none=True)
    return {name: str(value) for name, value in dumped.items() if value not in ({}, [])}


def _image(a: Baseline, b: Baseline) -> Variable | None:
    x, y = a.image, b.image
    if x is None or y is None:
        return None if x is y else Variable("image", _image_name(x), _image_name(y))
    pairs = ((x.digest, y.digest), (x.image_id, y.image_id))
    known = [(one, other) for one, other in pairs if one and other]
    if x.reference == y.reference and all(one == other for one, other in known):
        return None
    return Variable("image", _image_name(x), _image_name(y))


def _image_name(image: ImageRef | None) -> str | None:
    if image is None:
        return None
    return f"{image.reference}@{image.digest}" if image.digest else image.reference


def _interpreter(a: Baseline, b: Baseline) -> Variable | None:
    x, y = a.interpreter, b.interpreter
    if x is None or y is None:
        return None  # not read on one side: nothing is known to differ
    if x.python != y.python:
        return Variable("interpreter", x.python, y.python)
    if not x.packages or not y.packages or x.packages == y.packages:
        return None
    names = sorted(n for n in {*x.packages, *y.packages} if x.packages.get(n) != y.packages.get(n))
    detail = tuple(f"{n}: {x.packages.get(n, '-')} → {y.packages.get(n, '-')}" for n in names)
    return Variable("packages", f"{len(names)} versions", detail[0], detail)


def _model(a: ModelFiles | None, b: ModelFiles | None) -> Variable | None:
    if a is None or b is None:
        return None
    if a.path != b.path:
        return Variable("model path", a.path, b.path)
    detail = [
        f"{label}: {x or '-'} → {y or '-'}"
        for label, x, y in (
            ("revision", a.revision, b.revision),
            ("index", (a.index_sha256 or "")[:12], (b.index_sha256 or "")[:12]),
            ("config.json", (a.config_sha256 or "")[:12], (b.config_sha256 or "")[:12]),
        )
        if x != y
    ]
    before, after = dict(a.files), dict(b.files)
    detail += [
        f"{name}: {before.get(name, 'absent')} → {after.get(name, 'absent')} bytes"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]
    if not detail:
        return None
    return Variable(
        "model files", f"{len(before)} files", f"{len(after)} files, {len(detail)} differences", tuple(detail)
    )


def _shown(value: str | None) -> str:
    return "not set" if value is None else value[:80]
