"""Runs tests in a forked child that has all loaded but what a mutant can touch, and the tests: under a second a mutant."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

LIMIT_S = 120
"""A mutant that runs for longer dies: it does not end."""
_LOADED_ANEW = ("playbooks.guiding", "playbooks.judging", "playbooks.commands", "playbooks.catalog", "tests")
_PASSED, _FAILED, _BROKEN = 0, 1, 2


class Tests:
    """The tests as they judge a tree that may hold a mutant, the quick ones first."""

    def __init__(self, tree: Path, tests: Sequence[str]) -> None:
        """Run all of them once: it loads the libraries, and a mutant says nothing while they fail without one."""
        self._took: dict[str, float] = {}
        home = Path.cwd()
        os.chdir(tree)
        sys.path[:0] = [str(tree)]
        with _Silence():
            code = pytest.main(list(tests), plugins=[self])
        os.chdir(home)
        if code != _PASSED:
            sys.exit("expected tests that pass without a mutant; run ./dev test first")
        for name in list(sys.modules):
            if name == "playbooks" or name.startswith(_LOADED_ANEW):
                del sys.modules[name]
        sys.path.remove(str(tree))

    def pass_with(self, tree: Path, tests: Sequence[str], *, mutant: str = "") -> bool:
        """Whether the tests pass in this tree; `mutant` names one of mutmut's."""
        child = os.fork()
        if child == 0:
            signal.alarm(LIMIT_S)
            os.chdir(tree)
            os.environ["MUTANT_UNDER_TEST"] = mutant
            sys.dont_write_bytecode = True
            sys.path[:0] = [str(tree)]
            with _Silence():
                os._exit(pytest.main(list(tests), plugins=[self]))
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            return False
        code = os.WEXITSTATUS(status)
        if code not in {_PASSED, _FAILED, _BROKEN}:
            sys.exit(f"expected tests that pass, fail or break, found exit code {code} of pytest {' '.join(tests)}")
        return code == _PASSED

    # Hooks of pytest.

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took[report.nodeid] = self._took.get(report.nodeid, 0.0) + report.duration

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: round(self._took.get(item.nodeid, 0.0), 1))


class _Silence:
    def __enter__(self) -> None:
        self._kept = [os.dup(1), os.dup(2)]
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        os.close(nowhere)

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, kept in enumerate(self._kept, start=1):
            os.dup2(kept, number)
            os.close(kept)
