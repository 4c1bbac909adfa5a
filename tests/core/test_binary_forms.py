"""What is no text is named by its first bytes; text of any encoding is never taken for it."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from random import Random

import pytest

from playbooks.reading.binary_forms import LOOKED_AT, binary_form
from tests.support.labels import labels


def a_tar() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        entry = tarfile.TarInfo("a.log")
        entry.size = 3
        tar.addfile(entry, io.BytesIO(b"abc"))
    return made.getvalue()


def a_zip() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("a.log", "abc")
    return made.getvalue()


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\x00", "a PNG picture"),
        (b"\xff\xd8\xff\xe0", "a JPEG picture"),
        (a_zip(), "a zip archive"),
        (a_tar(), "a tar archive"),
        (gzip.compress(b"x"), "a gzip file"),
        (bz2.compress(b"x"), "a bzip2 file"),
        (lzma.compress(b"x"), "an xz file"),
        (Random(3).randbytes(LOOKED_AT), "binary data"),
        (bytes(LOOKED_AT), "binary data"),
    ],
    ids=lambda value: value if isinstance(value, str) else "bytes",
)
def test_what_is_no_text_is_named(data: bytes, name: str) -> None:
    assert binary_form(data) == name


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"ERROR x\n",
        "启动失败：显存不足".encode(),
        "a\u00e9\u00fc".encode("latin-1"),
        "ERROR 12-01 engine failed".encode("utf-16"),
        "ERROR 12-01 engine failed".encode("utf-16-le"),
        b"\x1b[31mERROR\x1b[0m load\r 10%\r 20%\n",
        b"one NUL \x00 in a long line of a log that is text all the same",
    ],
)
def test_text_is_text(text: bytes) -> None:
    assert binary_form(text) is None


def test_no_labelled_log_is_taken_for_a_binary() -> None:
    assert [label.path.name for label in labels("real-vllm", "public") if binary_form(label.data[:LOOKED_AT])] == []
