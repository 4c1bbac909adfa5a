"""Every error class on short logs in the words of other releases and runtimes than the labelled ones, with their traps."""

from __future__ import annotations

import pytest

from playbooks.catalog import load_catalogue
from playbooks.judging.candidates import GPU_OOM
from playbooks.judging.first_failure import analyse_text
from playbooks.vocabulary import ErrorClass
from tests.support.families import Case, cases, messages

ALL = list(cases())
NOT_FROM_ONE_LOG = {ErrorClass.PREFIX_CACHE_BOUNDARY_MISS}


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_a_short_log_gets_its_verdict(case: Case) -> None:
    found = analyse_text(case.text, load_catalogue())
    assert (found.error_class, found.root_line in (case.roots or [None])) == (case.error_class, True), (
        f"{found.error_class} by {found.signature} in line {found.root_line}: {found.root_text}"
    )
    assert found.stage in case.stages


def test_every_class_is_met() -> None:
    assert len(ALL) >= 80
    assert set(ErrorClass) - {case.error_class for case in ALL} == NOT_FROM_ONE_LOG


@pytest.mark.parametrize(("klass", "text"), messages(), ids=lambda value: str(value)[:60])
def test_a_message_tells_its_class_raised_by_the_engine_and_alone(klass: ErrorClass, text: str) -> None:
    text, _, names = text.partition(" [raised in ")
    frames = [f'  File "/x/y.py", line 1, in {name}' for name in names.rstrip("]").split()]
    logged = "(EngineCore pid=5) ERROR 04-04 08:01:12 [core.py:866] "
    lines = ["EngineCore failed to start.", "Traceback (most recent call last):", *frames, text]
    raised = "".join(f"{logged}{line}\n" for line in lines)
    for given in (raised, text) if not names else (raised,):
        found = analyse_text(given, load_catalogue()).error_class
        assert found is klass or {found, klass} <= GPU_OOM, given
