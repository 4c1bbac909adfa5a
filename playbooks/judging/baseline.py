"""The baseline: the frozen set of variables an attempt starts from; its digest is its name.

Reading a command into one, and comparing two, is done beside it (`minimal_command`, `baseline_diff`).
"""

from __future__ import annotations

import hashlib
from typing import Literal

import rfc8785
from pydantic import BaseModel, ConfigDict

from playbooks.vocabulary import Sha256

EngineKind = Literal["docker", "process", "attach", "recorded"]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ImageRef(_Value):
    """An image as started: the tag asked for, and what it resolved to. None = not read."""

    reference: str
    digest: str | None = None
    """Manifest digest `sha256:…`; None for images that were built or loaded locally."""
    image_id: str | None = None


class Interpreter(_Value):
    """For the process engine, what an image digest is for docker."""

    python: str
    packages: dict[str, str] = {}
    """Distribution name to version, as read by the fingerprint."""


class Mount(_Value):
    """A bind mount; `source` after links are resolved."""

    source: str
    target: str
    read_only: bool = True


class ModelFiles(_Value):
    """The model directory by revision, index and file sizes - not by 1.7 TB of bytes."""

    path: str
    revision: str | None = None
    index_sha256: str | None = None
    config_sha256: str | None = None
    files: tuple[tuple[str, int], ...] = ()
    """(name, size in bytes), sorted by name."""


class FixedSample(_Value):
    """The fixed request (R7.1): endpoint path, JSON body as canonical text, runs."""

    path: str = "/v1/completions"
    body: str
    """RFC 8785 text of the request body; holds `max_tokens` and sampling."""
    client: str = "baseline/1"


class ContainerOptions(_Value):
    """Options of the container that are variables too."""

    shm_size_bytes: int | None = None
    ipc_mode: str | None = None
    network_mode: str | None = None
    runtime: str | None = None
    ulimits: dict[str, int] = {}
    entrypoint: tuple[str, ...] | None = None
    memory_limit_bytes: int | None = None


class Baseline(_Value):
    """The frozen variables. Environment values may be references `${node:NAME}` that the worker fills in."""

    schema_version: int = 1
    engine: EngineKind
    image: ImageRef | None = None
    interpreter: Interpreter | None = None
    argv: tuple[str, ...] = ()
    """Normalised: `--a=b` written as `--a`, `b`; independent flags sorted; without a port that the product assigns."""
    env: dict[str, str] = {}
    mounts: tuple[Mount, ...] = ()
    model: ModelFiles | None = None
    gpus: tuple[str, ...] = ()
    """UUIDs, sorted."""
    nodes: tuple[str, ...] = ()
    driver: str | None = None
    container: ContainerOptions | None = None
    sample: FixedSample | None = None

    @property
    def digest(self) -> Sha256:
        """SHA-256 of the RFC 8785 bytes of the set: its name."""
        return Sha256(hashlib.sha256(rfc8785.dumps(self.model_dump(mode="json"))).hexdigest())


class Change(_Value):
    """One named variable set to another value (R1.8, R8)."""

    variable: str
    before: str | None
    after: str | None
    reason: str = ""
    expected: str = ""
