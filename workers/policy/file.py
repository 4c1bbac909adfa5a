"""The policy file: its form, how it is read, and a narrow template to start from.

What the rules mean for a request is decided by `workers.policy.judge`. docs/reference/node-policy.md lists the same keys.
"""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workers.errors import InvalidPolicy

SCHEMA = "baseline-node-policy/1"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class InterpreterRule(_Part):
    """A Python whose vLLM may be started, and the executable that starts it."""

    python: Path
    vllm: Path
    """The `vllm` command that belongs to it; started as `vllm serve …`, never with another entry point."""


class ImageRule(_Part):
    """An image that may be started: by digest or id, or by a reference that ends in `*`."""

    reference: str
    entrypoints: tuple[tuple[str, ...], ...] = ()
    """Entry points other than the image's own that may be asked for."""


class ArgumentRules(_Part):
    """Arguments that are refused unless they are listed here."""

    code: tuple[str, ...] = ()
    """Options that load code, such as `--trust-remote-code` or `--tool-parser-plugin`."""
    listen: tuple[str, ...] = ("127.0.0.1", "localhost", "::1")
    """Addresses that the engine may listen on."""


class NodePolicy(_Part):
    """What may be started. Everything is closed that is not opened here."""

    schema_: Literal["baseline-node-policy/1"] = Field(alias="schema")
    engines: tuple[Literal["process", "docker", "attach"], ...] = ()
    interpreters: tuple[InterpreterRule, ...] = ()
    images: tuple[ImageRule, ...] = ()
    model_dirs: tuple[Path, ...] = ()
    """Models may lie here, and here only."""
    model_ids: tuple[str, ...] = ()
    """Names of hub models that may be fetched, `org/name` or `org/*`."""
    files: tuple[Path, ...] = ()
    """Other files and folders that arguments may name: chat templates, certificates."""
    mounts: tuple[Path, ...] = ()
    """Host folders that a container may see, besides `model_dirs`."""
    writable_mounts: tuple[Path, ...] = ()
    env: tuple[str, ...] = ()
    """Names of variables, exact or with `*` at the end."""
    secrets_file: Path | None = None
    """Lines `NAME=value`; a baseline's `${node:NAME}` is filled from here, and the value never leaves the node."""
    arguments: ArgumentRules = ArgumentRules()
    endpoints: tuple[str, ...] = ()
    """Hosts that arguments may point to (object stores, metrics, other nodes)."""
    ports: tuple[int, int] = (18000, 18999)
    """First and last port that an engine may listen on."""
    address: str | None = None
    """Address under which other nodes reach this one; without it no launch over several nodes has its head here."""
    cluster_ports: tuple[int, int] = (29500, 29599)
    """First and last port on which the head of a launch over several nodes waits for the other ranks."""
    network_modes: tuple[str, ...] = ("bridge", "none", "default")
    gpus: Literal["all"] | tuple[str, ...] = "all"
    """UUIDs that may be used."""
    max_duration_s: int = Field(default=7200, gt=0)
    max_hold_s: int = Field(default=1800, ge=0)
    max_shm_bytes: int = Field(default=1 << 40, gt=0)

    def summary(self) -> dict[str, Any]:
        """Return what people see of it in the thread; no secrets are in a policy, and none are shown."""
        return {
            "engines": list(self.engines),
            "interpreters": [str(rule.python) for rule in self.interpreters],
            "images": [rule.reference for rule in self.images],
            "model_dirs": [str(path) for path in self.model_dirs],
            "address": self.address,
            "cluster_ports": list(self.cluster_ports),
            "max_duration_s": self.max_duration_s,
            "max_hold_s": self.max_hold_s,
        }


def load_policy(path: Path | None) -> tuple[NodePolicy | None, str]:
    """Read the policy file: the policy and the digest of its bytes; (None, "") when no file is configured.

    Raises:
        InvalidPolicy: a configured file is missing or not of the expected form. Then nothing is allowed at all.
    """
    if path is None:
        return None, ""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InvalidPolicy(f"policy file {path}: {error.strerror}") from error
    try:
        content = _parse(raw, path)
        policy = NodePolicy.model_validate(content)
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False)]
        raise InvalidPolicy(f"policy file {path}: {'; '.join(wrong[:4])}") from error
    for name, (first, last) in (("ports", policy.ports), ("cluster_ports", policy.cluster_ports)):
        if not 0 < first <= last <= 65535:
            raise InvalidPolicy(
                f"policy file {path}: {name}: expected [first, last] within 1-65535, found [{first}, {last}]"
            )
    return policy, hashlib.sha256(raw).hexdigest()


def _parse(raw: bytes, path: Path) -> Any:
    try:
        if path.suffix == ".toml":
            return tomllib.loads(raw.decode())
        if path.suffix in {".yaml", ".yml"}:
            return yaml.safe_load(raw)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidPolicy(f"policy file {path}: {error}") from error
    raise InvalidPolicy(f"policy file {path}: expected a name ending in .toml, .yaml or .yml")


TEMPLATE = """\
# What the baseline worker of this node may start. Everything that is not opened here is closed.
# The bot cannot widen it. After a change, restart the worker. Reference: docs/reference/node-policy.md
schema = "baseline-node-policy/1"

# Engines: "process" (a vLLM in a virtual environment), "docker", "attach" (not carried out yet: `baseline watch` looks on).
engines = [{engines}]

# Models are taken from here only; links are followed before the path is compared.
model_dirs = [{model_dirs}]

# Environment variables a launch may set, exact or with * at the end.
env = ["VLLM_*", "NCCL_*", "CUDA_VISIBLE_DEVICES", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "OMP_NUM_THREADS"]

# Secrets that a baseline names as ${{node:NAME}} are read from this file (lines NAME=value, mode 0600).
# secrets_file = "/etc/baseline/secrets.env"

# First and last port an engine may listen on; it listens on loopback unless [arguments] listen says more.
ports = [18000, 18999]

# Launches over several nodes: the address under which the others reach this node, the ports its ranks may meet on,
# and (endpoints) the addresses of the other nodes, so that this one may join a launch whose head is there.
# address = "10.0.0.1"
# cluster_ports = [29500, 29599]
# endpoints = ["10.0.0.2"]

# GPUs: "all", or a list of UUIDs.
gpus = "all"

# Longest launch, and longest time a ready engine is held for requests, in seconds.
max_duration_s = {max_duration_s}
max_hold_s = {max_hold_s}
{interpreters}
# Images by digest, id, or a reference that ends in *.
# [[images]]
# reference = "vllm/vllm-openai:*"

[arguments]
# Options that load code are refused unless listed, e.g. ["--trust-remote-code"].
code = []
"""


def template(
    *,
    interpreters: tuple[tuple[Path, Path], ...] = (),
    model_dirs: tuple[Path, ...] = (),
    max_duration_s: int = 7200,
    max_hold_s: int = 1800,
) -> str:
    """Return a narrow policy, with comments, as TOML.

    interpreters: (python, vllm) pairs that may be started.
    """
    written = (
        "".join(f'\n[[interpreters]]\npython = "{python}"\nvllm = "{vllm}"\n' for python, vllm in interpreters)
        or '\n# [[interpreters]]\n# python = "/opt/vllm/bin/python"\n# vllm = "/opt/vllm/bin/vllm"\n'
    )
    return TEMPLATE.format(
        engines='"process"' if interpreters else "",
        model_dirs=", ".join(f'"{path}"' for path in model_dirs),
        max_duration_s=max_duration_s,
        max_hold_s=max_hold_s,
        interpreters=written,
    )
