"""`baseline analyze` and `score` as a tired engineer reads them: root line in its context, why, what to look at next."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from playbooks.commands.analyze import register
from tests.support.labels import LOGS

REAL = LOGS / "real-vllm"
APP = typer.Typer()
register(APP)


def run(*words: object, stdin: bytes = b""):
    return CliRunner().invoke(APP, [str(word) for word in words], input=stdin)


def test_the_root_line_stands_in_its_context() -> None:
    told = run("analyze", REAL / "truncated-safetensors-r1.log").output
    lines = told.splitlines()
    marked = next(n for n, line in enumerate(lines) if line.lstrip().startswith("> "))
    assert "SafetensorError" in lines[marked]
    assert all(" | " in line for line in lines[marked - 2 : marked + 3])
    for part in ("Why: ", "Set aside: ", "Points to: fix files", "Next: "):
        assert part in told


def test_standard_input_is_judged_without_being_read_twice() -> None:
    data = (REAL / "truncated-safetensors-r1.log").read_bytes()
    told = run("analyze", "-", stdin=data).output
    assert "weight files bad" in told
    assert " | " not in told


def test_a_packed_log_is_unpacked(tmp_path: Path) -> None:
    packed = tmp_path / "a.log.gz"
    packed.write_bytes(gzip.compress((REAL / "truncated-safetensors-r1.log").read_bytes()))
    assert run("analyze", packed).output == run("analyze", REAL / "truncated-safetensors-r1.log").output


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "The input is empty."),
        (b"<html><body>502 Bad Gateway</body></html>\n", "The cause is not in this text"),
        (b"hello, does anyone know why it fails?\n", "nothing in it reads like a launch"),
    ],
)
def test_what_is_no_log_is_said_to_be_none(tmp_path: Path, data: bytes, expected: str) -> None:
    file = tmp_path / "x.txt"
    file.write_bytes(data)
    done = run("analyze", file)
    assert expected in done.output
    assert "failed:" not in done.output


@pytest.mark.parametrize(
    ("data", "first"),
    [
        (b"[12.1] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05\n", "Nothing wrong is seen in 1 lines"),
        (b"[12.1] NVRM: Xid (PCI:0000:18:00): 31, pid=2, name=python3, MMU Fault\n", "Found: gpu kernel fault."),
        (
            b'{"State": {"Status": "exited", "Running": false, "ExitCode": 1}}\n',
            "Cannot tell: the state says that it failed",
        ),
        (b"vllm-0   0/1   CrashLoopBackOff   6 (38s ago)   12m\n", "The cause is not in this text"),
        (
            b'x vllm/vllm-openai:v1 "vllm serve" 4 minutes ago Exited (137) 2 seconds ago\n',
            "Found: engine process killed.",
        ),
    ],
)
def test_a_state_looked_at_later_is_given_no_stage(tmp_path: Path, data: bytes, first: str) -> None:
    file = tmp_path / "x.txt"
    file.write_bytes(data)
    assert run("analyze", file).output.startswith(first)


def test_a_process_that_ended_after_the_cause_is_not_said_to_be_killed_from_outside() -> None:
    told = run("analyze", REAL / "truncated-safetensors-r1.log").output
    assert "says why" in told
    assert "ended from outside" not in told


def test_a_picture_is_no_log(tmp_path: Path) -> None:
    file = tmp_path / "x.png"
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    done = run("analyze", file)
    assert done.exit_code == 2
    assert "expected a log as text, found a PNG picture" in done.output


def test_an_error_alone_is_the_root_though_nothing_knows_it(tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    file.write_bytes(b"it says\nRuntimeError: something odd\n")
    told = run("analyze", file).output
    assert "line 2 of 2: RuntimeError: something odd" in told
    assert "Next: " in told


def test_a_memory_error_alone_does_not_say_which_stage(tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    file.write_bytes(b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
    told = run("analyze", file).output
    assert "Confidence: unsure" in told
    assert "Nothing around it tells in which stage" in told


def test_a_server_that_came_up_is_not_said_to_have_answered() -> None:
    told = run("analyze", REAL / "ok-minimal-r1.log").output
    assert "No failure" in told
    assert "no request is seen" in told


def test_a_score_says_what_speaks_against_one_baseline(tmp_path: Path) -> None:
    log = REAL / "truncated-safetensors-r1.log"
    same = run("score", log, log)
    assert same.exit_code == 0
    assert "but: both files hold the same bytes" in same.output
    other = tmp_path / "other.log"
    other.write_bytes(log.read_bytes().replace(b"'max_model_len': 4096", b"'max_model_len': 8192"))
    assert "max_model_len: 4096 → 8192" in run("score", log, other).output
    assert "but: " not in run("score", log, REAL / "truncated-safetensors-r2.log").output
