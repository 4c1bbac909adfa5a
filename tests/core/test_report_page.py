"""The first page of a bundle tells a stranger everything, and lets no text become markup."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from playbooks.evidence import entries as e
from playbooks.guiding.report_page import first_page
from playbooks.guiding.report_text import code, plain
from playbooks.vocabulary import DecisionKind, DriverVerdict, Outcome, Phase
from tests.support.cases import CaseLines, docker_baseline, finding, frozen_scene, process_baseline

BASE = docker_baseline(env={"VLLM_USE_V1": "1"})
CHANGED = docker_baseline(("serve", "/models/k3", "--max-model-len", "8192"))
CHANGE = {"variable": "--max-model-len", "before": None, "after": "8192", "reason": "KV", "expected": "fits"}
FOUND = finding(
    "driver_below_boundary",
    "device_recognition",
    "upgrade_driver",
    why="the first error of all ranks",
    stack=["torch/cuda.py:_lazy_init"],
    symptoms=[{"error_class": "oom_weight_load", "line": 212, "why": "printed by a retry"}],
    root_text="RuntimeError: Error 35 `quoted`",
)


def full() -> CaseLines:
    lines = (
        frozen_scene()
        .boundary(DriverVerdict.BLOCKED, 102)
        .frozen(BASE, removed=[{"option": "--enable-prefix-caching", "why": "comes back alone"}])
    )
    lines.attempt(1, BASE, found=FOUND).attempt(2, BASE, found=FOUND, tenants=["process 7"]).score(1, 2, 2)
    lines.answer("node-drain", "no", note="jobs of team B", actor="user:U5")
    lines.proposed(
        "isolate",
        rule="D-04",
        headline="Isolate now.",
        evidence=[8],
        would_change=["a drain"],
        not_concluded=["that memory is sufficient"],
        missing=["nothing"],
        note="by phone",
    ).approved()
    return lines


def page(lines: CaseLines, **more) -> str:
    return first_page(lines.case, **more)


def test_it_tells_what_failed_how_often_since_when_and_what_was_decided():
    text = page(full(), head_hash="9f3a" * 16, exported_at=datetime(2026, 12, 1, 4, 0, tzinfo=UTC))
    for words in (
        "# INC-0042: Kimi K3 does not start",
        "**First failure: device_recognition, driver_below_boundary, score 2 (#",
        "It repeats.",
        "- Opened 2026-12-01 02:41:00 UTC by user:U1; node gpu-a1.",
        "Since when: failed first at 02:10, nothing changed (#7, user:U1); first failure on record 2026-12-01 02:51:00 UTC (#11)",
        "- Stage device_recognition, last stage seen complete: none",
        "- Class driver_below_boundary, confidence certain",
        "- Line 41: `` RuntimeError: Error 35 `quoted` ``",
        "- Why this is the first failure: the first error of all ranks",
        "- Stack: `torch/cuda.py:_lazy_init`",
        "- Set aside as a symptom: line 212, oom_weight_load: printed by a retry",
        "| 1 (#11) | 2026-12-01 02:51:00 UTC | here | failed | device_recognition | driver_below_boundary | nothing | llllllllllllllll |",
        "Attempts 1 and 2: score 2 (#14), same stage and class",
        "- **#16 isolate: Isolate now.** (rule D-04)",
        "  - Because: it repeats",
        "  - Missing: nothing",
        "  - Would change it: a drain",
        "  - Not concluded: that memory is sufficient",
        "  - Note: by phone",
        "  - Approved 2026-12-01 02:57:00 UTC by user:U2 (#17) agreed",
        "- host: `driver.loaded 580.95.05` (#3)",
        "- container: `torch.cuda 13.0` (#3)",
        "- Driver verdict **blocked** (#8, rule B-01, boundaries kimi-k3, 102 days old)",
        "  - driver 580.95.05",
        f"- Baseline `{BASE.digest}` (#9), engine docker",
        "- Image `vllm/vllm-openai:kimi-k3`, digest `sha256:" + "41" * 32 + "`",
        "- Arguments: `serve /models/k3`",
        "- Environment: `VLLM_USE_V1=1`",
        "- Left out: `--enable-prefix-caching`, comes back alone",
        '- Body: `{"max_tokens":16,"prompt":"x"}`',
        "No variable was changed between the attempts on record.",
        "Nothing was rolled back.",
        "- node-drain: no (jobs of team B), user:U5, 2026-12-01 02:55:00 UTC, #15",
        "`baseline verify BUNDLE.zip`",
        "This page covers #1 to #17.",
        "- Record head `" + "9f3a" * 16 + "`",
        "- Exported 2026-12-01 04:00:00 UTC",
    ):
        assert words in text, words


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        pytest.param(
            CaseLines().opened(),
            "**No attempt is on record yet. This bundle was exported before one error repeated.**",
            id="nothing",
        ),
        pytest.param(CaseLines().opened(), "Since when: not on record", id="unknown since"),
        pytest.param(CaseLines().opened(), "No decision was proposed.", id="no decision"),
        pytest.param(
            CaseLines().opened(), "No fingerprint is on record; nothing here says what was loaded.", id="no fingerprint"
        ),
        pytest.param(CaseLines().opened(), "- No driver verdict is on record.", id="no verdict"),
        pytest.param(CaseLines().opened(), "No command is on record.", id="no command"),
        pytest.param(CaseLines().opened(command="vllm serve x"), "As pasted, not frozen: `vllm serve x`", id="pasted"),
        pytest.param(CaseLines().opened(node=None), "node none, logs from elsewhere.", id="no node"),
        pytest.param(CaseLines().opened(what_fails="it *hangs*"), "- Reported as: it \\*hangs\\*", id="reported"),
        pytest.param(
            CaseLines().opened().attempt(1, BASE),
            "model_path_not_found.** This bundle was exported before one error repeated.",
            id="once",
        ),
        pytest.param(
            CaseLines().opened().attempt(1, BASE).attempt(2, BASE).score(1, 2, 1),
            ", score 1 (#6).** This bundle was exported before",
            id="not stable",
        ),
        pytest.param(
            CaseLines().opened().attempt(1, BASE).attempt(2, BASE).score(1, 2, None), "score none (#6)", id="no score"
        ),
        pytest.param(
            CaseLines().opened().attempt(1, BASE, Outcome.READY),
            "**The newest attempt became ready.** One success is not stable.",
            id="ready once",
        ),
        pytest.param(
            CaseLines().opened().attempt(1, BASE, Outcome.READY).attempt(2, BASE, Outcome.READY).score(1, 2, 2),
            "**The newest attempt became ready, score 2 (#6).**\n",
            id="ready twice",
        ),
        pytest.param(
            CaseLines().opened().attempt(1, BASE, Outcome.READY).attempt(2, BASE, Outcome.READY).score(1, 2, 1),
            "score 1 (#6).** One success is not stable.",
            id="ready, not stable",
        ),
        pytest.param(
            CaseLines().opened().attempt(1, BASE, Outcome.NOT_OBSERVED),
            "could not be observed, and says nothing",
            id="unseen",
        ),
        pytest.param(CaseLines().opened().attempt(1, BASE, Outcome.STOPPED_BY_LIMIT), "stopped by a limit", id="limit"),
        pytest.param(
            CaseLines().opened().attempt(1, BASE, Outcome.STOPPED_BY_LIMIT),
            "first failure on record",
            id="a limit is a failure",
        ),
        pytest.param(
            CaseLines().opened().attempt(1, BASE, origin="recorded", log=None),
            "| log from elsewhere | failed | weight_loading | model_path_not_found | nothing | no log |",
            id="recorded",
        ),
        pytest.param(CaseLines().opened().attempt(1, BASE, changed=["driver a|b"]), "driver a\\|b", id="moved"),
        pytest.param(CaseLines().opened().proposed(), "Waits for an approver", id="waiting"),
        pytest.param(
            CaseLines().opened().proposed().attempt(1, BASE), "Void: a newer report or proposal arrived", id="void"
        ),
        pytest.param(
            CaseLines().opened().proposed().rejected("too soon"),
            "Rejected 2026-12-01 02:43:00 UTC by user:U2 (#3): too soon",
            id="rejected",
        ),
        pytest.param(
            CaseLines().opened().proposed().proposed(),
            "Void: a newer report or proposal arrived",
            id="a newer proposal",
        ),
        pytest.param(
            CaseLines().opened().fingerprint(disagreements=[{"text": "8 against 0"}]),
            "Host and container disagree: 8 against 0 (#3)",
            id="disagreement",
        ),
        pytest.param(
            CaseLines().opened().fingerprint(disagreements=[{"rule": "x"}]),
            "Host and container disagree: {'rule': 'x'}",
            id="bare disagreement",
        ),
        pytest.param(
            CaseLines().opened().fingerprint(moved=["driver.loaded: a → b"]),
            "- Moved: `driver.loaded: a → b` (#3)",
            id="drift",
        ),
        pytest.param(
            CaseLines().opened().frozen(process_baseline()),
            "- Interpreter `/venv/bin/python`, 0 packages",
            id="interpreter",
        ),
        pytest.param(
            CaseLines().opened().requested(2, "once", 1, 1),
            "- #3, attempt 2: 1 of 1 complete, once: all",
            id="requests",
        ),
        pytest.param(
            CaseLines().opened().entered(Phase.LAUNCH, skipped=True, reason="seen"),
            "- Gate before launch skipped by user:U1, 2026-12-01 02:42:00 UTC, #2: seen",
            id="skipped gate",
        ),
        pytest.param(
            CaseLines().opened().add(e.IncidentClosed(reason="done", decision=DecisionKind.ISOLATE)),
            "- Closed 2026-12-01 02:42:00 UTC by user:U1: done",
            id="closed",
        ),
    ],
)
def test_it_says_what_the_record_holds(lines, words):
    assert words in page(lines)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        pytest.param(CaseLines().opened(), "## How often", id="no attempts, no table"),
        pytest.param(CaseLines().opened(), "## Fixed request", id="no sample"),
        pytest.param(CaseLines().opened(), "## What people said", id="nobody said anything"),
        pytest.param(CaseLines().opened().attempt(1, BASE, Outcome.READY), "## What failed first", id="nothing failed"),
        pytest.param(
            CaseLines().opened().attempt(1, BASE, Outcome.NOT_OBSERVED), "## What failed first", id="nothing seen"
        ),
        pytest.param(CaseLines().opened().entered(Phase.LAUNCH), "skipped", id="nothing skipped"),
        pytest.param(CaseLines().opened(), "Record head", id="no head given"),
        pytest.param(CaseLines().opened(), "Exported 2", id="no time given"),
        pytest.param(
            CaseLines().opened().attempt(1, BASE, found=finding("unknown", "engine_init", root_text=None)),
            "- Line",
            id="no root line",
        ),
        pytest.param(CaseLines().opened().attempt(1, BASE), "Why this is", id="no reason given"),
        pytest.param(CaseLines().opened(), "Reported as", id="nothing reported"),
        pytest.param(CaseLines().opened(), "Closed", id="open"),
    ],
)
def test_it_says_nothing_that_the_record_does_not_hold(lines, words):
    assert words not in page(lines)


class TestChanges:
    def test_changed_expected_happened(self):
        lines = CaseLines().opened().frozen(BASE).attempt(1, BASE).frozen(CHANGED, CHANGE)
        assert "  - Happened: no attempt yet" in page(lines)
        lines.attempt(2, CHANGED, Outcome.READY).attempt(3, CHANGED)
        text = page(lines)
        assert "- #5, 2026-12-01 02:45:00 UTC, user:U1: `--max-model-len` `not set` to `8192`" in text
        assert "  - Why: KV" in text
        assert "  - Expected: fits" in text
        assert "  - Happened: attempt 2: ready (#7); attempt 3: weight_loading, model_path_not_found (#9)" in text

    def test_an_expectation_nobody_wrote_down(self):
        lines = CaseLines().opened().frozen(CHANGED, {"variable": "x", "before": "1", "after": None})
        text = page(lines)
        assert "`x` `1` to `not set`" in text
        assert "  - Expected: not written down" in text
        assert "  - Why:" not in text

    @pytest.mark.parametrize(
        ("after", "words"),
        [
            pytest.param(None, "not seen again yet, so not rolled back", id="undone only"),
            pytest.param(Outcome.READY, "the old baseline was seen again: ready (#9)", id="seen again"),
            pytest.param(
                Outcome.FAILED,
                "undone, but the old baseline did not come back: weight_loading, model_path_not_found (#9), before it was ready",
                id="did not come back",
            ),
        ],
    )
    def test_rolled_back_means_seen_again(self, after, words):
        lines = CaseLines().opened().frozen(BASE).attempt(1, BASE, Outcome.READY)
        lines.frozen(CHANGED, CHANGE).attempt(2, CHANGED, ask=False).frozen(BASE)
        if after is not None:
            lines.attempt(3, BASE, after)
        text = page(lines)
        assert f"- #7, 2026-12-01 02:47:00 UTC, user:U1: back to the baseline of #2; {words}" in text

    def test_a_baseline_never_tried_before(self):
        lines = CaseLines().opened().frozen(BASE).frozen(CHANGED, CHANGE).frozen(BASE).attempt(1, BASE)
        assert "seen: weight_loading, model_path_not_found (#6); it was never tried before" in page(lines)

    def test_the_same_baseline_frozen_twice_is_no_rollback(self):
        assert "Nothing was rolled back." in page(CaseLines().opened().frozen(BASE).frozen(BASE))

    def test_an_attempt_not_observed(self):
        lines = CaseLines().opened().frozen(CHANGED, CHANGE).attempt(1, CHANGED, Outcome.NOT_OBSERVED)
        assert "attempt 1: not observed" in page(lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "`plain`"),
        ("two\n  lines", "`two lines`"),
        ("a `b` c", "``a `b` c``"),
        ("`b`", "`` `b` ``"),
        ("ends `` here``", "``` ends `` here`` ```"),
        ("", "``"),
    ],
)
def test_text_of_logs_stays_text(text, expected):
    assert code(text) == expected


def test_text_of_people_stays_text():
    assert plain("<!channel> *x*\n| [a](b) #1 `c` _d_ \\") == (
        "\\<!channel\\> \\*x\\* \\| \\[a\\](b) \\#1 \\`c\\` \\_d\\_ \\\\"
    )


def test_a_hostile_log_line_stays_in_its_span():
    lines = (
        CaseLines()
        .opened()
        .attempt(1, BASE, found=finding("unknown", "engine_init", root_text="```\n# owned\n<!channel>"))
    )
    assert "- Line 41: ```` ``` # owned <!channel> ````" in page(lines)


def test_a_launch_over_several_nodes_names_its_first_rank_and_how_each_ended():
    b = docker_baseline(nodes=("gpu-a1", "gpu-a2"))
    done = {"job_outcome": "done", "outcome": "failed"}
    ranks = [
        {
            "rank": 0,
            "node": "gpu-a1",
            "job_id": "J1",
            **done,
            "stage": "engine_init",
            "error_class": "rendezvous_failed",
        },
        {
            "rank": 1,
            "node": "gpu-a2",
            "job_id": "J2",
            **done,
            "stage": "weight_loading",
            "error_class": "oom_weight_load",
        },
    ]
    told = {
        "ranks": ranks,
        "first_ranks": [1],
        "first_why": "a cause of its own",
        "ranks_differ": ["driver: 1 on a, 2 on b"],
    }
    lines = CaseLines().opened(nodes=["gpu-a1", "gpu-a2"]).frozen(b).attempt(1, b, **told)
    found = page(lines)
    assert "nodes gpu-a1, gpu-a2" in found
    assert "- First rank to fail: 1 (a cause of its own)" in found
    assert "- Rank 0 on gpu-a1: failed, engine_init, rendezvous_failed" in found
    assert "- Rank 1 on gpu-a2: failed, weight_loading, oom_weight_load" in found
    assert "- The ranks did not run the same thing: driver: 1 on a, 2 on b" in found
