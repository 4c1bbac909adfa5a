"""Fills into a baseline what only the node can see: packages, model files, driver, GPUs. Read again before each start."""

from __future__ import annotations

from pathlib import Path

from playbooks.judging.baseline import Baseline, ImageRef, Interpreter, ModelFiles
from playbooks.reading.fields import value_of, values_of
from workers.errors import JobError
from workers.jobs.deps import Deps
from workers.policy import Allowed
from workers.policy.arguments import read_options
from workers.ports import Facts


def resolve(deps: Deps, allowed: Allowed, gpus: Facts) -> Baseline:
    """Return the baseline as this node holds it now; what cannot be read stays as it was asked for."""
    baseline = allowed.baseline
    changes: dict[str, object] = {}
    if allowed.interpreter is not None:
        changes["interpreter"] = _interpreter(deps, str(allowed.interpreter.python))
    if baseline.image is not None:
        changes["image"] = _image(deps, baseline.image)
    if (path := model_path(baseline, allowed.arguments)) is not None:
        changes["model"] = _model(deps, path, baseline.model)
    if driver := value_of(gpus, "nvml.driver") or value_of(deps.host.driver(), "driver.loaded"):
        changes["driver"] = driver
    if uuids := values_of(gpus, "gpu", "uuid"):
        changes["gpus"] = tuple(sorted(set(uuids) & set(baseline.gpus) if baseline.gpus else uuids))
    return baseline.model_copy(update=changes)


def model_path(baseline: Baseline, arguments: tuple[str, ...]) -> str | None:
    """Return the model's folder on the host, or None when the model is no local path."""
    words, options = read_options(arguments)
    named = [option.value for option in options if option.name == "--model" and option.value]
    model = next(iter((*named, *words[:1])), "")
    if not model.startswith("/"):
        return None
    for mount in baseline.mounts:
        if model == mount.target or model.startswith(mount.target.rstrip("/") + "/"):
            return mount.source + model[len(mount.target.rstrip("/")) :]
    return model if not baseline.mounts else None


def _interpreter(deps: Deps, python: str) -> Interpreter:
    try:
        facts = deps.inside.packages(python)
    except JobError:
        return Interpreter(python=python)
    prefix = "package."
    versions = {name.removeprefix(prefix): str(field.value) for name, field in facts.items() if name.startswith(prefix)}
    return Interpreter(python=python, packages=dict(sorted(versions.items())))


def _image(deps: Deps, asked: ImageRef) -> ImageRef:
    try:
        facts = deps.inside.image_facts(asked.reference)
    except JobError:
        return asked
    return ImageRef(
        reference=asked.reference,
        digest=value_of(facts, "image.digest") or asked.digest,
        image_id=value_of(facts, "image.id") or asked.image_id,
    )


def _model(deps: Deps, path: str, asked: ModelFiles | None) -> ModelFiles:
    facts = deps.host.model_files(path)
    files = value_of(facts, "model.files") or ()
    return ModelFiles(
        path=asked.path if asked is not None else str(Path(path)),
        revision=value_of(facts, "model.revision") or (asked.revision if asked else None),
        index_sha256=value_of(facts, "model.index_sha256"),
        config_sha256=value_of(facts, "model.config_sha256"),
        files=tuple((str(name), int(size)) for name, size in files),
    )
