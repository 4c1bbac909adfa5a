"""Small things of wording: counts of one, ages, titles with an asterisk, holds, and how many lines there are to show."""

from __future__ import annotations

import pytest

from bot.blocks import analysis, findings
from bot.blocks.dashboard import dashboard
from bot.blocks.evidence import evidence
from bot.blocks.texts import Mrkdwn, bold, translator
from playbooks.catalog import load_catalogue
from playbooks.evidence import entries as e
from playbooks.judging.finding import Finding
from playbooks.judging.first_failure import analyse_text
from playbooks.judging.stability import NOT_OBSERVED
from playbooks.vocabulary import DecisionKind, DriverVerdict
from tests.support.cases import CaseLines, finding, frozen_scene
from tests.support.conversation import a_dashboard, recorded
from tests.support.labels import LOGS
from tests.support.people import said

EN = translator("en")
SYMPTOM = {"error_class": "unknown", "line": 50, "why": "it follows", "text": "x"}


@pytest.mark.parametrize(
    ("root", "lines", "label"),
    [
        pytest.param(48, 48, "Show lines 43-48", id="near the end"),
        pytest.param(41, 500, "Show lines 36-56", id="in the middle"),
        pytest.param(41, 0, "Show lines 36-56", id="nobody counted"),
        pytest.param(1, 1, "Show line 1", id="the only line"),
    ],
)
def test_no_line_after_the_last_is_offered(root: int, lines: int, label: str) -> None:
    found = Finding.model_validate(finding("unknown", root_line=root, lines=lines))
    answer = analysis.answer(analysis.Analysis(found, "a" * 64, "pasted.log"), EN)
    assert f'"{label}"' in said(answer)


@pytest.mark.parametrize(("n", "expected"), [(2, ""), (3, "one later line."), (4, "2 later lines.")])
def test_later_lines_are_counted_as_people_do(n: int, expected: str) -> None:
    last = list(findings.symptoms(Finding.model_validate(finding("unknown", symptoms=[SYMPTOM] * n)), EN))[-1]
    assert last.endswith(f"besides: {expected}") if expected else "besides" not in last


@pytest.mark.parametrize(("days", "age"), [(0, "today"), (1, "1 day ago"), (102, "102 days ago")])
def test_the_age_of_a_boundary_is_said_once(days: int, age: str) -> None:
    judged = e.BoundaryJudged(
        verdict=DriverVerdict.SUPPORTED, grounds=["x"], rule="B-01", snapshot="k3, checked 2026-11-30", age_days=days
    )
    assert f"boundaries k3, checked 2026-11-30 ({age})" in said(
        evidence(recorded(CaseLines().opened().add(judged)), EN)
    )


def test_a_hold_is_not_called_a_proposal() -> None:
    held = frozen_scene().proposed("hold", headline="Hold: the last two attempts differ.")
    text = said(evidence(recorded(held), EN))
    assert "· Hold: the last two attempts differ." in text
    assert "Proposed" not in text


def test_an_asterisk_in_a_title_does_not_end_its_bold() -> None:
    assert bold(Mrkdwn("K3 *fails*\nagain")) == "*K3 ∗fails∗ again*"
    lines = CaseLines()
    lines.add(e.IncidentOpened(title="K3 *bold* x", node=None, playbook="kimi-k3", playbook_sha256="p" * 64))
    for message in (evidence(recorded(lines), EN), dashboard(a_dashboard(lines), EN)):
        first = message.blocks[0]["text"]["text"].splitlines()[0]
        assert "K3 ∗bold∗ x*" in first


def test_a_host_without_a_container_disagrees_with_nobody() -> None:
    left = e.FingerprintRecorded(
        job_id="J",
        node="gpu-a1",
        facts={"host": {}, "container": {}, "container_source": None, "duration_ms": 1},
        stable_sha256="2" * 64,
        disagreements=[{"rule": "leftovers", "text": "an earlier launch left behind: psm_1"}],
    )
    text = said(evidence(recorded(CaseLines().opened().add(left)), EN))
    assert "disagree" not in text
    assert "1× worth a look" in text
    assert "Worth a look: an earlier launch left behind" in text


def test_what_a_half_done_driver_upgrade_points_to_and_what_comes_next_agree() -> None:
    text = (LOGS / "nvidia-smi" / "err-version-mismatch.txt").read_text()
    found = analyse_text(text, load_catalogue())
    assert found.decision is DecisionKind.UPGRADE_DRIVER
    assert "driver upgrade that was begun and not finished" in found.why
    assert "finish the upgrade" in (found.next_check or "")


def test_an_attempt_that_was_not_observed_may_be_one_or_both() -> None:
    assert "one of the two could not be observed, or neither" in NOT_OBSERVED.text
