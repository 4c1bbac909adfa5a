"""Sample cases: recorded logs of a real engine, ready to be dropped into the conversation. Origin: samples/index.yaml."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class Sample:
    """One recorded log."""

    id: str
    title: str
    what: str
    file: str

    @property
    def file_name(self) -> str:
        """The name it has when it is dropped."""
        return self.file.removesuffix(".gz")

    def read(self) -> bytes:
        """Return its bytes."""
        data = files(__package__).joinpath("samples", self.file).read_bytes()
        return gzip.decompress(data) if self.file.endswith(".gz") else data


class Samples:
    """All packaged samples."""

    def __init__(self) -> None:
        index: dict[str, Any] = yaml.safe_load(
            files(__package__).joinpath("samples", "index.yaml").read_text(encoding="utf-8")
        )
        self._samples = {
            one["id"]: Sample(one["id"], one["title"], one["what"], one["file"]) for one in index["samples"]
        }

    def get(self, sample: str) -> Sample | None:
        """Return a sample by id."""
        return self._samples.get(sample)

    def listing(self) -> list[dict[str, str]]:
        """Return what the page shows of them."""
        return [
            {"id": one.id, "title": one.title, "what": one.what, "file": one.file_name}
            for one in self._samples.values()
        ]
