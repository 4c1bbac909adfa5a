"""Mutation run over score, gate and decision: every mutant dies, or is listed in `mutants_that_live.yaml` with its reason.

    ./dev bench mutation

Runs mutmut in a copy of what the tests need, so that the working tree stays as it is. Exit 1 when a mutant lives unlisted.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
TARGETS = {
    "playbooks/judging/stability.py": ["tests/core/test_stability.py"],
    "playbooks/guiding/gate.py": ["tests/core/test_gate.py"],
    "playbooks/guiding/gate_rows.py": ["tests/core/test_gate.py"],
    "playbooks/guiding/decision.py": ["tests/core/test_decision.py"],
    "playbooks/guiding/decision_rules.py": ["tests/core/test_decision.py"],
}
LISTED = ROOT / "benchmarks" / "mutants_that_live.yaml"


def prepare(target: Path) -> None:
    """Copy code and tests and write a configuration for the mutation run alone."""
    for folder in ("playbooks", "bot", "workers", "tests", "docs"):
        shutil.copytree(ROOT / folder, target / folder, ignore=shutil.ignore_patterns("__pycache__"))
    tests = sorted({name for names in TARGETS.values() for name in names if (ROOT / name).exists()})
    config = {
        "source_paths": ["playbooks"],
        "only_mutate": [name for name in TARGETS if (ROOT / name).exists()],
        "also_copy": ["bot", "workers", "tests", "docs"],
        "pytest_add_cli_args_test_selection": tests,
    }
    lines = "\n".join(f"{key} = {value!r}" for key, value in config.items())
    pytest = "pythonpath = ['.']\naddopts = ['--import-mode=importlib', '-q', '-x', '-p', 'no:cacheprovider']"
    (target / "pyproject.toml").write_text(f"[tool.pytest.ini_options]\n{pytest}\n\n[tool.mutmut]\n{lines}\n")


def main() -> int:
    listed = yaml.safe_load(LISTED.read_text()) or {} if LISTED.exists() else {}
    with tempfile.TemporaryDirectory(prefix="baseline-mutation-") as name:
        target = Path(name)
        prepare(target)
        mutmut = [str(Path(sys.executable).parent / "mutmut")]
        run = subprocess.run(
            [*mutmut, "run", "--max-children", "2"], cwd=target, text=True, capture_output=True, check=False
        )
        results = subprocess.run(
            [*mutmut, "results", "--all", "true"], cwd=target, text=True, capture_output=True, check=False
        ).stdout
    found = dict(re.findall(r"^\s*(\S+): (\w[\w ]*)$", results, re.MULTILINE))
    if not found:
        print((run.stdout + run.stderr)[-2000:])
        print("expected a list of mutants from mutmut, found none")
        return 1
    lived = sorted(mutant for mutant, state in found.items() if state not in {"killed", "timeout"})
    unlisted = [mutant for mutant in lived if mutant not in listed]
    print(
        f"mutants {len(found)}  killed {len(found) - len(lived)}  live and listed {len(lived) - len(unlisted)}  live and unlisted {len(unlisted)}"
    )
    for mutant in unlisted:
        print(f"  {mutant}: {found[mutant]}")
    return 1 if unlisted else 0


if __name__ == "__main__":
    sys.exit(main())
