"""Mutation run over score, gate and decision: every mutant dies, or is listed in `mutants_that_live.yaml` with its reason.

    ./dev bench mutation
    .venv/bin/python benchmarks/mutation.py --tables          only the tables, as often as somebody edits a rule
    .venv/bin/python benchmarks/mutation.py --children 1      on a machine that others work on too

Functions are mutated by mutmut. It leaves alone what runs at import, and so most of the decision: the tables of rules and
rows, the conditions, class bodies, properties; `mutants/tables.py` mutates those. Both work in a copy of what the tests
need, so that the working tree stays as it is. Exit 1 when a mutant lives unlisted, or a listed one does not.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml
from mutants.in_a_child import Tests
from mutants.tables import table_mutants

ROOT = Path(__file__).resolve().parents[1]
LISTED = ROOT / "benchmarks" / "mutants_that_live.yaml"
PAGE = "tests/docs/test_rule_book.py"
_DECISION = ("tests/core/test_decision.py",)
_GATE = ("tests/core/test_gate.py",)
TARGETS = {
    "playbooks/judging/stability.py": ("tests/core/test_stability.py",),
    "playbooks/guiding/gate.py": _GATE,
    "playbooks/guiding/gate_rows.py": _GATE,
    "playbooks/guiding/decision.py": _DECISION,
    "playbooks/guiding/decision_facts.py": _DECISION,
    "playbooks/guiding/decision_missing.py": _DECISION,
    "playbooks/guiding/decision_routes.py": (*_DECISION, PAGE),
    "playbooks/guiding/decision_rules.py": _DECISION,
    "playbooks/guiding/decision_terms.py": _DECISION,
    "playbooks/guiding/decision_words.py": _DECISION,
}
"""What is mutated, and the tests that judge it; words for the reader alone are judged by the rule book (`PAGE`)."""


def prepare(tree: Path) -> None:
    """Copy code and tests and write a configuration for the mutation run alone."""
    for folder in ("playbooks", "bot", "workers", "tests", "docs"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    config = {
        "source_paths": ["playbooks"],
        "only_mutate": list(TARGETS),
        "also_copy": ["bot", "workers", "tests", "docs"],
        "pytest_add_cli_args_test_selection": sorted({name for names in TARGETS.values() for name in names}),
    }
    lines = "\n".join(f"{key} = {value!r}" for key, value in config.items())
    pytest = "pythonpath = ['.']\naddopts = ['--import-mode=importlib', '-q', '-x', '-p', 'no:cacheprovider']"
    (tree / "pyproject.toml").write_text(f"[tool.pytest.ini_options]\n{pytest}\n\n[tool.mutmut]\n{lines}\n")


def of_functions(tree: Path, tests: Tests, children: int) -> Iterator[tuple[str, str, bool]]:
    """Mutate the bodies of functions by mutmut; yield file, mutant and whether it dies."""
    mutmut = str(Path(sys.executable).parent / "mutmut")
    run = subprocess.run(
        [mutmut, "run", "--max-children", str(children)], cwd=tree, text=True, capture_output=True, check=False
    )
    results = subprocess.run(
        [mutmut, "results", "--all", "true"], cwd=tree, text=True, capture_output=True, check=False
    )
    found = re.findall(r"^\s*(\S+): (\w[\w ]*)$", results.stdout, re.MULTILINE)
    if not found:
        sys.exit(f"{(run.stdout + run.stderr)[-2000:]}\nexpected a list of mutants from mutmut, found none")
    for name, state in found:
        file = f"{name.rsplit('.', 1)[0].replace('.', '/')}.py"
        # mutmut forks after import, so that it cannot judge a function that runs at import: such a one is tried again.
        dies = state in {"killed", "timeout"} or not tests.pass_with(tree / "mutants", TARGETS[file], mutant=name)
        yield file, name, dies


def of_tables(tree: Path, tests: Tests) -> Iterator[tuple[str, str, bool]]:
    """Mutate what runs at import; yield file, mutant and whether it dies."""
    for file, judges in TARGETS.items():
        place = tree / file
        for mutant in table_mutants(ROOT / file):
            place.write_text(mutant.source)
            yield file, mutant.name, not tests.pass_with(tree, (PAGE,) if mutant.words else judges)
        shutil.copy2(ROOT / file, place)


def report(found: Iterable[tuple[str, str, bool]], listed: dict[str, str], title: str) -> set[str]:
    """Print the figures of each file and every mutant that lives unlisted; return all that live."""
    started, counted, live = time.monotonic(), Counter[tuple[str, str]](), set()
    for file, name, dies in found:
        state = "killed" if dies else "listed" if name in listed else "unlisted"
        counted[file, state] += 1
        if not dies:
            live.add(name)
        if state == "unlisted":
            print(f"  lives: {name}", flush=True)
    print(f"{title}, {time.monotonic() - started:.0f} s", flush=True)
    for file in TARGETS:
        killed, known, unknown = (counted[file, state] for state in ("killed", "listed", "unlisted"))
        if killed + known + unknown:
            print(f"  {file}: {killed + known + unknown} mutants, {killed} killed, {known} listed, {unknown} unlisted")
    return live


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", action="store_true", help="only what runs at import")
    parser.add_argument("--children", type=int, default=2, help="processes of mutmut")
    args = parser.parse_args()
    listed: dict[str, str] = (yaml.safe_load(LISTED.read_text()) or {}) if LISTED.exists() else {}
    with tempfile.TemporaryDirectory(prefix="baseline-mutation-") as name:
        tree = Path(name)
        prepare(tree)
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # none is needed, and each costs at every mutant
        tests = Tests(tree, sorted({PAGE, *(test for judges in TARGETS.values() for test in judges)}))
        live = report(of_tables(tree, tests), listed, "What runs at import")
        if not args.tables:
            live |= report(of_functions(tree, tests, args.children), listed, "Bodies of functions")
    dead = [] if args.tables else sorted(set(listed) - live)
    for mutant in dead:
        print(f"listed, and does not live: {mutant}")
    return 1 if dead or live - set(listed) else 0


if __name__ == "__main__":
    sys.exit(main())
