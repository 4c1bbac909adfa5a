"""Two baselines compared variable by variable; one variable at most may change (R6.7).

What only one side has read (packages, model files, GPUs, digests) is no difference: the node fills it in before a start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from playbooks.errors import InvalidCommand, SecondVariable
from playbooks.judging.baseline import Baseline, Change, ContainerOptions, ImageRef, Interpreter, ModelFiles, Mount
from playbooks.judging.option_words import REPEATED, Option, normalised, options_of

_ARGUMENT, _ENV, _MOUNT, _CONTAINER = "argument ", "environment ", "mount ", "container "
_ON, _OFF, _READ_ONLY = "on", "off", " (read-only)"
_MODEL = "model"
_NODES = "nodes"
_SPREAD = ("--data-parallel-size", "--pipeline-parallel-size", "--tensor-parallel-size")
"""How a model is spread over its nodes: with more nodes these change too, and the two are one variable."""
TOGETHER: Mapping[str, tuple[str, ...]] = {"tool calls": ("--enable-auto-tool-choice", "--tool-call-parser")}
"""Options of which none works without the others: set together, they are one variable."""
_NUMBERS = frozenset({"shm_size_bytes", "memory_limit_bytes"})


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
        SecondVariable: more than one variable differs; the message names them all.
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
        return _having(baseline, argv=_with_option(baseline.argv, name.removeprefix(_ARGUMENT), value))
    if name in TOGETHER:
        return _having(baseline, argv=_with_together(baseline.argv, TOGETHER[name], value))
    if name.startswith(_ENV):
        return _having(baseline, env=_with_key(baseline.env, name.removeprefix(_ENV), value))
    if name.startswith(_MOUNT):
        return _having(baseline, mounts=_with_mount(baseline.mounts, name.removeprefix(_MOUNT), value))
    if name.startswith(_CONTAINER):
        return _having(baseline, container=_with_container(baseline.container, name.removeprefix(_CONTAINER), value))
    match name:
        case "nodes" if value:
            return _with_nodes(baseline, value)
        case "image":
            reference, _, digest = (value or "").partition("@")
            return _having(baseline, image=ImageRef(reference=reference, digest=digest or None) if value else None)
        case "model files":
            # a repaired directory: what is in it is read again by the node before the next start
            return _having(baseline, model=None)
        case "interpreter":
            return _having(baseline, interpreter=Interpreter(python=value) if value else None)
        case _:
            settable = "an argument, environment, mount, container option, image, interpreter"
            raise InvalidCommand(f"expected a variable that can be set by name ({settable}), found {name!r}")


def switched_on(
    baseline: Baseline, option: str, *, reason: str = "", expected: str = ""
) -> tuple[Baseline, Change | None]:
    """Return the baseline with one option on, and that change; None when it is on already."""
    return with_feature(baseline, {option: _ON}, reason=reason, expected=expected)


def with_feature(
    baseline: Baseline, options: Mapping[str, str], *, reason: str = "", expected: str = ""
) -> tuple[Baseline, Change | None]:
    """Return the baseline with a feature's options set, and that change; None when they are set already.

    options: name to value, `on` for a switch; several must belong together (`TOGETHER`).

    Raises:
        SecondVariable: they are more than one variable.
    """
    argv = baseline.argv
    for name, value in options.items():
        argv = _with_option(argv, name, value)
    changed = _having(baseline, argv=argv)
    return changed, one_change(baseline, changed, reason=reason, expected=expected)


def _having(baseline: Baseline, **update: Any) -> Baseline:
    return baseline.model_copy(update=update)


def _differences(a: Baseline, b: Baseline) -> Iterator[Variable]:
    if a.engine != b.engine:
        yield Variable("engine", a.engine, b.engine)
    yield from _image(a.image, b.image)
    yield from _interpreter(a.interpreter, b.interpreter)
    yield from _nodes(a, b)
    known = frozenset(_SPREAD) if a.nodes and b.nodes and a.nodes != b.nodes else frozenset()
    before, after = (_without(_arguments(side.argv), known) for side in (a, b))
    for name, options in TOGETHER.items():
        if all(before.get(option) != after.get(option) for option in options):
            detail = tuple(f"{one}: {_shown(before.get(one))} → {_shown(after.get(one))}" for one in options)
            yield Variable(name, _as_words(before, options), _as_words(after, options), detail)
            before, after = (_without(side, frozenset(options)) for side in (before, after))
    yield from _mapping(_ARGUMENT, before, after)
    yield from _mapping(_ENV, a.env, b.env)
    yield from _mapping(_MOUNT, _mounts(a), _mounts(b))
    yield from _mapping(_CONTAINER, _container(a.container), _container(b.container))
    yield from _model_files(a.model, b.model)
    if a.gpus and b.gpus and a.gpus != b.gpus:
        yield Variable("gpus", ", ".join(a.gpus), ", ".join(b.gpus))
    if a.driver and b.driver and a.driver != b.driver:
        yield Variable("driver", a.driver, b.driver)
    if a.sample is not None and b.sample is not None and a.sample != b.sample:
        was, now = a.sample.model_dump(), b.sample.model_dump()
        detail = tuple(f"{key}: {was[key]} → {now[key]}" for key in was if was[key] != now[key])
        yield Variable("request sample", f"{a.sample.path} {a.sample.body}", f"{b.sample.path} {b.sample.body}", detail)


def _nodes(a: Baseline, b: Baseline) -> Iterator[Variable]:
    if a.nodes and b.nodes and a.nodes != b.nodes:
        yield Variable(_NODES, _spread(a), _spread(b))


def _spread(baseline: Baseline) -> str:
    """Return nodes, head first, and how the model is spread over them: `a1, a2; --tensor-parallel-size 16`."""
    given = _arguments(baseline.argv)
    return "; ".join([", ".join(baseline.nodes), *(f"{name} {given[name]}" for name in _SPREAD if name in given)])


def _with_nodes(baseline: Baseline, value: str) -> Baseline:
    """Set nodes and spread as `_spread` writes them."""
    names, *sizes = value.split("; ")
    argv = baseline.argv
    given = dict(size.split(" ", 1) for size in sizes)
    for name in _SPREAD:
        argv = _with_option(argv, name, given.get(name))
    return _having(baseline, nodes=tuple(names.split(", ")), argv=argv)


def _without(values: dict[str, str], names: frozenset[str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if name not in names}


def _arguments(argv: tuple[str, ...]) -> dict[str, str]:
    """Return what each option sets to its value; `--no-x` is `--x` set to off, whatever the default is."""
    found: dict[str, str] = {}
    for option in options_of(argv):
        name = _MODEL if option.name in {"", "--model"} else option.key
        off = option.name != option.key
        shown = _OFF if off else option.shown if option.shown is not None else _ON
        found[name] = f"{found[name]} {shown}" if name in found and name in REPEATED | {_MODEL} else shown
    return found


def _with_option(argv: tuple[str, ...], name: str, value: str | None) -> tuple[str, ...]:
    options = options_of(argv)
    wanted = name
    if name == _MODEL:
        wanted = "--model" if any(option.name == "--model" for option in options) else ""
    rest = tuple(option for option in options if option.key != wanted)
    if value is None:
        return normalised(rest)
    if value == _OFF:
        return normalised((*rest, Option(f"--no-{name[2:]}")))
    as_one = value.startswith(("{", "[")) or not wanted
    values = () if value == _ON else (value,) if as_one else tuple(value.split(" "))
    return normalised((*rest, Option(wanted, values)))


def _as_words(values: Mapping[str, str], options: tuple[str, ...]) -> str | None:
    """Return options as they are typed; None when none of them is set."""
    given = [
        option if values[option] == _ON else f"{option} {values[option]}" for option in options if option in values
    ]
    return " ".join(given) or None


def _with_together(argv: tuple[str, ...], options: tuple[str, ...], value: str | None) -> tuple[str, ...]:
    given = {option.name: option for option in options_of(tuple((value or "").split()))}
    for name in options:
        found = given.get(name)
        argv = _with_option(argv, name, None if found is None else _ON if found.shown is None else found.shown)
    return argv


def _mapping(kind: str, a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[Variable]:
    for name in sorted({*a, *b}):
        if a.get(name) != b.get(name):
            yield Variable(f"{kind}{name}", a.get(name), b.get(name))


def _with_key(values: Mapping[str, str], name: str, value: str | None) -> dict[str, str]:
    rest = {key: text for key, text in values.items() if key != name}
    return dict(sorted((rest if value is None else {**rest, name: value}).items()))


def _mounts(baseline: Baseline) -> dict[str, str]:
    return {mount.target: f"{mount.source}{_READ_ONLY if mount.read_only else ''}" for mount in baseline.mounts}


def _with_mount(mounts: tuple[Mount, ...], target: str, value: str | None) -> tuple[Mount, ...]:
    rest = [mount for mount in mounts if mount.target != target]
    if value is not None:
        source = value.removesuffix(_READ_ONLY)
        rest.append(Mount(source=source, target=target, read_only=value.endswith(_READ_ONLY)))
    return tuple(sorted(rest, key=lambda mount: (mount.target, mount.source)))


def _container(options: ContainerOptions | None) -> dict[str, str]:
    if options is None:
        return {}
    dumped = options.model_dump(mode="json", exclude_none=True)
    limits = {f"ulimit {name}": str(limit) for name, limit in dumped.pop("ulimits", {}).items()}
    return {name: " ".join(value) if isinstance(value, list) else str(value) for name, value in dumped.items()} | limits


def _with_container(options: ContainerOptions | None, name: str, value: str | None) -> ContainerOptions:
    now = options or ContainerOptions()
    if name.startswith("ulimit "):
        limits = _with_key({key: str(limit) for key, limit in now.ulimits.items()}, name.removeprefix("ulimit "), value)
        return now.model_copy(update={"ulimits": {key: int(limit) for key, limit in limits.items()}})
    if name not in ContainerOptions.model_fields:
        raise InvalidCommand(f"expected an option of the container, found {name!r}")
    new: Any = value
    if value is not None and name in _NUMBERS:
        new = int(value)
    if value is not None and name == "entrypoint":
        new = tuple(value.split(" "))
    return now.model_copy(update={name: new})


def _image(a: ImageRef | None, b: ImageRef | None) -> Iterator[Variable]:
    if a is None or b is None:
        if a is not b:
            yield Variable("image", _image_name(a), _image_name(b))
        return
    known = [(x, y) for x, y in ((a.digest, b.digest), (a.image_id, b.image_id)) if x and y]
    if any(x != y for x, y in known) or (a.reference != b.reference and not known):
        yield Variable("image", _image_name(a), _image_name(b))


def _image_name(image: ImageRef | None) -> str | None:
    if image is None:
        return None
    identity = image.digest or image.image_id
    return f"{image.reference}@{identity}" if identity else image.reference


def _interpreter(a: Interpreter | None, b: Interpreter | None) -> Iterator[Variable]:
    if a is None or b is None:
        return
    names: list[str] = []
    if a.packages and b.packages:
        names = sorted(name for name in {*a.packages, *b.packages} if a.packages.get(name) != b.packages.get(name))
    detail = tuple(f"{name}: {_shown(a.packages.get(name))} → {_shown(b.packages.get(name))}" for name in names)
    if a.python != b.python:
        yield Variable("interpreter", a.python, b.python, detail)
    elif detail:
        yield Variable("packages", f"{len(a.packages)} versions", f"{len(names)} of them other: {detail[0]}", detail)


def _model_files(a: ModelFiles | None, b: ModelFiles | None) -> Iterator[Variable]:
    """All files of a model are one variable: repairing a directory is one change, each file a detail of it."""
    if a is None or b is None:
        return
    pairs = (
        ("path", a.path, b.path),
        ("revision", a.revision, b.revision),
        ("index", a.index_sha256, b.index_sha256),
        ("config.json", a.config_sha256, b.config_sha256),
    )
    detail = [f"{label}: {_shown(x)} → {_shown(y)}" for label, x, y in pairs if x != y]
    before, after = dict(a.files), dict(b.files)
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            was, now = (f"{side[name]} bytes" if name in side else "absent" for side in (before, after))
            detail.append(f"{name}: {was} → {now}")
    if detail:
        yield Variable("model files", _files(a), _files(b), tuple(detail))


def _files(model: ModelFiles) -> str:
    return f"{len(model.files)} files of {sum(size for _, size in model.files)} bytes in {model.path}"


def _shown(value: str | None) -> str:
    return "not set" if value is None else value[:80]
