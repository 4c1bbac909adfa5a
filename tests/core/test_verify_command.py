"""`baseline verify`: an auditor's laptop, the bundle, and perhaps a key and a head."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from playbooks.commands import verify
from playbooks.evidence.signing import SigningKey
from tests.support.bundle_sample import GOOD, KEY, entries

HEAD = entries()[-1].hash


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    path = tmp_path / "INC-0001.zip"
    path.write_bytes(GOOD)
    return path


def call(*words: object) -> Result:
    app = typer.Typer()
    verify.register(app)
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_whole_bundle_is_told_with_signer_entries_and_head(bundle: Path) -> None:
    done = call(bundle)
    assert done.exit_code == 0
    assert "holds. INC-0001, 3 entries" in done.output
    assert KEY.public_text in done.output
    assert HEAD in done.output
    assert "give --key" in done.output
    assert "give --head" in done.output


def test_with_key_and_head_nothing_is_left_to_compare(bundle: Path) -> None:
    done = call(bundle, "--key", KEY.public_text, "--head", HEAD[:16] + "…")
    assert done.exit_code == 0
    assert "the key you gave" in done.output
    assert "give --head" not in done.output


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--key", SigningKey.generate().public_text], "by the key that was given"),
        (["--head", "0" * 64], "entries were cut off"),
        (["--head", "abc"], "expected at least 8 digits"),
    ],
)
def test_what_does_not_fit_is_named_and_ends_with_1(bundle: Path, options: list[str], named: str) -> None:
    done = call(bundle, *options)
    assert done.exit_code == 1
    assert "does NOT hold" in done.output
    assert named in done.output


def test_a_machine_reads_one_json_object(bundle: Path) -> None:
    done = call(bundle, "--json")
    said = json.loads(done.stdout)
    assert (said["holds"], said["entries"], said["last_hash"], said["problems"]) == (True, 3, HEAD, [])
    bundle.write_bytes(GOOD + b"x")
    done = call(bundle, "--json")
    said = json.loads(done.stdout)
    assert (done.exit_code, said["holds"]) == (1, False)
    assert "archive" in said["problems"][0]


@pytest.mark.parametrize("as_json", [True, False])
def test_a_file_that_is_no_bundle_ends_with_2(tmp_path: Path, as_json: bool) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(b"no archive")
    done = call(path, *(["--json"] if as_json else []))
    assert done.exit_code == 2
    assert "expected a bundle archive" in done.output
    assert not as_json or json.loads(done.stdout)["holds"] is False


@pytest.mark.parametrize(
    ("words", "said"), [(["missing.zip"], "cannot read"), ([".", "--key", "x"], "--key: expected")]
)
def test_what_cannot_be_used_ends_with_2(words: list[str], said: str) -> None:
    done = call(*words)
    assert done.exit_code == 2
    assert said in done.output


def test_an_auditor_needs_the_core_alone(bundle: Path) -> None:
    code = (
        "import sys; from playbooks.commands.verify import verify_bundle; from pathlib import Path\n"
        "verify_bundle(Path(sys.argv[1]), None, None, False)\n"
        "heavy = {'bot', 'workers', 'slack_sdk', 'celery', 'sqlalchemy', 'docker', 'fastapi'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(bundle)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
