"""The pages say what the code says."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
INDENTED = re.compile(r"(?m)^    (?:\S.*|[│├└ ].*)$")


def tree_of(package: str) -> list[str]:
    """The indented tree in the docstring of the package's `errors` module."""
    doc = importlib.import_module(f"{package}.errors").__doc__ or ""
    return [line.strip() for line in INDENTED.findall(doc)]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    dead = [
        target
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists()
    ]
    assert dead == []


@pytest.mark.parametrize("package", ["playbooks", "bot", "workers"])
def test_the_errors_page_shows_each_tree_as_the_code_draws_it(package: str) -> None:
    page = [line.strip() for line in (ROOT / "docs/errors.md").read_text(encoding="utf-8").splitlines()]
    tree = tree_of(package)
    assert tree, f"no tree in {package}/errors.py"
    assert [line for line in tree if line not in page] == []


@pytest.mark.parametrize("package", ["playbooks", "bot", "workers"])
def test_each_error_of_the_code_is_drawn_in_its_tree(package: str) -> None:
    module = importlib.import_module(f"{package}.errors")
    names = {
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Exception) and value.__module__ == module.__name__
    }
    drawn = " ".join(tree_of(package))
    assert {n for n in names if not re.search(rf"\b{n}\b", drawn)} == set()


def test_every_command_named_in_a_page_exists() -> None:
    from playbooks.cli import build, command_names

    known = command_names(build([])[0])
    named = {
        word
        for page in PAGES
        for block in re.findall(r"```(?:sh|bash|console|)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        for word in re.findall(r"(?m)^(?:\$ )?(?:\.venv/bin/)?baseline ([a-z-]+)", block)
    }
    assert named - known == set()


def test_readme_shows_the_dev_commands() -> None:
    text = subprocess.run([sys.executable, str(ROOT / "dev")], capture_output=True, text=True, check=True).stdout
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in ("./dev run", "./dev test"):
        assert command in text
        assert command in readme
